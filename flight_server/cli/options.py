"""Types of parameters, and options that several verbs take."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from engine.errors import InvalidInput
from flight_server.cli.usage import usage_errors

DEFAULT_URI = "grpc://127.0.0.1:8815"
MOST_EVENTS = 1_000_000
"""Events a second that can be asked for: more than one machine makes, and reads."""

FILE = click.Path(path_type=Path, exists=True, dir_okay=False, readable=True)


class Names(click.ParamType[tuple[str, ...]]):
    """Column names, separated by commas."""

    name = "columns"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names in a text."""
        names = tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else tuple(value)
        if not all(names):
            self.fail(f"{value!r} has an empty name; write a,b.", param, ctx)
        return names


_MOST_BYTES = 1 << 50
"""Of any size that is given; the engine counts up to some thousand times that."""


class Size(click.ParamType[int]):
    """A number of bytes, with or without a unit.

    Args:
        zero: Whether 0 is one, too.
        least: How many there are at least.
    """

    name = "size"

    def __init__(self, *, zero: bool = False, least: int = 0) -> None:
        self._zero = zero
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes that a text means."""
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*", str(value), re.IGNORECASE)
        if found is None or not (float(found[1]) or self._zero):
            self.fail(f"{value!r} is not a size; write it like 512MiB or 4GiB.", param, ctx)
        unit = (found[2] or " ").upper()
        base = 1024 if unit.endswith("I") else 1000
        nbytes = float(found[1]) * base ** " KMGT".index(unit[0])
        if nbytes > _MOST_BYTES:
            self.fail(f"{value!r} is more than a machine has; write it like 512MiB or 4GiB.", param, ctx)
        if nbytes < self._least:
            self.fail(f"{value!r} is too little: give at least {self._least >> 20}MiB.", param, ctx)
        return int(nbytes)


class Number(click.FloatRange):
    """A number; NaN and numbers without end are on neither side of a range's ends, or within it."""

    _WHAT = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number that a text means."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no {self._WHAT}.", param, ctx)
        return number


class Seconds(Number):
    """A length of time."""

    _WHAT = "number of seconds"


class Directory(click.Path):
    """A directory that is named: what a variable that is not set leaves would be the current one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if not str(value):
            self.fail("The name of the directory is empty: say which one it is.", param, ctx)
        return super().convert(value, param, ctx)


class Address(click.ParamType[str]):
    """A name or number of an interface, beside which the port has an option of its own."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The address."""
        found = re.fullmatch(r"(?:[^:]*|\[.*\]):(\d+)", str(value))
        if found is not None:
            self.fail(f"{value!r} has a port: give it as --port {found[1]}.", param, ctx)
        return str(value)


