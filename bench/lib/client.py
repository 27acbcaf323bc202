"""Runs the clients: `taipan-bench`, `blast` and those of Debian, which measure, and `idle`, which holds connections.
Each runs on the client's processors, with a time limit."""

from __future__ import annotations

import contextlib
import json
import pathlib
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from .children import Guard, started
from .debian import Client, Demand, Load
from .machine import Processors, BenchError

# A function that is called once during a load, after these seconds.
Sample = tuple[float, Callable[[], None]]

# How much longer than its flags allow a client may run before it counts as hung.
HANGS_SECONDS = 30
# One address has some 28,000 ports, and a closed connection keeps its port for a minute.
SOURCES = ",".join(f"127.0.0.{number}" for number in range(2, 10))
BLAST_FAULTS = ("refused", "cut_short", "wrong_length", "late")


@dataclass(frozen=True)
class Clients:
    """`bench` is the path of taipan-bench, `tools` the folder of `blast` and `idle`."""

    bench: str
    tools: str
    processors: Processors
    guard: Guard
    work: pathlib.Path

    def load(self, words: Sequence[str], seconds: float, sample: Sample | None = None) -> Load:
        """One run of taipan-bench that should last at most this many seconds."""
        threads = len(self.processors.client)
        command = [self.bench, "--format", "json", "--quiet", "--min-availability", "0", "--threads", str(threads)]
        return _read(json.loads(self._report("taipan-bench", [*command, *words], seconds, sample)))

    def load_by(self, client: Client, demand: Demand, sample: Sample | None = None) -> Load:
        """One run of a client of Debian."""
        before, began = _children_seconds(), time.monotonic()
        most = demand.seconds + demand.timeout_seconds
        text = self._report(client.name, [client.path, *client.arguments(demand)], most, sample)
        load = client.report(text, demand)
        seconds = load.seconds or time.monotonic() - began
        return replace(load, seconds=seconds, client_seconds=_children_seconds() - before)

    def _report(self, name: str, command: list[str], seconds: float, sample: Sample | None = None) -> str:
        """Runs a client and returns its standard output."""
        messages, report = self.work / "client-messages", self.work / "report"
        with messages.open("wb") as sink, report.open("wb") as stdout, started(
            command, self.guard, self.processors.client, self.work, sink=sink, stdout=stdout
        ) as tree:
            if sample and tree.wait(sample[0]) is None:
                sample[1]()
            ended = tree.wait(seconds + HANGS_SECONDS)
        if ended is None:
            raise BenchError(f"{name} did not end within {seconds + HANGS_SECONDS:.0f} s")
        text = report.read_text(errors="replace")
        if not text.strip():
            raise BenchError(f"{name}: {messages.read_text(errors='replace').strip()[-500:]}")
        return text

    def blast(self, address: str, paths: str, connections: int, seconds: float, count: int | None = None) -> Load:
        """One run of blast over keep-alive connections."""
        command = [f"{self.tools}/blast", "--path", paths, "--connections", str(connections)]
        command += ["--seconds", str(seconds)] + (["--count", str(count)] if count else []) + [address]
        report = json.loads(self._report("blast", command, seconds))
        return Load(
            requests=report["requests"],
            failures=report["failures"],
            seconds=report["seconds"],
            p50_us=report["p50_us"],
            p99_us=report["p99_us"],
            longest_us=report["max_us"],
            faults={name: report[name] for name in BLAST_FAULTS if report[name]},
            client_seconds=report["client_cpu_seconds"],
        )

    @contextlib.contextmanager
    def idle_connections(self, address: str, path: str, count: int) -> Iterator[None]:
        """Holds connections that are idle after one request. Fails if the server has closed any by the end."""
        messages = self.work / "client-messages"
        with messages.open("wb") as sink, started(
            [f"{self.tools}/idle", address, path, str(count)],
            self.guard,
            self.processors.client,
            self.work,
            sink=sink,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as tree:
            if tree.line(HANGS_SECONDS) != f"ready {count}\n":
                said = messages.read_text(errors="replace").strip()[-500:]
                raise BenchError(f"cannot open {count} idle connections: {said or 'no response in time'}")
            yield
            tree.end_input()
            last = tree.line(HANGS_SECONDS)
            if last != f"open {count}\n":
                raise BenchError(f"idle connections were closed: {last.strip() or 'all'} of {count}")


def _children_seconds() -> float:
    """The CPU time of the processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _read(report: dict) -> Load:
    measured, total = report["measured"], report["times"]["total"]
    return Load(
        requests=measured["done"],
        failures=measured["failed"],
        seconds=measured["micros"] / 1e6,
        p50_us=total["p50"],
        p99_us=total["p99"],
        longest_us=measured["longest_micros"],
        faults={name: count for name, count in measured["faults"].items() if count},
        client_seconds=measured["cpu_micros"] / 1e6,
    )
