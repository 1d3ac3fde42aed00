"""The command `livestate`.

Only click is imported up front: everything else is imported by the command that needs it, so that `--help` is
quick.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from engine.errors import InvalidInput, LivestateError
from engine.processes.hidden_modules import hide_pandas

if TYPE_CHECKING:
    from flight_server.client.client import Client
    from flight_server.client.connection_options import ConnectionOptions

DEFAULT_URI = "grpc://127.0.0.1:8815"
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Failure(click.ClickException):
    """An error of livestate, as the command line shows it: no traceback, exit code 1."""

    exit_code = 1

    def __init__(self, error: LivestateError) -> None:
        super().__init__(error.message)
        self._error = error

    def show(self, file: IO[Any] | None = None) -> None:
        from flight_server.cli.render import error_lines  # noqa: PLC0415  rendering imports pyarrow

        for line in error_lines(self._error):
            click.echo(line, file=file, err=file is None)


@contextmanager
def _failures() -> Iterator[None]:
    """Show what livestate raises on purpose as one message; a reader of our output that has gone away is no
    failure.
    """
    try:
        yield
    except LivestateError as error:
        raise _Failure(error) from error
    except BrokenPipeError:
        # What is still buffered would fail again when Python flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


class _Names(click.ParamType[tuple[str, ...]]):
    """Column names, separated by commas."""

    name = "columns"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        names = tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else tuple(value)
        if not all(names):
            self.fail(f"{value!r} has an empty name; write a,b.", param, ctx)
        return names


class _Size(click.ParamType[int]):
    """A number of bytes, with or without a unit."""

    name = "size"

    def __init__(self, *, zero: bool = False) -> None:
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*", str(value), re.IGNORECASE)
        if found is None or not (float(found[1]) or self._zero):
            self.fail(f"{value!r} is not a size; write it like 512MiB or 4GiB.", param, ctx)
        unit = (found[2] or " ").upper()
        base = 1024 if unit.endswith("I") else 1000
        return int(float(found[1]) * base ** " KMGT".index(unit[0]))


class _Seconds(click.FloatRange):
    """A length of time; unlike every other number, NaN is on neither side of a range's ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        return (
            self.fail(f"{value!r} is no number of seconds.", param, ctx) if math.isnan(seconds) else seconds
        )


