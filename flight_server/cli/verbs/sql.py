"""`livestate sql` and `bench`, which ask statements."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from flight_server.cli.options import DEFAULT_URI, NumberRange, Seconds, takes_connection, uri_option
from flight_server.cli.usage import usage_errors

if TYPE_CHECKING:
    from flight_server.client.client import Client
    from flight_server.client.connection_options import ConnectionOptions


@click.command()
@click.argument("statement", required=False)
@click.option(
    "-f",
    "--file",
    "source",
    type=click.File("r", encoding="utf-8"),
    help="Read the SQL from a file; - is standard input.",
)
@takes_connection(uri_option)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "csv", "json", "arrow", "parquet"]),
    help="How rows are written: by default a table, or what the name of --output ends in.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the rows of one statement to this file, which is there when all of them are; - is standard "
    "output.",
)
@click.option(
    "--keep-going", is_flag=True, help="After a statement that fails, run the next one; the exit code is 1."
)
@click.option(
    "--watch",
    type=Seconds(0.1, 86_400),
    metavar="SECONDS",
    help="Run the statement again and again, with so many seconds between, until Ctrl-C.",
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
    "--timeout", type=Seconds(min=0, min_open=True), metavar="SECONDS", help="How long a statement may run."
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
@click.option(
    "--allow-stale",
    is_flag=True,
    help="Take the answer of a host, too, that is further behind than its --max-lag.",
)
def sql(
    statement: str | None,
    source: IO[str] | None,
    connection: ConnectionOptions,
    output_format: str | None,
    output: Path | None,
    keep_going: bool,
    watch: float | None,
    max_rows: int,
    dialect: str,
    timeout: float | None,
    min_epoch: str | None,
    max_staleness: str | None,
    as_of: str | None,
    allow_stale: bool,
) -> None:
    """Run SQL: one statement, or several with semicolons between them; without any, at a terminal, open a
    prompt.

    The first statement that fails ends it, and is named with its line. csv, json (an object a line) and arrow
    (IPC stream) are written as the rows arrive. A file has the format that its name ends in: .parquet,
    .arrow (IPC file), .arrows (IPC stream), .csv or .json.

    \b
    Examples:
      livestate sql "SHOW STORES"
      livestate sql "SELECT * FROM plays" --format csv > plays.csv
      livestate sql "SELECT * FROM plays" -o plays.parquet
      livestate sql -f report.sql --uri 10.0.0.7:8815
      echo "SELECT count(*) FROM plays" | livestate sql -f -
      livestate sql "SELECT * FROM plays ORDER BY count DESC LIMIT 5" --watch 2
      livestate sql "SELECT count(*) FROM plays" --as-of 2026-11-20T12:00:00Z
      livestate sql
    """
    if statement is not None and source is not None:
        raise click.UsageError("Give the SQL as an argument or with --file, not both.")
    read_point = {
        "min_epoch": min_epoch,
        "max_staleness": max_staleness,
        "as_of": as_of,
        "allow_stale": allow_stale,
    }
    if statement is None and source is None and sys.stdin.isatty() and sys.stdout.isatty():
        if output is not None or watch is not None or output_format not in (None, "table"):
            raise click.UsageError("Give the SQL as an argument or with --file: the prompt shows tables.")
        with _sql_client(connection, dialect, timeout, read_point) as client:
            _prompt(client, max_rows)
        return
    text, name = (statement, "") if statement is not None else _read(source)
    file = None if output == Path("-") else output
    run = _ScriptRun(output_format, file, keep_going, watch, max_rows)
    with _sql_client(connection, dialect, timeout, read_point) as client:
        is_right = run.run(client, text, name, dialect)
    if not is_right:
        raise SystemExit(1)


def _sql_client(
    connection: ConnectionOptions, dialect: str, timeout: float | None, read_point: Mapping[str, object]
) -> Client:
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight
    from flight_server.wire.read_point_options import parse_read_point  # noqa: PLC0415  likewise

    with usage_errors():
        return Client(
            connection,
            dialect=dialect,
            timeout_seconds=timeout,
            read_point=parse_read_point(**read_point),
        )


def _read(source: IO[str] | None) -> tuple[str, str]:
    """The SQL of a file, or of standard input, and what to call it."""
    with source if source is not None else click.open_file("-", encoding="utf-8") as opened:
        name = "" if opened.name == "<stdin>" else Path(opened.name).name
        try:
            # Editors on Windows begin a file with this mark.
            return opened.read().removeprefix("\ufeff"), name
        except UnicodeDecodeError as error:
            raise click.UsageError("The SQL is not text in UTF-8.") from error


def _prompt(client: Client, max_rows: int) -> None:
    from flight_server.cli.prompt import run_prompt  # noqa: PLC0415  it imports prompt_toolkit
    from flight_server.cli.render import terminal  # noqa: PLC0415  it imports pyarrow

    run_prompt(client, terminal(), max_rows)


@dataclass(frozen=True)
class _ScriptRun:
    """What `livestate sql` was told to do with its statements."""

    output_format: str | None
    output: Path | None
    keep_going: bool
    watch: float | None
    max_rows: int

    def run(self, client: Client, text: str, name: str, dialect: str) -> bool:
        """Run a text.

        Args:
            client: Connection to the host.
            text: One or several statements.
            name: What it is called in messages; empty for nothing.
            dialect: Its dialect.

        Returns:
            Whether all statements ran.
        """
        from flight_server.cli import output_files, scripts  # noqa: PLC0415  they import pyarrow

        script = scripts.Script.parse(text, name, dialect)
        if not script.statements:
            raise click.UsageError(
                "There is no SQL: give it as an argument, with --file, or on standard input."
            )
        settings, others = script.cut_settings()
        self._check(len(others.statements))
        if self.watch is None and self.output is None:
            with _interrupts_end_the_process():
                return scripts.run_script(
                    client, script, self.output_format or "table", self.max_rows, keep_going=self.keep_going
                )
        with usage_errors():
            file_format = (
                "" if self.output is None else output_files.format_of(self.output, self.output_format)
            )
        with _interrupts_end_the_process():
            scripts.run_script(client, settings, "table", self.max_rows)
        statement = others.statements[0].text
        if self.watch is not None:
            scripts.watch_statement(client, statement, self.watch, self.max_rows)
        elif self.output is not None:
            output_files.write_result(client, statement, self.output, file_format)
        return True

    def _check(self, statements: int) -> None:
        is_table = self.output_format in (None, "table")
        if not statements and (self.watch is not None or self.output is not None):
            raise click.UsageError("There is no statement with rows behind SET and RESET.")
        if self.watch is not None and (self.output is not None or not is_table):
            raise click.UsageError("--watch shows tables: leave --output and --format out.")
        if statements > 1 and self.watch is not None:
            raise click.UsageError(f"--watch runs one statement, and these are {statements}.")
        if statements > 1 and (self.output is not None or self.output_format == "arrow"):
            raise click.UsageError(f"A file has the rows of one statement, and these are {statements}.")
        if self.output is not None:
            return
        if self.output_format == "parquet":
            raise click.UsageError("Parquet cannot be written piece by piece: name a file with --output.")
        if self.output_format == "arrow" and sys.stdout.isatty():
            raise click.UsageError(
                "Arrow data is not for a terminal: name a file with --output, or send it to a program."
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


@click.command()
@click.argument("statement", required=False)
@click.option(
    "-f",
    "--file",
    "source",
    type=click.File("r", encoding="utf-8"),
    help="Read the statements from a file; - is standard input.",
)
@click.option(
    "--clients", default=8, show_default=True, type=click.IntRange(1, 1024), help="How many ask at once."
)
@click.option(
    "--duration",
    default=10.0,
    show_default=True,
    type=Seconds(0.1),
    metavar="SECONDS",
    help="How long the clients ask.",
)
@click.option(
    "--numbers",
    type=NumberRange(),
    metavar="FROM:TO",
    help="Bind $n in the statements to a number from this range, drawn for each call.",
)
@click.option("--dialect", default="", metavar="NAME", help="SQL dialect of the statements.")
@takes_connection(
    click.option(
        "--uri",
        multiple=True,
        default=(DEFAULT_URI,),
        show_default=True,
        envvar="LIVESTATE_URI",
        help="Address of a host; host:8815 is enough. Repeatable: clients spread over them.",
    )
)
def bench(
    statement: str | None,
    source: IO[str] | None,
    connection: ConnectionOptions,
    clients: int,
    duration: float,
    numbers: tuple[int, int] | None,
    dialect: str,
) -> None:
    """Ask a deployment the same statements again and again from several clients, and say how many it answers
    a second, and how fast.

    A call counts until its last row is here. Clients are threads of this process: see that it has a processor
    for itself, better a machine, or what is measured is the command. Answers that a host keeps are fast: use
    $n where real statements differ. The exit code is 1 if a call failed.

    \b
    Examples:
      livestate bench "SELECT * FROM plays WHERE song_id = $n" --numbers 1:1000000 --clients 16
      livestate bench -f report.sql --duration 60 --uri 10.0.0.7:8815 --uri 10.0.0.8:8815
    """
    if (statement is None) == (source is None):
        raise click.UsageError("Give the SQL as an argument or with --file.")
    text, name = (statement, "") if statement is not None else _read(source)
    from flight_server.cli.bench import BenchOptions, bench_table, run_bench  # noqa: PLC0415  it imports pyarrow
    from flight_server.cli.render import terminal  # noqa: PLC0415  likewise
    from flight_server.cli.scripts import Script  # noqa: PLC0415  likewise

    statements = [each.text for each in Script.parse(text or "", name, dialect).statements]
    if not statements:
        raise click.UsageError("There is no SQL.")
    if numbers is None and any("$n" in each for each in statements):
        raise click.UsageError("Say with --numbers which numbers $n may be, such as --numbers 1:1000000.")
    options = BenchOptions(statements, clients, duration, numbers, dialect)
    with _interrupts_end_the_process():
        result = run_bench(connection.hosts, options)
    terminal().print(bench_table(options, result))
    if result.first_error:
        raise click.ClickException(f"Calls failed, the first of them so: {result.first_error}")
