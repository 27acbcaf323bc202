"""How each server is configured to run programs: by CGI, with an application that the server starts or that is
started beside it, and with php-fpm. The rest of each configuration is in bench/peers."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from . import machine, site
from .machine import BENCH, REPOSITORY
from .peers import Command, Place, Server, Start, fill

# Processes of an application, and children of php-fpm.
PROCESSES = 4
STARTER = BENCH / "lib" / "starter.py"
SOCKET = "application.sock"
FOLDER = "cgi-bin"
# The name of what `make` makes, among the sets of files of `site`.
FILES = "programs"

PHP = "<?php\nheader('Content-Type: text/plain');\necho \"Hello!\\n\";\n"
# Debian's program has the version in its name.
PHP_FPM = Server(
    "php-fpm",
    lambda program, place, start: [program, "-F", "-y", str(fill("php-fpm.conf", place, start))],
    "php-fpm*",
    ("-v",),
    "php-fpm",
)


class Kind(Enum):
    CGI = "CGI"
    PERSISTENT = "persistent"
    PHP = "PHP"


@dataclass(frozen=True)
class Answer:
    """A program, its path by kind, and its expected body."""

    # The name of the program in the folder of scripts.
    program: str
    body: bytes

    def path(self, kind: Kind) -> str:
        return {
            Kind.CGI: f"/{FOLDER}/{self.program}",
            Kind.PERSISTENT: f"/app/{self.program}",
            Kind.PHP: f"/{self.program}.php",
        }[kind]


HELLO = Answer("hello", site.CGI_BODY)
LARGE = Answer("64k", site.text(site.WASD))
SLEEPS = Answer("sleeps", b"")


def make(www: pathlib.Path) -> None:
    """Compiles the programs and writes the PHP page."""
    folder, sources = www / FOLDER, BENCH / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    wrapper = f"-I{REPOSITORY / 'contrib' / 'c'}"
    machine.compile_c(sources / "answer.c", folder / HELLO.program, wrapper)
    machine.compile_c(sources / "answer.c", folder / LARGE.program, wrapper, f"-DBYTES={len(LARGE.body)}")
    machine.compile_c(sources / "sleeps.c", folder / SLEEPS.program)
    (www / f"{HELLO.program}.php").write_text(PHP)


# ---- values for the templates --------------------------------------------------------------

# More processes than any row needs, and no limit on the time to the first byte, for scripts that sleep.
_TAIPAN_CGI = """
[scripts]
processes = 1000
queue = 10000
first_byte = "1d"

[[route]]
path = "/cgi-bin/"
cgi = true
"""

_TAIPAN_PERSISTENT = """
[[route]]
path = "/app/"
application = "app"

[[application]]
name = "app"
command = "@ROOT@/cgi-bin/@PROGRAM@"
processes = @PROCESSES@
min_processes = @PROCESSES@
# Requests that it has not accepted wait in its listen queue, as with the other servers.
concurrent = 4
"""

_TAIPAN_PHP = """
[[route]]
path = "*.php"
interpreter = "php"

[[application]]
name = "php"
address = "unix:@WORK@/application.sock"
connections = @PROCESSES@
"""

_LIGHTTPD_PERSISTENT = """
server.modules += ( "mod_fastcgi" )
fastcgi.server = ( "/app/" => ((
    "bin-path" => "@ROOT@/cgi-bin/@PROGRAM@", "socket" => "@WORK@/application.sock",
    "min-procs" => @PROCESSES@, "max-procs" => @PROCESSES@, "check-local" => "disable"
)) )
"""

_LIGHTTPD_PHP = """
server.modules += ( "mod_fastcgi" )
fastcgi.server = ( ".php" => (( "socket" => "@WORK@/application.sock" )) )
"""

_NGINX_FASTCGI = """
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param DOCUMENT_URI $document_uri;
            fastcgi_param DOCUMENT_ROOT $document_root;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
            fastcgi_param REQUEST_SCHEME $scheme;
            fastcgi_param GATEWAY_INTERFACE CGI/1.1;
            fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param REMOTE_PORT $remote_port;
            fastcgi_param SERVER_ADDR $server_addr;
            fastcgi_param SERVER_PORT $server_port;
            fastcgi_param SERVER_NAME $server_name;
            fastcgi_param REDIRECT_STATUS 200;
            # So that 64 KiB touch no file.
            fastcgi_buffers 32 8k;
            fastcgi_max_temp_file_size 0;
