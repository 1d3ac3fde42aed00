"""`livestate token` and `livestate user`: entries in the files by which callers prove who they are."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from engine.access.security_file import parse_tokens, parse_users
from engine.errors import InvalidInput
from flight_server.client.secret_files import read_secret_text, write_secret

TOKEN_PREFIX = "ls_"  # noqa: S105 - what a secret begins with, so that whoever finds one knows whose it is
_TOKEN_BYTES = 32
SHORTEST_PASSWORD = 8


def add_token(
    file: Path, name: str, roles: Sequence[str], claims: Mapping[str, str], expires: datetime | None
) -> str:
    """Make a token, and add its digest to a file.

    Args:
        file: The file of tokens; made if it is not there.
        name: Whose it is.
        roles: Its roles.
        claims: Its claims.
        expires: When it ends, with a zone; None: never.

    Returns:
        The token, which is nowhere else.

    Raises:
        InvalidInput: The file is no file of tokens, or the entry cannot be.
    """
    token = TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    lines = ["[[tokens]]", f"name = {_toml(name)}"]
    lines.append(f"sha256 = {_toml(hashlib.sha256(token.encode()).hexdigest())}")
    lines.append(f"roles = {_toml(list(roles))}")
    lines += [] if expires is None else [f"expires = {expires.isoformat(timespec='seconds')}"]
    with _directory_lock(file):
        text = _text_with_entry(file, "tokens", [*lines, *_claim_lines(claims)])
        parse_tokens(text)
        write_secret(file, text.encode())
    return token


def add_user(file: Path, name: str, password: str, roles: Sequence[str], claims: Mapping[str, str]) -> None:
    """Add a user to a file, with the digest of the password.

    Args:
        file: The file of users; made if it is not there.
        name: The user.
        password: The password.
        roles: The user's roles.
        claims: The user's claims.

    Raises:
        InvalidInput: The file is no file of users or has the user already, or the entry cannot be.
    """
    from flight_server.identity.passwords import LONGEST_PASSWORD, digest_password  # noqa: PLC0415  it imports argon2

    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidInput(f"A password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters.")
    lines = ["[[users]]", f"name = {_toml(name)}", f"password = {_toml(digest_password(password))}"]
    lines.append(f"roles = {_toml(list(roles))}")
    with _directory_lock(file):
        if file.exists() and name in {user.name for user in parse_users(_text_of(file, "users"))}:
            raise InvalidInput(
                f"There is a user {name} already: for another password, delete the entry first."
            )
        text = _text_with_entry(file, "users", [*lines, *_claim_lines(claims)])
        parse_users(text)
        write_secret(file, text.encode())


@contextmanager
def _directory_lock(file: Path) -> Iterator[None]:
    """Keep others from adding to a file between the look at it and the writing."""
    try:
        directory = os.open(file.resolve().parent, os.O_RDONLY)
    except OSError as error:
        raise InvalidInput(f"The file cannot be written: {error.strerror}.") from error
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def _text_of(file: Path, what: str) -> str:
    return read_secret_text(file, f"The file of {what}")


def _text_with_entry(file: Path, what: str, lines: Sequence[str]) -> str:
    before = _text_of(file, what) if file.exists() else "version = 1\n"
    return before.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n"


def _claim_lines(claims: Mapping[str, str]) -> list[str]:
    if not claims:
        return []
    pairs = ", ".join(f"{_toml(name)} = {_toml(value)}" for name, value in claims.items())
    return [f"claims = {{{pairs}}}"]


def _toml(value: str | list[str]) -> str:
    # TOML's basic strings and arrays of them escape what JSON's do, but for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
