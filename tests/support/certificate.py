"""A certificate of this machine that nobody else has signed, as a private network has them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Certificate:
    """What a server speaks TLS with, and its clients trust.

    Attributes:
        chain_file: File of the certificate, PEM.
        key_file: File of its private key, PEM.
    """

    chain_file: Path
    key_file: Path

    @property
    def chain(self) -> bytes:
        """The certificate."""
        return self.chain_file.read_bytes()

    @property
    def key(self) -> bytes:
        """Its private key."""
        return self.key_file.read_bytes()


def make_certificate(directory: Path) -> Certificate:
    """Make a certificate for 127.0.0.1; skips the test where there is no openssl.

    Args:
        directory: For its files.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is needed to make a certificate")
    found = Certificate(directory / "certificate.pem", directory / "key.pem")
    request = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1"
    )
    files = ["-out", str(found.chain_file), "-keyout", str(found.key_file)]
    subprocess.run([openssl, *request.split(), *files], check=True, capture_output=True)
    return found