class Moment(click.ParamType[dt.datetime]):
    """A point in time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:
        """The time that a text means, in UTC where it does not say."""
        try:
            moment = dt.datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is not a time: write it as 2026-11-20T12:00:00; without an offset it is in UTC.",
                param,
                ctx,
            )
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


class ColumnType(click.ParamType[tuple[str, str]]):
    """`column=SQL type`."""

    name = "column=type"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """The column and the type."""
        column, equals, type_name = value.partition("=")
        if not (column and equals and type_name):
            self.fail(f"{value!r} is not like price=DECIMAL(10,2).", param, ctx)
        from engine.model.sql_types import parse_sql_type  # noqa: PLC0415  it imports pyarrow

        try:
            parse_sql_type(type_name)
        except InvalidInput as error:
            self.fail(error.message, param, ctx)
        return column, type_name


class Claim(click.ParamType[tuple[str, str]]):
    """`name=value`."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """The name and the value."""
        name, equals, text = value.partition("=")
        if not (name and equals):
            self.fail(f"{value!r} is not like desk=rates.", param, ctx)
        return name, text


class NumberRange(click.ParamType[tuple[int, int]]):
    """`from:to`."""

    name = "from:to"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """The first and the last number."""
        found = re.fullmatch(r"(-?\d{1,18}):(-?\d{1,18})", str(value))
        if found is None or int(found[1]) > int(found[2]):
            self.fail(f"{value!r} is not like 1:1000000.", param, ctx)
        return int(found[1]), int(found[2])


def token_of(file: Path | None) -> str | None:
    """The token to present.

    Args:
        file: The file that holds it; None for the environment's.

    Returns:
        None where there is none.

    Raises:
        BadParameter: The file cannot be read, or holds none.
    """
    from flight_server.client.connection_options import read_token  # noqa: PLC0415  only what talks to a host needs it

    if file is None:
        return os.environ.get("LIVESTATE_TOKEN")
    try:
        return read_token(file)
    except InvalidInput as error:
        raise click.BadParameter(error.message, param_hint="--token-file") from error


uri_option = click.option(
    "--uri",
    default=DEFAULT_URI,
    show_default=True,
    envvar="LIVESTATE_URI",
    help="Address of a host; host:8815 is enough.",
)


uris_option = click.option(
    "--uri",
    multiple=True,
    help="Address of a host that is to take note at once; others do within a second. Repeatable.",
)


changelog_option = partial(
    click.option,
    "--changelog",
    metavar="URI",
    envvar="LIVESTATE_CHANGELOG",
    help="The changelog: file:///dir or a path, s3://, gs://, az://.",
)


snapshots_kept_option = click.option(
    "--snapshots-kept",
    type=click.IntRange(1),
    metavar="N",
    help="Snapshots that stay in the changelog, with the epochs behind them; 2 by default.",
)


snapshot_tail_option = click.option(
    "--snapshot-tail",
    type=Seconds(0),
    metavar="SECONDS",
    help="How long epochs before a snapshot stay; 600 by default.",
)


token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that holds the host's token; else LIVESTATE_TOKEN is taken.",
)


_roots_option = click.option(
    "--tls-roots",
    type=FILE,
    envvar="LIVESTATE_TLS_ROOTS",
    help="PEM certificates that vouch for the host; the system's by default.",
)


_user_option = click.option(
    "--user",
    envvar="LIVESTATE_USER",
    help="Log in as this user; the password is LIVESTATE_PASSWORD, or asked for. LIVESTATE_USER stands back "
    "where --token-file is given.",
)


_certificate_option = click.option(
    "--certificate", type=FILE, help="PEM certificate that says who calls, with --key."
)


_key_option = click.option("--key", type=FILE, help="PEM key of --certificate.")


def password_of(user: str, *, is_new: bool = False) -> str:
    """The password of a user: LIVESTATE_PASSWORD, or what is typed.

    Args:
        user: The user.
        is_new: Whether it is to be typed twice.

    Raises:
        UsageError: There is nothing to read it from.
    """
    given = os.environ.get("LIVESTATE_PASSWORD")
    if given:
        return given
    import warnings  # noqa: PLC0415  only this needs them
    from getpass import GetPassWarning  # noqa: PLC0415  likewise

    with warnings.catch_warnings():
        # Python's names a file of Python's.
        warnings.simplefilter("ignore", GetPassWarning)
        try:
            typed: str = click.prompt(
                f"Password of {user}", hide_input=True, confirmation_prompt=is_new, err=True
            )
        except click.Abort as abort:
            if isinstance(abort.__context__, KeyboardInterrupt):
                raise
            raise click.UsageError(
                f"There is no terminal to ask for the password of {user} at: set LIVESTATE_PASSWORD."
            ) from abort
    return typed


def takes_connection(uri_option: Callable[[Any], Any]) -> Callable[[Callable[..., None]], Any]:
    """Give a command the options that say how hosts are reached, as one value: its argument `connection`.

    Args:
        uri_option: The one that names hosts.
    """

    def decorate(command: Callable[..., None]) -> Any:
        @uri_option
        @token_option
        @_roots_option
        @_user_option
        @_certificate_option
        @_key_option
        @wraps(command)
        def run(
            uri: str | Sequence[str],
            token_file: Path | None,
            tls_roots: Path | None,
            user: str | None,
            certificate: Path | None,
            key: Path | None,
            **given: Any,
        ) -> None:
            from flight_server.client.connection_options import ConnectionOptions  # noqa: PLC0415  only these need it

            source = click.get_current_context().get_parameter_source("user")
            if token_file is not None and source is ParameterSource.ENVIRONMENT:
                # What is typed goes before what is set once for all commands.
                user = None
            with usage_errors():
                connection = ConnectionOptions.read(
                    uri,
                    token=None if user and token_file is None else token_of(token_file) or None,
                    tls_roots=tls_roots,
                    user=user or "",
                    password=password_of(user) if user else "",
                    certificate=certificate,
                    key=key,
                )
            command(connection=connection, **given)

        return run

    return decorate
