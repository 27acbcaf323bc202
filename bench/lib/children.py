"""Starts processes that never outlive their command, and measures the cost of a process tree.

A process tree is a process and its descendants. If a control group can be made, the tree is what is in the group:
no process gets lost, and the CPU time of ended processes is known. Otherwise the tree is found by parent process
ids, and a peer that forks for every connection seems cheaper than it is."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from .group import ControlGroup

STOP_SECONDS = 5.0
# How often received signals are checked.
SIGNAL_CHECK_SECONDS = 0.2
# Attempts to kill what is left of a tree.
ATTEMPTS = 100
PAUSE_SECONDS = 0.02
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Guard:
    """Sends bench/lib/guard.py what it must clean up if this process dies."""

    def __init__(self) -> None:
        program = pathlib.Path(__file__).with_name("guard.py")
        read_end, self._write_end = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(program)], stdin=read_end, start_new_session=True
        )
        os.close(read_end)

    def send(self, kind: str, name: object) -> None:
        # Without a guard, this process still cleans up itself.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write_end, f"{kind} {name}\n".encode())

    def close(self) -> None:
        os.close(self._write_end)
        self._process.wait()


@contextlib.contextmanager
def workplace() -> Iterator[tuple[pathlib.Path, Guard]]:
    """A work folder that is always removed at the end. From here on, functions that wait check for signals."""
    for number in _ENDINGS:
        signal.signal(number, _on_signal)
    guard = Guard()
    try:
        work = pathlib.Path(tempfile.mkdtemp(prefix="taipan-bench-"))
        guard.send("+folder", work)
        try:
            work.chmod(0o755)  # a peer's worker may be another user
            yield work, guard
        finally:
            shutil.rmtree(work, ignore_errors=True)
    finally:
        guard.close()


# Signals that were received and not handled yet.
_received_signals: list[int] = []


def _on_signal(number: int, _: object) -> None:
    # No exception here: it could interrupt code that holds a lock, within subprocess, too.
    _received_signals.append(number)


def exit_if_signalled() -> None:
    """Raises SystemExit after a signal, so that every `finally` runs. Further signals are ignored."""
    if _received_signals:
        number = _received_signals[0]
        for ending in _ENDINGS:
            signal.signal(ending, signal.SIG_IGN)
        _received_signals.clear()
        sys.exit(128 + number)


def _wait_for(descriptor: int, seconds: float) -> bool:
    """Whether the descriptor became readable in time. Checks for signals."""
    give_up = time.monotonic() + seconds
    # `select` takes no descriptor above 1023.
    readable = select.poll()
    readable.register(descriptor, select.POLLIN)
    while True:
        exit_if_signalled()
        left = give_up - time.monotonic()
        if readable.poll(1000 * max(0.0, min(left, SIGNAL_CHECK_SECONDS))):
            return True
        if left <= 0:
            return False


class ProcessTree:
    """A process that was started here, and its descendants."""

    def __init__(self, process: subprocess.Popen[str], group: ControlGroup | None) -> None:
        self._process, self._group = process, group

    def line(self, seconds: float) -> str:
        """The next line of its standard output; empty at the end, or if none came in time."""
        output = self._process.stdout
        return output.readline() if output and _wait_for(output.fileno(), seconds) else ""

    def ended(self) -> int | None:
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None if it has not ended in time."""
        if self._process.poll() is None:
            # A pidfd is readable when the process ends.
            descriptor = os.pidfd_open(self._process.pid)
            try:
                _wait_for(descriptor, seconds)
            finally:
                os.close(descriptor)
        return self._process.poll()

    def end_input(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()

    def pids(self) -> list[int]:
        if self._group:
            return self._group.pids()
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
        """The CPU time of all threads of all processes. Without a control group, ended processes count only
        if a process of the tree has waited for them."""
        if self._group:
            return self._group.cpu_seconds()
        nanoseconds, ticks = 0, 0
        for pid in self.pids():
            for path in glob.glob(f"/proc/{pid}/task/[0-9]*/schedstat"):
                with contextlib.suppress(OSError):
                    nanoseconds += int(pathlib.Path(path).read_text().split()[0])
            with contextlib.suppress(OSError):
                after_name = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += int(after_name[13]) + int(after_name[14])
        return nanoseconds / 1e9 + ticks / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Bytes of the proportional set size: shared pages count in proportion."""
        return self.bytes_of("smaps_rollup", "Pss")

    def own_memory(self) -> int:
        """The part of it that no file backs. Other processes of the same program do not change it."""
        return self.bytes_of("smaps_rollup", "Pss_Anon") + self.bytes_of("smaps_rollup", "Pss_Shmem")

    def running(self, program: str) -> list[int]:
        """The processes that run the program with this path."""
        found = []
        for pid in self.pids():
            with contextlib.suppress(OSError):  # has ended since
                if os.path.samefile(f"/proc/{pid}/exe", program):
                    found.append(pid)
        return found

    def bytes_of(self, file: str, field: str, program: str | None = None) -> int:
        """Bytes: the sum of a field of /proc/PID/FILE (smaps_rollup: Pss, status: RssAnon) over all processes, or
        over those that run one program."""
        total = 0
        for pid in self.running(program) if program else self.pids():
            with contextlib.suppress(OSError):  # has ended since
                for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
                    name, _, value = line.partition(":")
                    if name == field:
                        total += int(value.split()[0]) * 1024
        return total

    def programs(self) -> dict[str, int]:
        """The programs and libraries that the processes map, with their sizes."""
        found: dict[str, int] = {}
        for pid in self.pids():
            with contextlib.suppress(OSError):
                for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
                    words = line.split(maxsplit=5)
                    if len(words) == 6 and "x" in words[1] and words[5].startswith("/"):
                        found[words[5]] = os.path.getsize(words[5])
        return found

    def end(self) -> None:
        """Sends SIGTERM first, then kills by process id what is left."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self.wait(STOP_SECONDS)
        finally:
            self._kill()

    def _kill(self) -> None:
        for _ in range(ATTEMPTS):
            left = self._group.pids() if self._group else []
            if not left and self._process.poll() is not None:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._end_session()
            self._process.poll()
            time.sleep(PAUSE_SECONDS)
        self._end_session()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _end_session(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(
    command: Sequence[str],
    guard: Guard,
    processors: frozenset[int],
    folder: pathlib.Path,
    *,
    environment: Mapping[str, str] | None = None,
    sink: int | IO[bytes] = subprocess.DEVNULL,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
) -> Iterator[ProcessTree]:
    """Starts a program on these processors, in a session of its own, and always ends its tree. Its output goes to
    `sink`."""
    group = ControlGroup.make()

    def prepare_child() -> None:
        os.sched_setaffinity(0, processors)
        for number in _ENDINGS:
            signal.signal(number, signal.SIG_DFL)
        if group:
            group.enter()

    try:
        if group:
            guard.send("+group", group.path)
        process = subprocess.Popen(
            list(command),
            stdin=stdin,
            stdout=sink if stdout is None else stdout,
            stderr=sink,
            text=True,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            preexec_fn=prepare_child,
        )
        guard.send("+session", process.pid)
        tree = ProcessTree(process, group)
        try:
            yield tree
        finally:
            tree.end()
            guard.send("-session", process.pid)
    finally:
        if group:
            group.remove()
            guard.send("-group", group.path)
