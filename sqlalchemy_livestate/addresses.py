"""From a URL of SQLAlchemy to what the ADBC driver is given."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from engine.errors import InvalidInput
from flight_server.client.connection_options import ConnectionOptions

DEFAULT_PORT = 8815
_FILES = ("token_file", "tls_roots", "certificate", "key")
_SESSION = ("dialect", "timeout", "min_epoch", "max_staleness", "as_of", "allow_stale")
"""Options of the session, each a header of every call."""
_DRIVER = "adbc.flight.sql"


def driver_options(url: URL) -> tuple[str, Mapping[str, str]]:
    """What the driver is given.

    Args:
        url: `livestate://user:password@host:8815?tls=true&token_file=…`.

    Returns:
        Where the host is, and the driver's options.

    Raises:
        ArgumentError: The URL has an option that there is not, or a file that cannot be read.
    """
    query = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
    unknown = sorted(set(query) - {"tls", *_FILES, *_SESSION})
    if unknown:
        raise ArgumentError(
            f"A livestate URL has no option {unknown[0]!r}; there are tls, {', '.join((*_FILES, *_SESSION))}."
        )
    if url.host is None:
        raise ArgumentError("A livestate URL names a host: livestate://localhost:8815.")
    if url.database not in (None, "", "main", "livestate"):
        raise ArgumentError(f"There is no database {url.database!r}: leave it out of the URL.")
    place = f"[{url.host}]" if ":" in url.host else url.host
    try:
        options = ConnectionOptions.read(
            f"{_scheme(query)}://{place}:{url.port or DEFAULT_PORT}",
            user=url.username or "",
            password=str(url.password or ""),
            token_file=query.get("token_file"),
            tls_roots=query.get("tls_roots"),
            certificate=query.get("certificate"),
            key=query.get("key"),
        )
    except InvalidInput as error:
        raise ArgumentError(error.message) from None
    return options.uri, _options_of(options, query)


def _scheme(query: Mapping[str, str]) -> str:
    tls = query.get("tls", "true" if "tls_roots" in query or "certificate" in query else "false").lower()
    if tls not in ("true", "false"):
        raise ArgumentError("The option tls of a livestate URL is true or false.")
    return "grpc+tls" if tls == "true" else "grpc"


def _options_of(options: ConnectionOptions, query: Mapping[str, str]) -> Mapping[str, str]:
    found = {
        f"{_DRIVER}.rpc.call_header.livestate-{name.replace('_', '-')}": query[name]
        for name in _SESSION
        if name in query
    }
    if options.user:
        # The driver logs in once, and shows what it is given for that.
        found |= {"username": options.user, "password": options.password}
    elif options.token is not None:
        found[f"{_DRIVER}.authorization_header"] = options.authorization.decode()
    for name, value in (
        ("tls_root_certs", options.tls_roots),
        ("mtls_cert_chain", options.certificate),
        ("mtls_private_key", options.key),
    ):
        if value:
            found[f"{_DRIVER}.client_option.{name}"] = value.decode()
    return found
