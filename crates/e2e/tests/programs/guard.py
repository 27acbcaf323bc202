"""An authorizer, and with the argument `app` an application that prints its request."""

import os
import sys

import taipan

while taipan.accept():
    env = os.environ
    if "app" in sys.argv:
        body = "%s %s %d" % (env.get("REMOTE_USER"), env.get("LEVEL"), len(sys.stdin.read()))
        print("Content-Type: text/plain\r\n\r\n" + body, end="")
    elif env.get("HTTP_AUTHORIZATION") == "Basic YTpi" and env.get("FCGI_ROLE", "AUTHORIZER") == "AUTHORIZER":
        print("Status: 200 OK\r\nVariable-REMOTE_USER: ann\r\nVariable-LEVEL: 9\r\nX-Own: 1\r\n\r\nunheard", end="")
    else:
        length = env.get("CONTENT_LENGTH", "none")
        print("Status: 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\r\nwho? " + length, end="")
