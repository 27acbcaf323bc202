"""The processor time of a request for a small file, of configurations or programs that run side by side."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import statistics
import subprocess

from . import machine
from .children import Guard, ProcessTree, started
from .command import say
from .machine import Processors
from .running import wait_until_ready

CONNECTIONS = 64


@dataclasses.dataclass(frozen=True)
class Side:
    """A program with a configuration, which listens at `port`."""

    name: str
    taipan: str
    port: int
    configuration: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--taipan", help="the program, in place of a build")
    parser.add_argument("--taipan-bench", help="the load generator, in place of a build")
    parser.add_argument("--requests", type=int, default=200_000, help="of each measurement (default: 200000)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each side (default: 5)")


def user() -> str:
    """Files of root are served as root."""
    return 'user = "root"\n' if os.geteuid() == 0 else ""


def first_lines(port: int) -> str:
    """What the configurations have in common: one worker that serves `www`."""
    return f'{user()}listen = ["127.0.0.1:{port}"]\nroot = "www"\nworkers = 1\n'


def make_site(work: pathlib.Path) -> None:
    (work / "www").mkdir()
    (work / "www" / "small").write_bytes(b"x" * 2448)


def medians(
    sides: list[Side], options: argparse.Namespace, work: pathlib.Path, guard: Guard, *, host: str = "bench"
) -> dict[str, float]:
    """Microseconds of processor time for a request, measured in turns, and printed."""
    bench = machine.load_generator(options.taipan_bench)
    processors = Processors.shared_out(1)
    found: dict[str, list[float]] = {side.name: [] for side in sides}
    with contextlib.ExitStack() as running:
        trees = [running.enter_context(_serving(side, work, guard, processors.server)) for side in sides]
        for _ in range(options.rounds):
            for side, tree in zip(sides, trees, strict=True):
                found[side.name].append(_cost(tree, bench, side.port, options.requests, host, processors.client))
    width = max(map(len, found))
    for name, values in found.items():
        texts = " ".join(f"{value:.2f}" for value in values)
        say(f"{name:<{width}} {statistics.median(values):6.2f} µs of processor time for a request ({texts})")
    return {name: statistics.median(values) for name, values in found.items()}


@contextlib.contextmanager
def _serving(side: Side, work: pathlib.Path, guard: Guard, processors: frozenset[int]):
    configuration, messages = work / f"{side.name}.toml", work / f"{side.name}.messages"
    configuration.write_text(side.configuration)
    with messages.open("wb") as sink, started(
        [side.taipan, "-c", str(configuration)], guard, processors, work, sink=sink
    ) as tree:
        wait_until_ready("taipan", side.port, tree, messages)
        yield tree


def _cost(tree: ProcessTree, bench: str, port: int, requests: int, host: str, processors: frozenset[int]) -> float:
    cpus = ",".join(map(str, sorted(processors)))
    words = ["taskset", "-c", cpus, bench, "-n", str(requests), "-c", str(CONNECTIONS)]
    words += ["-H", f"Host: {host}", f"http://127.0.0.1:{port}/small"]
    before = tree.cpu_seconds()
    subprocess.run(words, capture_output=True, check=True)
    return (tree.cpu_seconds() - before) / requests * 1e6
