"""What bench/compare and bench/instructions share: a folder to work in, files to serve, servers
that never outlive the run, and what one load costs them. Judges nothing."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import http.client
import json
import os
import pathlib
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
SMALL, MEDIUM, LARGE, KIBI = 2448, 105165, 10 * 1024 * 1024, 1024
MANY = 1000
START_SECONDS = 20
STOP_SECONDS = 5
FILES_WANTED = 15000

_prctl = ctypes.CDLL(None, use_errno=True).prctl
_PR_SET_PDEATHSIG = 1
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Trouble(Exception):
    """The measurement cannot go on; the text says where, what, and what to do."""


# ---- the machine ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Processors:
    """Server and client never share one if there are two."""

    server: int
    client: int
    all: frozenset[int]

    @staticmethod
    def of_this_machine() -> Processors:
        usable = sorted(os.sched_getaffinity(0))
        return Processors(usable[0], usable[-1], frozenset(usable))

    def for_workers(self, workers: int) -> frozenset[int]:
        """One worker: the first processor. More: all but the client's, or all when that is too few."""
        if workers == 1:
            return frozenset({self.server})
        others = self.all - {self.client}
        return others if len(others) >= workers else self.all


def raise_file_limit() -> int:
    """Open files per process from now on; the children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def machine() -> dict:
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
    }


# ---- a place to work -----------------------------------------------------------------------


@contextlib.contextmanager
def workplace() -> Iterator[pathlib.Path]:
    """A folder with the files to serve in `www`, removed at the end."""
    for number in _ENDINGS:
        signal.signal(number, _leave)
    with tempfile.TemporaryDirectory(prefix="taipan-bench-") as name:
        work = pathlib.Path(name)
        work.chmod(0o755)  # a peer's worker may be another user
        www = work / "www"
        (www / "many").mkdir(parents=True)
        for size in (SMALL, MEDIUM, LARGE, KIBI):
            (www / f"{size}.html").write_bytes(_text(size))
        for number in range(MANY):
            (www / "many" / f"{number}.html").write_bytes(_text(KIBI))
        yield work


def _leave(number: int, _: object) -> None:
    """An exception, so that every `finally` on the way out is run; a second signal does not cut it short."""
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    sys.exit(128 + number)


def _text(size: int) -> bytes:
    line = b"All work and no play makes a web server a dull server.\n"
    return (line * (size // len(line) + 1))[:size]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ---- servers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where one start of a server finds its files and leaves its own."""

    work: pathlib.Path
    root: pathlib.Path
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def access_log(self) -> pathlib.Path:
        """Not among the server's own files, so that its lines can be counted after the end."""
        return self.root.parent / "access.log"


@dataclass(frozen=True)
class Server:
    name: str
    command: Callable[[Place], list[str]]
    workers: int = 1


def taipan(program: str, workers: int = 1, access_log: bool = False) -> Server:
    def command(place: Place) -> list[str]:
        config = place.work / "taipan.toml"
        access = json.dumps(str(place.access_log)) if access_log else "false"
        config.write_text(
            f'listen = ["{place.address}"]\n'
            f"root = {json.dumps(str(place.root))}\n"
            f"workers = {workers}\n"
            f"[log]\n"
            f"access = {access}\n"
        )
        return [program, "-c", str(config)]

    name = "taipan" + ("+log" if access_log else "") + (f" x{workers}" if workers > 1 else "")
    return Server(name, command, workers)


def limit(program: str, size: int) -> Server:
    return Server("limit", lambda place: [program, place.address, str(size)])


def nginx(program: str, workers: int = 1) -> Server:
    def command(place: Place) -> list[str]:
        config = _fill("nginx.conf", place, workers)
        return [program, "-e", "stderr", "-p", str(place.work), "-c", str(config)]

    return Server("nginx", command, workers)


def lighttpd(program: str, workers: int = 1) -> Server:
    def command(place: Place) -> list[str]:
        config = _fill("lighttpd.conf", place, workers if workers > 1 else 0)
        return [program, "-D", "-f", str(config)]

    return Server("lighttpd", command, workers)


