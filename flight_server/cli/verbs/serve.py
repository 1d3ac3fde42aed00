"""`livestate serve`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from engine.telemetry.log_lines import LOG_FORMATS, LOG_LEVELS
from flight_server.cli.failures import show_failures
from flight_server.cli.options import (
    FILE,
    Address,
    Directory,
    Number,
    Seconds,
    Size,
    changelog_option,
    snapshot_tail_option,
    snapshots_kept_option,
    token_of,
    token_option,
)
from flight_server.cli.usage import open_changelog, usage_errors

_THREADS = click.IntRange(1, 1024)
"""A machine has so many threads for all processes together."""
_LEAST_MEMORY_BYTES = 16 << 20
"""With less the engine refuses every statement."""


@click.command()
@changelog_option()
@click.option(
    "--data",
    type=Directory(path_type=Path, file_okay=False),
    help="Directory of this host; what is lost there is rebuilt.",
)
@click.option("--deployment", type=FILE, help="File that names the hosts which serve the changelog together.")
@click.option(
    "--host", metavar="NAME", help="Which host of the deployment this is. (Where to listen is --address.)"
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Start N hosts on this machine, on consecutive ports.",
)
@click.option(
    "--replication",
    type=click.IntRange(1),
    metavar="N",
    help="With --processes: how many of them hold a partition; 1 by default.",
)
@click.option(
    "--address", type=Address(), help="Address to listen on; 127.0.0.1, or that of the deployment file."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 8815, or that of the deployment file; 0 takes a free one.",
)
@click.option(
    "--advertise",
    metavar="HOST[:PORT]",
    help="With --processes: how others reach this machine, where --address stands for all interfaces; PORT "
    "is that of the first.",
)
@click.option(
    "--http-address",
    metavar="HOST:PORT",
    help="Answer /livez, /readyz and /metrics there over HTTP, to whoever asks; nowhere by default. With "
    "--processes on consecutive ports.",
)
@click.option(
    "--grace",
    type=Seconds(0, 3600),
    metavar="SECONDS",
    help="How long running statements may go on when the host stops; 20 by default.",
)
@click.option(
    "--poll-interval",
    type=Seconds(0.001, 60),
    metavar="SECONDS",
    help="Between looks for epochs; 0.05 by default.",
)
@click.option(
    "--memory",
    type=Size(least=_LEAST_MEMORY_BYTES),
    help="What queries may use, such as 4GiB; for each process.",
)
@click.option(
    "--spill",
    type=Size(zero=True),
    help="Disk for what the memory of queries does not hold; 8GiB by default, 0 for none; for each process.",
)
@click.option(
    "--answers",
    type=Size(zero=True),
    help="Memory for answers that are asked for again; a 32nd of --memory by default, 0 for none; for each "
    "process.",
)
@click.option("--cache", type=Size(), help="Memory for decoded columns; 1GiB by default; for each process.")
@click.option(
    "--threads",
    type=_THREADS,
    help="Threads for queries, all processors by default; for each process.",
)
@click.option(
    "--apply-threads",
    type=_THREADS,
    help="Partitions that take an epoch, or are opened, side by side: all processors by default, 2 at least; "
    "for each process.",
)
@click.option(
    "--compaction-threads",
    type=_THREADS,
    help="Partitions that are compacted side by side; as many as --apply-threads by default.",
)
@click.option(
    "--max-statements",
    type=click.IntRange(1, 4096),
    help="Statements computed at once, 64 by default; more wait.",
)
@click.option(
    "--max-lag",
    type=Seconds(1),
    metavar="SECONDS",
    help="Answer nothing that lacks commits older than this, unless the client says allow_stale; no limit by "
    "default.",
)
@click.option(
    "--snapshot-after",
    type=Size(zero=True),
    help="Write a snapshot of a store group after so much changelog; 256MiB by default, 0 for never.",
)
@snapshots_kept_option
@snapshot_tail_option
@click.option(
    "--scrub-every",
    type=Seconds(0),
    metavar="SECONDS",
    help="Look so often for damage in all that is stored, as livestate scrub does; 0, the default: never.",
)
@click.option(
    "--scrub-rate",
    type=Number(0, min_open=True),
    metavar="MIB/S",
    help="MiB a second that --scrub-every reads at most; 32 by default.",
)
@token_option
@click.option(
    "--security",
    type=FILE,
    help="File that says how callers prove who they are; by default the deployment file, if it does.",
)
@click.option(
    "--audit-log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that gets a JSON line for each statement and each refusal; with --processes one a host.",
)
@click.option(
    "--audit-digests", is_flag=True, help="Write digests of statements to the audit log, and no texts."
)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default="text",
    show_default=True,
    help="How the log on standard error looks: a line an event.",
)
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    default="info",
    show_default=True,
    help="Which events the log has.",
)
@click.option(
    "--slow-statement",
    type=Seconds(0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Log statements that take so long, with their plan and without their values; 0 for none.",
)
@click.option(
    "--open-to-all",
    is_flag=True,
    help="Allow an address that other machines reach, and ask nobody for a proof.",
)
@click.option("--insecure", is_flag=True, help="Allow an address that other machines reach without TLS.")
@click.option("--tls-certificate", type=FILE, help="PEM certificate; with --tls-key the host speaks TLS.")
@click.option("--tls-key", type=FILE, help="PEM key of the certificate.")
@click.option(
    "--tls-roots",
    type=FILE,
    help="PEM certificates that vouch for the other hosts; the system's by default.",
)
@click.option("--supervised", is_flag=True, hidden=True)
def serve(token_file: Path | None, supervised: bool, **given: Any) -> None:
    """Follow a changelog and serve its stores until SIGTERM or Ctrl-C.

    Then the host takes no new statements, tells other hosts so, lets what runs end within --grace, and ends.
    A second Ctrl-C does not wait for what runs.

    One host serves everything (--changelog and --data), or it is one host of a deployment (--deployment and
    --host), or this command starts several hosts on this machine (--processes), each with a part of every
    store.

    \b
    Examples:
      livestate serve --changelog file:///var/lib/livestate --data /var/lib/livestate-host
      livestate serve --changelog s3://bucket/livestate --data /mnt/host \\
          --address 0.0.0.0 --security /etc/livestate/security.toml \\
          --tls-certificate host.pem --tls-key host.key
      livestate serve --deployment livestate.toml --host a --http-address 127.0.0.1:9464
      livestate serve --processes 4 --changelog file:///var/lib/livestate --data /var/lib/livestate-hosts
    """
    from flight_server.host.arrow_pool import limit_arrow_pool  # noqa: PLC0415  only this needs it
    from flight_server.host.stop_signals import block_stop_signals  # noqa: PLC0415  likewise

    # Before imports start threads.
    with block_stop_signals(), show_failures():
        limit_arrow_pool()
        from engine.telemetry.log_lines import configure_logs  # noqa: PLC0415  only this needs it
        from flight_server.host import process  # noqa: PLC0415  it imports all of the engine
        from flight_server.host.serving import (  # noqa: PLC0415  likewise
            ServeArguments,
            host_options,
            local_deployment,
        )
        from flight_server.host.tracing import begin_tracing, end_tracing  # noqa: PLC0415  likewise

        arguments = ServeArguments(token=token_of(token_file), **given)
        if arguments.processes is not None:
            from flight_server.host.launcher import launch  # noqa: PLC0415  only this needs it

            with usage_errors():
                open_changelog(local_deployment(arguments).changelog)
            launch(arguments, click.echo)
            return
        with usage_errors():
            options = host_options(arguments)
            open_changelog(options.changelog)
        configure_logs(arguments.log_format, arguments.log_level, options.name)
        begin_tracing(options.name)
        try:
            process.serve(
                options,
                lambda started: _echo_if_taken(process.serves_line(options, started)),
                supervised=supervised,
            )
        finally:
            end_tracing()


def _echo_if_taken(line: str) -> None:
    """Print a line. A host whose log is on a full disk serves all the same."""
    with suppress(OSError):
        click.echo(line)
