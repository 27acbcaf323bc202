"""An HTTP/1.1 application with a thread for each connection, on an inherited socket or on a path from its
arguments."""

import http.server
import json
import os
import socket
import socketserver
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        return body

    def sized(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def chunked(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Trailer", "X-Sum")
        self.end_headers()

    def answer(self):
        # Unread bytes would be parsed as the next request.
        body = self.body()
        path, _, query = self.path.partition("?")
        if path.endswith("/asked"):
            asked = {"line": self.requestline, "body": body.decode(), "pid": os.getpid()}
            asked["fields"] = [list(pair) for pair in self.headers.items()]
            self.sized(json.dumps(asked).encode())
        elif path.endswith("/echo"):
            self.sized(body)
        elif path.endswith("/chunked"):
            self.chunked()
            for piece in (b"one ", b"two ", b"three"):
                self.chunk(piece)
            self.wfile.write(b"0\r\nX-Sum: 3\r\n\r\n")
        elif path.endswith("/pieces"):
            self.chunked()
            self.chunk(b"first")
            while not os.path.exists("go"):
                time.sleep(0.01)
            self.chunk(b"second")
            self.wfile.write(b"0\r\n\r\n")
        elif path.endswith("/until-close"):
            self.close_connection = True
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"until the end")
        elif path.endswith("/hints"):
            self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
            self.sized(b"after the hints")
        elif path.endswith("/big"):
            self.chunked()
            for at in range(int(query)):
                self.chunk(bytes([65 + at % 26]) * (1 << 20))
            self.wfile.write(b"0\r\n\r\n")
        elif path.endswith("/wait"):
            with open("began-" + query, "w") as file:
                file.write(str(os.getpid()))
            while not os.path.exists("go"):
                time.sleep(0.01)
            self.sized(str(os.getpid()).encode())
        elif path.endswith("/nothing"):
            self.send_response(204)
            self.end_headers()
        elif path.endswith("/environment"):
            with open("/proc/self/environ", "rb") as file:
                self.sized("\n".join(sorted(file.read().decode().rstrip("\0").split("\0"))).encode())
        else:
            self.sized(b"no such page", 404)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    server_name, server_port = "app", 80


def listener():
    if "LISTEN_FDS" in os.environ:
        assert (os.environ["LISTEN_FDS"], os.environ["LISTEN_PID"]) == ("1", str(os.getpid())), os.environ
        return socket.socket(fileno=3)
    if len(sys.argv) > 1:
        made = socket.socket(socket.AF_UNIX)
        made.bind(sys.argv[1])
        made.listen(128)
        return made
    return socket.socket(fileno=0)


server = Server(("", 0), Handler, bind_and_activate=False)
server.socket.close()
server.socket = listener()
server.serve_forever()
