"""Contenders that are measured in turns, round by round: their order, and what is printed and written of them. Measures
nothing."""

from __future__ import annotations

import json
import pathlib
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

from . import machine
from .command import say
from .machine import Processors
from .measure import Figures
from .verdicts import Verdict

Contender = TypeVar("Contender")


def introduce(
    about: Mapping[str, object], versions: Mapping[str, str], absent: Mapping[str, str], processors: Processors
) -> None:
    """Prints the machine, the servers, and why the figures may be noisy."""
    say(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in about.items()))
    say(f"servers and their programs on {sorted(processors.server)}, client on {sorted(processors.client)}")
    say(", ".join(f"{name} {version}".strip() for name, version in versions.items()))
    for name, why in absent.items():
        say(f"{name}: {why}")
    if processors.server & processors.client:
        say("warning: server and client share a processor; rates do not measure the server")
    if machine.is_busy():
        say("warning: the machine is busy; use these figures as a smoke test only")


def in_turns(contenders: Sequence[Contender], rounds: int) -> Iterator[Contender]:
    """Every contender once in every round; each round begins with another one."""
    for number in range(rounds if contenders else 0):
        first = number % len(contenders)
        yield from contenders[first:]
        yield from contenders[:first]


def of(rounds: Sequence[Figures], name: str) -> list[float]:
    """One figure of each round."""
    return [float(getattr(figures, name)) for figures in rounds]


def median(rounds: Sequence[Figures], name: str) -> float:
    return statistics.median(of(rounds, name))


def failures(found: Mapping[str, Sequence[Figures]], names: Collection[str]) -> list[float]:
    """The failed requests to these contenders, for each round."""
    return [sum(failed) for failed in zip(*(of(found[name], "failures") for name in names))]


def print_figures(found: Mapping[str, Sequence[Figures]]) -> None:
    """Best and median over the rounds; the longest time and the failures are of all rounds."""
    if not found:
        return
    say(
        "                 CPU us/request      requests/s       latency us (median)   longest"
        "   busy (median)\n"
        "                   best  median     best   median        p50       p99          us"
        "  server client   failures"
    )
    for name, rounds in found.items():
        cpu, rate = of(rounds, "score"), of(rounds, "rate")
        failed = sum(figures.failures for figures in rounds)
        attempts = failed + sum(figures.requests for figures in rounds)
        say(
            f"  {name:13} {min(cpu):8.2f} {statistics.median(cpu):7.2f}"
            f" {max(rate):8.0f} {statistics.median(rate):8.0f}"
            f"   {median(rounds, 'p50_us'):8.0f}  {median(rounds, 'p99_us'):8.0f}"
            f"  {max(figures.longest_us for figures in rounds):10}"
            f"  {median(rounds, 'server_busy'):6.0%} {median(rounds, 'client_busy'):6.0%}"
            f"   {failed} of {attempts}"
        )


def write(
    file: pathlib.Path,
    about: Mapping[str, object],
    rows: Mapping[str, Mapping[str, Sequence[Figures]]],
    verdicts: Sequence[Verdict],
) -> None:
    """Writes everything that was measured, as JSON."""
    figures = {
        row: {name: [asdict(one) for one in rounds] for name, rounds in found.items()} for row, found in rows.items()
    }
    checks = [asdict(verdict) for verdict in verdicts]
    file.write_text(json.dumps({**about, "rows": figures, "checks": checks}, indent=1) + "\n")
