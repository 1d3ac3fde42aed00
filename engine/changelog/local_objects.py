"""Objects as files of a local directory, each durable before it can be seen.

A file is written under a temporary name, fsynced, and then linked to its own name: `link` is atomic and fails
when the name is taken, which makes it a create-only write. Then the directory is fsynced. obstore's local
store offers the same operations without any fsync, so it is not used.

Between `link` and the fsync of the directory a reader can see a name that a loss of power would take back.
`settle` closes that gap from the reader's side: it fsyncs the directory before the reader relies on what it
saw.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from engine.changelog.layout import CLOCK_PATH, TEMPORARY_SUFFIX
from engine.errors import LimitExceeded, LivestateError, Unavailable

_FULL = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
_MISSING = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True)
class LocalObjects:
    """Objects below a directory, which is made by the first write. See `engine.changelog.objects.Objects`.

    Attributes:
        root: The directory, as an absolute path.
    """

    requests_at_once = 1  # threads would take longer to hand a request over than a disk to answer it

    root: Path

    def get(self, path: str) -> pa.Buffer | None:
        """See `Objects.get`."""
        try:
            with (self.root / path).open("rb", buffering=0) as file:
                return _read(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        except _MISSING:
            return None
        except OSError as error:
            raise _error_of("read", error) from error

    def get_ranges(self, path: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer] | None:
        """See `Objects.get_ranges`."""
        try:
            with (self.root / path).open("rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != size:
                    return None
                return [_read(file.fileno(), start, end) for start, end in ranges]
        except _MISSING:
            return None
        except OSError as error:
            raise _error_of("read", error) from error

    def exists(self, path: str) -> bool:
        """See `Objects.exists`."""
        try:
            # Hosts look often for what is not there yet, and a path of `pathlib` takes longer than the look.
            os.stat(f"{self.root}/{path}")  # noqa: PTH116
        except _MISSING:
            return False
        except OSError as error:
            raise _error_of("read", error) from error
        return True

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        """See `Objects.put`."""
        if not self.create(path, chunks):
            raise Unavailable(
                "A data file of the changelog exists already under a name that was drawn at random: try "
                "again."
            )

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`."""
        target = self.root / path
        temporary = target.with_name(f"{target.name}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
        try:
            _make_directory(target.parent)
            try:
                _write(temporary, chunks)
                is_created = _link(temporary, target)
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
        except OSError as error:
            raise _error_of("written", error) from error
        if not is_created:
            return False
        try:
            # The directory may be another process's, made an instant ago: its own name must be durable too.
            _sync_directory(target.parent)
            _sync_directory(target.parent.parent)
        except OSError as error:
            # It is there, also where the disk is full: nobody may take it for something that is not.
            raise _unavailable("written", error) from error
        return True

    def settle(self, path: str) -> None:
        """See `Objects.settle`."""
        try:
            _sync_directory((self.root / path).parent)
        except OSError as error:
            raise _unavailable("written", error) from error

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        """See `Objects.list`."""
        return (path for path in self._files(directory, behind) if not path.endswith(TEMPORARY_SUFFIX))

    def dated_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.dated_objects`."""
        return self._with_times(self.list(directory))

    def unfinished_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.unfinished_objects`."""
        paths = self._files(directory) if directory else self.root_names()
        return self._with_times(path for path in paths if path.endswith(TEMPORARY_SUFFIX))

    def _with_times(self, paths: Iterable[str]) -> Iterator[tuple[str, int]]:
        for path in paths:
            try:
                yield path, (self.root / path).stat().st_mtime_ns // 1000
            except _MISSING:
                continue  # it is finished by now, or deleted
            except OSError as error:
                raise _error_of("read", error) from error

    def _files(self, directory: str, behind: str = "") -> Iterator[str]:
        """Paths of all files below a directory, as `list` gives them."""
        try:
            with os.scandir(self.root / directory) as found:
                entries = [f"{entry.name}{'/' * entry.is_dir(follow_symlinks=False)}" for entry in found]
        except _MISSING:
            return
        except OSError as error:
            raise _error_of("read", error) from error
        paths = [f"{directory}/{name}" for name in entries]
        if behind:
            # A directory may have what sorts behind a path within it.
            paths = sorted(
                path for path in paths if path > behind or (path.endswith("/") and behind.startswith(path))
            )
        for path in paths:
            if path.endswith("/"):
                yield from self._files(path[:-1], behind)
            else:
                yield path

    def root_names(self) -> Sequence[str]:
        """Names of all that is directly below the root, in order, whoever has put it there."""
        try:
            with os.scandir(self.root) as found:
                return sorted(entry.name for entry in found)
        except _MISSING:
            return []
        except OSError as error:
            raise _error_of("read", error) from error

    def delete(self, paths: Collection[str]) -> None:
        """See `Objects.delete`. Directories that it leaves empty go too."""
        targets = [self.root / path for path in paths]
        try:
            for target in targets:
                target.unlink(missing_ok=True)
        except OSError as error:
            raise _error_of("written", error) from error
        # In the order of the paths, not of a set: a seed of the simulation replays to the letter.
        for directory in dict.fromkeys(target.parent for target in targets):
            with contextlib.suppress(OSError):
                directory.rmdir()

    def current_time(self) -> int:
        """See `Objects.current_time`."""
        path = self.root / f"{CLOCK_PATH}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
        try:
            _make_directory(self.root)
            try:
                with path.open("xb") as file:
                    # Written to: whoever keeps the file says when, and not this machine, where these are two.
                    file.write(b"?")
                    file.flush()
                    os.fsync(file.fileno())
                    return os.fstat(file.fileno()).st_mtime_ns // 1000
            finally:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise _error_of("written", error) from error


def _read(descriptor: int, start: int, end: int) -> pa.Buffer:
    """Bytes of a file, in memory aligned as Arrow wants it; shorter when the file is."""
    buffer = pa.allocate_buffer(max(end - start, 0))
    view = memoryview(buffer)
    filled = 0
    while filled < len(view):
        count = os.preadv(descriptor, [view[filled:]], start + filled)
        if count == 0:
            return buffer.slice(0, filled)
        filled += count
    return buffer


def _write(path: Path, chunks: Sequence[pa.Buffer]) -> None:
    with path.open("xb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _link(source: Path, target: Path) -> bool:
    """Give a file its name, unless the name is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def _make_directory(path: Path) -> None:
    """Make a directory whose name, and those of all that had to be made above it, are durable."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _error_of(done: str, error: OSError) -> LivestateError:
    if error.errno in _FULL:
        return LimitExceeded(
            f"The disk of the changelog is full ({os.strerror(error.errno)}): nothing can be written there; "
            "free some space and try again."
        )
    return _unavailable(done, error)


def _unavailable(done: str, error: OSError) -> Unavailable:
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return Unavailable(
        f"The changelog's directory cannot be {done} ({reason}): check its rights and its disk."
    )
