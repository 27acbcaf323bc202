"""An authorizer that speaks HTTP/1.1. The cookie `session` says how it answers. Each question is a line of JSON in the file
`asked` of its working folder."""

import http.server
import itertools
import json
import socket
import socketserver
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections = itertools.count()

    def setup(self):
        super().setup()
        self.connection_number = next(self.connections)

    def log_message(self, *_):
        pass

    def respond(self, status, fields, body=b""):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer(self):
        with open("asked", "a") as file:
            asked = {"line": self.requestline, "connection": self.connection_number}
            asked["fields"] = [list(pair) for pair in self.headers.items()]
            file.write(json.dumps(asked) + "\n")
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        cookie = self.headers.get("Cookie", "")
        session = cookie.removeprefix("session=")
        if session == "ann":
            self.respond(200, [("Remote-User", "ann"), ("Remote-Groups", "admins"), ("Remote-Groups", "staff"),
                               ("X-Own", "1")], b"unread" * 1000)
        elif session == "bob":
            self.respond(204, [("Remote-User", "bob")])
        elif session == "new":
            self.respond(200, [("Set-Cookie", "session=ann"), ("Set-Cookie", "seen=1"), ("X-Other", "1")])
        elif session == "eve":
            self.respond(403, [("X-Why", "not eve")], b"not you")
        elif session == "old":
            where = "https://login.example/?rd=" + self.headers["X-Original-URI"]
            self.respond(302, [("Location", where), ("Set-Cookie", "session=; Max-Age=0"), ("Set-Cookie", "a=b")])
        elif session == "left":
            self.respond(401, [("Set-Cookie", "session=; Max-Age=0"), ("Set-Cookie", "a=b")], b"who?")
        elif session == "missing":
            self.respond(404, [], b"there is nothing here")
        elif session == "broken":
            self.respond(500, [("X-Accel-Redirect", "/open.txt")], b"broken")
        elif session == "slow":
            time.sleep(2)
        elif session == "cut":
            self.close_connection = True
        elif session == "garbage":
            self.wfile.write(b"200 you may pass\r\n\r\n")
            self.close_connection = True
        else:
            self.respond(401, [("WWW-Authenticate", 'Basic realm="x"')], b"who?")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    server_name, server_port = "guard", 80


server = Server(("", 0), Handler, bind_and_activate=False)
server.socket.close()
server.socket = socket.socket(fileno=0)
server.serve_forever()
