"""A certificate authority, and hosts that want to know who calls."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.certificate import Certificate


class Authority:
    """Makes certificates that hosts and callers trust; skips the test where there is no openssl.

    Args:
        directory: For its files.
    """

    def __init__(self, directory: Path) -> None:
        openssl = shutil.which("openssl")
        if openssl is None:
            pytest.skip("openssl is needed to make certificates")
        self._openssl = openssl
        self._directory = directory
        self.certificate = self._files("authority")
        request = (
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority"
        )
        self._run(request, self.certificate)

    def issue(self, name: str, *, alternative: str = "", common: str = "") -> Certificate:
        """Make a certificate.

        Args:
            name: Of its files.
            alternative: Its alternative names, such as `IP:127.0.0.1`; empty: none.
            common: Its common name; `name` by default.
        """
        made = self._files(name)
        signed_by = f"-CA {self.certificate.chain_file} -CAkey {self.certificate.key_file}"
        request = (
            f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 {signed_by} "
            f"-subj /O=desk/CN={common or name} -addext basicConstraints=critical,CA:FALSE"
        )
        self._run(request + (f" -addext subjectAltName={alternative}" if alternative else ""), made)
        return made

    def _files(self, name: str) -> Certificate:
        return Certificate(self._directory / f"{name}.pem", self._directory / f"{name}.key")

    def _run(self, request: str, made: Certificate) -> None:
        files = ["-out", str(made.chain_file), "-keyout", str(made.key_file)]
        subprocess.run([self._openssl, *request.split(), *files], check=True, capture_output=True)
