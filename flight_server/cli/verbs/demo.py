"""`livestate demo`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flight_server.cli.options import MOST_EVENTS, Seconds

_OTHER_HOSTS = ("LIVESTATE_TOKEN", "LIVESTATE_TLS_ROOTS", "LIVESTATE_USER", "LIVESTATE_PASSWORD")
"""Variables that say how other hosts are reached: the demo's own are open, on loopback."""


@click.command()
@click.option(
    "--duration",
    type=Seconds(1),
    metavar="SECONDS",
    help="End this long after the first chart; by default, when you press Ctrl-C.",
)
@click.option(
    "--rate",
    default=6000,
    show_default=True,
    type=click.IntRange(1, MOST_EVENTS),
    help="Play events a second.",
)
@click.option(
    "--hosts",
    default=1,
    show_default=True,
    type=click.IntRange(1, 16),
    help="How many host processes serve the counts together.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of the host, or of the first one; by default 8815, or a free one.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep changelog, data and logs in this new directory.",
)
@click.option("--seed", default=1, show_default=True, help="Equal seeds make equal events.")
@click.option(
    "--kafka",
    is_flag=True,
    help="Send the plays through a Kafka topic, on a broker of its own; `livestate kafka` fetches it.",
)
def demo(
    duration: float | None, rate: int, hosts: int, port: int | None, keep: Path | None, seed: int, kafka: bool
) -> None:
    """Watch live music charts: a Spark job, a host and SQL, all on this machine.

    A generator writes play events, a Spark job counts plays per song and per genre, a host serves the counts,
    and this command shows the top five of every genre, asked in SQL four times a second.

    \b
    Examples:
      livestate demo
      livestate demo --duration 30 --rate 10000
      livestate demo --hosts 3
      livestate demo --kafka
    """
    from flight_server.cli.demo.run import DemoOptions, run_demo  # noqa: PLC0415  it imports pyarrow and rich

    for name in _OTHER_HOSTS:
        os.environ.pop(name, None)
    passed = run_demo(
        DemoOptions(duration=duration, rate=rate, hosts=hosts, port=port, keep=keep, seed=seed, kafka=kafka)
    )
    if not passed:
        raise SystemExit(1)
