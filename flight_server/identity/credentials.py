"""All by which callers can prove themselves, as the files say it now."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

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
from engine.errors import InvalidInput, LivestateError
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
        unread: What could not be read this time, by its name in the security file, and why. Of it is known
            what it said before.
    """

    options: SecurityOptions
    tokens: Mapping[str, StaticToken] = field(repr=False)
    users: Mapping[str, User] = field(repr=False)
    session_key: bytes = field(repr=False)
    web_keys: KeySource | None = field(repr=False)
    certificates: Mapping[str, NamedCertificate]
    authorities: bytes = field(repr=False)
    files: Mapping[Path, FileStamp] = field(repr=False)
    unread: Mapping[str, str] = field(default_factory=dict)


FileStamp = tuple[int, int, int] | None
"""What tells whether a file has changed: when it did last, its size and its number; None: it is not there."""
_Part = TypeVar("_Part")


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
        What they say; of one that cannot be read, what it said last. It keeps nothing good that others do not
        say any more.

    Raises:
        InvalidInput: One of them cannot be read, is not what it should be, or can be read by others; only
            where they are read for the first time.
    """
    reading = _Reading(file.parent, before)
    options = reading.part(file.name, _options, lambda known: known.options)
    tokens: Mapping[str, StaticToken] = {}
    if options.tokens:
        tokens = reading.part(options.tokens, lambda path: _tokens(path, options), lambda known: known.tokens)
    users: Mapping[str, User] = {}
    if options.users:
        users = reading.part(options.users, lambda path: _users(path, options), lambda known: known.users)
    session_key = own_session_key
    if options.session_key:
        session_key = reading.part(options.session_key, _session_key, lambda known: known.session_key)
    certificates, authorities = options.certificates, b""
    if certificates is not None:
        authorities = reading.part(certificates.authorities, _authorities, lambda known: known.authorities)
    jwt, web_keys = options.jwt, None
    if jwt is not None:
        # Together: the keys of one issuer are not to sign what another one is said to.
        jwt, web_keys = reading.part(
            jwt.keys,
            lambda _: _web_keys(file.parent, jwt, before),
            lambda known: (known.options.jwt, known.web_keys),
        )
    return Credentials(
        replace(options, jwt=jwt),
        tokens,
        users,
        session_key,
        web_keys,
        {} if certificates is None else {known.subject: known for known in certificates.principals},
        authorities,
        reading.stamps,
        reading.unread,
    )


class _Reading:
    """Reads files one by one, and keeps to what was known of one that cannot be read.

    Args:
        directory: Where they are.
        before: What is known of them; None: nothing, and all must be read.

    Attributes:
        stamps: As `Credentials.files`.
        unread: As `Credentials.unread`.
    """

    def __init__(self, directory: Path, before: Credentials | None) -> None:
        self._directory = directory
        self._before = before
        self.stamps: dict[Path, FileStamp] = {}
        self.unread: dict[str, str] = {}

    def part(self, name: str, read: Callable[[Path], _Part], known: Callable[[Credentials], _Part]) -> _Part:
        """What a file says, or what is known of it.

        Args:
            name: Its name, or an address.
            read: Reads it.
            known: Finds it in what is known.

        Raises:
            LivestateError: It cannot be read, and nothing is known.
        """
        path = self._directory / name
        if "://" not in name:
            # Before it is read: what changes while it is read is read again.
            self.stamps[path] = file_stamp(path)
        try:
            return read(path)
        except LivestateError as error:
            if self._before is None:
                raise
            self.unread[name] = error.message
            return known(self._before)


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


def _options(file: Path) -> SecurityOptions:
    try:
        options = parse_security(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"The security file cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput("The security file is not text in UTF-8.") from error
    if options is None:
        raise InvalidInput("The security file has no table [security].")
    return options


def _tokens(file: Path, options: SecurityOptions) -> Mapping[str, StaticToken]:
    tokens = parse_tokens(read_secret_text(file, "The file of tokens"))
    for token in tokens:
        options.check_roles(f"The token of {token.name}", token.roles)
    return {token.sha256: token for token in tokens}


def _users(file: Path, options: SecurityOptions) -> Mapping[str, User]:
    users = parse_users(read_secret_text(file, "The file of users"))
    for user in users:
        options.check_roles(f"The user {user.name}", user.roles)
    return {user.name: user for user in users}


def _session_key(file: Path) -> bytes:
    key = read_secret(file, "The file with the session key").strip()
    if len(key) < KEY_BYTES:
        raise InvalidInput(
            f"The session key is shorter than {KEY_BYTES} bytes: write 64 random hexadecimal digits "
            "(openssl rand -hex 32)."
        )
    return key


def _web_keys(
    directory: Path, options: JwtOptions, before: Credentials | None
) -> tuple[JwtOptions, KeySource]:
    known = None if before is None or before.options.jwt != options else before.web_keys
    if known is not None and "://" in options.keys:
        # The source asks when it is time. An issuer that is away keeps nothing good that the files do not.
        return options, known
    source = KeySource(options, directory)
    # What is the same stays the same object, as all else that is compared.
    return options, source if known is None or known.document != source.document else known


def _authorities(file: Path) -> bytes:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"The authorities of certificates cannot be read: {error.strerror}.") from error
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise InvalidInput("The authorities of certificates hold no certificate in PEM.")
    return data
