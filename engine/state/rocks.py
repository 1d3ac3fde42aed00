"""The RocksDB of a partition, or of several (`engine.state.shared_storage`), as the storage that partition
stores need. The only module that imports rocksdict.

What is relied on: a `WriteBatch` is applied whole or not at all, writes reach the write-ahead log in their
order, and RocksDB's checksums are verified on every read. The log is not synced: after a crash of the process
nothing is lost, after a crash of the machine a tail of writes may be, and the changelog brings it back.

RocksDB takes nothing any more once its log could not be written, whatever room there is later. So it is
opened anew before a write that comes after one that failed, when the disk has room again. It then has what
was logged and what was flushed, as after a crash of the process.

rocksdict holds the GIL while it writes, and while it reads one key. So nothing that may wait for the disk is
done in these: a write leaves the log in RocksDB's memory, and `flush_wal` gives it to the system; a read is
that of a list of keys.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Condition, Lock, local

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    CompactOptions,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from engine.errors import LimitExceeded, LivestateError, Unavailable
from engine.state.damage import damage_error
from engine.state.state_options import KIB, MIB, StateOptions
from engine.state.storage import Pair, Range, key_behind

CALL_BYTES = 128 * KIB
"""Bytes of one write call to aim at: rocksdict holds the GIL during a call, 1.2 ms for 512 KiB."""
TABLE_BLOCK_BYTES = 512
"""What RocksDB reads at once of what is no blob, if that is not larger itself: one page of keys."""
ROOM_BYTES = 8 * MIB
"""What a disk must have room for beside what is in the log, before RocksDB is opened anew."""
AGE_CUTOFF = 0.25
"""Part of the blob files, the oldest ones, out of which RocksDB's compaction takes what is left."""
_AGE_CUTOFF = "blob_garbage_collection_age_cutoff"
_MANUAL_FLUSH = """[Version]
  rocksdb_version=8.0.0
  options_file_version=1.1
[DBOptions]
  manual_wal_flush=true
[CFOptions "default"]
[TableOptions/BlockBasedTable "default"]
"""
"""RocksDB's own form of its options, for one that rocksdict has no setter for."""

PROPERTIES = (
    "size-all-mem-tables",
    "estimate-table-readers-mem",
    "total-sst-files-size",
    "total-blob-file-size",
    "live-blob-file-garbage-size",
    "num-running-compactions",
    "num-running-flushes",
    "background-errors",
    "is-write-stopped",
)
"""What RocksDB is asked for when somebody watches the host."""
WRITE_FAILED = "write-failed"
"""Said beside these: 1 where the last write failed. RocksDB counts no error of its log, which is what a full
disk meets first.
"""
_ONLY_FAMILY = "default"
"""RocksDB's name for the column family that there always is."""
_FIRST_FILES = ("CURRENT", "MANIFEST-")
_MISSING_FILE = "IO error: No such file or directory"
_OWN_LOCK = "lock hold by current process"
_CONFIG = "rocksdict-config.json"
"""Where rocksdict writes down how it has opened a directory."""

SharedOptions = Options
"""How several partitions are opened. It bounds the memory of their memtables together."""


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Give the failures of a RocksDB in a directory a kind: rocksdict raises plain `Exception`, no narrower
    class, with RocksDB's status as its text.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, DbClosedError | OSError):
            raise  # a defect of the caller's, not a failure of RocksDB
        raise _translate_status(str(error), path) from error


def _translate_status(status: str, path: Path) -> LivestateError:
    if "No space left" in status or "File too large" in status or "quota" in status.lower():
        return LimitExceeded(
            "The disk of the data directory is full; free space on it, and the host goes on by itself."
        )
    if status.startswith("Corruption") or "checksum mismatch" in status.lower():
        return damage_error("RocksDB")
    if status.startswith(_MISSING_FILE) and _has_database(path):
        return damage_error("RocksDB")  # one of its files was lost; where all are gone, the disk may be away
    if _OWN_LOCK in status:
        return Unavailable(
            "A partition's RocksDB is still being closed by this host: the host tries again by itself."
        )
    if "lock" in status.lower() and "LOCK" in status:
        return Unavailable(
            "A partition's RocksDB is open in another process; stop the other host, or give this one a data "
            "directory of its own."
        )
    return Unavailable(
        f"A partition's RocksDB does not answer ({status.split(':', maxsplit=1)[0]}); see the host's disk "
        "and its log."
    )


