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

COUNTED_PART = 7 / 8
"""Of the memory that a database may take, what the engine is told at the most. It counts its blocks, and
takes up to an eighth more for what it does not count.
"""
UNCOUNTED_BYTES = 128 << 20
"""That is not less where the memory is: 32 joins take 40 MiB beside 224, and there are blocks on their way to
the engine, rows on theirs to clients, and statements that are parsed and planned.
"""
LEAST_COUNTED_PART = 1 / 2
SMALL_COUNTED_PART, SMALL_COUNTED_BYTES = 5 / 8, 64 << 20
"""Of a small memory it is told this part, up to these bytes: it sorts and joins nothing with less."""
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
        self._lent = 0
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

    def lend(self, nbytes: int) -> bool:
        """As `Engine.lend`."""
        with self._lock:
            before, self._lent = self._lent, nbytes  # one that is opened meanwhile is told of it
            database = self._database
        try:
            with database.cursor() as cursor:
                cursor.execute(f"SET GLOBAL memory_limit = '{self._counted - nbytes}B'")
        except duckdb.Error:
            self._lent = before
            return False  # its statements have more in use, or it broke, and is opened anew
        return True

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
        self._database = open_database(self._counted - self._lent, self._threads, self._place)

    @property
    def _counted(self) -> int:
        """What the engine is told of while it lends nothing."""
        # What a worker takes beside its limit has room of its own (`engine.duckdb.worker_process`).
        return self.allowance.nbytes if self.allowance.in_worker else counted_bytes(self.allowance.nbytes)


def counted_bytes(nbytes: int) -> int:
    """What the engine is told of the memory that a database may take, in bytes."""
    least = max(nbytes * LEAST_COUNTED_PART, min(nbytes * SMALL_COUNTED_PART, SMALL_COUNTED_BYTES))
    return int(max(least, min(nbytes * COUNTED_PART, nbytes - UNCOUNTED_BYTES)))
