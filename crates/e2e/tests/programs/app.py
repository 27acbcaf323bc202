"""An application that the server starts; the path of a request selects what it does."""

import os
import signal
import sys
import time

import taipan

PID = str(os.getpid())
LEAKED = []


def note(name, text):
    """Writes a file for the test, complete as soon as it exists."""
    with open(name + ".new." + PID, "w") as file:
        file.write(text)
    os.rename(name + ".new." + PID, name)


def answer(text, more=""):
    print("Content-Type: text/plain\r\nContent-Length: %d\r\n%s\r\n%s" % (len(text), more, text), end="")


def die():
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def wait(name):
    note("began-" + name, PID)
    while not os.path.exists("go"):
        time.sleep(0.01)
    answer(PID)


def die_once(name):
    try:
        os.close(os.open("died-" + name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return answer(PID)
    die()


def half(_):
    print("Content-Type: text/plain\r\n\r\n" + 50000 * "part", end="")
    die()


def short(_):
    print("Content-Length: 100\r\n\r\npart", end="")
    die()


def leak(megabytes):
    LEAKED.append(b"x" * (int(megabytes) << 20))
    answer(PID)


def endless(_):
    print("Content-Type: text/plain\r\n\r\n", end="")
    while not taipan.aborted():
        print("x" * 1000)
    note("left", PID)


def silent(_):
    note("began-silent", PID)
    while not taipan.aborted():
        time.sleep(0.01)
    note("left", PID)


def hang(_):
    note("began-hang", PID)
    time.sleep(1000)


def own(_):
    files = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    opened = [name for name in files if os.path.exists("/proc/self/fd/%d" % name)]
    with open("/proc/self/environ", "rb") as file:
        environment = sorted(file.read().decode().rstrip("\0").split("\0"))
    with open("/proc/self/status") as file:
        privileges = [line.split()[1] for line in file if line.startswith("NoNewPrivs")]
    others = set(os.getgroups()) - {os.getgid()}
    found = [os.getcwd(), os.getuid(), os.getgid(), len(others), len(opened), *privileges, *environment]
    answer("\n".join(map(str, found)))


def echo(_):
    body = sys.stdin.buffer.read()
    told = os.environ.get("CONTENT_LENGTH", "nothing")
    print("Content-Length: %d\r\nX-Told: %s\r\n\r\n" % (len(body), told), end="", flush=True)
    sys.stdout.buffer.write(body)


def error(text):
    print(text, file=sys.stderr)
    answer(PID)


ANSWERS = {
    "/pid": lambda _: answer(PID),
    "/same": lambda _: answer("the same for all"),
    "/variables": lambda _: answer("".join("%s=%s\n" % pair for pair in sorted(os.environ.items()))),
    "/missing": lambda _: print("Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nnot there", end=""),
    "/away": lambda _: print("Location: https://example.org/\r\n\r\n", end=""),
    "/within": lambda _: print("Location: /static\r\n\r\n", end=""),
    "/sent": lambda path: print("Content-Type: text/x\r\nX-Sendfile: %s\r\n\r\n" % path, end=""),
    "/nothing": lambda _: None,
    "/no-head": lambda _: print("no header at all\n\n", end=""),
    "/wait": wait,
    "/die": lambda _: die(),
    "/die-once": die_once,
    "/half": half,
    "/short": short,
    "/leak": leak,
    "/endless": endless,
    "/silent": silent,
    "/hang": hang,
    "/own": own,
    "/echo": echo,
    "/error": error,
}

# The number of this process, and the time of its start.
with open("starts", "a") as starts:
    starts.write("%s %f\n" % (PID, time.monotonic()))
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "child" in sys.argv:
    if os.fork() == 0:
        time.sleep(1000)
if "says" in sys.argv:
    print("written before any request", file=sys.stderr, flush=True)
# Fails until the test lets it work.
if "fails" in sys.argv and not os.path.exists("works"):
    sys.exit(3)
while "hangs" in sys.argv and not os.path.exists("works"):
    time.sleep(0.01)

while taipan.accept():
    ANSWERS[os.environ["PATH_INFO"]](os.environ["QUERY_STRING"])
