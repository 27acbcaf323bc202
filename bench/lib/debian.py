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
from .peers import Protocol
from .rows import MODEM_BYTES_PER_SECOND, Connection, Kind, Part

# The receive buffer of a slow reader, in bytes.
SLOW_WINDOW = 65535
# slowhttptest prints its status at the start and every five seconds. It may need five to open all connections.
SLOW_SECONDS = 11


@dataclass(frozen=True)
class Load:
    """The report of one run of a client. Times that the client does not report are 0; for `seconds` the time of the
    whole run is taken."""

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
    # Requests at the same time on a connection of HTTP/2.
    streams: int = 1
    # For Accept-Encoding; empty: no such field.
    coding: str = ""


@dataclass(frozen=True)
class Client:
    name: str
    package: str
    loads: Callable[[Part], bool]
    arguments: Callable[[Demand], list[str]]
    report: Callable[[str, Demand], Load]
    # What is started, if that is not the name.
    program: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "program", self.program or self.name)

    def at(self, path: str) -> Client:
        return replace(self, path=path)


def client_for(part: Part) -> Client | None:
    """The client that loads a part; None if Debian has none."""
    return next((client for client in CLIENTS if client.loads(part)), None)


# ---- wrk -----------------------------------------------------------------------------------


def _wrk_loads(part: Part) -> bool:
    handshakes = part.protocol is Protocol.TLS and part.connection is not Connection.KEPT
    return part.kind in (Kind.FIXED, Kind.RISING) and part.protocol is not Protocol.HTTP2 and not handshakes


def _wrk_arguments(demand: Demand) -> list[str]:
    words = ["-t", str(demand.threads), "-c", str(demand.connections), "-d", f"{math.ceil(demand.seconds)}s"]
    words += ["--timeout", f"{math.ceil(demand.timeout_seconds)}s", "-s", str(BENCH / "lib" / "wrk.lua")]
    # It opens another connection after a response that says so, which every server here sends for this field.
    words += ["-H", "Connection: close"] if demand.connection is Connection.NEW else []
    words += ["-H", f"Accept-Encoding: {demand.coding}"] if demand.coding else []
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


def _slow_loads(part: Part) -> bool:
    return part.kind is Kind.USERS


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


# ---- h2load --------------------------------------------------------------------------------


def _h2load_loads(part: Part) -> bool:
    return part.kind is Kind.FIXED and part.protocol is Protocol.HTTP2


def _h2load_arguments(demand: Demand) -> list[str]:
    words = ["-t", str(demand.threads), "-c", str(demand.connections), "-m", str(demand.streams)]
    return [*words, "-D", str(math.ceil(demand.seconds)), "-T", str(math.ceil(demand.timeout_seconds)), demand.url]


def _h2load_report(text: str, _: Demand) -> Load:
    seconds = _found(r"finished in ([\d.]+)(us|ms|s)\b", text)
    kinds = ("succeeded", "failed", "errored", "timeout")
    counts = {kind: int(_found(rf"requests: .*?(\d+) {kind}", text)[0]) for kind in kinds}
    succeeded = counts.pop("succeeded")
    faults = _occurred(counts)
    longest = _found(r"time for request: +\S+ +([\d.]+)(us|ms|s)", text)
    # It counts a request that failed by an error as failed, too.
    failures = counts["failed"]
    return Load(succeeded, failures, _micros(*seconds) / 1e6, 0, 0, round(_micros(*longest)), faults)


def _micros(number: str, unit: str) -> float:
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


# ---- openssl s_time ------------------------------------------------------------------------


def _s_time_loads(part: Part) -> bool:
    return part.kind is Kind.FIXED and part.protocol is Protocol.TLS and part.connection is not Connection.KEPT


def _s_time_arguments(demand: Demand) -> list[str]:
    """One connection after another, each with a request by HTTP/1.0, and after it the server's end."""
    address, _, path = demand.url.removeprefix("https://").partition("/")
    kind = "-new" if demand.connection is Connection.NEW else "-reuse"
    words = ["s_time", "-connect", address, "-www", f"/{path}", kind, "-tls1_3"]
    return [*words, "-time", str(math.ceil(demand.seconds))]


def _s_time_report(text: str, demand: Demand) -> Load:
    """It prints a letter for each connection, `r` for a resumed session, and whole seconds, which are too rough."""
    count = int(_found(r".*?(\d+) connections in \d+ real seconds", text)[0])
    lines = [line for line in text.splitlines() if re.fullmatch(r"[a-z*]+", line) and line != "starting"]
    resumed = sum(line.count("r") for line in lines)
    other = resumed if demand.connection is Connection.NEW else sum(map(len, lines)) - resumed
    faults = _occurred({"handshake of the other kind": other})
    return Load(count - other, other, 0.0, 0, 0, 0, faults)


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
    Client("wrk", "wrk", _wrk_loads, _wrk_arguments, _wrk_report),
    Client("h2load", "nghttp2-client", _h2load_loads, _h2load_arguments, _h2load_report),
    Client("s_time", "openssl", _s_time_loads, _s_time_arguments, _s_time_report, "openssl"),
    Client("slowhttptest", "slowhttptest", _slow_loads, _slow_arguments, _slow_report),
]
