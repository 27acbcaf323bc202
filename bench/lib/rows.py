"""The table of what is measured: the tests of published comparisons of web servers from thirty years. Knows nothing
of how servers are started."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from . import scripts
from .machine import MIB
from .peers import Ability, Cache, Protocol
from .site import CGI, HTML, HTML_SIZE, KIBI, LARGE, MANY, MEDIUM, MIXED, PAGE, SMALL, USERS, WASD, WASD_LARGE

OWN_CLIENT = "taipan-bench"

MODEM_BYTES_PER_SECOND = 33_600 // 8


class Connection(Enum):
    KEPT = "keep-alive"
    # With TLS, each has a full handshake.
    NEW = "a new connection for each request"
    RESUMED = "a new connection for each request, with a resumed session of TLS"


class Kind(Enum):
    """How a part is loaded, and what its figures are."""

    # A number of requests, or a time.
    FIXED = "fixed"
    # More and more connections until the rate falls; figures are those of the best rate.
    RISING = "rising"
    # More and more slow readers until one fails; figures are those of the last step without a failure.
    USERS = "users"
    # Bytes of memory or files.
    MEMORY = "memory"


class Check(Enum):
    """What every body is compared with, besides its own Content-Length."""

    FIRST_LENGTH = "the length of the first one"
    FILES = "the file itself, by checksum"


@dataclass(frozen=True)
class Part:
    """One line of the table."""

    name: str
    title: str
    # A path, a pattern of paths, or None for the weighted URLs.
    target: str | None
    # A path whose response is checked before the measurement.
    sample: str
    connections: int = 1
    # None: bounded by time.
    requests: int | None = None
    connection: Connection = Connection.KEPT
    check: Check = Check.FIRST_LENGTH
    kind: Kind = Kind.FIXED
    # Bytes of a response, for `limit`, which has only one.
    size: int = 0
    needs: frozenset[Ability] = frozenset()
    protocol: Protocol = Protocol.HTTP
    # Requests at the same time on a connection of HTTP/2.
    streams: int = 1
    # For Accept-Encoding; empty: no such field.
    coding: str = ""
    # The name of the client that loads it.
    client: str = OWN_CLIENT


@dataclass(frozen=True)
class Row:
    """A test: parts that are measured with one start of a server."""

    name: str
    source: str
    parts: tuple[Part, ...]
    # The sets of files that it needs.
    files: tuple[str, ...] = ("sizes",)
    needs: frozenset[Ability] = frozenset()
    cache: Cache = Cache.ON
    # How the servers run the program of `lib/scripts.py`, for rows that request it.
    script: scripts.Kind | None = None
    # Large responses: the tables also show the figures of server and client together.
    large: bool = False
    # It takes minutes for each server and is measured in fewer rounds.
    long: bool = False
    # Its share of the time that --quick has.
    weight: float = 1.0


@dataclass(frozen=True)
class Effort:
    """How extensively the tests are run."""

    # The numbers of requests are divided by this.
    divisor: int
    # The most seconds of a load that is bounded by requests.
    seconds: float
    # Seconds of a load with the weighted URLs.
    mixed_seconds: float
    # Seconds of a load by wrk, which ends after whole seconds only, in place of a number of requests.
    timed_seconds: float
    rising: tuple[int, ...]
    rising_seconds: float
    users: tuple[int, ...]
    user_seconds: float
    ramp_seconds: float
    idle: int
    silence_seconds: float
    # A request fails when the server was silent for this long.
    timeout_seconds: float
    # Requests before each load that are not measured.
    warm_up: int
    # Seconds for everything, from the first start of a server.
    budget_seconds: float | None = None


FULL = Effort(
    divisor=1,
    seconds=20,
    mixed_seconds=60,
    timed_seconds=2,
    rising=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    rising_seconds=1,
    users=(100, 200, 400, 800, 1600, 3200, 6400, 10_000),
    user_seconds=6,
    ramp_seconds=2,
    idle=10_000,
    silence_seconds=2,
    timeout_seconds=10,
    warm_up=1000,
)
QUICK = Effort(
    divisor=20,
    seconds=0.3,
    mixed_seconds=0.4,
    timed_seconds=1,
    rising=(1, 16, 128),
    rising_seconds=0.1,
    users=(100, 1000),
    user_seconds=0.4,
    ramp_seconds=0.2,
    idle=500,
    silence_seconds=1.5,
    timeout_seconds=2,
    warm_up=100,
    budget_seconds=100,
)


def _file(size: int) -> str:
    return f"/{size}.html"


def _wasd(size: int, words: str, connections: int, requests: int, cache: str = "") -> Part:
    plural = "connection" if connections == 1 else "connections"
    return Part(
        f"{words.lower().replace(' ', '').replace('.', '')}-{connections}",
        f"{words}, {connections} {plural}, no keep-alive{cache}",
        _file(size),
        _file(size),
        connections,
        requests,
        Connection.NEW,
        size=size,
        needs=frozenset({Ability.CLOSES}),
    )


def _wasd_parts(cache: str = "") -> tuple[Part, ...]:
    return tuple(
        _wasd(size, words, connections, 5000, cache)
        for size, words in ((0, "0 KB"), (WASD, "64 KB"))
        for connections in (1, 10)
    )


def _hello(kind: scripts.Kind, words: str, connections: int, requests: int, ability: Ability) -> Part:
    plural = "connection" if connections == 1 else "connections"
    title = f"\"Hello!\" in C {words}, {connections} {plural}, keep-alive"
    path, needs = scripts.HELLO.path(kind), frozenset({ability})
    return Part(f"{kind.name.lower()}-{connections}", title, path, path, connections, requests, needs=needs)


def _mixed(connections: int) -> Part:
    return Part(
        f"mixed-{connections}",
        f"{MIXED} weighted URLs, {connections} connections",
        None,
        "/mixed/000.html",
        connections,
        needs=frozenset({Ability.SIZES}),
    )


def _tls(name: str, title: str, size: int, connections: int, requests: int, **more: object) -> Part:
    """A file over TLS. `limit` has none, so the size of its response does not matter."""
    path, needs = _file(size), frozenset({Ability.TLS})
    more = {"protocol": Protocol.TLS, **more}
    return Part(name, title, path, path, connections, requests, size=size, needs=needs, **more)


ROWS = [
    Row(
        "small",
        "Boa manual",
        (
            Part(
                "small",
                f"{SMALL} bytes, 215 connections, keep-alive",
                _file(SMALL),
                _file(SMALL),
                215,
                20_000,
                size=SMALL,
            ),
        ),
    ),
    Row(
        "medium",
        "Boa article",
        (
            Part(
                "medium",
                f"{MEDIUM} bytes, 215 connections, keep-alive",
                _file(MEDIUM),
                _file(MEDIUM),
                215,
                10_000,
                size=MEDIUM,
            ),
        ),
        large=True,
    ),
    Row(
        "large",
        "taipan's bounds",
        (
            Part(
                "large",
                f"{LARGE // MIB} MiB, 10 connections, keep-alive",
                _file(LARGE),
                _file(LARGE),
                10,
                1000,
                size=LARGE,
            ),
        ),
        files=("large",),
        large=True,
    ),
    Row(
        "random",
        "taipan's bounds",
        (
            Part(
                "random",
                f"{MANY} files of {KIBI} bytes at random, 64 connections, keep-alive",
                f"/many/{{0..{MANY - 1}}}.html",
                "/many/7.html",
                64,
                20_000,
                size=KIBI,
                needs=frozenset({Ability.SIZES}),
            ),
        ),
        files=("many",),
    ),
    Row(
        "many",
        "thttpd comparison, small files",
        (
            Part(
                "many",
                f"{MANY} files of {KIBI} bytes at random, checksummed, no keep-alive, rising concurrency",
                f"/many/{{0..{MANY - 1}}}.html",
                "/many/7.html",
                connection=Connection.NEW,
                check=Check.FILES,
                kind=Kind.RISING,
                size=KIBI,
                needs=frozenset({Ability.CLOSES, Ability.SIZES}),
            ),
        ),
        files=("many",),
        weight=1.5,
    ),
    Row(
        "cgi",
        "thttpd comparison, CGI",
        (
            Part(
                "cgi",
                "trivial CGI, no keep-alive, rising concurrency",
                f"/{CGI}",
                f"/{CGI}",
                connection=Connection.NEW,
                kind=Kind.RISING,
                needs=frozenset({Ability.CGI}),
            ),
        ),
        files=("cgi",),
        weight=1.5,
    ),
    Row(
        "cgi-c",
        "taipan's bounds",
        (_hello(scripts.Kind.CGI, "by CGI", 10, 2000, Ability.CGI),),
        files=(scripts.FILES,),
        script=scripts.Kind.CGI,
    ),
    Row(
        "fastcgi",
        "taipan's bounds",
        tuple(
            _hello(scripts.Kind.PERSISTENT, "by FastCGI", connections, 10_000, Ability.FASTCGI)
            for connections in (1, 10)
        ),
        files=(scripts.FILES,),
        script=scripts.Kind.PERSISTENT,
    ),
    Row(
        "modems",
        "thttpd comparison, large files",
        (
            Part(
                "modems",
                f"{USERS} files of 1 MiB at 33.6 kbit/s each, doubling users",
                f"/users/{{0..{USERS - 1}}}.html",
                "/users/7.html",
                connection=Connection.NEW,
                kind=Kind.USERS,
                size=MIB,
            ),
        ),
        files=("users",),
        long=True,
        weight=3,
    ),
    Row("wasd", "WASD, cache on", _wasd_parts(), weight=2),
    Row(
        "wasd-uncached",
        "WASD, cache off",
        _wasd_parts(", cache off"),
        needs=frozenset({Ability.CACHE_SWITCH}),
        cache=Cache.OFF,
    ),
    Row(
        "wasd-large",
        "WASD, large file",
        tuple(_wasd(WASD_LARGE, "3.9 MB", connections, 200) for connections in (1, 10)),
        large=True,
    ),
    Row(
        "page",
        "lighttpd and Apache post",
        (
            Part(
                "page",
                f"{PAGE} bytes, 25 connections, no keep-alive",
                _file(PAGE),
                _file(PAGE),
                25,
                10_000,
                Connection.NEW,
                size=PAGE,
                needs=frozenset({Ability.CLOSES}),
            ),
        ),
    ),
    Row(
        "mixed",
        "lighttpd and Apache post",
        (_mixed(100), _mixed(200)),
        files=("mixed",),
        long=True,
        weight=2,
    ),
    Row(
        "tls",
        "taipan's bounds",
        (_tls("tls", f"{SMALL} bytes over TLS 1.3, 64 connections, keep-alive", SMALL, 64, 20_000),),
    ),
    Row(
        "http2",
        "taipan's bounds",
        (
            _tls(
                "http2",
                f"{SMALL} bytes by HTTP/2 over TLS 1.3, 10 connections with 16 streams each",
                SMALL,
                10,
                40_000,
                protocol=Protocol.HTTP2,
                streams=16,
            ),
        ),
    ),
    Row(
        "handshake",
        "taipan's bounds",
        (
            _tls(
                "full",
                f"full handshakes of TLS 1.3 (P-256, X25519), each with one request for {SMALL} bytes",
                SMALL,
                10,
                5000,
                connection=Connection.NEW,
            ),
            _tls(
                "resumed",
                f"resumed handshakes of TLS 1.3, each with one request for {SMALL} bytes",
                SMALL,
                10,
                5000,
                connection=Connection.RESUMED,
            ),
        ),
    ),
    Row(
        "tls-large",
        "taipan's bounds",
        (_tls("tls-large", f"{LARGE // MIB} MiB over TLS 1.3, 10 connections, keep-alive", LARGE, 10, 300),),
        files=("large",),
        large=True,
    ),
    Row(
        "compressed",
        "taipan's bounds",
        (
            Part(
                "compressed",
                f"{HTML_SIZE // KIBI} KiB of HTML, compressed by gzip, 64 connections, keep-alive",
                f"/{HTML}",
                f"/{HTML}",
                64,
                10_000,
                coding="gzip",
                needs=frozenset({Ability.COMPRESSES}),
            ),
        ),
        files=("html",),
    ),
    Row(
        "memory",
        "Boa article",
        (
            Part("start", "memory at start", None, _file(SMALL), kind=Kind.MEMORY, size=SMALL),
            Part(
                "idle",
                "memory for each idle connection",
                _file(SMALL),
                _file(SMALL),
                kind=Kind.MEMORY,
                size=SMALL,
                needs=frozenset({Ability.KEEPS}),
            ),
            Part("program", "size of the program", None, _file(SMALL), kind=Kind.MEMORY, size=SMALL),
            Part("libraries", "with the libraries it loads", None, _file(SMALL), kind=Kind.MEMORY, size=SMALL),
        ),
        weight=4,
    ),
]
