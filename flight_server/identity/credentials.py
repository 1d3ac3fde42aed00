"""All by which callers can prove themselves, as the files say it now."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.access.principal import BUILT_IN_ROLES
from engine.access.security_file import (
    JwtOptions,
    NamedCertificate,
    SecurityOptions,
    StaticToken,
    User,
    parse_security,
    parse_tokens,
    parse_users,
)
from engine.errors import InvalidInput
from flight_server.client.secret_files import read_secret, read_secret_text
from flight_server.identity.key_sources import KeySource
from flight_server.identity.session_tokens import KEY_BYTES


@dataclass(frozen=True)
class Credentials:
    """What the files say, made ready to be looked up.

    Attributes:
        options: The security file.
        tokens: Static tokens by their digest.
        users: Users by name.
        session_key: What signs session tokens.
        web_keys: Where the keys of JSON Web Tokens come from; None: none are taken.
        certificates: Who has which certificate, by subject.
        authorities: PEM certificates that vouch for those of callers; empty: none are asked for.
        files: What was read, each with what tells whether it has changed since.
    """

    options: SecurityOptions
    tokens: Mapping[str, StaticToken] = field(repr=False)
    users: Mapping[str, User] = field(repr=False)
    session_key: bytes = field(repr=False)
    web_keys: KeySource | None = field(repr=False)
    certificates: Mapping[str, NamedCertificate]
    authorities: bytes = field(repr=False)
    files: Mapping[Path, FileStamp] = field(repr=False)


FileStamp = tuple[int, int, int] | None
"""What tells whether a file has changed: when it did last, its size and its number; None: it is not there."""


def one_token(token: str) -> Credentials:
    """Whoever presents one token may do everything.

    Args:
        token: The token.
    """
    digest = hashlib.sha256(token.encode()).hexdigest()
    known = StaticToken(digest, "token", frozenset(BUILT_IN_ROLES))
    return Credentials(SecurityOptions(), {digest: known}, {}, b"", None, {}, b"", {})


def read_credentials(file: Path, own_session_key: bytes, before: Credentials | None = None) -> Credentials:
    """Read a security file, and the files that it names.

    Args:
        file: The security file.
        own_session_key: The host's own key, which signs session tokens if the file names none.
        before: What they said last; None: they are read for the first time.

    Returns:
        What they say.

    Raises:
        InvalidInput: One of them cannot be read, is not what it should be, or can be read by others.
    """
    stamp = file_stamp(file)
    try:
        options = parse_security(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"The security file cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput("The security file is not text in UTF-8.") from error
    if options is None:
        raise InvalidInput("The security file has no table [security].")
    directory = file.parent
    # Before they are read: what changes while it is read is read again.
    stamps = {file: stamp, **{path: file_stamp(path) for path in _named_files(options, directory)}}
    tokens = parse_tokens(_text(directory, options.tokens, "tokens")) if options.tokens else ()
    users = parse_users(_text(directory, options.users, "users")) if options.users else ()
    for token in tokens:
        options.check_roles(f"The token of {token.name}", token.roles)
    for user in users:
        options.check_roles(f"The user {user.name}", user.roles)
    certificates = options.certificates
    return Credentials(
        options,
        {token.sha256: token for token in tokens},
        {user.name: user for user in users},
        _session_key(directory, options, own_session_key),
        _web_keys(directory, options.jwt, before),
        {} if certificates is None else {known.subject: known for known in certificates.principals},
        b"" if certificates is None else _authorities(directory / certificates.authorities),
        stamps,
    )


def new_session_key() -> bytes:
    """A key that signs session tokens."""
    return secrets.token_bytes(KEY_BYTES)


def file_stamp(file: Path) -> FileStamp:
    """What tells later whether a file has changed.

    Args:
        file: Any file.
    """
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _named_files(options: SecurityOptions, directory: Path) -> list[Path]:
    names = [options.tokens, options.users, options.session_key]
    names += [] if options.certificates is None else [options.certificates.authorities]
    names += [] if options.jwt is None or "://" in options.jwt.keys else [options.jwt.keys]
    return [directory / name for name in names if name]


def _text(directory: Path, name: str, what: str) -> str:
    return read_secret_text(directory / name, f"The file of {what}")


def _session_key(directory: Path, options: SecurityOptions, own: bytes) -> bytes:
    if not options.session_key:
        return own
    key = read_secret(directory / options.session_key, "The file with the session key").strip()
    if len(key) < KEY_BYTES:
        raise InvalidInput(
            f"The session key is shorter than {KEY_BYTES} bytes: write 64 random hexadecimal digits "
            "(openssl rand -hex 32)."
        )
    return key


def _web_keys(directory: Path, options: JwtOptions | None, before: Credentials | None) -> KeySource | None:
    if options is None:
        return None
    if before is not None and before.options.jwt == options and "://" in options.keys:
        # The source asks when it is time. An issuer that is away keeps nothing good that the files do not.
        return before.web_keys
    return KeySource(options, directory)


def _authorities(file: Path) -> bytes:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"The authorities of certificates cannot be read: {error.strerror}.") from error
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise InvalidInput("The authorities of certificates hold no certificate in PEM.")
    return data
