"""Shows results: lines on a terminal during the run, a Markdown page of everything, and the tables of the two READMEs.
Takes results as plain values and measures nothing."""

from __future__ import annotations

import pathlib
import textwrap

from .machine import MIB, BenchError
from .results import OURS

BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
DASH = "–"
# How far from 1 two ratios must be to be opposite.
OPPOSITE = 0.02
# Characters in a line of a README.
WIDTH = 110
# The row that counts users, not CPU time.
SLOW_READERS = "slow readers without a failure"
# The lines of the table in README.md, by title; the row of slow readers comes with the last but one. The table in
# bench/README.md has all.
IN_README = (
    "2448 bytes, 215 connections, keep-alive",
    "105165 bytes, 215 connections, keep-alive",
    "0 KB, 10 connections, no keep-alive",
    "2448 bytes by HTTP/2 over TLS 1.3, 10 connections with 16 streams each",
    "0 KB, 1 connection, no keep-alive, cache off",
    '"Hello!" in C by CGI, 10 connections, keep-alive',
    '"Hello!" in C by FastCGI, 10 connections, keep-alive',
    "100 files of 1 MiB at 33.6 kbit/s each, doubling users",
    "memory for each idle connection",
)


# ---- one line of the table, for a terminal -------------------------------------------------


def terminal(line: dict) -> str:
    out = [f"\n{line['row']}: {_title(line)} ({line['source']})"]
    memory = line["kind"] == "memory"
    if not memory:
        out.append(
            f"  {'':11}{'rate/s':>10}{'CPU us':>10}{'/ taipan':>9}{'spread':>15}{'p50 ms':>9}{'p99 ms':>9}"
            f"{'longest':>9}{'available':>11}{'memory':>11}{'busy':>6}{'client':>8}{'us':>9}{'/ both':>9}"
        )
    for name, cell in line["servers"].items():
        out.append(f"  {name:11}" + (_bytes_line(cell) if memory else _load_line(cell, line["kind"])))
    return "\n".join(out)


def _title(line: dict) -> str:
    return f"{line['title']}, by {line['client']}" if line["client"] else line["title"]


def _bytes_line(cell: dict) -> str:
    if "median" not in cell:
        return f"{DASH:>10}  {cell['why']}"
    return f"{_size(cell['median']['score']):>12}{_ratio(cell):>9}"


def _load_line(cell: dict, kind: str) -> str:
    if "median" not in cell:
        return f"{DASH:>10}  {cell['why'] or _stopped(cell)}"
    median = cell["median"]
    spread = cell.get("score_ratio")
    notes = {"rising": f"  at {median['connections']:.0f}", "users": f"  {median['connections']:.0f} users"}
    return (
        f"{median['rate']:10.0f}{median['score']:10.2f}{_ratio(cell):>9}"
        f"{_spread(spread) if spread else '':>15}"
        f"{_millis(median['p50_us']):>9}{_millis(median['p99_us']):>9}{_millis(median['longest_us']):>9}"
        f"{_percent(median['availability']):>11}{_size(median['memory']):>11}"
        f"{median['server_busy']:6.0%}{median['client_busy']:8.0%}{median['client_us']:9.1f}{_both(cell):>9}"
        f"{notes.get(kind, '')}"
        f"{'; ' + _stopped(cell) if kind == 'users' and _stopped(cell) else ''}"
        f"{'; ' + cell['why'] if cell['why'] else ''}"
    )


def _stopped(cell: dict) -> str:
    reasons = [figures["stopped"] for figures in cell["rounds"] if figures and figures["stopped"]]
    return reasons[-1] if reasons else ""


def _spread(ratio: dict) -> str:
    return f"{_number(ratio['least'])}..{_number(ratio['most'])}"


def _ratio(cell: dict) -> str:
    return f"x{_number(cell['score_ratio']['median'])}" if "score_ratio" in cell else ""


def _both(cell: dict) -> str:
    """The ratio of server and client together."""
    return f"x{_number(cell['both_ratio']['median'])}" if "both_ratio" in cell else ""


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _millis(micros: float) -> str:
    """A dash for a time that the client does not report."""
    return f"{micros / 1000:.2f}" if micros else DASH


def _size(value: float) -> str:
    return f"{value / MIB:.2f} MiB" if value >= MIB / 10 else f"{value:.0f} B"


def _percent(value: float) -> str:
    """Never rounded up to 100."""
    return "100 %" if value == 100 else f"{min(value, 99.99):.2f} %"


