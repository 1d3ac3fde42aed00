"""An S3 server on loopback, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import obstore

from tests.support.waiting import wait_until

_ROOT = Path(__file__).parents[2]


@contextmanager
def s3_server(log: Path) -> Iterator[Mapping[str, str]]:
    """A server with a bucket called `bucket`, until the context ends.

    Args:
        log: File that the server writes what it says to.

    Yields:
        How `engine.changelog.objects.open_objects` finds it.
    """
    command = [sys.executable, "-m", "tests.support.moto_server"]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=_ROOT, stdout=output, stderr=output) as server,
    ):
        try:
            address = _address(log, server)
            settings = {
                "endpoint": address,
                "allow_http": "true",
                "access_key_id": "test",
                "secret_access_key": "test",
                "region": "us-east-1",
            }
            # obstore does not make buckets; to moto's path-style addresses a bucket is an object of no
            # bucket.
            http = obstore.store.HTTPStore.from_url(address, client_options={"allow_http": True})
            obstore.put(http, "bucket", b"", use_multipart=False)
            yield settings
        finally:
            server.kill()


def _address(log: Path, server: subprocess.Popen[bytes]) -> str:
    """Where the server listens, once it does."""

    def said() -> re.Match[str] | None:
        return re.search(r"Running on (http://\S+)\s", log.read_text())

    wait_until(lambda: server.poll() is not None or said() is not None)
    found = said()
    assert found is not None, f"moto did not start: {log.read_text()}"
    return found[1]
