"""Starts an application and a server in front of it, for servers that do not start applications, and ends both.
Both are in one process tree, so that the CPU time of both is counted.

Runs as a program of its own:

    starter.py SOCKET PROCESSES PROGRAM [ARGUMENT]... -- SERVER [ARGUMENT]...

The starter makes the Unix socket and starts PROCESSES processes of PROGRAM with it as descriptor 0. With 0 processes
it starts PROGRAM once, and PROGRAM makes the socket itself. Then it starts SERVER, and waits. When it receives a
signal, or one child has ended, it ends them all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO

BACKLOG = 4096
# Seconds until a program has made its socket, and until a process has ended after SIGTERM.
SOCKET_SECONDS = 10.0
STOP_SECONDS = 3.0
PAUSE_SECONDS = 0.01
_ENDINGS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_SIGNALS = {*_ENDINGS, signal.SIGCHLD}


def main() -> int:
    path, processes = sys.argv[1], int(sys.argv[2])
    program, server = split(sys.argv[3:])
    # Blocked until sigwait, so that no signal comes between the start of a child and its place in the list.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    children: list[subprocess.Popen[bytes]] = []
    try:
        if processes:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                os.chmod(path, 0o666)  # a server's worker may be another user
                listener.listen(BACKLOG)
                children += [start(program, listener) for _ in range(processes)]
        else:
            children.append(start(program))
            wait_for(path)
        children.append(start(server))
        return 0 if signal.sigwait(_SIGNALS) in _ENDINGS else 1
    finally:
        end(children)


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the `--`, and those after it."""
    at = words.index("--")
    return [*words[:at]], [*words[at + 1 :]]


def start(words: list[str], stdin: socket.socket | IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL if stdin is None else stdin.fileno(),
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS),
    )


def wait_for(path: str) -> None:
    give_up = time.monotonic() + SOCKET_SECONDS
    while not os.path.exists(path):
        if signal.sigpending() & _SIGNALS or time.monotonic() > give_up:
            sys.exit(f"starter: {path} was not made in time")
        time.sleep(PAUSE_SECONDS)


def end(children: list[subprocess.Popen[bytes]]) -> None:
    """Ends the server first. A process that ignores SIGTERM is killed."""
    for child in reversed(children):
        child.terminate()
    for child in children:
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()


if __name__ == "__main__":
    sys.exit(main())
