"""The program under test; it does the same as echo.c and echo.pl."""

import os
import sys

import taipan

BIG = 8 << 20


def copy():
    while True:
        piece = sys.stdin.buffer.read(100000)
        if not piece:
            break
        sys.stdout.buffer.write(piece)


def lines():
    count, last = 0, ""
    for line in sys.stdin:
        count, last = count + 1, line
    print(count, last, end="")


while taipan.accept():
    query = os.environ.get("QUERY_STRING")
    print("Content-Type: text/plain", end="\r\n\r\n", flush=query in ("echo", "big"))
    if query == "echo":
        copy()
    elif query == "lines":
        lines()
    elif query == "big":
        for _ in range(BIG >> 16):
            sys.stdout.write("x" * (1 << 16))
    elif query == "environment":
        variable = lambda name: os.environ.get(name, "none")
        print(variable("BASE"), variable("ONCE"), variable("HTTP_PROXY"), variable("LONG"), end="")
    elif query == "stderr":
        print("oops", file=sys.stderr)
        print("Hello!")
    elif query == "exit":
        print("partial", end="")
        raise RuntimeError("this is the end")
    elif query == "endless":
        while not taipan.aborted():
            print("and so on")
    elif query == "step":
        print("1", end="", flush=True)
        print(sys.stdin.read(1), end="2")
    else:
        print("Hello!")
