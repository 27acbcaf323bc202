"""Installs the peers and clients that Debian has, if permitted. Prints what it does, and knows why one is missing."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from . import machine
from .debian import Client
from .peers import Server

Program = TypeVar("Program", Server, Client)

APT_SECONDS = 600
# Debian's packages start what they install, unless this script forbids it.
POLICY = pathlib.Path("/usr/sbin/policy-rc.d")


def find(
    wanted: Sequence[Program], may_install: bool, say: Callable[[str], None]
) -> tuple[list[Program], dict[str, str]]:
    """The installed servers or clients, and the reason by name for every missing one."""
    missing = [package for server in wanted for package in _missing(server)]
    refused, known = "", set[str]()
    if missing and not may_install:
        refused = "not installed"
    elif missing and (os.geteuid() != 0 or not machine.installed("apt-get")):
        refused = "not installed"
        say(f"not root on Debian, so nothing is installed; missing: {' '.join(missing)}")
    elif missing:
        known = _install(missing, say)
    found = [server.at(path) for server in wanted if (path := machine.installed(server.program))]
    there = {server.name for server in found}
    absent = {
        server.name: refused or _why(server, known)
        for server in wanted
        if server.name not in there
    }
    return found, absent


def _missing(wanted: Server | Client) -> list[str]:
    """The packages of a program and of its modules that are not installed."""
    program = [wanted.package] if wanted.package and not machine.installed(wanted.program) else []
    modules = wanted.modules if isinstance(wanted, Server) else {}
    return [*program, *(package for file, package in modules.items() if not pathlib.Path(file).exists())]


def _why(server: Server | Client, known: set[str]) -> str:
    if server.package in known:
        return f"apt-get could not install {server.package}"
    return f"this release of the system has no package {server.package}"


def _install(packages: list[str], say: Callable[[str], None]) -> set[str]:
    """Installs packages. Returns those that the release has, installed or not."""
    say("apt-get update")
    _apt(["apt-get", "update", "-qq"], say)
    known = [name for name in packages if _apt(["apt-cache", "show", "--no-all-versions", name], lambda _: None)]
    if not known:
        return set()
    say(f"apt-get install {' '.join(known)} (without starting them)")
    with _nothing_started():
        words = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", *known]
        _apt(words, say)
    return set(known)


def _apt(words: list[str], say: Callable[[str], None]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=APT_SECONDS
        )
    except subprocess.TimeoutExpired:
        say(f"{' '.join(words)}: not finished after {APT_SECONDS} s")
        return False
    if done.returncode != 0:
        say(f"{' '.join(words)}: {done.stderr.strip()[-500:]}")
    return done.returncode == 0


@contextlib.contextmanager
def _nothing_started() -> Iterator[None]:
    """Keeps packages from starting eight web servers on port 80. An existing policy stays."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    try:
        POLICY.chmod(0o755)
        yield
    finally:
        POLICY.unlink()
