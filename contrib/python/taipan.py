"""A CGI program, made persistent by one line.

    import os, taipan

    while taipan.accept():
        print("Content-Type: text/plain\\r\\n\\r\\nHello, %s!" % os.environ["REMOTE_ADDR"])

Started by a web server with a listening socket as descriptor 0, the program answers one request after
the other by FastCGI. Started in any other way it runs its body once, as plain CGI does.

In a request, os.environ has its variables, sys.stdin its body, sys.stdout its answer and sys.stderr the
server's log. Descriptors 0, 1 and 2 are not of the request: programs that are started do not reach the
client, unless they are given pipes. What is printed for a client that has left goes nowhere; whoever
prints much asks taipan.aborted() now and then. An exception that nobody catches ends the program, as it
ends a CGI program; the server starts it again.

Python 3.7 or later, on Linux. One request at a time: for more at a time, let the server start more
processes.
"""

import atexit
import io
import os
import select
import socket
import struct
import sys

__all__ = ["accept", "aborted"]

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = range(1, 8)
GET_VALUES, VALUES, UNKNOWN = 9, 10, 11
RESPONDER, AUTHORIZER = 1, 2
COMPLETE, CANNOT_MULTIPLEX, UNKNOWN_ROLE = 0, 1, 3

HEADER = struct.Struct(">BBHHBx")
KNOWN = {b"FCGI_MAX_CONNS": b"1", b"FCGI_MAX_REQS": b"1", b"FCGI_MPXS_CONNS": b"0"}
MAX_PARAMS = 1 << 20
IDLE_CONNECTIONS = 16

# What comes next of a request.
NONE, NAMES, BODY, ANSWER = range(4)


def accept():
    """Waits for the next request; False when there will be none, and the program should end."""
    global _application
    if _application is None:
        _application = _start()
    return _application.accept()


def aborted():
    """Whether nobody waits for the present answer any more. Does not wait. Output then goes nowhere."""
    return _application is not None and _application.aborted()


class _Closed(Exception):
    """The connection has ended, or what comes from it is not FastCGI."""


class _Once:
    """Plain CGI: one request, and everything is there already."""

    def __init__(self):
        self.left = 1

    def accept(self):
        self.left -= 1
        return self.left == 0

    def aborted(self):
        return False


