"""An SCGI application with a thread for each connection: on a path from its arguments, on a port of its own,
or on an inherited socket."""

import os
import socket
import socketserver
import sys
import time


class Handler(socketserver.StreamRequestHandler):
    def asked(self):
        length = b""
        while (byte := self.rfile.read(1)) != b":":
            assert byte.isdigit(), byte
            length += byte
        words = self.rfile.read(int(length)).split(b"\0")
        assert self.rfile.read(1) == b"," and words.pop() == b"" and len(words) % 2 == 0
        pairs = list(zip(words[::2], words[1::2]))
        assert pairs[0][0] == b"CONTENT_LENGTH" and (b"SCGI", b"1") in pairs, pairs
        assert len(dict(pairs)) == len(pairs), pairs
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}

    def say(self, text):
        self.wfile.write(text.encode("latin-1") if isinstance(text, str) else text)

    def handle(self):
        asked = self.asked()
        name = asked["PATH_INFO"]
        if name == "/early":
            return self.say("Content-Length: 5\r\n\r\nearly")
        if name == "/none":
            return
        body = self.rfile.read(int(asked["CONTENT_LENGTH"]))
        if name == "/variables":
            lines = "".join("%s=%s\n" % pair for pair in sorted(asked.items()))
            self.say("Content-Type: text/plain\r\n\r\n" + lines)
        elif name == "/echo":
            self.say("Content-Length: %d\r\nX-Told: %s\r\n\r\n" % (len(body), asked["CONTENT_LENGTH"]))
            self.say(body)
        elif name == "/big":
            self.say("Content-Type: text/plain\r\n\r\n")
            for at in range(int(asked["QUERY_STRING"])):
                self.say(bytes([65 + at % 26]) * (1 << 20))
        elif name == "/missing":
            self.say("Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nnot there")
        elif name == "/no-head":
            self.say("no header at all\n\n")
        elif name == "/short":
            self.say("Content-Length: 100\r\n\r\npart")
        elif name == "/wait":
            with open("began-" + asked["QUERY_STRING"], "w"):
                pass
            while not os.path.exists("go"):
                time.sleep(0.01)
            self.say("Content-Type: text/plain\r\n\r\ndone")


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True


def listener():
    place = sys.argv[1] if len(sys.argv) > 1 else None
    if place is None:
        return socket.socket(fileno=0)
    if place == "port":
        made = socket.socket()
        made.bind(("127.0.0.1", 0))
    else:
        made = socket.socket(socket.AF_UNIX)
        made.bind(place)
    made.listen(128)
    print("127.0.0.1:%d" % made.getsockname()[1] if place == "port" else "unix:" + place, flush=True)
    return made


server = Server(("", 0), Handler, bind_and_activate=False)
server.socket.close()
server.socket = listener()
server.serve_forever()
