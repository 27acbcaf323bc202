"""Computes medians, spreads and ratios to taipan from the figures, as plain values for JSON. `page` shows them, from
a run or from a file."""

from __future__ import annotations

import json
import pathlib
import statistics
from dataclasses import asdict, dataclass, field

from .machine import BenchError
from .measure import Figures
from .rows import Kind, Part, Row

FORMAT = 1
OURS = "taipan"
# Figures that are shown as the median of the rounds.
TYPICAL = (
    "rate",
    "cpu_seconds",
    "client_us",
    "connections",
    "p50_us",
    "p99_us",
    "memory",
    "server_busy",
    "client_busy",
)


@dataclass
class Cell:
    """One server in one part: figures for each round, or the reason for none."""

    rounds: list[Figures | None] = field(default_factory=list)
    why: str = ""


@dataclass
class Line:
    """One part with all its servers."""

    row: Row
    part: Part
    cells: dict[str, Cell] = field(default_factory=dict)

    def as_data(self) -> dict:
        ours = self.cells.get(OURS, Cell()).rounds
        return {
            "name": self.part.name,
            "row": self.row.name,
            "title": self.part.title,
            "source": self.row.source,
            "kind": self.part.kind.value,
            "client": "" if self.part.kind is Kind.MEMORY else self.part.client,
            "large": self.row.large,
            "unit": "bytes" if self.part.kind is Kind.MEMORY else "microseconds of CPU per request",
            "servers": {name: _cell_data(cell, ours, self.part) for name, cell in self.cells.items()},
        }


def _cell_data(cell: Cell, ours: list[Figures | None], part: Part) -> dict:
    known = [figures for figures in cell.rounds if figures]
    data: dict = {"why": cell.why, "rounds": [asdict(figures) if figures else None for figures in cell.rounds]}
    scores = [figures.score for figures in known if figures.score is not None]
    if scores:
        data["median"] = {"score": statistics.median(scores)} | _medians(known, part)
    # A ratio is taken within a round, so both need figures in it.
    pairs = [(theirs, our) for theirs, our in zip(cell.rounds, ours) if theirs and our]
    for name, ratio in (("score_ratio", _ratio), ("rate_ratio", _rate_ratio), ("both_ratio", _both_ratio)):
        values = [value for theirs, our in pairs if (value := ratio(theirs, our, part)) is not None]
        if values:
            data[name] = {
                "rounds": values,
                "median": statistics.median(values),
                "least": min(values),
                "most": max(values),
            }
    return data


def _medians(known: list[Figures], part: Part) -> dict:
    if part.kind is Kind.MEMORY:
        return {}
    requests = sum(figures.requests for figures in known)
    failures = sum(figures.failures for figures in known)
    found = {name: statistics.median(getattr(figures, name) for figures in known) for name in TYPICAL}
    # The longest time and the failures are of all rounds.
    found["longest_us"] = max(figures.longest_us for figures in known)
    found["failures"] = failures
    found["availability"] = 100.0 * requests / (requests + failures) if requests + failures else 0.0
    return found


def _ratio(theirs: Figures, ours: Figures, part: Part) -> float | None:
    if part.kind in (Kind.RISING, Kind.USERS):
        common = _common_step(theirs, ours)
        if common is None:
            return None
        theirs, ours = common
    return _divided(theirs.score, ours.score)


def _rate_ratio(theirs: Figures, ours: Figures, _: Part) -> float | None:
    return _divided(theirs.rate, ours.rate)


def _both_ratio(theirs: Figures, ours: Figures, part: Part) -> float | None:
    """The ratio with the client's CPU, because the client does some of the server's work."""
    if theirs.score is None or ours.score is None or part.kind is not Kind.FIXED:
        return None
    return _divided(theirs.score + theirs.client_us, ours.score + ours.client_us)


def _common_step(theirs: Figures, ours: Figures) -> tuple[Figures, Figures] | None:
    """The step with the most connections that both did without a failure, so that a server which holds more
    connections neither loses nor gains."""
    good = [
        {step.connections: step for step in figures.steps if not step.failures and step.score is not None}
        for figures in (theirs, ours)
    ]
    common = good[0].keys() & good[1].keys()
    return (good[0][max(common)], good[1][max(common)]) if common else None


def _divided(theirs: float | None, ours: float | None) -> float | None:
    return theirs / ours if theirs is not None and ours else None


def gathered(about: dict, lines: list[Line]) -> dict:
    return {"format": FORMAT, **about, "lines": [line.as_data() for line in lines]}


def write(file: pathlib.Path, results: dict) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed, so that a reader never sees a part.
    beside = file.with_name(file.name + ".new")
    # A line of the table is a line of the file.
    lines = ",\n".join(json.dumps(line, ensure_ascii=False) for line in results["lines"])
    about = json.dumps({**results, "lines": []}, indent=1, ensure_ascii=False)
    beside.write_text(about.removesuffix("[]\n}") + f"[\n{lines}\n]\n}}\n")
    beside.replace(file)


def medians(results: dict) -> dict:
    """Results without the single rounds."""
    lines = results["lines"]
    servers = [{name: _short(cell) for name, cell in line["servers"].items()} for line in lines]
    return {**results, "lines": [{**line, "servers": cells} for line, cells in zip(lines, servers)]}


def _short(cell: dict) -> dict:
    """A cell without its rounds, with seven digits."""
    kept: dict = {"why": cell["why"], "rounds": []}
    for name in ("median", "score_ratio", "rate_ratio", "both_ratio"):
        if name in cell:
            values = {key: value for key, value in cell[name].items() if key != "rounds"}
            kept[name] = {key: float(f"{value:.7g}") for key, value in values.items()}
    return kept


def read(files: list[pathlib.Path]) -> dict:
    """Merges several files: of a line in more than one file, the last one counts."""
    merged: dict = {}
    lines: dict[tuple[str, str, str], dict] = {}
    for file in files:
        try:
            found = json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise BenchError(f"{file}: {error}") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise BenchError(f"{file} is not a result of bench/compare, or has another version")
        commands = [*merged.get("commands", []), *found["commands"]]
        servers = {**merged.get("servers", {}), **found["servers"]}
        quick = found["quick"] or merged.get("quick", False)
        merged = {**found, "commands": commands, "servers": servers, "quick": quick}
        lines.update({(line["row"], line["name"], line["client"]): line for line in found["lines"]})
    # The clients of a part one after another.
    parts = list(dict.fromkeys(key[:2] for key in lines))
    return {**merged, "lines": [lines[key] for key in sorted(lines, key=lambda key: parts.index(key[:2]))]}
