"""Judges whether bounds hold, by the median of all rounds. Measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

OK, MISS, NONE = "ok", "MISS", "-"


@dataclass(frozen=True)
class Verdict:
    row: str
    check: str
    values: list[float]
    bound: str
    result: str
    unit: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)


def at_most(row: str, check: str, values: list[float], bound: float, unit: str = "") -> Verdict:
    result = OK if statistics.median(values) <= bound else MISS
    return Verdict(row, check, values, f"<= {bound:g}", result, unit)


def at_least(row: str, check: str, values: list[float], bound: float) -> Verdict:
    result = OK if statistics.median(values) >= bound else MISS
    return Verdict(row, check, values, f">= {bound:g}", result)


def no_failures(row: str, failures: list[float]) -> Verdict:
    return Verdict(row, "failures", failures, "= 0", OK if not any(failures) else MISS)


def reported(row: str, check: str, values: list[float], unit: str = "") -> Verdict:
    """A figure that is shown and has no bound."""
    return Verdict(row, check, values, "", NONE, unit)


def not_judged(row: str, check: str, bound: str, why: str) -> Verdict:
    """A bound without figures, and the reason."""
    return Verdict(row, check, [], bound, why)


def against_most(ours: Sequence[float], theirs: Sequence[Sequence[float]]) -> list[float]:
    """For each round, ours divided by the largest of theirs."""
    return [one / max(others) for one, *others in zip(ours, *theirs)]


def against_least(ours: Sequence[float], theirs: Sequence[Sequence[float]]) -> list[float]:
    """For each round, ours divided by the smallest of theirs."""
    return [one / min(others) for one, *others in zip(ours, *theirs)]


def missed(verdicts: Sequence[Verdict]) -> bool:
    return any(verdict.result == MISS for verdict in verdicts)


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """The lines of a table for a terminal."""
    width = max([44, *(len(f"{verdict.row}: {verdict.check}") for verdict in verdicts)])
    lines = [f"{'':5}{'check':{width}}{'median':>10}   {'spread':18}{'bound':10} each round"]
    for verdict in verdicts:
        name = f"{verdict.row}: {verdict.check}"
        if not verdict.values:
            lines.append(f"{NONE:5}{name:{width}}{'':>10}   {'':18}{verdict.bound:10} {verdict.result}")
            continue
        spread = f"{number(min(verdict.values))} .. {number(max(verdict.values))}"
        each = " ".join(number(value) for value in verdict.values)
        lines.append(
            f"{verdict.result:5}{name:{width}}{number(verdict.median) + verdict.unit:>10}   {spread:18}"
            f"{verdict.bound:10} {each}"
        )
    return lines


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == 0 else f"{value:.3f}"
