"""Measures one server in one row: starts it, checks one response, loads it, and ends it. Judges nothing."""

from __future__ import annotations

import os
import pathlib
import re
import time
from dataclasses import dataclass, field, replace

from . import machine, scripts, site
from .children import Guard
from .client import SOURCES, Clients, Sample
from .debian import Client, Demand, Load
from .machine import Processors, BenchError
from .peers import Compression, Protocol, Server, Start
from .rows import MODEM_BYTES_PER_SECOND, OWN_CLIENT, Check, Connection, Effort, Kind, Part, Row
from .running import Running, running

# The share of the available memory that one more step with users may take.
MEMORY_SHARE = 0.6
# Some servers listen before all their processes are started, or give back later what only the start needed.
SETTLE_SECONDS = 1
# Steps below the best rate after which no more connections are tried.
FALLING_STEPS = 2


@dataclass(frozen=True)
class Figures:
    """The figures of one server in one part of one round. Ratios are made of the score: microseconds of CPU for
    each request, or bytes; less is better."""

    score: float | None
    connections: int = 0
    requests: int = 0
    failures: int = 0
    rate: float = 0.0
    cpu_seconds: float = 0.0
    p50_us: int = 0
    p99_us: int = 0
    longest_us: int = 0
    # Microseconds of CPU that the client needed for each request. On loopback it does some of the server's work:
    # the kernel sends queued data on the processor that handles the acknowledgement, which is the client's.
    client_us: float = 0.0
    # Bytes of all processes after the load; with users, while they were connected.
    memory: int = 0
    server_busy: float = 0.0
    client_busy: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    # Why no more users were tried; empty otherwise.
    stopped: str = ""
    # Every step of a part that has steps, failed ones included.
    steps: list[Figures] = field(default_factory=list)

    @property
    def availability(self) -> float:
        attempts = self.requests + self.failures
        return 100.0 * self.requests / attempts if attempts else 0.0