def _has_database(path: Path) -> bool:
    """Whether a directory has any of the files with which RocksDB begins to read."""
    try:
        return any(file.name.startswith(_FIRST_FILES) for file in path.iterdir())
    except OSError:
        return False


class Rocks:
    """An open RocksDB; implements `engine.state.storage.Storage`.

    Args:
        path: Its directory, made if it is not there.
        options: Sizes of its buffers.
        shared: As `shared_options` made it of `options`, for all partitions of a host; None for one that is
            alone.
        is_read_only: Whether nothing is written, as the directory is not this process's.
    """

    def __init__(
        self,
        path: Path,
        options: StateOptions,
        shared: SharedOptions | None = None,
        *,
        is_read_only: bool = False,
    ) -> None:
        self.damage = ""
        self._path = path
        self._settings = settings = _rocks_options(options) if shared is None else shared
        with _translate_errors(path), ExitStack() as unless_opened:
            if is_read_only:
                # rocksdict writes down how it opens a directory, whatever it is opened for.
                links = unless_opened.enter_context(_links_to(path))
                self._db = _open(links, settings, is_read_only=True)
            else:
                path.mkdir(parents=True, exist_ok=True)
                self._db = _open(path, settings)
            self._resources = unless_opened.pop_all()
        # Who waited for the log within a write would hold the GIL.
        self._writing = Lock()
        self._calls = 0
        self._is_closed = self._has_failed = self._is_reopening = False
        self._openings = 1
        self._change = Condition()
        self._unflushed = local()
        """With which opening each thread began to write what it has not flushed."""
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign,assignment]  # the stub takes the attribute for a method

    @contextmanager
    def _database(self) -> Iterator[Rdict]:
        """The database for one call. During it rocksdict refuses to be closed, and calls while it is being
        closed, so `close` waits for those that have begun.
        """
        with self._change:
            self._change.wait_for(lambda: not self._is_reopening)
            if self._is_closed:
                raise Unavailable("A partition was closed on this host; ask again.")
            self._calls += 1
        try:
            with _translate_errors(self._path):
                yield self._db
        finally:
            with self._change:
                self._calls -= 1
                self._change.notify_all()

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None where there is none."""
        return self.get_all([key])[0]

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """For each key its value, None where there is none."""
        with self._database() as database:
            found = database.get(list(keys))
        assert isinstance(found, list)
        return found

    def write(self, pairs: Iterable[Pair], *, logged: bool = True) -> None:
        """Write many pairs in small calls, in their order; a crash leaves a leading part of them.

        Args:
            pairs: What to write.
            logged: Whether through the write-ahead log. Without it, `flush` makes the pairs durable.
        """
        batch = WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
            if batch.size_in_bytes() >= CALL_BYTES:
                self._apply(batch, logged=logged)
                batch = WriteBatch(raw_mode=True)
        if not batch.is_empty():
            self._apply(batch, logged=logged)

    def write_atomically(self, pairs: Iterable[Pair], removed: Sequence[Range] = ()) -> None:
        """Write pairs and remove ranges, all or nothing, through the log."""
        batch = WriteBatch(raw_mode=True)
        for low, high in removed:
            batch.delete_range(low, high)
        for key, value in pairs:
            batch.put(key, value)
        self._apply(batch, logged=True)

    def _apply(self, batch: WriteBatch, *, logged: bool) -> None:
        with self._writing, self._note_failure():
            if self._has_failed:
                self._reopen()
            if not logged and getattr(self._unflushed, "opening", None) is None:
                self._unflushed.opening = self._openings
            with self._database() as database:
                if logged:
                    database.write(batch)
                    database.flush_wal(sync=False)
                else:
                    database.write(batch, self._unlogged)

    @contextmanager
    def _note_failure(self) -> Iterator[None]:
        try:
            yield
        except (LimitExceeded, Unavailable):
            self._has_failed = True
            raise

    def _reopen(self) -> None:
        """Open the database anew if the disk has room for that; else it stays as it is, and can be read.

        Raises:
            LivestateError: It cannot be opened; the next write tries again.
        """
        if not _has_room_to_open(self._path):
            return
        with self._change:
            self._is_reopening = True
            try:
                self._change.wait_for(lambda: not self._calls)
                if self._is_closed:
                    return
                with suppress(Exception):
                    # It says once more what has failed.
                    self._db.close()
                with _translate_errors(self._path):
                    self._db = _open(self._path, self._settings)
                self._openings += 1
                self._has_failed = False
            finally:
                self._is_reopening = False
                self._change.notify_all()

    def flush(self) -> None:
        """Bring all that was written onto the disk; returns when it is there.

        Raises:
            LimitExceeded: The disk is full.
            Unavailable: It does not answer; or what this thread wrote without the log is gone, as the
                database was opened anew since.
        """
        began_with, self._unflushed.opening = getattr(self._unflushed, "opening", None), None
        with self._note_failure(), self._database() as database:
            if began_with not in (None, self._openings):
                raise Unavailable(
                    "A disk that was full has room again, and what was being written to a partition "
                    "meanwhile is written again."
                )
            database.flush()

    def reclaim(self, *, is_whole: bool = False, within: Range | None = None) -> None:
        """Drop the blob files that nothing refers to any more: RocksDB does so when it compacts, which it
        never does without writes.

        Args:
            is_whole: Whether to have it write anew all blobs that there are, and empty its log.
            within: The keys that are looked at; None for all.
        """
        low, high = within or (None, None)
        with self._database() as database:
            if not is_whole:
                database.compact_range(low, high)
                return
            database.flush()
            whole = CompactOptions()
            whole.set_bottommost_level_compaction(BottommostLevelCompaction.force())
            database.set_options({_AGE_CUTOFF: "1.0"})
            try:
                database.compact_range(low, high, whole)
            finally:
                database.set_options({_AGE_CUTOFF: f"{AGE_CUTOFF}"})

    def pairs(self, prefix: bytes) -> Iterator[Pair]:
        """All pairs whose key starts with a prefix, in key order."""
        with self._database() as database:
            cursor = database.iter()
        try:
            with _translate_errors(self._path):
                cursor.seek(prefix)
                while cursor.valid():
                    key, value = cursor.key(), cursor.value()
                    if not key.startswith(prefix):
                        return
                    yield key, value
                    cursor.next()
                cursor.status()
        finally:
            # It keeps RocksDB open, and an error that somebody keeps has what is named here.
            del cursor

    def beginnings(self, length: int, within: Range | None = None) -> Sequence[bytes]:
        """The first bytes of all keys, each once and in order; what is shorter, as a whole.

        Args:
            length: How many bytes.
            within: The keys that are looked at; None for all.
        """
        low, high = within or (b"", None)
        found: list[bytes] = []
        with self._database() as database:
            cursor = database.iter()
            try:
                cursor.seek(low)
                while cursor.valid():
                    key = cursor.key()
                    if high is not None and key >= high:
                        break
                    found.append(key[:length])
                    following = key_behind(found[-1], length)
                    if following is None:
                        break
                    cursor.seek(following)
                cursor.status()
            finally:
                del cursor  # as in `pairs`
        return found

    def figures(self) -> Mapping[str, int]:
        """RocksDB's own properties, by the part of their names behind `rocksdb.`; and `WRITE_FAILED`."""
        with self._database() as database:
            found = {name: database.property_int_value(f"rocksdb.{name}") or 0 for name in PROPERTIES}
        return {**found, WRITE_FAILED: int(self._has_failed)}

    def close(self) -> None:
        """Close it; all that was logged is there at the next open."""
        with self._change:
            self._is_closed = True
            self._change.wait_for(lambda: not self._calls)
        with _translate_errors(self._path), self._resources:
            try:
                self._db.close()
            except Exception:
                # After a write that failed it says so once more.
                if not self._has_failed:
                    raise


