"""`livestate hosts`: how hosts stand, once or again and again."""

from __future__ import annotations

from itertools import count

import pyarrow as pa

from engine.errors import Unsupported
from flight_server.cli.render import terminal
from flight_server.cli.repetition import interrupt_event, show_again
from flight_server.cli.store_tables import render_hosts
from flight_server.client.client import Client

_ADVICE = "Several hosts answer as one with livestate serve --processes N, or with --deployment FILE."


def show_hosts(client: Client) -> None:
    """Print how the hosts stand.

    Args:
        client: Any one of them.

    Raises:
        LivestateError: What the host said, by its kind; Unavailable when there is no host.
    """
    table, alone = hosts_table(client)
    terminal().print(render_hosts(table))
    if alone:
        terminal().print(f"{alone} {_ADVICE}")


def watch_hosts(client: Client, seconds: float) -> None:
    """Show how the hosts stand again and again, until an interrupt. What is no terminal gets one table after
    the other.

    Args:
        client: Any one of them.
        seconds: How often.

    Raises:
        LivestateError: What the host said, by its kind; Unavailable when there is no host.
    """
    with interrupt_event() as interrupted:
        tables = (render_hosts(hosts_table(client)[0]) for _ in count())
        show_again(terminal(), tables, seconds, interrupted)


def hosts_table(client: Client) -> tuple[pa.Table, str]:
    """How the hosts stand.

    Args:
        client: Any one of them.

    Returns:
        A table of `engine.catalog.host_statuses.HOSTS_SCHEMA`; and where there is but one host, what it says
        to that.

    Raises:
        LivestateError: What the host said, by its kind; Unavailable when there is no host.
    """
    try:
        return client.hosts(), ""
    except Unsupported as alone:
        return client.query("SHOW HOSTS").read_all(), alone.message