# ---- everything, as a page -----------------------------------------------------------------


def everything(results: dict) -> str:
    out = [f"# taipan and its peers, {results['date']}", "", _conditions(results), ""]
    for line in results["lines"]:
        out += [f"## {_title(line)}", "", f"From: {line['source']}.", ""]
        out += _bytes_table(line) if line["kind"] == "memory" else _load_table(line)
        out += ["", *_reasons(line), ""]
    return "\n".join(out).rstrip() + "\n"


def _load_table(line: dict) -> list[str]:
    head = ["server", "rate/s", "CPU µs/request", "/ taipan", "spread", "with the client's", "rate / taipan"]
    head += ["p50 ms", "p99 ms"]
    head += ["longest ms", "availability", "memory", "CPU s", "client µs/request"]
    head.append("users" if line["kind"] == "users" else "connections")
    out = [_row(head), _row(["---"] * len(head))]
    for name, cell in line["servers"].items():
        if "median" not in cell:
            out.append(_row([name, *[DASH] * (len(head) - 1)]))
            continue
        median, ratio, rate = cell["median"], cell.get("score_ratio"), cell.get("rate_ratio")
        both = cell.get("both_ratio")
        out.append(
            _row(
                [
                    name,
                    f"{median['rate']:.0f}",
                    f"{median['score']:.2f}",
                    _number(ratio["median"]) if ratio else DASH,
                    _spread(ratio) if ratio else DASH,
                    _number(both["median"]) if both else DASH,
                    _number(rate["median"]) if rate else DASH,
                    _millis(median["p50_us"]),
                    _millis(median["p99_us"]),
                    _millis(median["longest_us"]),
                    _percent(median["availability"]),
                    _size(median["memory"]),
                    f"{median['cpu_seconds']:.3f}",
                    f"{median['client_us']:.2f}",
                    f"{median['connections']:.0f}",
                ]
            )
        )
    return out


def _bytes_table(line: dict) -> list[str]:
    head = ["server", "bytes", "/ taipan", "spread"]
    out = [_row(head), _row(["---"] * len(head))]
    for name, cell in line["servers"].items():
        ratio = cell.get("score_ratio")
        size = _size(cell["median"]["score"]) if "median" in cell else DASH
        out.append(
            _row([name, size, *([_number(ratio["median"]), _spread(ratio)] if ratio else [DASH, DASH])])
        )
    return out


def _reasons(line: dict) -> list[str]:
    reasons = []
    for name, cell in line["servers"].items():
        faults: dict[str, int] = {}
        for figures in cell["rounds"]:
            for kind, count in (figures or {}).get("faults", {}).items():
                faults[kind] = faults.get(kind, 0) + count
        words = [cell["why"], _stopped(cell), ", ".join(f"{count} {kind}" for kind, count in faults.items())]
        if any(words):
            reasons.append(f"- {name}: {'; '.join(word for word in words if word)}")
    return reasons


def _row(words: list[str]) -> str:
    return f"| {' | '.join(words)} |"


def _conditions(results: dict) -> str:
    machine, servers = results["machine"], results["servers"]
    versions = ", ".join(f"{name} {server['version']}".strip() for name, server in servers.items() if name != "limit")
    commands = " and ".join(f"`{command}`" for command in results["commands"])
    cores = "one core" if results["cores"] == 1 else f"{results['cores']} cores"
    return (
        f"{machine['processor']}, {machine['processors']} processors, {machine['system']}; {cores} for the server and "
        f"others for the client. {results['date']}, by {commands}; rounds: {results['rounds']}, of what takes minutes "
        f"{results['long_rounds']}. {versions}."
    )


# ---- the READMEs ----------------------------------------------------------------------------


def short_table(results: dict) -> str:
    """The text between the markers of README.md: the rows of `IN_README`, and where the others are."""
    names = _compared(results)
    # The last line of a title is that of the client of Debian, if it was used.
    lines = {line["title"]: line for line in results["lines"] if line["title"] in IN_README}
    out = [*_legend("bench/README.md"), *_readme_rows([*lines.values()], names), ""]
    note = f"Measured {results['date']}. A dash: not measured, for a reason that [all rows](bench/README.md#all-rows) name."
    return "\n".join([*out, *_filled([note])])


