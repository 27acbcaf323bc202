"""A registry with the API of container registries (OCI Distribution), for one-segment names such as `team%2Fapp`.

Listens at the port in its first argument. Splits the path as it was sent, and decodes each segment: a proxy that decodes the path,
or changes it otherwise, breaks it.
"""
import hashlib
import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

blobs, manifests, uploads, targets = {}, {}, {}, []
lock = threading.Lock()


class Registry(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def content(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return content

    def respond(self, status, content=b"", **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def handle_request(self):
        content = self.content()
        with lock:
            targets.append(self.path)
            self.answer(content)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def answer(self, content):
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.split("/")[1:]]
        match parts:
            case ["targets"]:
                self.respond(200, json.dumps(targets).encode())
            case ["v2", ""]:
                self.respond(200, b"{}", Docker_Distribution_API_Version="registry/2.0")
            case ["v2", name, "blobs", "uploads", ""] if self.command == "POST":
                number = uuid.uuid4().hex
                uploads[name, number] = b""
                encoded = url.path.split("/")[2]
                # With its own address, as registries do that are not told another one.
                place = f"http://127.0.0.1:{port}/v2/{encoded}/blobs/uploads/{number}?state=a%2Fb"
                self.respond(202, Location=place, Range="0-0")
            case ["v2", name, "blobs", "uploads", number] if (name, number) in uploads:
                uploads[name, number] += content
                if self.command == "PATCH":
                    size = len(uploads[name, number])
                    return self.respond(202, Location=self.path, Range=f"0-{size - 1}")
                content = uploads.pop((name, number))
                digest = "sha256:" + hashlib.sha256(content).hexdigest()
                if f"digest={digest.replace(':', '%3A')}" not in url.query:
                    return self.respond(400, b"wrong digest")
                blobs[name, digest] = content
                self.respond(201, Docker_Content_Digest=digest)
            case ["v2", name, "blobs", digest] if (name, digest) in blobs:
                self.respond(200, blobs[name, digest], Docker_Content_Digest=digest)
            case ["v2", name, "manifests", tag]:
                if self.command == "PUT":
                    manifests[name, tag] = content
                    return self.respond(201)
                found = manifests.get((name, tag))
                self.respond(404 if found is None else 200, found or b"{}")
            case ["v2", name, "tags", "list"]:
                tags = sorted(tag for own, tag in manifests if own == name)
                self.respond(200, json.dumps({"name": name, "tags": tags}).encode())
            case _:
                self.respond(404, b"no such thing")


port = int(sys.argv[1])
ThreadingHTTPServer.request_queue_size = 128
ThreadingHTTPServer(("127.0.0.1", port), Registry).serve_forever()
