"""Runs a server: starts it on a free port in a folder of its own, waits until it listens, and ends it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import pathlib
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from . import site
from .children import ProcessTree, Guard, exit_if_signalled, started
from .machine import BenchError
from .peers import Place, Protocol, Server, Start

START_SECONDS = 20
# Within which a file must be compressed.
CODING_SECONDS = 5


@dataclass(frozen=True)
class Running:
    """A server that listens."""

    server: Server
    place: Place
    tree: ProcessTree
    protocol: Protocol = Protocol.HTTP

    def url(self, target: str) -> str:
        return f"{self.protocol.scheme}://{self.place.address}{target}"

    def check(self, path: str, expected: bytes | None = None, coding: str = "") -> None:
        """Checks one response, by HTTP/1. The expected body is that of the file or of the scripts, unless given. With
        a coding, which is gzip, the body must have it soon: a server may send a file plain while it compresses it."""
        if expected is None and path.startswith(("/cgi-bin/", "/app/")):
            expected = site.CGI_BODY
        elif expected is None:
            expected = (self.place.root / path.lstrip("/")).read_bytes()
        give_up = time.monotonic() + CODING_SECONDS
        while (found := self._check_once(path, expected, coding)) != coding:
            if time.monotonic() > give_up:
                raise BenchError(f"{self.server.name} sends {path} with the coding {found!r} instead of {coding!r}")
            time.sleep(0.01)

    def _check_once(self, path: str, expected: bytes, accepted: str) -> str:
        """Checks one response, and returns the coding that it has."""
        connection = self._connection()
        try:
            connection.request("GET", path, headers={"Accept-Encoding": accepted} if accepted else {})
            response = connection.getresponse()
            body, coding = response.read(), response.getheader("Content-Encoding", "")
            if response.status != 200 or (gzip.decompress(body) if coding == "gzip" else body) != expected:
                raise BenchError(f"{self.server.name} responds to {path} with status {response.status} or a wrong body")
            return coding
        except (OSError, http.client.HTTPException) as error:
            raise BenchError(f"{self.server.name} does not respond to {path}: {error or type(error).__name__}") from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.protocol is Protocol.HTTP:
            return http.client.HTTPConnection("127.0.0.1", self.place.port, timeout=10)
        context = ssl.create_default_context(cafile=str(self.place.certificate))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return http.client.HTTPSConnection("127.0.0.1", self.place.port, timeout=10, context=context)


@contextlib.contextmanager
def running(
    server: Server,
    start: Start,
    work: pathlib.Path,
    guard: Guard,
    processors: frozenset[int],
    before: tuple[str, ...] = (),
) -> Iterator[Running]:
    """Starts a server on a free port in a folder of its own, and always ends it. `before` are arguments before its
    command, such as valgrind's."""
    with tempfile.TemporaryDirectory(prefix="start-", dir=work) as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        place = Place(folder, work / "www", free_port())
        messages = folder / "messages"
        words = [*before, *server.words(place, start)]
        with messages.open("wb") as sink, started(
            words, guard, processors, folder, environment=server.environment(place, start), sink=sink
        ) as tree:
            wait_until_ready(server.name, place.port, tree, messages)
            yield Running(server, place, tree, start.protocol)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(name: str, port: int, tree: ProcessTree, messages: pathlib.Path) -> None:
    """Waits until a program listens. `messages` is the file with what it prints."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        exit_if_signalled()
        if tree.ended() is not None:
            said = messages.read_text(errors="replace").strip()[-500:]
            raise BenchError(f"{name} ended at once: {said or 'without a message'}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.01)
    said = messages.read_text(errors="replace").strip()[-500:]
    raise BenchError(f"{name} does not listen after {START_SECONDS} s: {said}")
