"""Makes the files that are served, with the sizes, numbers and weights of the tests. The bytes are the same in every
run, so that figures can be compared over years."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterable

from .machine import MIB

SMALL, MEDIUM, LARGE, KIBI = 2448, 105165, 10 * MIB, 1024
PAGE, WASD, WASD_LARGE = 4096, 65536, 3_900_000
MANY = 1000
USERS = 100
MIXED = 150
# "A few bytes to 0.25 MB", as the post says.
MIXED_LEAST, MIXED_MOST = 20, 256 * 1024
MIXED_ENDINGS = ("html", "css", "js", "png", "jpg")

# A page of 64 KiB that compresses as text does.
HTML = "page.html"
HTML_SIZE = 65536

# Its path, its text, and its response.
CGI = "cgi-bin/hello.sh"
CGI_TEXT = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nHello!\\n'\n"
CGI_BODY = b"Hello!\n"


def make(www: pathlib.Path, sets: Iterable[str]) -> None:
    """Makes the given sets of files: `sizes`, `large`, `many`, `users`, `mixed`, `cgi`, `html`."""
    makers = {
        "sizes": _sizes,
        "large": lambda folder: _write(folder / f"{LARGE}.html", LARGE),
        "many": lambda folder: _numbered(folder / "many", MANY, KIBI),
        "users": lambda folder: _numbered(folder / "users", USERS, MIB),
        "mixed": _mixed,
        "cgi": _cgi,
        "html": lambda folder: (folder / HTML).write_bytes(html(HTML_SIZE)),
    }
    www.mkdir(exist_ok=True)
    for name in sets:
        makers[name](www)


def mixed_urls(www: pathlib.Path, base: str) -> str:
    """The weighted URLs, one to a line, as taipan-bench reads them."""
    files = sorted((www / "mixed").iterdir())
    return "".join(
        f"{weight} {base}/mixed/{file.name}\n" for file, weight in zip(files, _weights(len(files)))
    )


def _sizes(www: pathlib.Path) -> None:
    for size in (0, KIBI, SMALL, PAGE, WASD, MEDIUM, WASD_LARGE):
        _write(www / f"{size}.html", size)


def _numbered(folder: pathlib.Path, count: int, size: int) -> None:
    """Every file contains its number, so that a wrong file is detected."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        mark = f"{number:04}\n".encode()
        (folder / f"{number}.html").write_bytes(mark + text(size - len(mark)))


def _mixed(www: pathlib.Path) -> None:
    (www / "mixed").mkdir(exist_ok=True)
    chance = random.Random(1)
    for number in range(MIXED):
        # As many files between 1 and 2 KiB as between 100 and 200 KiB.
        size = int(MIXED_LEAST * (MIXED_MOST / MIXED_LEAST) ** chance.random())
        ending = MIXED_ENDINGS[number % len(MIXED_ENDINGS)]
        _write(www / "mixed" / f"{number:03}.{ending}", size)


def _weights(count: int) -> list[int]:
    """Weights by Zipf's law: the n-th file is requested 1/n as often as the first."""
    weights = [max(1, round(100 / rank)) for rank in range(1, count + 1)]
    random.Random(2).shuffle(weights)
    return weights


def _cgi(www: pathlib.Path) -> None:
    script = www / CGI
    script.parent.mkdir(exist_ok=True)
    script.write_text(CGI_TEXT)
    script.chmod(0o755)


def _write(file: pathlib.Path, size: int) -> None:
    file.write_bytes(text(size))


def html(size: int) -> bytes:
    """A page of paragraphs, whose words are as often as those of a language. gzip makes a quarter of it."""
    chance = random.Random(3)
    words = ["".join(chance.choices("etaoinshrdlcumwfgypbvk", k=chance.randint(2, 11))) for _ in range(2000)]
    often = [1 / rank for rank in range(1, len(words) + 1)]
    out = "<!DOCTYPE html>\n<title>A page</title>\n"
    while len(out) < size:
        link = f'<a href="/{chance.choice(words)}/{chance.randint(1, 9999)}">{chance.choice(words)}</a>'
        text_of = " ".join(chance.choices(words, often, k=chance.randint(30, 120)))
        out += f'<p class="{chance.choice(words)}">{text_of} {link}.</p>\n'
    return out[:size].encode()


def text(size: int) -> bytes:
    line = b"All work and no play makes a web server a dull server.\n"
    return (line * (size // len(line) + 1))[:size]
