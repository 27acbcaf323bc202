"""A CGI program, made persistent by one line.

    import os, taipan

    while taipan.accept():
        print("Content-Type: text/plain\\r\\n\\r\\nHello, %s!" % os.environ["REMOTE_ADDR"])

Started by a web server with a listening socket as descriptor 0, the program serves one request after
the other by FastCGI. Started in any other way it runs its body once, as a CGI program.

In a request, os.environ has its variables, sys.stdin its body, sys.stdout its response and sys.stderr the
server's log. Descriptors 0, 1 and 2 do not belong to the request: the output of child processes does not
reach the client, unless it goes through pipes. Output for a client that has left is discarded; a program
with much output should call taipan.aborted() now and then. An uncaught exception ends the program, as it
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

# The part of a request that is expected next.
NONE, NAMES, BODY, ANSWER = range(4)


def accept():
    """Waits for the next request. False: there are no more, and the program should end."""
    global _application
    if _application is None:
        _application = _start()
    return _application.accept()


def aborted():
    """Whether the client has left the current request, so that output is discarded. Does not wait."""
    return _application is not None and _application.aborted()


class _Closed(Exception):
    """The connection has ended, or its data is not FastCGI."""


class _Once:
    """Plain CGI: one request, with everything in its place already."""

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
        self.idle = []  # idle kept connections
        self.connection = None  # the one with the current request
        self.phase = NONE
        self.id = 0
        self.keep = self.was_aborted = self.broken = self.finishing = False
        self.exit = 0
        self.received = b""  # received bytes,
        self.at = 0  # and the position in them
        self.content = self.padding = 0  # missing bytes of the current record
        self.out = []
        self.params = bytearray()
        self.base_environment = dict(os.environb)
        self.serial = 0  # number of the request
        self.output = None
        self.plain = (sys.stdin, sys.stdout, sys.stderr)
        # One object for all requests, because loggers keep it.
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
        # An abort after an unread body record is not detected.
        try:
            while self.phase >= BODY and self.content == 0 and not (self.was_aborted or self.broken):
                if self.at == len(self.received) and not _readable(self.connection, 0):
                    break
                self._next_record()
        except _Closed:
            pass
        return self.was_aborted or self.broken

    def finish(self):
        """Ends the current request, if there is one."""
        if self.phase == NONE:
            return
        self.finishing = True
        # The program may have replaced them.
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
            # The client has left. An exception would end the program for that, and the rest of the output
            # must not reach the next client.
            if kind == STDERR:
                os.write(2, content)
            return
        for start in range(0, len(content), 65535):
            self._record(kind, self.id, content[start : start + 65535])
        # The last output is sent together with the end of the request.
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
        """At least one and at most this many bytes; none if the limit is 0."""
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
        """The next bytes of the body; empty at its end."""
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
        """Reads the next record. The content of a body record is left in the buffer."""
        rest, self.content, self.padding = self.content + self.padding, 0, 0
        while rest > 0:
            rest -= len(self._take(rest))
        version, kind, id, self.content, self.padding = HEADER.unpack(self._take_all(HEADER.size))
        ours = self.phase != NONE and id == self.id
        if version != 1:
            self._break()
        elif id == 0 and kind == GET_VALUES:
            try:
                requested = dict(_pairs(self._take_content()))
            except ValueError:
                self._break()
            answer = [(name, value) for name, value in KNOWN.items() if name in requested]
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
                # An authorizer has no body, and no record that ends it.
                self.phase = BODY if self.role == RESPONDER else ANSWER
            self.params += self._take_content()
            if len(self.params) > MAX_PARAMS:
                self._break()
        elif ours and kind == STDIN and self.phase == BODY and self.content == 0:
            self.phase = ANSWER
        elif not (ours and kind == STDIN and self.phase == BODY):
            # A record of an ended request: skipped, so that it is not read as a body.
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
        """Ends a request that the program does not see."""
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
            wanted.pop(b"HTTP_PROXY", None)  # the Proxy field of a client must not become HTTP_PROXY (httpoxy)
            for name in [name for name in os.environb if name not in wanted]:
                del os.environb[name]
            for name, value in wanted.items():
                if os.environb.get(name) != value:
                    os.environb[name] = value
        except (OSError, ValueError):  # a cut pair, a NUL, an invalid name
            self._break()

    def _is_idle(self):
        between = self.at == len(self.received) and self.content + self.padding == 0
        return self.phase == NONE and between

    def _wait(self):
        """Waits until a connection is readable."""
        while True:
            listeners = [self.listener] if len(self.idle) < IDLE_CONNECTIONS else []
            ready = _readable_of(self.idle + listeners)
            if ready is not self.listener:
                # In the order of arrival, so that none waits forever.
                self.idle.remove(ready)
                self.connection = ready
                return
            try:
                connection, _ = self.listener.accept()
                connection.setblocking(True)
                # A new connection waits like the others, because its first bytes may come late.
                self.idle.append(connection)
            except (BlockingIOError, ConnectionAbortedError):
                pass  # another process has accepted it

    def _close(self):
        connection, self.connection = self.connection, None
        try:
            # Closing with unread bytes sends RST, which may destroy the last output. At most two seconds.
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
    """The body of the request that was current when this object was made."""

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
    """Output to the client, as long as its request is current, or to the log."""

    def __init__(self, application, kind):
        self.application = application
        self.kind = kind
        self.serial = application.serial

    def writable(self):
        return True

    def write(self, content):
        content = bytes(content)
        # An old one may be flushed when it is destroyed.
        if self.kind == STDERR or self.application.serial == self.serial:
            self.application.write(self.kind, content)
        return len(content)


def _text(binary, like, line_buffering):
    """Makes a stream with the settings of the stream that it replaces."""
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
            raise ValueError("a pair of name and value is cut")
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
        # Moved away, so that child processes do not inherit the socket.
        listener = socket.socket(fileno=os.dup(0))
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise OSError("descriptor 0 is a socket that does not listen")
    except OSError:
        return _Once()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # Another process may have accepted the connection that woke this one.
    listener.setblocking(False)
    application = _Application(listener)
    pid = os.getpid()
    tell = sys.excepthook

    def excepthook(*exception):
        application.exit = 1
        tell(*exception)

    def finish():
        # A child of the program that exits must not end the request.
        if os.getpid() == pid:
            application.keep = False
            application.finish()

    sys.excepthook = excepthook
    atexit.register(finish)
    return application


_application = None
