"""How hosts are reached: one value for the command line, the other hosts, Spark and the benchmarks."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from engine.errors import InvalidInput
from flight_server.client.secret_files import check_certificate_key, read_secret, read_secret_text

_SCHEMES = frozenset({"grpc", "grpc+tcp", "grpc+tls", "grpc+unix"})
_PLACE = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}", re.ASCII)
"""A host and a port."""
_CERTIFICATE = b"CERTIFICATE-----"


@dataclass(frozen=True)
class ConnectionOptions:
    """How one host, or one of several, is reached. Can be sent to Spark's executors.

    ```python
    ConnectionOptions.read("grpc+tls://host:8815", token_file="token", tls_roots="roots.pem")
    ```

    Attributes:
        uris: Where hosts listen, such as `grpc://127.0.0.1:8815`; `grpc+tls://` for TLS. Empty where another
            value names them, as a deployment does.
        token: What the hosts want to be shown; None: nothing.
        tls_roots: PEM certificates that vouch for the hosts, for `grpc+tls://`; empty: the system's.
        call_seconds: How long a host may take for a call for which its caller names no time; None: for ever.
        user: Who logs in with a password; empty: nobody.
        password: That user's.
        certificate: PEM certificate of the caller, with `key`; empty: none.
        key: Its PEM key.

    Raises:
        InvalidInput: A value is none of its kind.
    """

    uris: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    tls_roots: bytes = field(default=b"", repr=False)
    call_seconds: float | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        for uri in self.uris:
            _check_uri(uri)
        if self.token is not None and not can_be_sent(self.token):
            raise InvalidInput("A token is one or more printable ASCII characters, without line breaks.")
        if self.tls_roots and _CERTIFICATE not in self.tls_roots:
            raise InvalidInput("The TLS roots hold no certificate; give PEM certificates.")
        if self.call_seconds is not None and not 0 < self.call_seconds < math.inf:
            raise InvalidInput("The time for a call must be a number of seconds above 0.")
        if self.user and self.token is not None:
            raise InvalidInput("Give a user and a password, or a token, not both.")
        if ":" in self.user or bool(self.user) != bool(self.password):
            raise InvalidInput("Give a user, without ':' in its name, and a password.")
        if bool(self.certificate) != bool(self.key):
            raise InvalidInput("Give the caller's certificate and its key, or neither.")

    @staticmethod
    def read(
        uris: str | Iterable[str] = (),
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        tls_roots: str | Path | None = None,
        call_seconds: float | None = None,
        user: str = "",
        password: str = "",
        certificate: str | Path | None = None,
        key: str | Path | None = None,
    ) -> ConnectionOptions:
        """Options as a user gives them.

        Args:
            uris: Addresses of hosts: a sequence, or a text with commas between them. `host:8815` stands for
                `grpc://host:8815`, or for `grpc+tls://host:8815` where `tls_roots` or a certificate is given.
            token: The hosts' token.
            token_file: File that holds it instead.
            tls_roots: File with the PEM certificates that vouch for the hosts.
            call_seconds: As the attribute.
            user: As the attribute.
            password: As the attribute.
            certificate: File with the caller's PEM certificate.
            key: File with its key.

        Raises:
            InvalidInput: A file cannot be read, or a value is none of its kind.
        """
        if token is not None and token_file is not None:
            raise InvalidInput("Give the token, or the file that holds it, not both.")
        given = uris.split(",") if isinstance(uris, str) else uris
        scheme = "grpc" if tls_roots is None and certificate is None else "grpc+tls"
        options = ConnectionOptions(
            tuple(_complete_uri(uri.strip(), scheme) for uri in given if uri.strip()),
            token if token_file is None else read_token(Path(token_file)),
            b"" if tls_roots is None else read_certificates(Path(tls_roots)),
            call_seconds,
            user,
            password,
            b"" if certificate is None else read_certificates(Path(certificate)),
            b"" if key is None else read_secret(Path(key), "The file with the caller's key"),
        )
        if certificate is not None and key is not None:
            check_certificate_key(Path(certificate), Path(key))
        return options

    @property
    def authorization(self) -> bytes:
        """The header by which the caller says who it is; empty for none."""
        if self.user:
            return b"Basic " + base64.b64encode(f"{self.user}:{self.password}".encode())
        return b"" if self.token is None else b"Bearer " + self.token.encode()

    @property
    def uri(self) -> str:
        """Where the one host is.

        Raises:
            InvalidInput: There is none, or several.
        """
        if len(self.uris) != 1:
            raise InvalidInput(
                f"Give the address of one host, such as grpc://127.0.0.1:8815, not of {len(self.uris)}."
            )
        return self.uris[0]

    @property
    def hosts(self) -> tuple[ConnectionOptions, ...]:
        """The options of each host alone."""
        return tuple(self.with_uri(uri) for uri in self.uris)

    def with_uri(self, uri: str) -> ConnectionOptions:
        """The same options for a host elsewhere.

        Args:
            uri: Where it listens.

        Raises:
            InvalidInput: That is no address.
        """
        return replace(self, uris=(uri,))


def can_be_sent(token: str) -> bool:
    """Whether a token can stand in a header: one or more printable ASCII characters.

    Args:
        token: Any text.
    """
    return bool(token) and token.isascii() and token.isprintable()


def read_token(file: Path) -> str:
    """Read a token from its file.

    Args:
        file: Holds it, maybe with spaces or line breaks around it.

    Raises:
        InvalidInput: The file cannot be read, others can read it, or it is empty.
    """
    token = read_secret_text(file, "The token file").strip()
    if not token:
        raise InvalidInput("The token file is empty; it must hold the token.")
    return token


def read_certificates(file: Path) -> bytes:
    """Read certificates.

    Args:
        file: Holds them, in PEM.

    Raises:
        InvalidInput: The file cannot be read, or holds none.
    """
    try:
        found = file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"The file with certificates cannot be read: {error.strerror}.") from error
    if _CERTIFICATE not in found:
        raise InvalidInput("The file with certificates holds none in PEM.")
    return found


def _complete_uri(uri: str, scheme: str) -> str:
    return f"{scheme}://{uri}" if _PLACE.fullmatch(uri) else uri


def _check_uri(uri: str) -> None:
    try:
        parts = urlsplit(uri)
        is_address = parts.scheme in _SCHEMES and (parts.port is None or parts.hostname is not None)
    except ValueError:
        is_address = False
    if is_address and "@" in parts.netloc:
        raise InvalidInput(
            "The address of a host takes no user and no password: give them beside it, such as with --user."
        )
    if not is_address or not uri.startswith(f"{parts.scheme}://"):
        raise InvalidInput(
            f"{uri!r} is not the address of a host; write it like localhost:8815 or grpc://127.0.0.1:8815."
        )