def _open(path: Path, settings: Options, *, is_read_only: bool = False) -> Rdict:
    """Open a RocksDB with these options. Of the ones that are not of the database as a whole, rocksdict takes
    what a directory was made with, and a cache of its own, unless they are given by column family.
    """
    access = AccessType.read_only() if is_read_only else AccessType.read_write()
    return Rdict(str(path), settings, column_families={_ONLY_FAMILY: settings}, access_type=access)


def _has_room_to_open(path: Path) -> bool:
    """Whether the disk has room for what opening a RocksDB writes: a file of that size is made in its
    directory, and is gone at once.
    """
    if sys.platform != "linux":
        return True
    try:
        logs = sum(file.stat().st_size for file in path.glob("*.log"))
        with TemporaryFile(dir=path) as file:
            os.posix_fallocate(file.fileno(), 0, logs + ROOM_BYTES)
    except OSError:
        # The disk is full; or RocksDB has just removed a log, and the next write looks again.
        return False
    return True


@contextmanager
def _links_to(path: Path) -> Iterator[Path]:
    """A directory elsewhere with the files of a RocksDB."""
    with TemporaryDirectory(prefix="livestate-") as links:
        for file in path.iterdir():
            (Path(links) / file.name).symlink_to(file.resolve())
        (Path(links) / _CONFIG).unlink(missing_ok=True)
        yield Path(links)


