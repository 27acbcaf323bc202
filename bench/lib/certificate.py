"""Makes the certificate with which every server speaks TLS: self-signed, with a key on P-256, as most sites have."""

from __future__ import annotations

import pathlib
import subprocess

from . import machine
from .machine import BenchError

NAME = "127.0.0.1"


def make(work: pathlib.Path) -> None:
    """Writes `certificate.pem` and `key.pem`, as `peers.Place` names them."""
    if not machine.installed("openssl"):
        raise BenchError("openssl is missing, which makes the certificate; install it, or leave out the rows with TLS")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    words += ["-keyout", str(work / "key.pem"), "-out", str(work / "certificate.pem"), "-subj", f"/CN={NAME}"]
    words += ["-addext", f"subjectAltName=IP:{NAME}", "-addext", "basicConstraints=critical,CA:FALSE"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(words)}: {done.stderr.strip()[-500:]}")
