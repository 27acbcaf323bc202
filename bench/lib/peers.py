"""The servers that are compared: taipan, its floor, and the servers that a user might choose instead. How each is
started, and what it does not support. Their configurations are in bench/peers."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from . import machine
from .machine import BENCH

# lighttpd allocates a table of this size, and nginx its connections.
FILES_MOST = 32768
# Threads in each process of Apache, as its template has it.
APACHE_THREADS = 256
MODULES = "/usr/lib/apache2/modules"


class Cache(Enum):
    """Whether a server caches open files, if it can be configured."""

    ON = "on"
    OFF = "off"


class Protocol(Enum):
    """How a client speaks to a server."""

    HTTP = "HTTP/1.1"
    TLS = "HTTP/1.1 over TLS 1.3"
    HTTP2 = "HTTP/2 over TLS 1.3"

    @property
    def scheme(self) -> str:
        return "http" if self is Protocol.HTTP else "https"


class Runner(Enum):
    """What executes the program of a server."""

    SYSTEM = "system"
    # Every request is late there, and taipan's sandbox denies valgrind the memory for the code that it makes.
    VALGRIND = "valgrind"


class Compression(Enum):
    """Whether a server compresses text by gzip for clients that accept it."""

    ON = "on"
    OFF = "off"


class Ability(Enum):
    """What a row needs beyond sending a file. A server without it has a dash."""

    KEEPS = "keeps connections"
    CLOSES = "closes a connection when asked to"
    CGI = "CGI"
    FASTCGI = "FastCGI"
    CACHE_SWITCH = "a cache that can be switched off"
    SIZES = "files of more than one size"
    TLS = "HTTP/1.1 and HTTP/2 over TLS"
    COMPRESSES = "compresses by gzip"


@dataclass(frozen=True)
class Place:
    """The folders and the port of one start of a server."""

    work: pathlib.Path
    root: pathlib.Path
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def certificate(self) -> pathlib.Path:
        return self.root.with_name("certificate.pem")

    @property
    def key(self) -> pathlib.Path:
        return self.root.with_name("key.pem")


@dataclass(frozen=True)
class Start:
    """How a server is started."""

    cores: int = 1
    cache: Cache = Cache.ON
    access_log: pathlib.Path | None = None
    runner: Runner = Runner.SYSTEM
    protocol: Protocol = Protocol.HTTP
    compression: Compression = Compression.OFF
    # Bytes of the only response of `limit`.
    size: int = 0
    # More values for the template, by name.
    more: Mapping[str, str] = field(default_factory=dict)


Command = Callable[[str, Place, Start], list[str]]


@dataclass(frozen=True)
class Server:
    name: str
    command: Command
    # Name of the program, and the arguments that print its version.
    program: str
    version: tuple[str, ...]
    # Its Debian package; None for programs of this repository.
    package: str | None = None
    lacks: Mapping[Ability, str] = field(default_factory=dict)
    # Files that it loads for some rows, and their packages.
    modules: Mapping[str, str] = field(default_factory=dict)
    # A note for the reader of its column.
    remark: str = ""
    path: str = ""

    def at(self, path: str) -> Server:
        return replace(self, path=path)

    def words(self, place: Place, start: Start) -> list[str]:
        return self.command(self.path, place, start)

    def environment(self, place: Place, start: Start) -> dict[str, str]:
        """Only Caddy reads any of it."""
        home = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), str(place.work))
        return {**home, "GOMAXPROCS": str(start.cores)}


# ---- commands ------------------------------------------------------------------------------


_SCRIPTS = """
[scripts]
processes = 1000
queue = 10000

