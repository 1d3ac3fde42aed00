"""All by which callers can prove themselves, as the files say it now."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
    reading = _Reading(file.parent, is_first=before is None)
    known = before or Credentials(SecurityOptions(), {}, {}, b"", None, {}, b"", {})
    options = known.options
    with reading.keep_what_is_known(file.name) as path:
        options = _options(path)
    tokens = known.tokens if options.tokens else {}
    if options.tokens:
        with reading.keep_what_is_known(options.tokens) as path:
            tokens = _tokens(path, options)
    users = known.users if options.users else {}
    if options.users:
        with reading.keep_what_is_known(options.users) as path:
            users = _users(path, options)
    session_key = known.session_key if options.session_key else own_session_key
    if options.session_key:
        with reading.keep_what_is_known(options.session_key) as path:
            session_key = _session_key(path)
    certificates = options.certificates
    authorities = b"" if certificates is None else known.authorities
    if certificates is not None:
        with reading.keep_what_is_known(certificates.authorities) as path:
            authorities = _authorities(path)
    jwt, web_keys = options.jwt, None
    if jwt is not None:
        asked = jwt
        # Together: the keys of one issuer are not to sign what another one is said to.
        jwt, web_keys = known.options.jwt, known.web_keys
        with reading.keep_what_is_known(asked.keys):
            jwt, web_keys = _web_keys(file.parent, asked, before)
    return Credentials(
        replace(options, jwt=jwt),
        tokens,
        users,
        session_key,
        web_keys,
        {} if certificates is None else {each.subject: each for each in certificates.principals},
        authorities,
        reading.stamps,
        reading.unread,
    )


class _Reading:
    """Reads files one by one, so that one that cannot be read keeps no other from being read.

    Args:
        directory: Where they are.
        is_first: Whether nothing is known of them, and all must be read.

    Attributes:
        stamps: As `Credentials.files`.
        unread: As `Credentials.unread`.
    """

    def __init__(self, directory: Path, *, is_first: bool) -> None:
        self._directory = directory
        self._is_first = is_first
        self.stamps: dict[Path, FileStamp] = {}
        self.unread: dict[str, str] = {}

    @contextmanager
    def keep_what_is_known(self, name: str) -> Iterator[Path]:
        """For a block that reads a file, and puts what it says in the place of what is known. Where it cannot
        be read, that is noted, and the block ends.

        Args:
            name: Its name, or an address.

        Yields:
            The file.

        Raises:
            LivestateError: It cannot be read, and nothing is known.
        """
        path = self._directory / name
        if "://" not in name:
            # Before it is read: what changes while it is read is read again.
            self.stamps[path] = file_stamp(path)
        try:
            yield path
        except LivestateError as error:
            if self._is_first:
                raise
            self.unread[name] = error.message


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
