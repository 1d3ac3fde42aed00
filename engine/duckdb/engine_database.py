"""A database in which statements run, each on a connection of its own; one that breaks is opened anew."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from weakref import WeakSet

import duckdb

from engine.duckdb.database import open_database
from engine.duckdb.engine_errors import Allowance, Failure, error_of
from engine.duckdb.spill import SpillDirectory
from engine.errors import LivestateError

SHARED_PART = 1 / 2
"""Of the memory that statements may take, what the engine is told. A quarter is for rows of other hosts, an
eighth for answers to keys (`engine.exec.query_options`). The rest is for what nobody counts: blocks on their
way to the engine, rows on theirs to clients, statements that are parsed and planned, and an eighth that the
engine takes beside what it counts.
"""
SMALL_SHARED_PART, SMALL_SHARED_BYTES = 5 / 8, 64 << 20
"""Of a small memory it is told this part, up to these bytes: it sorts and joins nothing with less."""
OWN_PART, BESIDE_OWN_BYTES, LEAST_OWN_PART = 7 / 8, 96 << 20, 5 / 8
"""Of the memory that a principal may take, what its database is told: a part, or all but so many bytes if
that is less, and another part at the least.
"""
_MEMORY = "SELECT sum(memory_usage_bytes), sum(temporary_storage_bytes) FROM duckdb_memory()"


@dataclass(frozen=True)
class EngineMemory:
    """What databases take.

    Attributes:
        nbytes: Memory, in bytes.
        spilled_bytes: Bytes of their files.
    """

    nbytes: int
    spilled_bytes: int


@dataclass(frozen=True, eq=False)
class EngineConnection:
    """What one statement runs on.

    Attributes:
        database: The database.
        duckdb: The engine's connection to it.
    """

    database: EngineDatabase
    duckdb: duckdb.DuckDBPyConnection

    def close(self) -> None:
        """Close it. May be called again."""
        self.database.disconnect(self)


class EngineDatabase:
    """A database of the engine, locked down. Safe for threads.

    Args:
        allowance: What it may take.
        threads: Its worker threads.
        spill: Where it puts what its memory does not hold; None: nowhere.
        spill_part: Which part of what may be there it may put there.

    Attributes:
        allowance: As the argument.
    """

    def __init__(
        self,
        allowance: Allowance,
        threads: int,
        spill: SpillDirectory | None,
        spill_part: float = 1.0,
    ) -> None:
        self.allowance = allowance
        self._threads = threads
        self._spill = spill
        self._spill_part = spill_part
        # Reentrant, as finalizers close results.
        self._lock = threading.RLock()
        self._connections: WeakSet[EngineConnection] = WeakSet()
        self._open()

    @property
    def is_idle(self) -> bool:
        """Whether no statement runs in it."""
        with self._lock:
            return not self._connections

    def connect(self) -> EngineConnection:
        """A connection whose names no other one sees; to be closed."""
        with self._lock:
            connection = EngineConnection(self, self._database.cursor())
            self._connections.add(connection)
        return connection

    def disconnect(self, connection: EngineConnection) -> None:
        """Close a connection. May be called again."""
        with self._lock:
            self._connections.discard(connection)
        connection.duckdb.close()

    def memory(self) -> EngineMemory:
        """What it takes."""
        with self._lock:
            cursor = self._database.cursor()
        with cursor:
            found = cursor.execute(_MEMORY).fetchone()
        return EngineMemory(*(int(each or 0) for each in found or (0, 0)))

    def error(self, failure: Failure) -> LivestateError:
        """What to raise for a failure; where the database is broken, statements that come after get another
        one.

        Args:
            failure: What the engine reports.

        Returns:
            The error to raise.
        """
        if failure.is_fatal:
            with self._lock:
                self._open()
        place = self._place
        return error_of(failure, self.allowance, None if place is None else place.limit_bytes)

    def close(self) -> None:
        """Close it. Statements still running end with an error."""
        with self._lock:
            self._database.close()

    def _open(self) -> None:
        self._place = None if self._spill is None else self._spill.place(self._spill_part)
        allowance = self.allowance
        # What a worker takes beside its limit has room of its own (`engine.duckdb.worker_process`).
        counted = allowance.nbytes
        if not allowance.in_worker:
            counted = shared_bytes(counted) if allowance.limit is None else own_bytes(counted)
        self._database = open_database(counted, self._threads, self._place)


def shared_bytes(nbytes: int) -> int:
    """What the engine is told of the memory that statements may take, in bytes."""
    return int(max(nbytes * SHARED_PART, min(nbytes * SMALL_SHARED_PART, SMALL_SHARED_BYTES)))


def own_bytes(nbytes: int) -> int:
    """What a database is told of the memory that its principal may take, in bytes."""
    return int(max(nbytes * LEAST_OWN_PART, min(nbytes * OWN_PART, nbytes - BESIDE_OWN_BYTES)))
