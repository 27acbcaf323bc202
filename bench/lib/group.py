"""Control groups (version 2): who is in one, what they have cost, those that have ended included. Knows
nothing of what is run in them."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import time

from .machine import BenchError

# Looks at whether an emptied group can be removed.
ATTEMPTS = 100
PAUSE_SECONDS = 0.02
_numbers = itertools.count(1)


class ControlGroup:
    """One of our own. Only the accounting that every group has is used, so no controller is needed."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    @staticmethod
    def make() -> ControlGroup | None:
        """None where there is no such file system, or it is not ours to write."""
        for parent in _group_parents():
            path = parent / f"taipan-bench-{os.getpid()}-{next(_numbers)}"
            with contextlib.suppress(OSError):
                path.mkdir()
                if (path / "cpu.stat").exists() and os.access(path / "cgroup.procs", os.W_OK):
                    return ControlGroup(path)
                path.rmdir()
        return None

    def enter(self) -> None:
        """In the child, before it becomes the program."""
        (self.path / "cgroup.procs").write_text("0")

    def pids(self) -> list[int]:
        return [int(word) for word in (self.path / "cgroup.procs").read_text().split()]

    def cpu_seconds(self) -> float:
        for line in (self.path / "cpu.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec":
                return int(value) / 1e6
        raise BenchError(f"{self.path}/cpu.stat lacks usage_usec")

    def remove(self) -> None:
        # Empty by now; a zombie that is not ours may hold it for a moment.
        for _ in range(ATTEMPTS):
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(PAUSE_SECONDS)


def _group_parents() -> list[pathlib.Path]:
    """Our own group beneath each place where the file system is mounted."""
    ours = next(
        (line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")),
        None,
    )
    if ours is None:
        return []
    mounts = (line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines())
    return [pathlib.Path(words[1]) / ours.lstrip("/") for words in mounts if words[2] == "cgroup2"]
