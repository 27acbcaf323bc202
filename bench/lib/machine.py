"""The machine: its processors, its limits, its installed programs, and its description for reports. Starts no
process that keeps running."""

from __future__ import annotations

import os
import pathlib
import platform
import resource
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

BENCH = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = BENCH.parent
MIB = 1024 * 1024
# Enough for ten thousand connections that each have a file open.
FILES_WANTED = 65536


class BenchError(Exception):
    """The measurement cannot go on. The text says where, what, and what to do."""


@dataclass(frozen=True)
class Processors:
    """Server and client share no processor if there are two."""

    server: frozenset[int]
    client: frozenset[int]

    @staticmethod
    def shared_out(cores: int) -> Processors:
        """The server gets `cores` processors, the client the others. If none are left, they share one."""
        usable = sorted(os.sched_getaffinity(0))
        server = frozenset(usable[:cores])
        others = frozenset(usable[cores:]) or frozenset(usable[-1:])
        # Two threads of one core slow each other down.
        apart = others - {thread for processor in server for thread in _siblings(processor)}
        return Processors(server, apart or others)


def _siblings(processor: int) -> set[int]:
    file = pathlib.Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
    try:
        spans = [span.split("-") for span in file.read_text().strip().split(",")]
        return {number for span in spans for number in range(int(span[0]), int(span[-1]) + 1)}
    except (OSError, ValueError):
        return {processor}


def raise_file_limit() -> int:
    """Raises the limit of open files; children inherit it. As root, raises the hard limit, too."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(hard, FILES_WANTED)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return files_limit()


def files_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_possible() -> int:
    """Connections that every server can hold: some need two descriptors for each, and others besides."""
    return max(1, (files_limit() - 2000) // 2)


def memory_available() -> int:
    """Bytes that are available without swapping."""
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return 0


def described() -> dict[str, object]:
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor_name(),
        "processors": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
    }


def is_busy() -> bool:
    """Whether other processes are busy, so that figures are noisy."""
    return os.getloadavg()[0] > 0.5


def _processor_name() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.processor() or "unknown"


def installed(name: str) -> str | None:
    """The path of a program, also in the sbin folders, where servers often are. With a trailing star, the last
    program whose name has this prefix: Debian puts the version into some names."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/sbin"
    if name.endswith("*"):
        folders = (pathlib.Path(folder) for folder in path.split(":") if folder)
        found = {file.name: str(file) for folder in folders for file in folder.glob(name) if os.access(file, os.X_OK)}
        return found[max(found)] if found else None
    return shutil.which(name, path=path)


def cargo_target() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")).absolute()


def programs(taipan: str | None, tools: str | None) -> tuple[str, pathlib.Path]:
    """The paths of taipan and of the folder with the tools of bench/src: the given ones, or else built."""
    build([name for name, given in (("taipan", taipan), ("taipan-bench-tools", tools)) if not given])
    built = cargo_target() / "release"
    folder = pathlib.Path(tools or built).absolute()
    program = os.path.abspath(taipan or built / "taipan")
    for path in (program, *(str(folder / name) for name in ("limit", "blast", "idle"))):
        if not os.access(path, os.X_OK):
            raise BenchError(f"{path} is missing")
    return program, folder


def load_generator(given: str | None) -> str:
    """The path of taipan-bench: the given one, or else built."""
    if not given:
        build(["taipan-load"])
    return _executable(given or cargo_target() / "release" / "taipan-bench")


def taipan(given: str | None) -> str:
    """The path of taipan: the given one, or else built."""
    if not given:
        build(["taipan"])
    return _executable(given or cargo_target() / "release" / "taipan")


def taipan_without_tls() -> str:
    """The path of taipan without TLS, for devices with little flash, built in a folder of its own, so that the usual
    build is not replaced."""
    folder = cargo_target() / "without-tls"
    build([], "--target-dir", str(folder), command=("small",))
    return _executable(folder / "small" / "taipan")


def _executable(path: str | pathlib.Path) -> str:
    path = os.path.abspath(path)
    if not os.access(path, os.X_OK):
        raise BenchError(f"{path} is missing")
    return path


def compile_c(source: pathlib.Path, program: pathlib.Path, *flags: str) -> None:
    """Compiles a small C program for a measurement."""
    if not installed("cc"):
        raise BenchError("cc is missing; install gcc")
    words = ["cc", "-O2", *flags, "-o", str(program), str(source)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(words)}: {done.stderr.strip()[-500:]}")


def build(packages: Sequence[str], *flags: str, command: Sequence[str] = ("build", "--release")) -> None:
    """Builds programs of this repository, as far as cargo finds them out of date. `command`: of cargo."""
    if not packages and command[0] == "build":
        return
    print(f"building {', '.join(packages) or 'taipan'}", flush=True)
    if not installed("cargo"):
        raise BenchError("cargo is missing; install Rust (https://rustup.rs), or give built programs by flags")
    words = ["cargo", *command, "--locked", *flags]
    for package in packages:
        words += ["-p", package]
    if subprocess.run(words, cwd=REPOSITORY).returncode != 0:
        raise BenchError(f"{' '.join(words)} failed")