class _Application:
    def __init__(self, listener):
        self.listener = listener
        self.idle = []  # kept connections without a request
        self.connection = None  # the one that has it
        self.phase = NONE
        self.id = 0
        self.keep = self.was_aborted = self.broken = self.finishing = False
        self.exit = 0
        self.received = b""  # bytes that have come,
        self.at = 0  # and how far they are read
        self.content = self.padding = 0  # still to come of the present record
        self.out = []
        self.params = bytearray()
        self.base_environment = dict(os.environb)
        self.serial = 0  # number of the request
        self.output = None
        self.plain = (sys.stdin, sys.stdout, sys.stderr)
        # The same all the time, as loggers keep it.
        sys.stderr = _text(io.BufferedWriter(_Output(self, STDERR), 4096), sys.stderr, True)

    def accept(self):
        self.finish()
        while True:
            if self.connection is not None and self._is_idle():
                self.idle.append(self.connection)
                self.connection = None
            if self.connection is None:
                self.broken = False
                self._wait()
            try:
                self._next_record()
                if self.phase >= BODY:
                    self._set_environment()
                    break
            except _Closed:
                self._close()
        self.serial += 1
        self.exit = 0
        self.output = io.BufferedWriter(_Output(self, STDOUT), 32768)
        sys.stdin = _text(io.BufferedReader(_Body(self), 32768), self.plain[0], False)
        sys.stdout = _text(self.output, self.plain[1], False)
        return True

    def aborted(self):
        # What stands behind a piece of the body that was not read is not looked for.
        try:
            while self.phase >= BODY and self.content == 0 and not (self.was_aborted or self.broken):
                if self.at == len(self.received) and not _readable(self.connection, 0):
                    break
                self._next_record()
        except _Closed:
            pass
        return self.was_aborted or self.broken

    def finish(self):
        """Ends the present request, if there is one."""
        if self.phase == NONE:
            return
        self.finishing = True
        # The program may have put others of its own over them.
        for stream in (sys.stdout, self.output, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # closed by the program
        self.finishing = False
        self._record(STDOUT, self.id, b"")
        self._end_request(self.id, self.exit, COMPLETE)
        self._flush()
        self.phase = NONE
        if self.broken or not self.keep:
            self._close()

    # Bytes out.

    def write(self, kind, content):
        if self.phase == NONE or self.was_aborted or (not self.finishing and self.aborted()):
            # Nobody is there. An exception would end the program, because one client has left; and what is
            # lost here is not left for the next one.
            if kind == STDERR:
                os.write(2, content)
            return
        for start in range(0, len(content), 65535):
            self._record(kind, self.id, content[start : start + 65535])
        # At its end an answer is sent together with what says so.
        if not self.finishing:
            self._flush()

    def _record(self, kind, id, content):
        self.out.append(HEADER.pack(1, kind, id, len(content), 0))
        self.out.append(content)

    def _end_request(self, id, status, ending):
        self._record(END, id, struct.pack(">IB3x", status & 0xFFFFFFFF, ending))

    def _flush(self):
        try:
            self.connection.sendall(b"".join(self.out))
        except OSError:
            self.broken = True
        self.out.clear()

    # Bytes in.

    def _fill(self):
        if self.at == len(self.received):
            try:
                self.received, self.at = self.connection.recv(65536), 0
            except OSError:
                self.received, self.at = b"", 0
            if not self.received:
                self.broken = True
                raise _Closed

    def _take(self, size):
        """At least one and at most so many bytes, unless that is none."""
        if size == 0:
            return b""
        self._fill()
        taken = self.received[self.at : self.at + size]
        self.at += len(taken)
        return taken

    def _take_all(self, size):
        pieces = []
        while size > 0:
            pieces.append(self._take(size))
            size -= len(pieces[-1])
        return b"".join(pieces)

    def _take_content(self):
        size, self.content = self.content, 0
        return self._take_all(size)

    def take_body(self, size):
        """A piece of the body; nothing at its end."""
        try:
            while self.phase == BODY and self.content == 0:
                self._next_record()
            if self.phase != BODY:
                return b""
            taken = self._take(min(size, self.content))
            self.content -= len(taken)
            return taken
        except _Closed:
            return b""

    def _next_record(self):
        """Reads the next record. The content of a piece of the body is left to be taken."""
        rest, self.content, self.padding = self.content + self.padding, 0, 0
        while rest > 0:
            rest -= len(self._take(rest))
        version, kind, id, self.content, self.padding = HEADER.unpack(self._take_all(HEADER.size))
        ours = self.phase != NONE and id == self.id
        if version != 1:
            self._break()
        elif id == 0 and kind == GET_VALUES:
            try:
                asked = dict(_pairs(self._take_content()))
            except ValueError:
                self._break()
            answer = [(name, value) for name, value in KNOWN.items() if name in asked]
            pair = lambda name, value: bytes([len(name), len(value)]) + name + value
            self._record(VALUES, 0, b"".join(pair(*each) for each in answer))
            self._flush()
        elif id == 0:
            self._take_content()
            self._record(UNKNOWN, 0, bytes([kind, 0, 0, 0, 0, 0, 0, 0]))
            self._flush()
        elif kind == BEGIN:
            self._begin(id, ours)
        elif ours and kind == ABORT and self.phase == NAMES:
            self._refuse(id, COMPLETE)
        elif ours and kind == ABORT:
            self.was_aborted, self.phase = True, ANSWER
        elif ours and kind == PARAMS and self.phase == NAMES:
            if self.content == 0:
                # An authorizer has no body, and nothing that says so.
                self.phase = BODY if self.role == RESPONDER else ANSWER
            self.params += self._take_content()
            if len(self.params) > MAX_PARAMS:
                self._break()
        elif ours and kind == STDIN and self.phase == BODY and self.content == 0:
            self.phase = ANSWER
        elif not (ours and kind == STDIN and self.phase == BODY):
            # Of a request that has ended: passed over, so that nobody takes it for a body.
            self._take_content()

    def _begin(self, id, ours):
        if self.content != 8 or ours:
            self._break()
        role, flags = struct.unpack(">HB5x", self._take_content())
        if self.phase != NONE:
            self._end_request(id, 0, CANNOT_MULTIPLEX)
            self._flush()
            return
        self.keep = bool(flags & 1)
        if role not in (RESPONDER, AUTHORIZER):
            self._refuse(id, UNKNOWN_ROLE)
            return
        self.id, self.role, self.phase, self.was_aborted = id, role, NAMES, False
        self.params.clear()

    def _refuse(self, id, ending):
        """Ends a request that the program never hears of."""
        self._end_request(id, 0, ending)
        self._flush()
        self.phase = NONE
        if not self.keep:
            raise _Closed

    def _break(self):
        self.broken = True
        raise _Closed

    # Requests.

    def _set_environment(self):
        wanted = dict(self.base_environment)
        try:
            wanted.update(_pairs(bytes(self.params)))
            wanted.pop(b"HTTP_PROXY", None)  # a client's field Proxy is nobody's proxy
            for name in [name for name in os.environb if name not in wanted]:
                del os.environb[name]
            for name, value in wanted.items():
                if os.environb.get(name) != value:
                    os.environb[name] = value
        except (OSError, ValueError):  # pairs that are cut, a NUL, a name that is none
            self._break()

    def _is_idle(self):
        between = self.at == len(self.received) and self.content + self.padding == 0
        return self.phase == NONE and between

    def _wait(self):
        """Waits until a connection has something to say."""
        while True:
            room = [self.listener] if len(self.idle) < IDLE_CONNECTIONS else []
            ready = _readable_of(self.idle + room)
            if ready is not self.listener:
                # In the order in which they came, so that none waits for ever.
                self.idle.remove(ready)
                self.connection = ready
                return
            try:
                connection, _ = self.listener.accept()
                connection.setblocking(True)
                # A new one waits as the others do, for it may be long before it says something.
                self.idle.append(connection)
            except (BlockingIOError, ConnectionAbortedError):
                pass  # another process has taken it

    def _close(self):
        connection, self.connection = self.connection, None
        try:
            # Closing with bytes unread would destroy what was sent last (TCP). Not for ever: two seconds.
            if not self.broken:
                connection.shutdown(socket.SHUT_WR)
                for _ in range(256):
                    if not _readable(connection, 2) or not connection.recv(65536):
                        break
        except OSError:
            pass
        connection.close()
        self.phase = NONE
        self.received, self.at, self.content, self.padding = b"", 0, 0, 0
        self.out.clear()


class _Body(io.RawIOBase):
    """The body of the request that was present when this was made."""

    def __init__(self, application):
        self.application = application
        self.serial = application.serial

    def readable(self):
        return True

    def readinto(self, buffer):
        if self.application.serial != self.serial:
            return 0
        piece = self.application.take_body(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


class _Output(io.RawIOBase):
    """What goes to the client, for as long as the request is present, or to the log."""

    def __init__(self, application, kind):
        self.application = application
        self.kind = kind
        self.serial = application.serial

    def writable(self):
        return True

    def write(self, content):
        content = bytes(content)
        # An old one may be flushed when it is thrown away.
        if self.kind == STDERR or self.application.serial == self.serial:
            self.application.write(self.kind, content)
        return len(content)


def _text(binary, like, line_buffering):
    """As Python itself has made the stream that is replaced."""
    encoding = getattr(like, "encoding", None) or "utf-8"
    errors = getattr(like, "errors", None) or "strict"
    return io.TextIOWrapper(binary, encoding, errors, line_buffering=line_buffering)


def _pairs(content):
    at = 0
    while at < len(content):
        lengths = []
        for _ in range(2):
            long = at < len(content) and content[at] > 127
            size = 4 if long else 1
            lengths.append(int.from_bytes(content[at : at + size], "big") & (0x7FFFFFFF if long else 0x7F))
            at += size
        name, value = content[at : at + lengths[0]], content[at + lengths[0] : at + sum(lengths)]
        at += sum(lengths)
        if at > len(content):
            raise ValueError("the names and values end within one of them")
        yield name, value


def _readable(connection, seconds):
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _readable_of(sockets):
    poll = select.poll()
    for each in sockets:
        poll.register(each, select.POLLIN)
    ready = {number for number, _ in poll.poll()}
    return next(each for each in sockets if each.fileno() in ready)


def _start():
    try:
        # Out of the way, so that nothing the program starts has the socket.
        listener = socket.socket(fileno=os.dup(0))
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise OSError("a socket, and no listening one")
    except OSError:
        return _Once()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # Another process may have taken the connection that woke this one.
    listener.setblocking(False)
    application = _Application(listener)
    pid = os.getpid()
    tell = sys.excepthook

    def excepthook(*exception):
        application.exit = 1
        tell(*exception)

    def finish():
        # A child of the program that exits is none of the server's business.
        if os.getpid() == pid:
            application.keep = False
            application.finish()

    sys.excepthook = excepthook
    atexit.register(finish)
    return application


_application = None