[[route]]
path = "/cgi-bin/"
cgi = true
"""


def _taipan(program: str, place: Place, start: Start) -> list[str]:
    access = json.dumps(str(start.access_log)) if start.access_log else "false"
    entries = 4096 if start.cache is Cache.ON else 0
    # Without scripts, taipan starts no process for them.
    scripts = _SCRIPTS if (place.root / "cgi-bin").is_dir() else ""
    is_counted = start.runner is Runner.VALGRIND
    more = {"ACCESS": access, "CACHE": entries, "SCRIPTS": scripts}
    more["SANDBOX"] = "off" if is_counted else "on"
    more["SHEDDING"] = 'delay = "0s"' if is_counted else ""
    more["MARK"] = "" if start.protocol is Protocol.HTTP else " tls"
    more["TLS"] = _tls(start, 'certificate = "@CERTIFICATE@"\ncertificate_key = "@KEY@"')
    more["COMPRESSION"] = _compression(start, '["gzip"]', "false")
    config = fill("taipan.toml", place, start, **more)
    # The files belong to the user who measures, so the server runs as that user.
    as_root = ["--user", "root"] if os.geteuid() == 0 else []
    return [program, "-c", str(config), *as_root]


def _limit(program: str, place: Place, start: Start) -> list[str]:
    return [program, place.address, str(start.size)]


def _nginx(program: str, place: Place, start: Start) -> list[str]:
    cache = "max=4096 inactive=600s" if start.cache is Cache.ON else "off"
    mark = "" if start.protocol is Protocol.HTTP else "ssl http2 "
    tls = _tls(start, "ssl_certificate @CERTIFICATE@; ssl_certificate_key @KEY@; ssl_protocols TLSv1.2 TLSv1.3;")
    gzip = _compression(start, "gzip on; gzip_http_version 1.0; gzip_vary on;", "gzip off;")
    config = fill("nginx.conf", place, start, CACHE=cache, MARK=mark, TLS=tls, COMPRESSION=gzip)
    return [program, "-e", "stderr", "-p", str(place.work), "-c", str(config)]


_LIGHTTPD_TLS = """
server.modules += ( "mod_openssl" )
ssl.engine = "enable"
ssl.pemfile = "@CERTIFICATE@"
ssl.privkey = "@KEY@"
"""
# It keeps what it has compressed in files.
_LIGHTTPD_DEFLATE = """
server.modules += ( "mod_deflate" )
deflate.mimetypes = ( "text/html" )
deflate.allowed-encodings = ( "gzip" )
deflate.cache-dir = "@WORK@"
"""


def _lighttpd(program: str, place: Place, start: Start) -> list[str]:
    workers = start.cores if start.cores > 1 else 0
    cache = "simple" if start.cache is Cache.ON else "disable"
    tls = _tls(start, _LIGHTTPD_TLS)
    deflate = _compression(start, _LIGHTTPD_DEFLATE, "")
    more = {"CACHE": cache, "WORKERS": workers, "TLS": tls, "COMPRESSION": deflate}
    return [program, "-D", "-f", str(fill("lighttpd.conf", place, start, **more))]


def _apache2(program: str, place: Place, start: Start) -> list[str]:
    threads = APACHE_THREADS * start.cores
    config = fill("apache2.conf", place, start, MODULES=MODULES, THREADS=threads)
    return [program, "-D", "FOREGROUND", "-f", str(config)]


# Its keys stay in the process: another one for them costs time.
_H2O_TLS = """
  ssl:
    certificate-file: @CERTIFICATE@
    key-file: @KEY@
    minimum-version: TLSv1.2
    neverbleed: OFF
"""


def _h2o(program: str, place: Place, start: Start) -> list[str]:
    more = {"TLS": _tls(start, _H2O_TLS), "COMPRESSION": _compression(start, "compress: [gzip]", "compress: OFF")}
    return [program, "-m", "worker", "-c", str(fill("h2o.conf", place, start, **more))]


def _caddy(program: str, place: Place, start: Start) -> list[str]:
    return [program, "run", "--adapter", "caddyfile", "--config", str(fill("caddy.conf", place, start))]


def _mini_httpd(program: str, place: Place, start: Start) -> list[str]:
    user = "root" if os.geteuid() == 0 else "nobody"
    return [program, "-D", "-C", str(fill("mini-httpd.conf", place, start, USER=user))]


def _webfs(program: str, place: Place, start: Start) -> list[str]:
    return [program, *_flags("webfs.flags", place, start)]


def _busybox(program: str, place: Place, start: Start) -> list[str]:
    return [program, "httpd", *_flags("busybox.flags", place, start)]


def _tls(start: Start, lines: str) -> str:
    return "" if start.protocol is Protocol.HTTP else lines


def _compression(start: Start, on: str, off: str) -> str:
    return on if start.compression is Compression.ON else off


def fill(template: str, place: Place, start: Start, **more: object) -> pathlib.Path:
    """Writes the template, with its @NAMES@ filled in, into the server's work folder."""
    values = {
        "WORK": place.work,
        "ROOT": place.root,
        "PORT": place.port,
        "WORKERS": start.cores,
        "FILES": min(FILES_MOST, machine.files_limit()),
        "CERTIFICATE": place.certificate,
        "KEY": place.key,
        # By default, no scripts beyond those of the template.
        "SCRIPTS": "",
        "UPSTREAMS": "",
        **more,
        **start.more,
    }
    text = (BENCH / "peers" / template).read_text()
    # Twice, because values may contain names.
    for _ in range(2):
        text = re.sub(r"@([A-Z]+)@", lambda found: str(values.get(found[1], found[0])), text)
    config = place.work / template
    config.write_text(text)
    return config


