"""A host that runs in this process for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flight_server.host.host import Host, HostOptions
from tests.support.waiting import PATIENCE_SECONDS


@contextmanager
def start_host(options: HostOptions) -> Iterator[Host]:
    """Start a host, wait until it has caught up with its changelog, and stop it after the block.

    Args:
        options: Of the host.
    """
    host = Host(options)
    host.start()
    try:
        host.wait_until_ready(PATIENCE_SECONDS)
        yield host
    finally:
        assert host.stop()
