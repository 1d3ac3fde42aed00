"""`livestate token` and `user`: who may call."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import click

from flight_server.cli.options import Claim, password_of
from flight_server.cli.usage import values_by_name

_MOST_DAYS = 36_500
"""A hundred years: calendars end, and who wants more wants a token without an end."""

_roles_option = click.option(
    "--role",
    "roles",
    multiple=True,
    default=("reader",),
    show_default=True,
    help="A role: reader, writer (tells hosts of epochs), operator, peer (another host). Repeatable.",
)


_claims_option = click.option(
    "--claim",
    "claims",
    multiple=True,
    type=Claim(),
    help="What is known of who calls, such as desk=rates. Repeatable.",
)


def _note_own_roles(roles: Sequence[str]) -> None:
    """Say which roles are not built in: a host refuses the whole file if it does not know one of them."""
    from engine.access.principal import BUILT_IN_ROLES  # noqa: PLC0415  only when it is called

    for role in dict.fromkeys(roles):
        if role not in BUILT_IN_ROLES:
            click.echo(
                f"Note: the role {role} is not built in; hosts take the file only where their security file "
                "has it.",
                err=True,
            )


@click.command()
@click.argument("name")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file of tokens; made if it is not there.",
)
@_roles_option
@_claims_option
@click.option(
    "--days", type=click.IntRange(1, _MOST_DAYS), help="After how many days the token ends; never by default."
)
def token(
    name: str, file: Path, roles: tuple[str, ...], claims: tuple[tuple[str, str], ...], days: int | None
) -> None:
    """Make a token for NAME, and print it.

    The file keeps its digest only, so the token is shown this once. A host whose security file names the file
    takes the token within a second. To take it back, delete its entry.

    \b
    Examples:
      livestate token grafana --file tokens.toml --days 90
      livestate token scores-job --file tokens.toml --role writer
      livestate token ann --file tokens.toml --claim desk=rates
    """
    from flight_server.cli.credentials import add_token  # noqa: PLC0415  it imports argon2

    _note_own_roles(roles)
    ends = None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    click.echo(add_token(file, name, roles, values_by_name(claims, "--claim"), ends))


@click.command()
@click.argument("name")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file of users; made if it is not there.",
)
@_roles_option
@_claims_option
def user(name: str, file: Path, roles: tuple[str, ...], claims: tuple[tuple[str, str], ...]) -> None:
    """Let the user NAME log in with a password, which is LIVESTATE_PASSWORD or asked for.

    The file keeps the password's argon2 digest. A host whose security file names the file takes the user
    within a second. To lock the user out, or for another password, delete the entry.

    \b
    Examples:
      livestate user ann --file users.toml
      livestate user ann --file users.toml --role reader --role operator --claim desk=rates
    """
    from flight_server.cli.credentials import add_user  # noqa: PLC0415  it imports argon2

    _note_own_roles(roles)
    by_name = values_by_name(claims, "--claim")
    add_user(file, name, password_of(name, is_new=True), roles, by_name)