def full_table(results: dict) -> str:
    """The text between the markers of bench/README.md: every row, the conditions, and why there are dashes."""
    names = _compared(results)
    out = [*_legend(""), *_readme_rows(results["lines"], names)]
    out.append(_row(["lowest availability", "", *(_lowest(results, name) for name in names)]))
    servers = results["servers"]
    remarks = [f"{name}: {servers[name]['remark']}" for name in names if servers[name]["remark"]]
    absent = [f"{name}: {server['why']}" for name, server in servers.items() if server["why"]]
    notes = [_conditions(results)]
    if remarks or absent:
        notes.append(f"{'. '.join([*remarks, *absent])}.")
    if dashes := _dashes(results, names):
        notes.append(f"Dashes: {dashes}.")
    return "\n".join([*out, "", *_filled(notes)])


def _legend(page: str) -> list[str]:
    text = (
        "CPU time per request of all processes of a server, with the kernel's part. For taipan in microseconds; for the "
        "others as a ratio to taipan in the same round, the median of all rounds: above 1 they need more than taipan, "
        "below 1 less. Memory in the same way. `limit` sends a fixed response and parses nothing. Where requests failed, "
        "the share that succeeded follows in parentheses. For larger files, and where it says the opposite, the figure of "
        "server and client together follows a slash: on one machine a server can leave part of its sending to the "
        f"client's processor ([why]({page}#what-a-figure-is)). The column `client` names the load generator."
    )
    return [*_filled([text]), ""]


def _readme_rows(lines: list[dict], names: list[str]) -> list[str]:
    out = [_row(["", "client", *names]), _row(["---"] * (len(names) + 2))]
    for line in lines:
        out.append(_row([line["title"], line["client"], *(_readme_cell(line, name) for name in names)]))
        if line["kind"] == "users":
            out.append(_row([SLOW_READERS, line["client"], *(_readme_users(line, name) for name in names)]))
    return out


def _filled(notes: list[str]) -> list[str]:
    return [textwrap.fill(note, WIDTH, break_on_hyphens=False) for note in notes]


def _compared(results: dict) -> list[str]:
    """The servers that have figures, taipan first."""
    names = [name for name in results["servers"] if _has_figures(results, name)]
    return sorted(names, key=lambda name: name != OURS)


def _dashes(results: dict, names: list[str]) -> str:
    """Every reason once, with the servers that it concerns."""
    reasons: dict[str, list[str]] = {}
    for line in results["lines"]:
        for name in names:
            cell = line["servers"].get(name, {})
            if "median" not in cell and cell.get("why"):
                concerned = reasons.setdefault(cell["why"], [])
                if name not in concerned:
                    concerned.append(name)
    return "; ".join(f"{why} ({', '.join(concerned)})" for why, concerned in reasons.items())


def _has_figures(results: dict, name: str) -> bool:
    return any("median" in line["servers"].get(name, {}) for line in results["lines"])


def _readme_cell(line: dict, name: str) -> str:
    cell = line["servers"].get(name)
    if not cell or "median" not in cell:
        return DASH
    if name == OURS or "score_ratio" not in cell:
        # Without a figure of taipan there is no ratio.
        text = _readme_own(line, cell)
    else:
        text = _readme_ratio(line, cell)
    availability = cell["median"].get("availability", 100)
    return text if availability == 100 else f"{text} ({_percent(availability)})"


def _readme_own(line: dict, cell: dict) -> str:
    median = cell["median"]
    if line["kind"] == "memory":
        return _size(median["score"])
    both = f" / {median['score'] + median['client_us']:.2f}" if line["large"] else ""
    return f"{median['score']:.2f}{both} µs"


def _readme_ratio(line: dict, cell: dict) -> str:
    score, both = cell["score_ratio"]["median"], cell.get("both_ratio", {}).get("median")
    if both is None:
        return _number(score)
    says_the_opposite = score < 1 - OPPOSITE and both > 1 + OPPOSITE
    return f"{_number(score)} / {_number(both)}" if line["large"] or says_the_opposite else _number(score)


def _readme_users(line: dict, name: str) -> str:
    cell = line["servers"].get(name)
    return f"{cell['median']['connections']:.0f}" if cell and "median" in cell else DASH


def _lowest(results: dict, name: str) -> str:
    found = [
        cell["median"]["availability"]
        for line in results["lines"]
        if "availability" in (cell := line["servers"].get(name, {})).get("median", {})
    ]
    return _percent(min(found)) if found else DASH


def put_into_readme(readme: pathlib.Path, table: str) -> None:
    """Replaces the text between the markers."""
    text = readme.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchError(f"{readme} lacks {BEGIN} and {END}")
    readme.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")
