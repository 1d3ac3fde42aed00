"""`livestate stores`, `hosts`, `top`, `doctor`, `scrub` and `drain`: what goes on at hosts, and how to
intervene.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flight_server.cli.options import FILE, Number, Seconds, changelog_option, takes_connection, uri_option
from flight_server.cli.usage import usage_errors

if TYPE_CHECKING:
    from flight_server.client.connection_options import ConnectionOptions


@click.command()
@takes_connection(uri_option)
def stores(connection: ConnectionOptions) -> None:
    """List the stores: kind, key, retention, rows, bytes, partitions, segments, epoch, lag; in a deployment,
    for every host that holds some of them.

    \b
    Examples:
      livestate stores
      livestate stores --uri grpc://10.0.0.7:8815
    """
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight

    with Client(connection) as client:
        from engine.errors import Unsupported  # noqa: PLC0415  only this needs it
        from flight_server.cli.render import terminal  # noqa: PLC0415  it imports pyarrow
        from flight_server.cli.store_tables import render_replicas, stores_table  # noqa: PLC0415  likewise

        try:
            shown = render_replicas(client.replicas(), client.stores())
        except Unsupported:
            # A host of no deployment holds everything by itself.
            shown = stores_table(client.stores())
        terminal().print(shown)


@click.command()
@takes_connection(uri_option)
@click.option(
    "--watch",
    is_flag=True,
    help="Show it again and again, until Ctrl-C.",
)
@click.option(
    "--every",
    type=Seconds(0.1, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: how often.",
)
def hosts(connection: ConnectionOptions, watch: bool, every: float) -> None:
    """List the hosts of a deployment, as any one of them sees them, or the only host: for each store group
    the epoch, the lag, the partitions, and what the host does.

    \b
    State is
      readable     all that is known to be committed can be read
      behind       older epochs can be read, newer ones are on their way
      building     nothing can be read before the host is at what was newest when it started
      rebuilding   some partitions cannot be read yet
      draining     no new statement is taken
    with how much of the way is done, bytes of the changelog a second, and the time left.

    \b
    Examples:
      livestate hosts
      livestate hosts --watch --every 5
      livestate hosts --uri grpc://10.0.0.7:8815
    """
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight

    with Client(connection) as client:
        from flight_server.cli.hosts import show_hosts, watch_hosts  # noqa: PLC0415  it imports rich

        if watch:
            watch_hosts(client, every)
        else:
            show_hosts(client)


@click.command()
@takes_connection(uri_option)
@click.option("--once", is_flag=True, help="Print one picture, and end; so does what goes to no terminal.")
@click.option(
    "--every",
    type=Seconds(0.1, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often the picture is new.",
)
def top(connection: ConnectionOptions, once: bool, every: float) -> None:
    """Show hosts, stores and running statements, live; q or Ctrl-C ends it.

    Of hosts it shows the lag and the epochs a second of each store group, of stores the rows, the rows a
    second and what is wrong, of statements those that run longest, by the id that the logs of hosts have them
    under. Statements of others are shown to operators. CANCEL 'id' in livestate sql ends one.

    \b
    Examples:
      livestate top
      livestate top --uri grpc://10.0.0.7:8815 --every 5
      livestate top --once
    """
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight

    with Client(connection) as client:
        from flight_server.cli.top import print_frame, watch_top  # noqa: PLC0415  it imports rich

        if once or not sys.stdout.isatty():
            print_frame(client)
        else:
            watch_top(client, every)


@click.command()
@takes_connection(uri_option)
@click.option(
    "--deployment", type=FILE, help="Look at the hosts that this file names, instead of asking one."
)
@changelog_option(help="Try out the place of this changelog, with small objects that are removed again.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look at this data directory of this machine, too.",
)
@click.option("--security", type=FILE, help="See whether a host would take this security file, too.")
@click.option("--offline", is_flag=True, help="Ask no host: look at what is given here alone.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How what is found is written.",
)
@click.pass_context
def doctor(
    context: click.Context,
    connection: ConnectionOptions,
    deployment: Path | None,
    changelog: str | None,
    data: Path | None,
    security: Path | None,
    offline: bool,
    output_format: str,
) -> None:
    """Check a deployment, and say what to do.

    A line for each check: OK, WARN or FAIL, and what to do. The exit code is 1 if anything fails. Hosts are
    asked how they stand, which takes the role operator: whether each reaches each other one at its advertised
    address, clocks, certificates, disk, rights, open files, memory, versions.

    \b
    Examples:
      livestate doctor
      livestate doctor --deployment livestate.toml --changelog s3://bucket/livestate
      livestate doctor --offline --data /var/lib/livestate-host --security security.toml
    """
    from engine.changelog.objects import open_objects  # noqa: PLC0415  it imports pyarrow
    from flight_server.cli import doctor as examination  # noqa: PLC0415  likewise

    with usage_errors():
        objects = None if changelog is None else open_objects(changelog, {})
        uris = {} if deployment is None else examination.deployment_uris(deployment)
    findings = []
    if not offline:
        findings += examination.examine_hosts(connection, uris)
    if data is not None:
        findings += examination.examine_directory(data)
    if security is not None:
        findings += examination.examine_security(security)
    if changelog is not None and objects is not None:
        findings += examination.examine_changelog(changelog, objects)
    if not findings:
        raise click.UsageError("There is nothing to look at: give --data, --security or --changelog.")
    if not examination.print_findings(findings, output_format):
        context.exit(1)


@click.command()
@click.option(
    "--rate",
    type=Number(0, min_open=True),
    metavar="MIB/S",
    help="What the host reads a second at most; 32 by default, or its --scrub-rate.",
)
@click.option("--cancel", is_flag=True, help="End the scrub that runs.")
@click.option("--status", is_flag=True, help="Say how far it is, and do nothing.")
@takes_connection(uri_option)
def scrub(connection: ConnectionOptions, rate: float | None, cancel: bool, status: bool) -> None:
    """Have a host read all that it has stored, beside its other work, and find what is damaged.

    What is damaged is named, put aside and built again from the changelog, while the host serves the rest.
    Waits until all is read; Ctrl-C ends it. The exit code is 1 if anything was damaged or could not be read.

    \b
    Examples:
      livestate scrub
      livestate scrub --rate 100 --uri grpc://10.0.0.7:8815
      livestate scrub --status
    """
    from flight_server.cli.scrub import progress_text  # noqa: PLC0415  it imports pyarrow.flight
    from flight_server.cli.scrub import scrub as run_scrub  # noqa: PLC0415  likewise
    from flight_server.client.client import Client  # noqa: PLC0415  likewise

    if cancel and status:
        raise click.UsageError("--cancel and --status exclude each other.")
    with Client(connection) as client:
        if cancel or status:
            click.echo(progress_text(client.scrub("cancel" if cancel else "status")))
            return
        is_right = run_scrub(client, rate, click.echo)
    if not is_right:
        raise SystemExit(1)


@click.command()
@click.option("--undo", is_flag=True, help="Take statements again.")
@click.option("--status", is_flag=True, help="Say how it is, and do nothing.")
@click.option(
    "--timeout",
    type=Seconds(0, 86400),
    metavar="SECONDS",
    help="How long to wait until nothing runs; without end by default.",
)
@takes_connection(uri_option)
def drain(connection: ConnectionOptions, undo: bool, status: bool, timeout: float | None) -> None:
    """Have a host take no new statements, and wait until nothing runs on it.

    The host refuses new statements with a sentence that says to ask another one, is not ready
    (livestate.health, /readyz), and has other hosts read elsewhere what they have elsewhere. It goes on
    following the changelog, and does not end: stop it once it is drained, or take it back with --undo.
    A host that gets SIGTERM drains by itself (livestate serve --grace). The exit code is 1 if something
    still runs after --timeout.

    \b
    Examples:
      livestate drain --uri grpc://10.0.0.7:8815
      livestate drain --undo --uri grpc://10.0.0.7:8815
    """
    from flight_server.cli.drain import drain_text, wait_until_drained  # noqa: PLC0415  only this needs it
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight

    if undo and status:
        raise click.UsageError("--undo and --status exclude each other.")
    with Client(connection) as client:
        if undo or status:
            click.echo(drain_text(client.drain("end" if undo else "status")))
            return
        is_idle = wait_until_drained(client, timeout, click.echo)
    if not is_idle:
        raise SystemExit(1)
