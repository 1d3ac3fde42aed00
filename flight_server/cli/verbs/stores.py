"""`livestate load`, `migrate`, `switch`, `skip` and `drop`, which change stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flight_server.cli.failures import Failure
from flight_server.cli.options import (
    FILE,
    ColumnType,
    Moment,
    Names,
    Seconds,
    changelog_option,
    takes_connection,
    uris_option,
)
from flight_server.cli.usage import open_changelog, open_lasting_changelog, usage_errors, values_by_name

if TYPE_CHECKING:
    from flight_server.client.connection_options import ConnectionOptions


@click.command()
@click.argument("store")
@click.argument("file", type=FILE)
@changelog_option(required=True)
@click.option(
    "--key",
    type=Names(),
    default=(),
    help="Columns that identify a row; may be left out when the store exists.",
)
@click.option(
    "--partition-by",
    type=Names(),
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
    type=ColumnType(),
    help="SQL type of a column; by default the file's; what values look like in CSV. Repeatable.",
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
    "--watermark", type=Moment(), help="Nothing earlier is waited for: lets rows go by --retention-column."
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
    from flight_server.cli.behaviour_text import BehaviourText  # noqa: PLC0415  it imports pyarrow
    from flight_server.cli.input_files import format_of  # noqa: PLC0415  likewise
    from flight_server.cli.load import LoadOptions, load_file  # noqa: PLC0415  likewise
    from flight_server.cli.load_progress import show_progress  # noqa: PLC0415  it imports rich

    behaviour = BehaviourText(**{name: given.pop(name) for name in BehaviourText.__dataclass_fields__})
    with usage_errors():
        file_format = format_of(file, file_format)
    by_name = values_by_name(types, "--type")
    options = LoadOptions(store, format=file_format, types=by_name, behaviour=behaviour, **given)
    with show_progress(store) as report:
        load_file(open_lasting_changelog(changelog), file, options, report)


@click.command()
@click.argument("store")
@changelog_option(required=True)
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
    type=Seconds(0),
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
@takes_connection(uris_option)
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
    from flight_server.cli.migrate import MigrateOptions, migrate  # noqa: PLC0415  it imports pyarrow

    options = MigrateOptions(store, **given)
    with usage_errors():
        _ = options.changes
    migrate(open_changelog(changelog), options, click.echo)
    if not given["dry_run"]:
        _show_untold(_notify(connection))


def _notify(connection: ConnectionOptions) -> Sequence[Failure]:
    """Have hosts look for what is new in the changelog; why some of them could not be told."""
    if not connection.uris:
        return ()
    from engine.errors import LivestateError  # noqa: PLC0415  only this needs it
    from flight_server.client.client import Client  # noqa: PLC0415  it imports pyarrow.flight

    failures = []
    for host in connection.hosts:
        try:
            with Client(host) as client:
                client.notify()
        except LivestateError as error:
            failures.append(Failure(error))
    return failures


def _show_untold(failures: Sequence[Failure]) -> None:
    """End a command whose work is done with the hosts that could not be told of it, if there are any."""
    if not failures:
        return
    for failure in failures:
        failure.show()
    click.echo("The changelog has the change all the same; hosts take note within a second.", err=True)
    raise SystemExit(Failure.exit_code)


@click.command()
@click.argument("name")
@click.argument("store")
@changelog_option(required=True)
@takes_connection(uris_option)
def switch(name: str, store: str, changelog: str, connection: ConnectionOptions) -> None:
    """Let NAME mean STORE in SQL, so that a store that was built beside another one takes its place.

    NAME is that of a store, or a new one. Each statement looks its names up once, so none sees both stores.
    Jobs go on to write the stores that they name, and `livestate switch NAME NAME` goes back.

    \b
    Examples:
      livestate switch plays plays_by_country --changelog file:///var/lib/livestate
      livestate switch plays plays --changelog file:///var/lib/livestate --uri grpc://10.0.0.7:8815
    """
    from engine.model.schema import StoreName  # noqa: PLC0415  it imports pyarrow
    from flight_server.cli.operator import operator  # noqa: PLC0415  likewise

    opened = open_changelog(changelog)
    opened.switch(StoreName(name), StoreName(store), operator())
    is_store = opened.definition(StoreName(store)) is not None
    untold = _notify(connection)
    click.echo(
        f"SQL reads store {store} by the name {name}."
        if is_store
        else f"The name {name} means no store any more."
    )
    _show_untold(untold)


@click.command()
@click.option("--group", required=True, metavar="GROUP", help="The store group.")
@click.option("--epoch", required=True, type=click.IntRange(1), metavar="EPOCH", help="The epoch to pass by.")
@click.option("--reason", required=True, metavar="TEXT", help="Why: it is shown for ever.")
@click.option(
    "--force", is_flag=True, help="Also an epoch that hosts could apply, or have applied: its rows go again."
)
@changelog_option(required=True)
@takes_connection(uris_option)
def skip(
    changelog: str, connection: ConnectionOptions, group: str, epoch: int, reason: str, force: bool
) -> None:
    """Skip an EPOCH that no host can apply, so that its store group goes on with the next one.

    Its rows count for nothing from now on, on all hosts and for ever, and the job is not told. First see
    whether a backup has the epoch: restored, no row is lost. An epoch that can be read is refused, unless a
    host given with --uri says that it cannot apply it, or with --force. One that a snapshot has the rows of
    cannot be passed by.

    \b
    Examples:
      livestate skip --group plays --epoch 120 --reason 'data file lost' --changelog s3://bucket/livestate
      livestate skip --group plays --epoch 120 --reason 'wrong prices' --changelog /var/lib/livestate --force
    """
    from contextlib import ExitStack  # noqa: PLC0415  only this needs it

    from engine.model.schema import Epoch, GroupName  # noqa: PLC0415  it imports pyarrow
    from flight_server.cli.skip import SkipOptions  # noqa: PLC0415  likewise
    from flight_server.cli.skip import skip as run_skip  # noqa: PLC0415  likewise
    from flight_server.client.client import Client  # noqa: PLC0415  likewise

    if not reason.strip() or not reason.isprintable():
        raise click.UsageError("Say with --reason why the epoch is passed by, in one line.")
    with ExitStack() as opened:
        hosts = [opened.enter_context(Client(host)) for host in connection.hosts] if connection.uris else []
        options = SkipOptions(GroupName(group), Epoch(epoch), reason, force)
        run_skip(open_changelog(changelog), options, hosts, click.echo)
        _show_untold(_notify(connection))


@click.command()
@click.argument("store")
@click.option("--yes", is_flag=True, help="Do not ask.")
@changelog_option(required=True)
@takes_connection(uris_option)
def drop(store: str, changelog: str, connection: ConnectionOptions, yes: bool) -> None:
    """Drop STORE with all its rows, from the changelog and from all hosts.

    Says what is lost, and asks. Hosts give the disk space back. A job that still writes the store fails with
    its next batch; started again, it makes a new store of this name, which has nothing of the old one. Other
    stores of the group stay as they are. If the command is interrupted, run it again: it goes on.

    \b
    Examples:
      livestate drop plays_old --changelog file:///var/lib/livestate
      livestate drop plays_old --changelog s3://bucket/livestate --yes --uri grpc://10.0.0.7:8815
    """
    from engine.model.schema import StoreName  # noqa: PLC0415  it imports pyarrow
    from flight_server.cli.drop import drop as run_drop  # noqa: PLC0415  likewise
    from flight_server.cli.drop import loss_text  # noqa: PLC0415  likewise

    opened, name = open_changelog(changelog), StoreName(store)
    loss = loss_text(opened, name)
    if loss is not None:
        click.echo(loss)
        if not yes:
            click.confirm(f"Drop {store}?", abort=True)
    untold: list[Failure] = []
    run_drop(opened, name, lambda: untold.extend(_notify(connection)), click.echo)
    _show_untold(untold)