@dataclass(frozen=True)
class Bench:
    work: pathlib.Path
    guard: Guard
    clients: Clients
    processors: Processors
    cores: int
    effort: Effort
    # The installed clients of Debian, by name.
    debian: dict[str, Client]

    def measure(self, row: Row, parts: list[Part], server: Server) -> list[Figures | BenchError]:
        """Measures all parts of a row that the server supports, with one start of it."""
        # `limit` has one response size per start.
        groups = [[part] for part in parts] if server.name == "limit" else [parts]
        return [figures for group in groups for figures in self._with_one_start(row, group, server)]

    def _with_one_start(self, row: Row, parts: list[Part], server: Server) -> list[Figures | BenchError]:
        start = Start()
        if row.script:
            server, start = scripts.fastest(server, row.script)
        first = parts[0]
        compression = Compression.ON if first.coding else Compression.OFF
        start = replace(start, cores=self.cores, cache=row.cache, size=first.size, protocol=first.protocol)
        start = replace(start, compression=compression)
        with running(server, start, self.work, self.guard, self.processors.server) as run:
            return self._parts(run, parts)

    def _parts(self, run: Running, parts: list[Part]) -> list[Figures | BenchError]:
        found: list[Figures | BenchError] = []
        if any(part.kind is Kind.MEMORY for part in parts):
            time.sleep(SETTLE_SECONDS)
        at_start = run.tree.memory()
        for part in parts:
            # A server that fails in one part may still be measured in the next.
            try:
                found.append(self._part(run, part, at_start))
            except BenchError as error:
                found.append(error)
        return found

    def _part(self, run: Running, part: Part, at_start: int) -> Figures:
        # Memory at start is measured before the first request.
        if run.server.name != "limit" and part.name != "start":
            run.check(part.sample, coding=part.coding)
        match part.kind:
            case Kind.FIXED:
                return self._fixed(run, part)
            case Kind.RISING:
                return self._rising(run, part)
            case Kind.USERS:
                return self._users(run, part)
            case Kind.MEMORY:
                return Figures(score=self._bytes(run, part, at_start))

    # ---- one load ----------------------------------------------------------------------

    def _fixed(self, run: Running, part: Part) -> Figures:
        effort = self.effort
        self._warm_up(run, part, part.connections)
        requests = max(part.requests // effort.divisor, part.connections) if part.requests else None
        return self._load(run, part, part.connections, requests, effort.seconds if requests else effort.mixed_seconds)

    def _warm_up(self, run: Running, part: Part, connections: int) -> None:
        requests = str(max(min(self.effort.warm_up, part.requests or self.effort.warm_up) // 2, connections))
        words = ["--requests", requests, "--connections", str(connections), "--time", f"{self.effort.seconds / 4}s"]
        self.clients.load([*words, *self._asked(run, part)], self.effort.seconds)

    def _load(
        self, run: Running, part: Part, connections: int, requests: int | None, seconds: float
    ) -> Figures:
        before = run.tree.cpu_seconds()
        if part.client == OWN_CLIENT:
            words = ["--connections", str(connections), "--time", f"{seconds}s", *self._asked(run, part)]
            words += ["--requests", str(requests)] if requests else []
            load = self.clients.load(words, seconds + self.effort.timeout_seconds)
        else:
            seconds = self.effort.timed_seconds if part.kind is Kind.FIXED else seconds
            load = self._load_by_debian(run, part, connections, seconds)
        cpu = run.tree.cpu_seconds() - before
        return figures_of(load, cpu, connections, run.tree.memory())

    def _load_by_debian(
        self, run: Running, part: Part, connections: int, seconds: float, sample: Sample | None = None
    ) -> Load:
        paths = None
        if part.target != part.sample and part.kind is not Kind.USERS:
            paths = run.place.work / "paths"
            paths.write_text(self._paths(run, part))
        demand = Demand(
            url=run.url(part.sample),
            paths=paths,
            connection=part.connection,
            connections=connections,
            seconds=seconds,
            ramp_seconds=self.effort.ramp_seconds,
            timeout_seconds=self.effort.timeout_seconds,
            threads=min(len(self.processors.client), connections),
            streams=part.streams,
            coding=part.coding,
        )
        return self.clients.load_by(self.debian[part.client], demand, sample)

    def _paths(self, run: Running, part: Part) -> str:
        """The paths of a pattern, or each of the weighted URLs as often as its weight says."""
        if part.target is None:
            weighted = [line.split() for line in site.mixed_urls(run.place.root, "").splitlines()]
            return "".join(f"{path}\n" * int(weight) for weight, path in weighted)
        before, numbers, after = re.split(r"[{}]", part.target)
        first, last = numbers.split("..")
        return "".join(f"{before}{number}{after}\n" for number in range(int(first), int(last) + 1))

    def _asked(self, run: Running, part: Part) -> list[str]:
        """The arguments of taipan-bench for requests and verification."""
        words = ["--timeout", f"{self.effort.timeout_seconds}s"]
        words += requested(part)
        if part.connection is not Connection.KEPT and part.kind is not Kind.USERS:
            words.append("--close")
        if part.kind is Kind.RISING:
            words += ["--source", SOURCES]
        if part.check is Check.FILES:
            words += ["--folder", str(run.place.root)]
        if part.target is not None:
            return [*words, run.url(part.target)]
        urls = run.place.work / "urls"
        urls.write_text(site.mixed_urls(run.place.root, run.url("")))
        return [*words, "--urls", str(urls)]

    # ---- steps -------------------------------------------------------------------------

    def _rising(self, run: Running, part: Part) -> Figures:
        """Tries more connections until the rate has fallen twice."""
        steps: list[Figures] = []
        self._warm_up(run, part, self.effort.rising[0])
        for connections in self.effort.rising:
            steps.append(self._load(run, part, connections, None, self.effort.rising_seconds))
            best = max(range(len(steps)), key=lambda index: steps[index].rate)
            if len(steps) - 1 - best >= FALLING_STEPS:
                break
        return _with_steps(max(steps, key=lambda step: step.rate), steps)

    def _users(self, run: Running, part: Part) -> Figures:
        """Tries more users until one fails. Each reads at the rate of a modem for some seconds, and closes."""
        steps: list[UsersStep] = []
        stopped = f"{self.effort.users[-1]} users is the most that is tried"
        idle = machine.memory_available()
        for users in self.effort.users:
            for_each = (idle - min((step.memory_left for step in steps), default=idle)) / (
                steps[-1].figures.connections if steps else 1
            )
            if for_each * users > MEMORY_SHARE * idle:
                stopped = f"the machine has no memory for {users} users"
                break
            steps.append(self._users_step(run, part, users))
            figures = steps[-1].figures
            if figures.failures or figures.requests < users:
                kinds = ", ".join(f"{count} {name}" for name, count in figures.faults.items())
                stopped = f"of {users} users {figures.requests} were served: {kinds or 'no end in time'}"
                break
        all_figures = [step.figures for step in steps]
        good = [step for step in all_figures if not step.failures and step.requests >= step.connections]
        if not good:
            return _with_steps(Figures(score=None, stopped=stopped), all_figures)
        return _with_steps(good[-1], all_figures, stopped)

    def _users_step(self, run: Running, part: Part, users: int) -> UsersStep:
        effort = self.effort
        bytes_each = int(effort.user_seconds * MODEM_BYTES_PER_SECOND)
        seen: list[tuple[int, int]] = []

        def sample() -> None:
            seen.append((run.tree.memory(), machine.memory_available()))

        before = run.tree.cpu_seconds()
        # When all users are connected and none has closed.
        sample_after = effort.ramp_seconds + (effort.user_seconds - effort.ramp_seconds) / 2
        if part.client == OWN_CLIENT:
            words = ["--modem", "--abort", str(bytes_each), "--ramp", f"{effort.ramp_seconds}s"]
            words += ["--requests", str(users), "--connections", str(users), "--order", "sequence"]
            seconds = effort.ramp_seconds + 2 * effort.user_seconds + effort.timeout_seconds
            words += ["--time", f"{seconds}s", *self._asked(run, part)]
            load = self.clients.load(words, seconds, (sample_after, sample))
        else:
            load = self._load_by_debian(run, part, users, effort.user_seconds, (sample_after, sample))
        cpu = run.tree.cpu_seconds() - before
        if not seen:
            sample()
        memory, left = seen[0]
        return UsersStep(figures_of(load, cpu, users, memory), left)

    # ---- memory ------------------------------------------------------------------------

    def _bytes(self, run: Running, part: Part, at_start: int) -> float:
        match part.name:
            case "start":
                return at_start
            case "program":
                return os.path.getsize(os.path.realpath(run.server.path))
            case "libraries":
                return sum(run.tree.programs().values())
            case _:
                return self._idle_bytes(run, part)

    def _idle_bytes(self, run: Running, part: Part) -> float:
        """Bytes of a connection that is idle after one request."""
        count = min(self.effort.idle, machine.connections_possible())
        before = run.tree.own_memory()
        with self.clients.idle_connections(run.place.address, part.sample, count):
            time.sleep(self.effort.silence_seconds)
            # Noise may be below 0.
            return max(0, run.tree.own_memory() - before) / count


def requested(part: Part) -> list[str]:
    """The arguments of taipan-bench for the protocol of a part."""
    words = ["-H", f"Accept-Encoding: {part.coding}"] if part.coding else []
    if part.protocol is Protocol.HTTP2:
        words += ["--http", "2", "--streams", str(part.streams)]
    if part.protocol is not Protocol.HTTP:
        words.append("--insecure")
        words += ["--no-resumption"] if part.connection is Connection.NEW else []
    return words


@dataclass(frozen=True)
class UsersStep:
    figures: Figures
    # Bytes of memory that were available while the users were connected.
    memory_left: int


def figures_of(load: Load, cpu: float, connections: int, memory: int = 0) -> Figures:
    return Figures(
        score=cpu * 1e6 / load.requests if load.requests else None,
        connections=connections,
        requests=load.requests,
        failures=load.failures,
        rate=load.rate,
        cpu_seconds=cpu,
        p50_us=load.p50_us,
        p99_us=load.p99_us,
        longest_us=load.longest_us,
        memory=memory,
        client_us=load.client_seconds * 1e6 / load.requests if load.requests else 0.0,
        server_busy=cpu / load.seconds if load.seconds else 0.0,
        client_busy=load.client_seconds / load.seconds if load.seconds else 0.0,
        faults=load.faults,
    )


def _with_steps(chosen: Figures, steps: list[Figures], stopped: str = "") -> Figures:
    return replace(chosen, steps=steps, stopped=stopped or chosen.stopped)
