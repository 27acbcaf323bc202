"""The clients: `taipan-bench` and `blast`, which measure, and `idle`, which holds connections. Each runs on the
client's processors, with a time limit."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .children import Guard, started
from .machine import Processors, BenchError

# How much longer than its flags allow a client may run before it counts as hung.
HANGS_SECONDS = 30
# One address has some 28,000 ports, and a closed connection keeps its port for a minute.
SOURCES = ",".join(f"127.0.0.{number}" for number in range(2, 10))


@dataclass(frozen=True)
class Load:
    """The report of one run of taipan-bench."""

    requests: int
    failures: int
    seconds: float
    p50_us: int
    p99_us: int
    longest_us: int
    kept: int
    # Failures by kind; only kinds that occurred.
    faults: dict[str, int]
    client_seconds: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Clients:
    """`bench` is the path of taipan-bench, `tools` the folder of `blast` and `idle`."""

    bench: str
    tools: str
    processors: Processors
    guard: Guard
    work: pathlib.Path

    def load(
        self, words: Sequence[str], seconds: float, sample: tuple[float, Callable[[], None]] | None = None
    ) -> Load:
        """One run of taipan-bench that should last at most this many seconds. The function of `sample` is called
        once, after its seconds, during the run."""
        report = self.work / "report.json"
        report.unlink(missing_ok=True)
        threads = len(self.processors.client)
        command = [self.bench, "--format", "json", "--quiet", "--output", str(report)]
        command += ["--min-availability", "0", "--threads", str(threads), *words]
        messages = self.work / "client-messages"
        with messages.open("wb") as sink, started(
            command, self.guard, self.processors.client, self.work, sink=sink
        ) as tree:
            if sample and tree.wait(sample[0]) is None:
                sample[1]()
            ended = tree.wait(seconds + HANGS_SECONDS)
        if ended is None:
            raise BenchError(f"taipan-bench did not end within {seconds + HANGS_SECONDS:.0f} s")
        if not report.exists():
            raise BenchError(f"taipan-bench: {messages.read_text(errors='replace').strip()[-500:]}")
        return _read(json.loads(report.read_text()))

    def blast(
        self, address: str, paths: str, connections: int, seconds: float, count: int | None = None
    ) -> dict:
        """One run of blast over keep-alive connections. Returns its JSON."""
        command = [f"{self.tools}/blast", "--path", paths, "--connections", str(connections)]
        command += ["--seconds", str(seconds)] + (["--count", str(count)] if count else []) + [address]
        messages, report = self.work / "client-messages", self.work / "blast.json"
        with messages.open("wb") as sink, report.open("wb") as stdout, started(
            command, self.guard, self.processors.client, self.work, sink=sink, stdout=stdout
        ) as tree:
            ended = tree.wait(seconds + HANGS_SECONDS)
        if ended != 0:
            raise BenchError(f"blast: {messages.read_text(errors='replace').strip() or 'no end in time'}")
        return json.loads(report.read_text())

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


def _read(report: dict) -> Load:
    measured, total = report["measured"], report["times"]["total"]
    return Load(
        requests=measured["done"],
        failures=measured["failed"],
        seconds=measured["micros"] / 1e6,
        p50_us=total["p50"],
        p99_us=total["p99"],
        longest_us=measured["longest_micros"],
        kept=measured["kept_alive"],
        faults={name: count for name, count in measured["faults"].items() if count},
        client_seconds=measured["cpu_micros"] / 1e6,
    )
