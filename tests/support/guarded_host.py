"""A host process that wants a token and speaks TLS with a certificate of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.secret_files import write_secret
from flight_server.host.process import SERVES
from tests.support.certificate import Certificate

TOKEN = "open sesame"


@contextmanager
def guarded_host(changelog: Path, data: Path, certificate: Certificate) -> Iterator[ConnectionOptions]:
    """Start a host that looks for epochs when it is told, and else once a minute; end it after the block.

    Args:
        changelog: What it follows.
        data: Its data directory; a file with its token comes beside it.
        certificate: What it speaks TLS with.

    Yields:
        How it is reached.
    """
    token = data.with_suffix(".token")
    write_secret(token, f"{TOKEN}\n".encode())
    options = {
        "--changelog": changelog,
        "--data": data,
        "--port": 0,
        "--poll-interval": 60,
        "--token-file": token,
        "--tls-certificate": certificate.chain_file,
        "--tls-key": certificate.key_file,
    }
    given = [str(each) for option in options.items() for each in option]
    command = [sys.executable, "-m", "flight_server.cli.main", "serve", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = ""
            while not said.startswith(SERVES):
                said = process.stdout.readline()
                assert said, "the host ended"
            yield ConnectionOptions.read(said.split()[-1], token_file=token, tls_roots=certificate.chain_file)
        finally:
            process.kill()