def _fill(template: str, place: Place, workers: int) -> pathlib.Path:
    text = (HERE / "peers" / template).read_text()
    values = {
        "WORK": place.work,
        "ROOT": place.root,
        "PORT": place.port,
        "WORKERS": workers,
        "FILES": min(FILES_WANTED, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    config = place.work / template
    config.write_text(text)
    return config


class Running:
    """A server that answers, and the processes it consists of."""

    def __init__(self, server: Server, place: Place, process: subprocess.Popen, messages: pathlib.Path):
        self.server, self.place = server, place
        self._process, self._messages = process, messages

    def family(self) -> list[int]:
        """Its process and all their children, found by their parents."""
        children: dict[int, list[int]] = {}
        for stat in glob.glob("/proc/[0-9]*/stat"):
            with contextlib.suppress(OSError):
                after_name = pathlib.Path(stat).read_text().rpartition(")")[2].split()
                children.setdefault(int(after_name[1]), []).append(int(stat.split("/")[2]))
        found = [self._process.pid]
        for pid in found:  # grows as it goes
            found.extend(children.get(pid, []))
        return found

    def cpu_seconds(self) -> float:
        """What the scheduler has given to all threads of all its processes."""
        total = 0
        for pid in self.family():
            for path in glob.glob(f"/proc/{pid}/task/[0-9]*/schedstat"):
                with contextlib.suppress(OSError):
                    total += int(pathlib.Path(path).read_text().split()[0])
        return total / 1e9

    def bytes_of(self, file: str, field: str) -> int:
        """The sum of a field in KiB of /proc/PID/FILE (smaps_rollup: Pss, status: RssAnon)."""
        total = 0
        for pid in self.family():
            for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
                name, _, value = line.partition(":")
                if name == field:
                    total += int(value.split()[0]) * 1024
        return total

    def wait_until_ready(self) -> None:
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            if self._process.poll() is not None:
                raise Trouble(f"{self.server.name} ended at once: {self.messages() or 'without a word'}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.place.port), 1):
                return
            time.sleep(0.01)
        raise Trouble(f"{self.server.name} does not listen after {START_SECONDS} s: {self.messages()}")

    def messages(self) -> str:
        return self._messages.read_text(errors="replace").strip()[-2000:]

    def check_file(self, path: str) -> None:
        """A fast wrong answer is worth nothing."""
        expected = (self.place.root / path.lstrip("/")).read_bytes()
        connection = http.client.HTTPConnection("127.0.0.1", self.place.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            if answer.status != 200 or answer.read() != expected:
                raise Trouble(f"{self.server.name} answers {path} with {answer.status} or other bytes")
        finally:
            connection.close()


@contextlib.contextmanager
def running(
    server: Server, work: pathlib.Path, processors: frozenset[int], before: list[str] | None = None
) -> Iterator[Running]:
    """Starts it on a free port in a folder of its own, and ends it whatever happens. `before` are
    words before its command, such as valgrind's."""
    with tempfile.TemporaryDirectory(prefix="start-", dir=work) as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        place = Place(folder, work / "www", free_port())
        messages = folder / "messages"
        with messages.open("wb") as sink:
            process = subprocess.Popen(
                [*(before or []), *server.command(place)],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=folder,
                start_new_session=True,
                preexec_fn=lambda: _settle(processors, signal.SIGTERM),
            )
        try:
            started = Running(server, place, process, messages)
            started.wait_until_ready()
            yield started
        finally:
            _end(process)


def _settle(processors: frozenset[int], on_orphaned: int) -> None:
    """In the child: its processors, and a signal when this script is no more."""
    os.sched_setaffinity(0, processors)
    _prctl(_PR_SET_PDEATHSIG, on_orphaned)


def _end(process: subprocess.Popen) -> None:
    """Asks first; whatever is left of its own process group is killed."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# ---- clients -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tools:
    """Paths of the programs in bench/src/bin."""

    folder: pathlib.Path

    def path(self, name: str) -> str:
        program = self.folder / name
        if not program.exists():
            raise Trouble(f"{program} is missing; cargo build --release -p taipan-bench-tools")
        return str(program)


def blast(
    tools: Tools,
    to: Running,
    processors: Processors,
    paths: str,
    connections: int,
    seconds: float,
    count: int | None = None,
) -> dict:
    """One bounded load; returns what blast prints."""
    command = [tools.path("blast"), "--path", paths, "--connections", str(connections)]
    command += ["--seconds", str(seconds)] + (["--count", str(count)] if count else []) + [to.place.address]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        preexec_fn=lambda: _settle(frozenset({processors.client}), signal.SIGKILL),
    )
    if done.returncode != 0:
        raise Trouble(f"blast against {to.server.name}: {done.stderr.strip()}")
    return json.loads(done.stdout)


@contextlib.contextmanager
def idle_connections(
    tools: Tools, to: Running, processors: Processors, path: str, count: int
) -> Iterator[None]:
    """Holds `count` connections that have asked once; fails if the server has closed any by the end."""
    holder = subprocess.Popen(
        [tools.path("idle"), to.place.address, path, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: _settle(frozenset({processors.client}), signal.SIGKILL),
    )
    try:
        if holder.stdout.readline() != f"ready {count}\n":
            raise Trouble(f"idle against {to.server.name}: {holder.stderr.read().strip()}")
        yield
        last, errors = holder.communicate(timeout=30)  # ends its standard input
        if last != f"open {count}\n":
            raise Trouble(f"{to.server.name} closed idle connections: {last.strip()} of {count} {errors}")
    finally:
        holder.kill()
        holder.wait()


def installed(name: str) -> str | None:
    """A program by name; servers often live where only root's PATH looks."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/sbin")


def cargo_target() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")).absolute()
