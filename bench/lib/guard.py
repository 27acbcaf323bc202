"""Ends what a command of bench/ has started when that command has ended, even by SIGKILL.

Runs as a separate program in a session of its own. Lines on its standard input name what exists (`+group PATH`,
`+session PID`, `+folder PATH`) and what has ended (`-` in place of `+`). When its input ends, it kills by id what is
left, removes the folders, and ends."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import sys
import time
from collections.abc import Callable

# A process that forks while it is killed needs another attempt.
ATTEMPTS = 100
PAUSE_SECONDS = 0.02


def main() -> None:
    # Only the end of its input ends the guard: Ctrl-C and a closed terminal are for the command.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    there: dict[tuple[str, str], None] = {}
    for line in sys.stdin:
        kind, _, name = line.rstrip("\n").partition(" ")
        if kind[:1] == "+":
            there[kind[1:], name] = None
        else:
            there.pop((kind[1:], name), None)
    for kind, end in (("group", end_group), ("session", end_session), ("folder", end_folder)):
        for found, name in there:
            if found == kind:
                end(name)


def end_group(path: str) -> None:
    """Kills the processes of a control group and removes it."""
    group = pathlib.Path(path)
    for _ in range(ATTEMPTS):
        try:
            pids = [int(word) for word in (group / "cgroup.procs").read_text().split()]
        except OSError:
            return
        for pid in pids:
            kill(os.kill, pid)
        # Busy as long as its zombies were not reaped.
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(PAUSE_SECONDS)
    print(f"guard: cannot remove {path}", file=sys.stderr)


def end_session(pid: str) -> None:
    kill(os.killpg, int(pid))


def kill(how: Callable[[int, int], None], pid: int) -> None:
    try:
        how(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_folder(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