def shared_options(options: StateOptions) -> SharedOptions:
    """How all partitions of a host are opened: to make it for each takes a tenth of the time to open one."""
    settings = _rocks_options(options)
    buffers = WriteBufferManager(options.memtable_bytes, allow_stall=False)
    settings.set_write_buffer_manager(buffers)
    return settings


def _rocks_options(options: StateOptions) -> Options:
    settings = _options_with_manual_flush()
    settings.create_if_missing(True)
    settings.set_enable_blob_files(True)
    settings.set_min_blob_size(4 * KIB)
    settings.set_enable_blob_gc(True)
    settings.set_blob_gc_age_cutoff(AGE_CUTOFF)
    settings.set_compression_type(DBCompressionType.none())
    settings.set_blob_compression_type(DBCompressionType.none())
    # Columns have a cache of their own, and pages of keys are read past it.
    tables = BlockBasedOptions()
    tables.disable_cache()
    tables.set_block_size(TABLE_BLOCK_BYTES)
    settings.set_block_based_table_factory(tables)
    settings.set_write_buffer_size(options.write_buffer_bytes)
    settings.set_max_total_wal_size(4 * options.write_buffer_bytes)
    settings.set_max_background_jobs(2)
    settings.set_keep_log_file_num(2)
    # A partition has few files; RocksDB starts fifteen threads to open them, whatever there is.
    settings.set_max_file_opening_threads(1)
    return settings


def _options_with_manual_flush() -> Options:
    """RocksDB's defaults, but that a write leaves the log in memory until `flush_wal`.

    Raises:
        Unavailable: There is no room for the file that RocksDB reads them from.
    """
    try:
        with TemporaryDirectory(prefix="livestate-options-") as directory:
            Path(directory, "OPTIONS-000001").write_text(_MANUAL_FLUSH)
            settings, _ = Options.load_latest(directory)
    except OSError as error:
        raise Unavailable(
            f"A small temporary file cannot be written ({error.strerror}): free space in /tmp, or name "
            "another directory in TMPDIR, and start again."
        ) from error
    return settings
