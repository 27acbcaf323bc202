"""Control groups (version 2): their processes, and the CPU time of all of them, ended ones included. Knows nothing
of what runs in them."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import time

from .machine import BenchError

# Attempts to remove an emptied group.
ATTEMPTS = 100
PAUSE_SECONDS = 0.02
_numbers = itertools.count(1)


class ControlGroup:
    """A control group of this command. It uses only the accounting of every group, so it needs no controller."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    @staticmethod
    def make() -> ControlGroup | None:
        """None without such a file system, or without permission to write to it."""
        for parent in _group_parents():
            path = parent / f"taipan-bench-{os.getpid()}-{next(_numbers)}"
            with contextlib.suppress(OSError):
                path.mkdir()
                if (path / "cpu.stat").exists() and os.access(path / "cgroup.procs", os.W_OK):
                    return ControlGroup(path)
                path.rmdir()
        return None

    def enter(self) -> None:
        """Moves the calling process into the group: the child, before exec."""
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
        # The group is empty by now; a zombie of another parent may keep it busy for a moment.
        for _ in range(ATTEMPTS):
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(PAUSE_SECONDS)


def _group_parents() -> list[pathlib.Path]:
    """The group of this process below each mount point of the file system."""
    ours = next(
        (line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")),
        None,
    )
    if ours is None:
        return []
    mounts = (line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines())
    return [pathlib.Path(words[1]) / ours.lstrip("/") for words in mounts if words[2] == "cgroup2"]
