"""Named immutable objects: the few operations that the changelog needs of a directory or an object store.

`open_objects` picks the implementation by the URI: a durable local directory
(`engine.changelog.local_objects`), or a store behind obstore. Nothing else in the project uses obstore.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import MemoryStore

from engine.changelog.layout import CLOCK_PATH
from engine.changelog.local_objects import LocalObjects
from engine.changelog.requests import REQUESTS_AT_ONCE
from engine.errors import InvalidInput, NotFound, Unavailable

MAX_RACES = 100
"""How often the next of numbered objects is tried for while others put theirs: there are fewer writers."""
SCHEMES = ("file", "s3", "gs", "az", "memory")
_CLIENT_OPTIONS = frozenset(
    [
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    ]
)
_RETRIES: dict[str, Any] = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=50)},
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_Result = TypeVar("_Result")
Range = tuple[int, int]
"""First byte, and the byte behind the last."""


class Objects(Protocol):
    """Objects by path. Each is written once and whole; a reader sees all of it or nothing.

    What a method reports as written is durable. Every method raises Unavailable when the store cannot be
    reached or refuses, and those that write raise LimitExceeded when it is full.
    """

    @property
    def requests_at_once(self) -> int:
        """How many requests one caller had better make at once; 1 where they wait for nothing."""

    def get(self, path: str) -> pa.Buffer | None:
        """The bytes of an object; None if it does not exist."""

    def get_ranges(self, path: str, size: int, ranges: Sequence[Range]) -> list[pa.Buffer] | None:
        """Parts of an object, in the order asked for; None if it does not exist or is not `size`
        bytes long.
        """

    def exists(self, path: str) -> bool:
        """Whether there is such an object."""

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        """Write an object of any size under a path that nobody else uses."""

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """Write an object unless one exists, as one atomic step.

        Returns:
            Whether this call wrote it.

        Raises:
            Unavailable: It is not known whether the object was written.
        """

    def settle(self, path: str) -> None:
        """Make sure that an object that was seen outlives a loss of power."""

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        """Paths of all objects below a directory, in no particular order.

        Args:
            directory: The directory.
            behind: Only those that sort behind this path; in their order then, as far as the store lists so.
        """

    def dated_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """As `list`, with when each was written, in microseconds as `current_time` has them."""

    def unfinished_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """What somebody is writing below a directory, or was when it died. None of it is an object yet.

        Args:
            directory: The directory. Of the root, which is "", only what is in it itself: other directories
                that are there may be other people's.

        Yields:
            A path that `delete` takes, and when something was last written there, in microseconds as
            `current_time` has them.
        """

    def delete(self, paths: Collection[str]) -> None:
        """Remove objects; those that do not exist are ignored."""

    def current_time(self) -> int:
        """The time by the clock of whoever keeps the objects, microseconds since 1970 UTC; full seconds in
        some stores.

        An object is written to see when that was, and removed again.
        """


class RemoteObjects:
    """Objects in a store behind obstore."""

    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, path: str) -> pa.Buffer | None:
        """See `Objects.get`."""
        try:
            return pa.py_buffer(_translate_errors(lambda: obstore.get(self._store, path).bytes()))
        except FileNotFoundError:
            return None

    def get_ranges(self, path: str, size: int, ranges: Sequence[Range]) -> list[pa.Buffer] | None:
        """See `Objects.get_ranges`. The first range is a request of its own, because its answer tells the
        size; often it is the only one.
        """
        if not ranges:
            return []
        try:
            first = _translate_errors(lambda: obstore.get(self._store, path, options={"range": ranges[0]}))
            if first.meta["size"] != size:
                return None
            starts, ends = [start for start, _ in ranges[1:]], [end for _, end in ranges[1:]]
            others = (
                _translate_errors(lambda: obstore.get_ranges(self._store, path, starts=starts, ends=ends))
                if starts
                else []
            )
            return [pa.py_buffer(part) for part in (_translate_errors(first.bytes), *others)]
        except FileNotFoundError:
            return None
        except Unavailable:
            if self._has_size(path, size):
                raise
            return None

    def _has_size(self, path: str, size: int) -> bool:
        try:
            return bool(_translate_errors(lambda: obstore.head(self._store, path))["size"] == size)
        except FileNotFoundError:
            return False

    def exists(self, path: str) -> bool:
        """See `Objects.exists`."""
        try:
            _translate_errors(lambda: obstore.head(self._store, path))
        except FileNotFoundError:
            return False
        return True

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        """See `Objects.put`."""
        self._put(path, chunks)

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`."""
        try:
            self._put(path, chunks, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    def _put(self, path: str, chunks: Sequence[pa.Buffer], **how: Any) -> None:
        try:
            _translate_errors(lambda: obstore.put(self._store, path, b"".join(chunks), **how))
        except FileNotFoundError as error:
            raise NotFound(
                "The bucket of the changelog does not exist: create it, or correct the URI."
            ) from error

    def settle(self, path: str) -> None:
        """See `Objects.settle`. An object store shows only what is durable."""

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        """See `Objects.list`."""
        return (entry["path"] for entry in self._entries(directory, behind))

    def dated_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.dated_objects`."""
        return ((entry["path"], _microseconds(entry["last_modified"])) for entry in self._entries(directory))

    def _entries(self, directory: str, behind: str = "") -> Iterator[Any]:
        pages = iter(obstore.list(self._store, directory, offset=behind or None))
        while (page := _translate_errors(lambda: next(pages, None))) is not None:
            yield from page

    def unfinished_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.unfinished_objects`. An object store removes them by itself."""
        return iter(())

    def delete(self, paths: Collection[str]) -> None:
        """See `Objects.delete`."""
        wanted = list(paths)
        try:
            # A request for up to 1,000 objects where the store has such a one.
            _translate_errors(lambda: obstore.delete(self._store, wanted))
        except FileNotFoundError:
            # Some stores refuse the whole for one that is not there.
            for path in wanted:
                with contextlib.suppress(FileNotFoundError):
                    _translate_errors(functools.partial(obstore.delete, self._store, path))

    def current_time(self) -> int:
        """See `Objects.current_time`."""
        path = f"{CLOCK_PATH}/{secrets.token_hex(8)}"
        self._put(path, [])
        written = _translate_errors(lambda: obstore.head(self._store, path))["last_modified"]
        self.delete([path])
        return _microseconds(written)


def all_paths(objects: Objects, directory: str) -> Iterator[str]:
    """Paths of all that is below a directory, unfinished objects too: for whoever deletes it."""
    yield from objects.list(directory)
    for path, _ in objects.unfinished_objects(directory):
        yield path


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _translate_errors(call: Callable[[], _Result]) -> _Result:
    """Run one request. obstore's messages hold addresses and signed parameters, so they stay in the cause."""
    try:
        return call()
    except AlreadyExistsError:
        raise
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise Unavailable(
            "The object store of the changelog refused access: check the credentials and their rights."
        ) from error
    except BaseError as error:
        raise Unavailable(
            "The object store of the changelog cannot be reached or refused the request: check its address, "
            "or try again later."
        ) from error


def open_objects(uri: str, options: Mapping[str, str]) -> Objects:
    """The objects under a root URI. None is read or written yet.

    Args:
        uri: `file:///directory`, a plain path, `s3://bucket/prefix`, `gs://bucket/prefix`,
            `az://container/prefix`, or `memory://`, which is new and empty each time.
        options: What obstore's configuration of that store and its HTTP client takes, such as `endpoint`,
            `region` or `allow_http`; it comes before the standard environment variables (`AWS_ACCESS_KEY_ID`
            …). A local root takes none.

    Raises:
        InvalidInput: The URI or an option is not understood, or a local root is a file or no path.
    """
    parts = urlsplit(uri)
    if not uri or (parts.scheme and parts.scheme not in SCHEMES):
        raise InvalidInput(
            f"The changelog URI must be a path or start with one of {', '.join(s + '://' for s in SCHEMES)}, "
            f"unlike {uri!r}."
        )
    if parts.scheme and ("?" in uri or "#" in uri):
        # What stands behind these is no part of a path: the URI would be that of another changelog.
        raise InvalidInput(f"The changelog URI must have %3F for ? and %23 for #, unlike {uri!r}.")
    if parts.scheme in ("", "file", "memory") and options:
        raise InvalidInput(
            f"A changelog at {parts.scheme or 'file'}:// takes no options, and {', '.join(sorted(options))} "
            "was given."
        )
    if not parts.scheme:
        return _local_objects(uri, Path(uri).absolute())
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise InvalidInput(
                f"A file URI needs an absolute path, as in file:///var/lib/livestate, unlike {uri!r}."
            )
        return _local_objects(uri, Path(unquote(parts.path)))
    if parts.scheme == "memory":
        return RemoteObjects(MemoryStore())
    return RemoteObjects(_open_remote(uri, options))


def _local_objects(uri: str, root: Path) -> LocalObjects:
    if "\0" in str(root):
        raise InvalidInput(
            "The changelog URI has a character in it that no path may have: leave out the NUL."
        )
    # A method of the path would raise where it may not look, or the name is none.
    if any(os.path.isfile(path) for path in (root, *root.parents)):  # noqa: PTH113
        raise InvalidInput(f"The changelog URI must lead to a directory, and {uri!r} leads to a file.")
    return LocalObjects(root)


def _open_remote(uri: str, options: Mapping[str, str]) -> Any:
    client: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for name, value in options.items():
        plain = name.lower().removeprefix("aws_")
        if plain in _CLIENT_OPTIONS:
            client[plain] = value
        else:
            config[name] = value
    try:
        # Options of the client, even none, replace those of the environment, such as AWS_ALLOW_HTTP.
        return obstore.store.from_url(
            uri, config=config, client_options=client or None, retry_config=_RETRIES
        )  # type: ignore[call-overload]
    except UnknownConfigurationKeyError as error:
        raise InvalidInput(
            f"The changelog does not know one of the options {', '.join(sorted(options))}: see obstore's "
            f"names for {uri[:2]}."
        ) from error
    except (BaseError, ValueError) as error:
        raise InvalidInput(
            f"The changelog at {uri!r} cannot be opened: check the bucket's name, the credentials and the "
            "options (az:// needs account_name)."
        ) from error