def _flags(template: str, place: Place, start: Start) -> list[str]:
    lines = fill(template, place, start).read_text().splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]


# ---- the table -----------------------------------------------------------------------------

_NO_OPEN_FILES = "has no cache of open files to switch off"
_NOT_HERE = {Ability.TLS: "is not configured for TLS here", Ability.COMPRESSES: "is not configured to compress here"}
_NO_FASTCGI = "has no FastCGI, or starts no processes for it"
_ONE_AT_A_TIME = {
    **_NOT_HERE,
    Ability.FASTCGI: _NO_FASTCGI,
    Ability.KEEPS: "closes every connection after its response",
    Ability.CACHE_SWITCH: _NO_OPEN_FILES,
}

TAIPAN = Server(
    "taipan",
    _taipan,
    "taipan",
    ("--version",),
)
LIMIT = Server(
    "limit",
    _limit,
    "limit",
    (),
    lacks={
        Ability.CLOSES: "never closes a connection",
        Ability.CGI: "runs nothing",
        Ability.FASTCGI: "runs nothing",
        Ability.CACHE_SWITCH: "reads no files",
        Ability.SIZES: "has one response",
        Ability.TLS: "has no TLS",
        Ability.COMPRESSES: "has one response",
    },
    remark="sends the same response for every read, without parsing",
)
PEERS = [
    Server(
        "nginx",
        _nginx,
        "nginx",
        ("-v",),
        "nginx",
        {Ability.CGI: "has no CGI"},
    ),
    Server(
        "lighttpd",
        _lighttpd,
        "lighttpd",
        ("-v",),
        "lighttpd",
        modules={
            "/usr/lib/lighttpd/mod_openssl.so": "lighttpd-mod-openssl",
            "/usr/lib/lighttpd/mod_deflate.so": "lighttpd-mod-deflate",
        },
    ),
    Server(
        "apache2",
        _apache2,
        "apache2",
        ("-v",),
        "apache2-bin",
        {**_NOT_HERE, Ability.FASTCGI: _NO_FASTCGI, Ability.CACHE_SWITCH: _NO_OPEN_FILES},
        remark="event MPM, 256 threads for each core",
    ),
    Server(
        "h2o",
        _h2o,
        "h2o",
        ("--version",),
        "h2o",
        {
            Ability.CGI: "has CGI only by a FastCGI server written in Perl",
            Ability.FASTCGI: _NO_FASTCGI,
            Ability.CACHE_SWITCH: "its cache of open files cannot be switched off",
        },
    ),
    Server(
        "caddy",
        _caddy,
        "caddy",
        ("version",),
        "caddy",
        {
            **_NOT_HERE,
            Ability.CGI: "has no CGI without a plugin",
            Ability.FASTCGI: _NO_FASTCGI,
            Ability.CACHE_SWITCH: _NO_OPEN_FILES,
        },
    ),
    Server(
        "mini-httpd",
        _mini_httpd,
        "mini_httpd",
        ("-V",),
        "mini-httpd",
        _ONE_AT_A_TIME,
        remark="one process for each connection, closed after its response",
    ),
    Server(
        "webfs",
        _webfs,
        "webfsd",
        (),
        "webfs",
        {**_NOT_HERE, Ability.FASTCGI: _NO_FASTCGI, Ability.CACHE_SWITCH: _NO_OPEN_FILES},
        remark="at most 1000 connections",
    ),
    Server(
        "busybox",
        _busybox,
        "busybox",
        (),
        "busybox",
        _ONE_AT_A_TIME,
        remark="one process for each connection, closed after its response",
    ),
]


def version_of(server: Server) -> str:
    """The version that the program prints, or else that of its Debian package; empty if unknown."""
    asked = [[server.path, *server.version]] if server.version else []
    if server.package:
        asked.append(["dpkg-query", "--show", "--showformat", "${Version}", server.package])
    for words in asked:
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if found := re.search(r"\d+\.\d+[\d.]*", done.stdout + done.stderr):
            return found[0]
    return ""
