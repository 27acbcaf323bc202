"""What the commands have in common: how they print, numbers among their arguments, and how they end."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import NoReturn

from .machine import BenchError


def say(line: str) -> None:
    print(line, flush=True)


def count(word: str) -> int:
    """The type of an argument that is a number of rounds, or of others."""
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {word!r}")
    return int(word)


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Exits with the status that `main` returns, or says why the command cannot go on."""
    try:
        sys.exit(main())
    except (BenchError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench/{pathlib.Path(sys.argv[0]).name}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