class _Moment(click.ParamType[dt.datetime]):
    """A point in time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:
        try:
            moment = dt.datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is not a time: write it as 2026-11-20T12:00:00; without an offset it is in UTC.",
                param,
                ctx,
            )
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


class _ColumnType(click.ParamType[tuple[str, str]]):
    """`column=SQL type`."""

    name = "column=type"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        column, equals, type_name = value.partition("=")
        if not (column and equals and type_name):
            self.fail(f"{value!r} is not like price=DECIMAL(10,2).", param, ctx)
        return column, type_name


def _token(file: Path | None) -> str | None:
    from flight_server.client.connection_options import read_token  # noqa: PLC0415  only what talks to a host needs it

    if file is None:
        return os.environ.get("LIVESTATE_TOKEN")
    try:
        return read_token(file)
    except InvalidInput as error:
        raise click.BadParameter(error.message, param_hint="--token-file") from error


_uri_option = click.option(
    "--uri", default=DEFAULT_URI, show_default=True, envvar="LIVESTATE_URI", help="Address of a host."
)
_uris_option = click.option(
    "--uri",
    multiple=True,
    help="Address of a host that is to take note at once; others do within a second. Repeatable.",
)
_changelog_option = partial(
    click.option,
    "--changelog",
    metavar="URI",
    envvar="LIVESTATE_CHANGELOG",
    help="The changelog: file:///dir or a path, s3://, gs://, az://.",
)
_snapshots_kept_option = click.option(
    "--snapshots-kept",
    type=click.IntRange(1),
    metavar="N",
    help="Snapshots that stay in the changelog, with the epochs behind them; 2 by default.",
)
_snapshot_tail_option = click.option(
    "--snapshot-tail",
    type=_Seconds(0),
    metavar="SECONDS",
    help="How long epochs before them stay; 600 by default.",
)
_token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that holds the host's token; else LIVESTATE_TOKEN is taken.",
)


_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, readable=True)
_roots_option = click.option(
    "--tls-roots",
    type=_FILE,
    envvar="LIVESTATE_TLS_ROOTS",
    help="PEM certificates that vouch for the host; the system's by default.",
)


def _takes_connection(uri_option: Callable[[Any], Any]) -> Callable[[Callable[..., None]], Any]:
    """Give a command the options that say how hosts are reached, as one value: its argument `connection`.

    Args:
        uri_option: The one that names hosts.
    """

    def decorate(command: Callable[..., None]) -> Any:
        @uri_option
        @_token_option
        @_roots_option
        @wraps(command)
        def run(
            uri: str | Sequence[str], token_file: Path | None, tls_roots: Path | None, **given: Any
        ) -> None:
            from flight_server.client.connection_options import ConnectionOptions  # noqa: PLC0415  only these need it

            with _failures():
                connection = ConnectionOptions.read(
                    uri, token=_token(token_file) or None, tls_roots=tls_roots
                )
            command(connection=connection, **given)

        return run

    return decorate


@click.group(context_settings=_CONTEXT)
@click.version_option(package_name="livestate", message="livestate %(version)s")
def main() -> None:
    """SQL over the live state of Spark streaming jobs.

    A job keeps keyed tables ("stores") up to date in a changelog; a host follows the changelog and answers
    SQL over Arrow Flight.

    \b
    Examples:
      livestate demo --duration 30
      livestate serve --changelog file:///var/lib/livestate --data /var/lib/livestate-host
      livestate sql "SELECT song_id, count FROM plays ORDER BY count DESC LIMIT 5"
    """


@main.command()
@_changelog_option()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of this host; what is lost there is rebuilt.",
)
@click.option(
    "--deployment", type=_FILE, help="File that names the hosts which serve the changelog together."
)
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
@click.option("--address", help="Address to listen on; 127.0.0.1, or that of the deployment file.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 8815, or that of the deployment file; 0 takes a free one.",
)
@click.option(
    "--poll-interval",
    type=_Seconds(0.001, 60),
    metavar="SECONDS",
    help="Between looks for epochs; 0.05 by default.",
)
@click.option("--memory", type=_Size(), help="What queries may use, such as 4GiB; for each process.")
@click.option(
    "--spill",
    type=_Size(zero=True),
    help="Disk for what their memory does not hold; 8GiB by default, 0 for none; for each process.",
)
@click.option(
    "--answers",
    type=_Size(zero=True),
    help="Memory for answers that are asked for again; a 32nd of --memory by default, 0 for none; for each "
    "process.",
)
@click.option("--cache", type=_Size(), help="Memory for decoded columns; 1GiB by default; for each process.")
@click.option(
    "--threads",
    type=click.IntRange(1),
    help="Threads for queries, all processors by default; for each process.",
)
@click.option(
    "--max-statements", type=click.IntRange(1), help="Statements computed at once, 64 by default; more wait."
)
@click.option(
    "--snapshot-after",
    type=_Size(zero=True),
    help="Changelog after which a snapshot replaces it; 256MiB by default, 0 for never.",
)
@_snapshots_kept_option
@_snapshot_tail_option
@click.option(
    "--scrub-every",
    type=_Seconds(0),
    metavar="SECONDS",
    help="Between looks for damage in all that is stored; 0, the default, for none (livestate scrub).",
)
@click.option(
    "--scrub-rate",
    type=click.FloatRange(0, min_open=True),
    metavar="MIB/S",
    help="What such a look reads a second at most; 32 by default.",
)
@_token_option
@click.option(
    "--open-to-all", is_flag=True, help="Allow an address that other machines reach without a token."
)
@click.option("--tls-certificate", type=_FILE, help="PEM certificate; with --tls-key the host speaks TLS.")
@click.option("--tls-key", type=_FILE, help="PEM key of the certificate.")
@click.option(
    "--tls-roots",
    type=_FILE,
    help="PEM certificates that vouch for the other hosts; the system's by default.",
)
@click.option("--supervised", is_flag=True, hidden=True)
def serve(token_file: Path | None, supervised: bool, **given: Any) -> None:
    """Follow a changelog and serve its stores until SIGTERM or Ctrl-C.

    One host serves everything (--changelog and --data), or it is one host of a deployment (--deployment and
    --host), or this command starts several hosts on this machine (--processes), each with a part of every
    store.

    \b
    Examples:
      livestate serve --changelog file:///var/lib/livestate --data /var/lib/livestate-host
      livestate serve --changelog s3://bucket/livestate --data /mnt/host \\
          --address 0.0.0.0 --token-file /etc/livestate/token
      livestate serve --deployment livestate.toml --host a
      livestate serve --processes 4 --changelog file:///var/lib/livestate --data /var/lib/livestate-hosts
    """
    from flight_server.host.arrow_pool import limit_arrow_pool  # noqa: PLC0415  only this needs it
    from flight_server.host.stop_signals import block_stop_signals  # noqa: PLC0415  likewise

    # Before imports start threads.
    with block_stop_signals(), _failures():
        limit_arrow_pool()
        from flight_server.host import process  # noqa: PLC0415  it imports all of the engine
        from flight_server.host.serving import ServeArguments, host_options  # noqa: PLC0415  likewise

        arguments = ServeArguments(token=_token(token_file), **given)
        if arguments.processes is not None:
            from flight_server.host.launcher import launch  # noqa: PLC0415  only this needs it

            launch(arguments, click.echo)
            return
        options = host_options(arguments)
        process.serve(
            options,
            lambda started: click.echo(f"{process.SERVES} {options.changelog} at {started.uri}"),
            supervised=supervised,
        )


@main.command()
@click.argument("statement", required=False)
@click.option(
    "-f",
    "--file",
    "source",
    type=click.File("r", encoding="utf-8"),
    help="Read the SQL from a file; - is standard input.",
)
@_takes_connection(_uri_option)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "csv", "json", "arrow"]),
    default="table",
    show_default=True,
)
@click.option(
    "--max-rows",
    default=1000,
    show_default=True,
    type=click.IntRange(0),
    help="Rows that a table shows; 0 for all.",
)
@click.option(
    "--dialect",
    default="",
    metavar="NAME",
    help="SQL dialect of the statement, such as spark; DuckDB's by default.",
)
@click.option(
    "--timeout", type=_Seconds(min=0, min_open=True), metavar="SECONDS", help="How long a statement may run."
)
@click.option("--min-epoch", metavar="EPOCH", help="Read this epoch or a newer one; wait until it is there.")
@click.option(
    "--max-staleness",
    metavar="SECONDS",
    help="Miss no commit that is older than this; wait until none is missing.",
)
@click.option(
    "--as-of",
    metavar="EPOCH|TIME",
    help='Read this epoch, or what was committed at this time; or JSON, {"store group": one of these}.',
)
def sql(
    statement: str | None,
    source: IO[str] | None,
    connection: ConnectionOptions,
    output_format: str,
    max_rows: int,
    dialect: str,
    timeout: float | None,
    min_epoch: str | None,
    max_staleness: str | None,
    as_of: str | None,
) -> None:
    """Run one SQL statement; without one, at a terminal, open a prompt.

    csv, json (an object a line) and arrow (IPC stream) are written as the rows arrive.

    \b
    Examples:
      livestate sql "SHOW STORES"
      livestate sql "SELECT * FROM plays" --format csv > plays.csv
      echo "SELECT count(*) FROM plays" | livestate sql --uri grpc://10.0.0.7:8815
      livestate sql "SELECT count(*) FROM plays" --as-of 2026-11-20T12:00:00Z
      livestate sql
    """
    if statement is not None and source is not None:
        raise click.UsageError("Give the SQL as an argument or with --file, not both.")
    if statement is None and source is None and sys.stdin.isatty() and sys.stdout.isatty():
        with (
            _failures(),
            _sql_client(connection, dialect, timeout, min_epoch, max_staleness, as_of) as client,
        ):
            _prompt(client, max_rows)
        return
    text = statement if statement is not None else _read(source)
    if not text.strip():
        raise click.UsageError("There is no SQL: give it as an argument, with --file, or on standard input.")
    if output_format == "arrow" and sys.stdout.isatty():
        raise click.UsageError("Arrow data is not for a terminal: send it to a file or a program.")
    with (
        _failures(),
        _interrupts_end_the_process(),
        _sql_client(connection, dialect, timeout, min_epoch, max_staleness, as_of) as client,
    ):
        _query(client, text, output_format, max_rows)


def _sql_client(
    connection: ConnectionOptions,
    dialect: str,
    timeout: float | None,
    min_epoch: str | None,
    max_staleness: str | None,
    as_of: str | None,
) -> Client:
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight
    from flight_server.wire.read_point_options import parse_read_point  # noqa: PLC0415  likewise

    return Client(
        connection,
        dialect=dialect,
        timeout_seconds=timeout,
        read_point=parse_read_point(min_epoch, max_staleness, as_of),
    )


def _read(source: IO[str] | None) -> str:
    if source is not None:
        return source.read()
    with click.open_file("-", encoding="utf-8") as stdin:
        return str(stdin.read())


def _prompt(client: Client, max_rows: int) -> None:
    from flight_server.cli.prompt import run_prompt  # noqa: PLC0415  it imports prompt_toolkit
    from flight_server.cli.render import terminal  # noqa: PLC0415  it imports pyarrow

    run_prompt(client, terminal(), max_rows)


def _query(client: Client, text: str, output_format: str, max_rows: int) -> None:
    from flight_server.cli import render  # noqa: PLC0415  it imports pyarrow

    rows = client.query(text)
    if output_format != "table":
        render.WRITERS[output_format](rows.schema, rows, sys.stdout.buffer)
        return
    console = render.terminal()
    table, more = render.first_rows(rows, rows.schema, max_rows)
    console.print(render.result_table(table, console.width))
    if more:
        rows.close()
        click.echo(
            (
                f"Only the first {max_rows:,} rows are shown; --max-rows 0 shows all, --format csv writes "
                "them as they arrive."
            ),
            err=True,
        )


@contextmanager
def _interrupts_end_the_process() -> Iterator[None]:
    """Calls into gRPC do not return for Python's handler of Ctrl-C. The host sees that the connection ends,
    and cancels the query.
    """
    import signal  # noqa: PLC0415  only this needs it

    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@main.command()
@_takes_connection(_uri_option)
def stores(connection: ConnectionOptions) -> None:
    """List the stores: kind, key, retention, rows, bytes, partitions, segments, epoch, lag; in a deployment,
    for every host that holds some of them.

    \b
    Examples:
      livestate stores
      livestate stores --uri grpc://10.0.0.7:8815
    """
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight

    with _failures(), Client(connection) as client:
        from engine.errors import Unsupported  # noqa: PLC0415  only this needs it
        from flight_server.cli.render import terminal  # noqa: PLC0415  it imports pyarrow
        from flight_server.cli.store_tables import render_replicas, stores_table  # noqa: PLC0415  likewise

        try:
            shown = render_replicas(client.replicas(), client.stores())
        except Unsupported:
            # A host of no deployment holds everything by itself.
            shown = stores_table(client.stores())
        terminal().print(shown)


@main.command()
@_takes_connection(_uri_option)
def hosts(connection: ConnectionOptions) -> None:
    """List the hosts of a deployment, as any one of them sees them: alive, epoch of each store group, lag,
    partitions; or the only host.

    \b
    Examples:
      livestate hosts
      livestate hosts --uri grpc://10.0.0.7:8815
    """
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight

    with _failures(), Client(connection) as client:
        from engine.errors import Unsupported  # noqa: PLC0415  only this needs it
        from flight_server.cli.render import terminal  # noqa: PLC0415  it imports pyarrow
        from flight_server.cli.store_tables import render_hosts  # noqa: PLC0415  likewise

        try:
            terminal().print(render_hosts(client.hosts()))
        except Unsupported as alone:
            terminal().print(render_hosts(client.query("SHOW HOSTS").read_all()))
            click.echo(
                f"{alone.message} Several hosts answer as one with livestate serve --processes N, or with "
                "--deployment FILE."
            )


@main.command()
@click.argument("store")
@click.argument("file", type=_FILE)
@_changelog_option(required=True)
@click.option(
    "--key",
    type=_Names(),
    default=(),
    help="Columns that identify a row; may be left out when the store exists.",
)
@click.option(
    "--partition-by",
    type=_Names(),
    default=(),
    help="Leading part of the key that places a row; the whole key by default.",
)
@click.option(
    "--partitions", type=click.IntRange(1, 4096), help="How many partitions a new store gets; 8 by default."
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "csv", "arrow"]),
    help="Format of the file; its name tells by default.",
)
@click.option(
    "--batch-rows",
    default=250_000,
    show_default=True,
    type=click.IntRange(1),
    help="Rows that are read and written at once, at most.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=_ColumnType(),
    help="SQL type of a CSV column; inferred by default. Repeatable.",
)
@click.option(
    "--order-by",
    metavar="COLUMN",
    default="",
    help="The row with the largest value of it wins, whatever comes last.",
)
@click.option(
    "--merge",
    multiple=True,
    metavar="NAME=FUNCTION(COLUMN)",
    help="A column that merges all rows of a key, as plays=count(). Repeatable.",
)
@click.option(
    "--gap",
    metavar="TIME",
    default="",
    help="Rows become sessions, which end when nothing comes for so long, as '30 minutes'.",
)
@click.option("--time", metavar="COLUMN", default="", help="When a row happened, for sessions.")
@click.option(
    "--valid-from",
    metavar="COLUMN",
    default="",
    help="Keep all versions of a row; each holds from this time on.",
)
@click.option(
    "--retention", metavar="TIME", default="", help="How long rows stay, as '7 days'; for ever by default."
)
@click.option(
    "--retention-column",
    metavar="COLUMN",
    default="",
    help="Time that the retention goes by; else the end of the session or version, or the commit.",
)
@click.option(
    "--watermark", type=_Moment(), help="Nothing earlier is waited for: lets rows go by --retention-column."
)
@click.option("--global", "is_global", is_flag=True, help="Every host holds all of the store.")
@click.option(
    "--in-memory", is_flag=True, help="Hosts keep the store in memory only, and rebuild it when they start."
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Load although a job writes the store's group; it has to be started again then.",
)
def load(
    store: str, file: Path, changelog: str, file_format: Any, types: Sequence[tuple[str, str]], **given: Any
) -> None:
    """Load FILE (Parquet, CSV or Arrow) into STORE, which is created on first use.

    All rows become visible together, as one epoch, however many they are; a load that fails leaves nothing.
    Where a job writes the store's group, stop it first, and start it again afterwards: --take-over loads
    then, and a job that still runs is refused.

    A row replaces the one with the same key, unless the new store is of another kind: --order-by keeps the
    latest row, --merge aggregates, --gap makes sessions (with --merge for their columns), --valid-from keeps
    versions. MERGE functions are count, sum, min, max, avg, first(a by t), last(a by t), count_distinct and
    quantiles(a, 0.5, …). A store that exists is what it is: leave these options out.

    \b
    Examples:
      livestate load songs songs.parquet --changelog file:///var/lib/livestate --key song_id
      livestate load prices prices.csv --changelog s3://bucket/livestate --key shop,item \\
          --partition-by shop --type "price=DECIMAL(10,2)"
      livestate load sales sales.csv --changelog /var/lib/livestate --key shop \\
          --merge "total=sum(amount)" --merge "sales=count()"
      livestate load visits clicks.csv --changelog /var/lib/livestate --key user \\
          --gap "30 minutes" --time at --merge "clicks=count()"
      livestate load rates rates.csv --changelog /var/lib/livestate --key currency \\
          --valid-from at --retention "365 days"
    """
    from engine.changelog import Changelog  # noqa: PLC0415  it imports pyarrow and obstore
    from flight_server.cli.behaviour_text import BehaviourText  # noqa: PLC0415  likewise
    from flight_server.cli.load import LoadOptions, load_file  # noqa: PLC0415  likewise
    from flight_server.cli.load_progress import show_progress  # noqa: PLC0415  it imports rich

    behaviour = BehaviourText(**{name: given.pop(name) for name in BehaviourText.__dataclass_fields__})
    options = LoadOptions(store, format=file_format, types=dict(types), behaviour=behaviour, **given)
    with _failures(), show_progress(store) as report:
        load_file(Changelog.open(changelog), file, options, report)


@main.command()
@click.argument("store")
@_changelog_option(required=True)
@click.option(
    "--add",
    multiple=True,
    metavar="COLUMN",
    help="A new column, as 'rating DOUBLE' or \"kind VARCHAR DEFAULT 'song'\". Repeatable.",
)
@click.option(
    "--drop", multiple=True, metavar="NAME", help="A column that goes, with its values. Repeatable."
)
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Another name for a column. Repeatable.")
@click.option(
    "--widen",
    multiple=True,
    metavar="NAME=TYPE",
    help="A type that has all values of the one before, as plays=BIGINT. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Show what would become of the store, and change nothing.")
@click.option(
    "--wait",
    default=10.0,
    show_default=True,
    type=_Seconds(0),
    metavar="SECONDS",
    help="How long to wait for a commit.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help=(
        "Commit an empty epoch if none comes; a job that writes the store's group has to be started again "
        "then."
    ),
)
@_takes_connection(_uris_option)
def migrate(store: str, changelog: str, connection: ConnectionOptions, **given: Any) -> None:
    """Change the columns of STORE while jobs write it and hosts serve it.

    The next commit of the store's group takes the change up: from this epoch on the store has the new columns
    on all hosts, rows of before and after answer together, and AS OF an earlier epoch shows the old ones. A
    job that writes the old columns goes on; its rows get the new columns' defaults. Hosts rewrite old rows in
    the background.

    Without changes, waits for a commit that takes up what was changed before.

    \b
    Examples:
      livestate migrate plays --changelog file:///var/lib/livestate --add 'rating DOUBLE' --dry-run
      livestate migrate plays --changelog s3://bucket/livestate --rename title=name --widen count=BIGINT
      livestate migrate plays --changelog /var/lib/livestate --drop rating --take-over
    """
    from engine.changelog import Changelog  # noqa: PLC0415  it imports pyarrow and obstore
    from flight_server.cli.migrate import MigrateOptions, migrate  # noqa: PLC0415  likewise

    with _failures():
        migrate(Changelog.open(changelog), MigrateOptions(store, **given), click.echo)
        if not given["dry_run"]:
            _notify(connection)


def _notify(connection: ConnectionOptions) -> None:
    """Have hosts look for what is new in the changelog."""
    if not connection.uris:
        return
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight

    for host in connection.hosts:
        with Client(host) as client:
            client.notify()


@main.command()
@click.argument("name")
@click.argument("store")
@_changelog_option(required=True)
@_takes_connection(_uris_option)
def switch(name: str, store: str, changelog: str, connection: ConnectionOptions) -> None:
    """Let NAME mean STORE in SQL, so that a store that was built beside another one takes its place.

    NAME is that of a store, or a new one. Each statement looks its names up once, so none sees both stores.
    Jobs go on to write the stores that they name, and `livestate switch NAME NAME` goes back.

    \b
    Examples:
      livestate switch plays plays_by_country --changelog file:///var/lib/livestate
      livestate switch plays plays --changelog file:///var/lib/livestate --uri grpc://10.0.0.7:8815
    """
    from engine.changelog import Changelog  # noqa: PLC0415  it imports pyarrow and obstore
    from engine.model.schema import StoreName  # noqa: PLC0415  likewise

    with _failures():
        opened = Changelog.open(changelog)
        opened.switch(StoreName(name), StoreName(store))
        is_store = opened.definition(StoreName(store)) is not None
        _notify(connection)
    click.echo(
        f"SQL reads store {store} by the name {name}."
        if is_store
        else f"The name {name} means no store any more."
    )


@main.command()
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="MIB/S",
    help="What the host reads a second at most; 32 by default, or its --scrub-rate.",
)
@click.option("--cancel", is_flag=True, help="End the scrub that runs.")
@click.option("--status", is_flag=True, help="Say how far it is, and do nothing.")
@_takes_connection(_uri_option)
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
    with _failures(), Client(connection) as client:
        if cancel or status:
            click.echo(progress_text(client.scrub("cancel" if cancel else "status")))
            return
        is_right = run_scrub(client, rate, click.echo)
    if not is_right:
        raise SystemExit(1)


@main.command()
@click.argument("place", metavar="URI|DIRECTORY")
@_changelog_option()
def verify(place: str, changelog: str | None) -> None:
    """Read a changelog, or the data directory of a stopped host, and say what is wrong with it.

    Of a changelog every epoch and snapshot is read with all rows: whether they are there, name the one before
    them, and have the checksums that they had. Of a data directory every block of every partition is. Nothing
    is written; jobs and hosts may use the changelog meanwhile. One line a fault, and the exit code is 1 if
    there is any.

    \b
    Examples:
      livestate verify file:///var/lib/livestate
      livestate verify s3://bucket/livestate
      livestate verify /var/lib/livestate-host --changelog file:///var/lib/livestate
    """
    from flight_server.cli.verify import verify as run_verify  # noqa: PLC0415  it imports pyarrow and obstore

    has_faults = False
    with _failures():
        for line in run_verify(place, changelog):
            click.echo(line.text, err=line.is_progress)
            has_faults |= line.is_fault
    if has_faults:
        raise SystemExit(1)


@main.command()
@_changelog_option(required=True)
@_snapshots_kept_option
@_snapshot_tail_option
@click.argument("groups", nargs=-1)
def collect(
    changelog: str, groups: Sequence[str], snapshots_kept: int | None, snapshot_tail: float | None
) -> None:
    """Delete what the changelog does not need: data files that no epoch refers to, and epochs that snapshots
    have made dispensable.

    The former are what crashed or fenced jobs left; the latter go by themselves whenever hosts have made a
    snapshot. Works on the store GROUPS named, or on all. It is safe while jobs and hosts run.

    \b
    Example:
      livestate collect --changelog file:///var/lib/livestate
    """
    from engine.changelog import Changelog  # noqa: PLC0415  it imports pyarrow and obstore
    from engine.model.schema import GroupName  # noqa: PLC0415  likewise
    from flight_server.host.serving import snapshot_retention  # noqa: PLC0415  likewise

    with _failures():
        opened = Changelog.open(changelog)
        known = opened.groups()
        if not known:
            raise InvalidInput("The changelog has no store groups: check its URI, or write a store first.")
        unknown = [group for group in groups if group not in known]
        if unknown:
            raise InvalidInput(f"There is no store group {', '.join(unknown)}; there are {', '.join(known)}.")
        retention = snapshot_retention(snapshots_kept, snapshot_tail)
        for group in [GroupName(name) for name in groups] or known:
            dropped = opened.drop(group, retention, time.time_ns() // 1000)
            click.echo(
                f"{group}: {opened.collect(group)} files deleted, {dropped.epochs} epochs and "
                f"{dropped.snapshots} snapshots dropped"
            )


_epochs_option = click.option(
    "--epoch",
    "epochs",
    multiple=True,
    metavar="GROUP=EPOCH",
    help="An earlier epoch of a store group; by default the newest that there is. Repeatable.",
)


@main.command()
@click.argument("backup", metavar="URI")
@_changelog_option(required=True)
@_epochs_option
def backup(backup: str, changelog: str, epochs: Sequence[str]) -> None:
    """Copy the changelog to URI, at one epoch of each store group, while jobs write it and hosts follow it.

    URI is an empty place, or an earlier backup of the same changelog: then only what is new is copied. Every
    row is checked on its way. A backup that was interrupted is taken up by the same command; until it is
    done, an earlier one is what it was.

    \b
    Examples:
      livestate backup s3://backups/livestate --changelog s3://bucket/livestate
      livestate backup /mnt/backup/2026-11-20 --changelog /var/lib/livestate --epoch plays=120
    """
    from engine.changelog import Changelog  # noqa: PLC0415  it imports pyarrow and obstore
    from flight_server.cli.backup import parse_epochs, run_backup  # noqa: PLC0415  it imports rich

    with _failures():
        run_backup(Changelog.open(changelog), Changelog.open(backup), parse_epochs(epochs))


@main.command()
@click.argument("backup", metavar="URI")
@_changelog_option(required=True)
@_epochs_option
def restore(backup: str, changelog: str, epochs: Sequence[str]) -> None:
    """Make a changelog of the backup at URI, in an empty place.

    Nothing is to be seen of the changelog before all of it is there. It is the same one to hosts: what they
    have built from epochs that the backup lacks they put aside, and build it again. Jobs go on behind the
    last batch that the backup has, so start them from a checkpoint that is no newer.

    \b
    Examples:
      livestate restore s3://backups/livestate --changelog s3://bucket/livestate
      livestate restore /mnt/backup/2026-11-20 --changelog /var/lib/livestate
    """
    from engine.changelog import Changelog  # noqa: PLC0415  it imports pyarrow and obstore
    from flight_server.cli.backup import parse_epochs, run_restore  # noqa: PLC0415  it imports rich

    with _failures():
        run_restore(Changelog.open(backup), Changelog.open(changelog), parse_epochs(epochs))


@main.command()
@click.option(
    "--duration",
    type=_Seconds(1),
    metavar="SECONDS",
    help="End after this time; by default, when you press Ctrl-C.",
)
@click.option(
    "--rate", default=6000, show_default=True, type=click.IntRange(1, 1_000_000), help="Play events a second."
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
    help="Send the plays through a Kafka topic, on a broker of its own; make kafka fetches it.",
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

    with _failures():
        passed = run_demo(
            DemoOptions(
                duration=duration, rate=rate, hosts=hosts, port=port, keep=keep, seed=seed, kafka=kafka
            )
        )
    if not passed:
        raise SystemExit(1)


def run() -> None:
    """Be the command, in a process of its own."""
    hide_pandas()
    main(prog_name="livestate")


if __name__ == "__main__":
    run()
