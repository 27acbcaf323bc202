"""The clients that Debian has: which kinds of parts each loads, its arguments, and how its report is read. A part that
none of them loads has taipan-bench alone. Starts nothing."""

from __future__ import annotations

import json
import math
import pathlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from .machine import BENCH, BenchError
from .rows import MODEM_BYTES_PER_SECOND, Connection, Kind, Part

# The receive buffer of a slow reader, in bytes.
SLOW_WINDOW = 65535
# slowhttptest prints its status at the start and every five seconds. It may need five to open all connections.
SLOW_SECONDS = 11


@dataclass(frozen=True)
class Load:
    """The report of one run of a client. Times that the client does not report are 0."""

    requests: int
    failures: int
    seconds: float
    p50_us: int
    p99_us: int
    longest_us: int
    # Failures by kind; only kinds that occurred.
    faults: dict[str, int]
    client_seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Demand:
    """What a client requests."""

    url: str
    # A file of paths of which every request takes one at random, in place of that of the URL.
    paths: pathlib.Path | None
    connection: Connection
    connections: int
    seconds: float
    # Seconds until the last connection is open.
    ramp_seconds: float
    timeout_seconds: float
    threads: int


@dataclass(frozen=True)
class Client:
    name: str
    package: str
    loads: tuple[Kind, ...]
    arguments: Callable[[Demand], list[str]]
    report: Callable[[str, Demand], Load]
    path: str = ""

    @property
    def program(self) -> str:
        return self.name

    def at(self, path: str) -> Client:
        return replace(self, path=path)


def client_for(part: Part) -> Client | None:
    """The client that loads a part; None if Debian has none."""
    return next((client for client in CLIENTS if part.kind in client.loads), None)


# ---- wrk -----------------------------------------------------------------------------------


def _wrk_arguments(demand: Demand) -> list[str]:
    words = ["-t", str(demand.threads), "-c", str(demand.connections), "-d", f"{math.ceil(demand.seconds)}s"]
    words += ["--timeout", f"{math.ceil(demand.timeout_seconds)}s", "-s", str(BENCH / "lib" / "wrk.lua")]
    # It opens another connection after a response that says so, which every server here sends for this field.
    words += ["-H", "Connection: close"] if demand.connection is Connection.NEW else []
    words.append(demand.url)
    return [*words, "--", str(demand.paths)] if demand.paths else words


def _wrk_report(text: str, _: Demand) -> Load:
    found = json.loads(text.splitlines()[-1])
    faults = _occurred({name: found[name] for name in ("connect", "read", "write", "status", "timeout")})
    return Load(
        # Responses with a bad status count as requests, too.
        requests=found["requests"] - found["status"],
        failures=sum(faults.values()),
        seconds=found["micros"] / 1e6,
        p50_us=found["p50"],
        p99_us=found["p99"],
        longest_us=found["longest"],
        faults=faults,
    )


# ---- slowhttptest --------------------------------------------------------------------------


def _slow_arguments(demand: Demand) -> list[str]:
    words = ["-X", "-c", str(demand.connections), "-l", str(SLOW_SECONDS)]
    words += ["-r", str(math.ceil(demand.connections / demand.ramp_seconds)), "-i", "1", "-n", "1"]
    words += ["-z", str(MODEM_BYTES_PER_SECOND), "-w", str(SLOW_WINDOW), "-y", str(SLOW_WINDOW)]
    return [*words, "-p", str(math.ceil(demand.timeout_seconds)), "-u", demand.url]


def _slow_report(text: str, _: Demand) -> Load:
    """The last status that it printed, while the readers were connected."""
    plain = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", text)
    connected = int(_found(r".*connected: +(\d+)", plain)[0])
    kinds = ("pending", "error", "closed")
    faults = _occurred({kind: int(_found(rf".*{kind}: +(\d+)", plain)[0]) for kind in kinds})
    return Load(
        requests=connected,
        # A connection that is pending, or was not tried, is missing from the requests.
        failures=faults.get("error", 0) + faults.get("closed", 0),
        seconds=SLOW_SECONDS,
        p50_us=0,
        p99_us=0,
        longest_us=0,
        faults=faults,
    )


# ---- the table -----------------------------------------------------------------------------


def _occurred(faults: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in faults.items() if count}


def _found(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of a match. It is the last one if the pattern begins with `.*`."""
    match = re.search(pattern, text, re.DOTALL)
    if not match:
        raise BenchError(f"the client's report has no {pattern!r}: {text.strip()[-300:]}")
    return match.groups()


CLIENTS = [
    Client("wrk", "wrk", (Kind.FIXED, Kind.RISING), _wrk_arguments, _wrk_report),
    Client("slowhttptest", "slowhttptest", (Kind.USERS,), _slow_arguments, _slow_report),
]
