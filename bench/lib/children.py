"""Processes that never outlive the command that started them, and what a tree of them costs.

A tree is a process and all that came of it. Where the kernel lets us have a control group, the tree
is what is in it: then nobody gets lost, and the processor time of those that have ended is known.
Elsewhere it is found by parents, and a peer that forks for every connection hides its cost."""

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
# How soon a signal is heeded.
SIGNAL_CHECK_SECONDS = 0.2
# Looks at what is left of a tree after it was killed.
ATTEMPTS = 100
PAUSE_SECONDS = 0.02
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Guard:
    """Tells bench/lib/guard.py what there is to be ended, should this process not come to it."""

    def __init__(self) -> None:
        program = pathlib.Path(__file__).with_name("guard.py")
        read_end, self._write_end = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(program)], stdin=read_end, start_new_session=True
        )
        os.close(read_end)

    def send(self, kind: str, name: object) -> None:
        # A guard that is gone cannot help; what it guards is ended without it.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write_end, f"{kind} {name}\n".encode())

    def close(self) -> None:
        os.close(self._write_end)
        self._process.wait()


@contextlib.contextmanager
def workplace() -> Iterator[tuple[pathlib.Path, Guard]]:
    """A folder to work in, removed at the end, whatever that is. From here on signals are heeded where
    something is waited for."""
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


# Signals that have come and have not been heeded yet.
_received_signals: list[int] = []


def _on_signal(number: int, _: object) -> None:
    # No exception here: it could come between the taking of a lock and its release, within subprocess, too.
    _received_signals.append(number)


def exit_if_signalled() -> None:
    """An exception, so that every `finally` on the way out is run; a second signal does not cut it short."""
    if _received_signals:
        number = _received_signals[0]
        for ending in _ENDINGS:
            signal.signal(ending, signal.SIG_IGN)
        _received_signals.clear()
        sys.exit(128 + number)


def _wait_for(descriptor: int, seconds: float) -> bool:
    """Whether there was something to read in time. Heeds signals."""
    give_up = time.monotonic() + seconds
    while True:
        exit_if_signalled()
        left = give_up - time.monotonic()
        if select.select([descriptor], [], [], max(0.0, min(left, SIGNAL_CHECK_SECONDS)))[0]:
            return True
        if left <= 0:
            return False


class ProcessTree:
    """A process that was started here, and all that came of it."""

    def __init__(self, process: subprocess.Popen[str], group: ControlGroup | None) -> None:
        self._process, self._group = process, group

    def line(self, seconds: float) -> str:
        """What it says next on its standard output; empty at the end, or when nothing came in time."""
        output = self._process.stdout
        return output.readline() if output and _wait_for(output.fileno(), seconds) else ""

    def ended(self) -> int | None:
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """How it ended; None if it has not."""
        if self._process.poll() is None:
            # Readable at its end.
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
        """What the scheduler has given to all threads of all of them. Without a control group those
        that have ended count only if somebody of the tree has waited for them."""
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
        """Bytes of the proportional set size: what is shared with others counts in parts."""
        return self.bytes_of("smaps_rollup", "Pss")

    def own_memory(self) -> int:
        """Of that what is in no file. Who else has the same program running does not change it."""
        return self.bytes_of("smaps_rollup", "Pss_Anon") + self.bytes_of("smaps_rollup", "Pss_Shmem")

    def running(self, program: str) -> list[int]:
        """Those of them that run a program, which is given by its path."""
        found = []
        for pid in self.pids():
            with contextlib.suppress(OSError):  # has ended since
                if os.path.samefile(f"/proc/{pid}/exe", program):
                    found.append(pid)
        return found

    def bytes_of(self, file: str, field: str, program: str | None = None) -> int:
        """The sum of a field in KiB of /proc/PID/FILE (smaps_rollup: Pss, status: RssAnon), of all of them
        or of those that run one program."""
        total = 0
        for pid in self.running(program) if program else self.pids():
            with contextlib.suppress(OSError):  # has ended since
                for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
                    name, _, value = line.partition(":")
                    if name == field:
                        total += int(value.split()[0]) * 1024
        return total

    def programs(self) -> dict[str, int]:
        """The programs and libraries that they have mapped, with their sizes."""
        found: dict[str, int] = {}
        for pid in self.pids():
            with contextlib.suppress(OSError):
                for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
                    words = line.split(maxsplit=5)
                    if len(words) == 6 and "x" in words[1] and words[5].startswith("/"):
                        found[words[5]] = os.path.getsize(words[5])
        return found

    def end(self) -> None:
        """Asks first; whatever is left of it is killed, by its ids."""
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
    """Starts a program on its processors, in a session of its own, and ends its tree whatever happens.
    What it says goes to `sink`."""
    group = ControlGroup.make()

    def settle() -> None:
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
            preexec_fn=settle,
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