"""

_NGINX_PLAIN = f"location /app/ {{ fastcgi_pass unix:@WORK@/application.sock; {_NGINX_FASTCGI} }}"
_NGINX_KEPT = f"location /app/ {{ fastcgi_pass application; fastcgi_keep_conn on; {_NGINX_FASTCGI} }}"
_NGINX_UPSTREAM = "upstream application { server unix:@WORK@/application.sock; keepalive 16; }"
_NGINX_PHP = f"location ~ \\.php$ {{ fastcgi_pass unix:@WORK@/application.sock; {_NGINX_FASTCGI} }}"

# By server and kind. Pairs that are missing are part of the server's template.
_SETTINGS: Mapping[tuple[str, Kind], Mapping[str, str]] = {
    ("taipan", Kind.CGI): {"SCRIPTS": _TAIPAN_CGI},
    ("taipan", Kind.PERSISTENT): {"SCRIPTS": _TAIPAN_PERSISTENT},
    ("taipan", Kind.PHP): {"SCRIPTS": _TAIPAN_PHP},
    ("lighttpd", Kind.PERSISTENT): {"SCRIPTS": _LIGHTTPD_PERSISTENT},
    ("lighttpd", Kind.PHP): {"SCRIPTS": _LIGHTTPD_PHP},
    ("nginx", Kind.PERSISTENT): {"SCRIPTS": _NGINX_PLAIN},
    ("nginx", Kind.PHP): {"SCRIPTS": _NGINX_PHP},
}


# ---- contenders ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Contender:
    """A server with one way to run a program."""

    name: str
    server: Server
    start: Start
    path: str
    body: bytes
    # Sleeping scripts that run during the load.
    sleeping: int = 0


def by_cgi(server: Server, answer: Answer) -> Contender:
    return _contender(f"{server.name} cgi", server, Kind.CGI, answer)


def persistent(server: Server, answer: Answer) -> list[Contender]:
    """nginx starts no programs. It is measured without and with keep-alive to the application."""
    plain = _contender(server.name, server, Kind.PERSISTENT, answer)
    if server.name != "nginx":
        return [plain]
    beside = replace(plain, server=_beside(server, _shared_socket(answer)))
    settings = {**plain.start.more, "SCRIPTS": _NGINX_KEPT, "UPSTREAMS": _NGINX_UPSTREAM}
    return [beside, replace(beside, name="nginx kept", start=replace(plain.start, more=settings))]


def fastest(server: Server, kind: Kind) -> tuple[Server, Start]:
    """A server that runs `HELLO` by CGI or persistent. nginx keeps its connections to the processes."""
    contender = by_cgi(server, HELLO) if kind is Kind.CGI else persistent(server, HELLO)[-1]
    return contender.server, contender.start


def by_php(server: Server, php_fpm: Server) -> Contender:
    """The server with a php-fpm of its own."""

    def pool(place: Place, start: Start) -> list[str]:
        return ["0", *php_fpm.words(place, start)]

    contender = _contender(server.name, server, Kind.PHP, HELLO)
    return replace(contender, server=_beside(server, pool))


def _contender(name: str, server: Server, kind: Kind, answer: Answer) -> Contender:
    more = {"PROGRAM": answer.program, "PROCESSES": str(PROCESSES), **_SETTINGS.get((server.name, kind), {})}
    return Contender(name, server, Start(more=more), answer.path(kind), answer.body)


def _shared_socket(answer: Answer) -> Callable[[Place, Start], list[str]]:
    return lambda place, _: [str(PROCESSES), str(place.root / FOLDER / answer.program)]


def _beside(server: Server, application: Callable[[Place, Start], list[str]]) -> Server:
    """A server that is started after its application, both in one process tree. `application` returns arguments of
    the starter: the number of processes, and their command."""
    alone: Command = server.command

    def both(program: str, place: Place, start: Start) -> list[str]:
        starter = [sys.executable, "-I", str(STARTER), str(place.work / SOCKET)]
        return [*starter, *application(place, start), "--", *alone(program, place, start)]

    return replace(server, command=both)
