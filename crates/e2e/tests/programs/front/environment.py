"""By FastCGI or CGI: prints its path variables and its body."""

import os
import sys

import taipan

while taipan.accept():
    env = os.environ
    words = [env.get(name, "-") for name in ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "REQUEST_URI", "QUERY_STRING")]
    body = sys.stdin.read(int(env.get("CONTENT_LENGTH") or 0))
    print("Content-Type: text/plain\r\n\r\n" + " ".join(words + [body]), end="")
