"""An index of packages (PEP 503) with one package. Prints its port, and then the path of each request."""

import io
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WHEEL = "/files/demo-1.0-py3-none-any.whl"


def wheel():
    files = {
        "demo.py": "# Padding\n" * 200_000,
        "demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        "demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "demo-1.0.dist-info/RECORD": "",
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


PAGES = {
    "/simple/demo/": ("text/html", f'<!DOCTYPE html><a href="{WHEEL}">demo-1.0-py3-none-any.whl</a>'.encode()),
    WHEEL: ("application/octet-stream", wheel()),
}


class Index(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        print(self.path, flush=True)
        kind, content = PAGES.get(self.path, ("text/plain", b"no such page"))
        self.send_response(200 if self.path in PAGES else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "public, max-age=600")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
print(server.server_port, flush=True)
server.serve_forever()
