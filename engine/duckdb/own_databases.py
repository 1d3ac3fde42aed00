"""Databases of principals whose memory is limited.

All that runs in one database shares its memory, so that a principal whose statements must not take more than
some of it has a database alone. It is opened when it is needed, and kept for the next statement.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from engine.access.principal import EngineLimit
from engine.duckdb.engine_database import EngineConnection, EngineDatabase, EngineMemory
from engine.duckdb.engine_errors import Allowance
from engine.duckdb.spill import SpillDirectory
from engine.errors import Unavailable

MOST_KEPT = 16
"""Databases that are kept when nothing runs in them."""
LEAST_BYTES = 64 << 20
"""What a database has at least, or all of its limit, when others have taken the memory."""


class OwnDatabases:
    """The databases of principals with limits. Safe for threads.

    Those in which statements run have no more memory together than `total_bytes`, but for `LEAST_BYTES` each:
    one that is opened when others have the most of it gets what is left. Of what may be spilled each has as
    large a part as of the memory.

    Args:
        total_bytes: Memory for all of them together.
        threads: Worker threads of each.
        spill: Where they put what their memory does not hold; None: nowhere.
    """

    def __init__(self, total_bytes: int, threads: int, spill: SpillDirectory | None) -> None:
        self._total_bytes = total_bytes
        self._threads = threads
        self._spill = spill
        # Reentrant, as that of a database.
        self._lock = threading.RLock()
        # The one that was used last is the last.
        self._databases: OrderedDict[EngineLimit, EngineDatabase] = OrderedDict()
        self._is_closed = False

    def connect(self, limit: EngineLimit) -> EngineConnection:
        """A connection to the database of a principal; to be closed.

        Args:
            limit: What its statements may take together.

        Raises:
            Unavailable: They are closed.
        """
        with self._lock:
            if self._is_closed:
                raise Unavailable("This host is stopping: ask another one.")
            connection = self._database(limit).connect()
            self._close_idle()
        return connection

    def memory(self) -> EngineMemory:
        """What all of them take."""
        with self._lock:
            found = [database.memory() for database in self._databases.values()]
        return EngineMemory(sum(each.nbytes for each in found), sum(each.spilled_bytes for each in found))

    def close(self) -> None:
        """Close all of them. Statements still running end with an error."""
        with self._lock:
            self._is_closed = True
            for database in self._databases.values():
                database.close()
            self._databases.clear()

    def _database(self, limit: EngineLimit) -> EngineDatabase:
        """The database of a principal, the last one from now on."""
        known = self._databases.pop(limit, None)
        if known is None or known.is_idle:
            allowance = self._allowance(limit)
            if known is None or known.allowance != allowance:
                if known is not None:
                    known.close()
                part = allowance.nbytes / self._total_bytes
                known = EngineDatabase(allowance, self._threads, self._spill, part)
        self._databases[limit] = known
        return known

    def _allowance(self, limit: EngineLimit) -> Allowance:
        """What a database may take that is used now."""
        busy = [database for database in self._databases.values() if not database.is_idle]
        left = self._total_bytes - sum(database.allowance.nbytes for database in busy)
        nbytes = min(limit.limit.most, self._total_bytes, max(left, LEAST_BYTES))
        return Allowance(nbytes, limit.limit)

    def _close_idle(self) -> None:
        """Close those that were used least recently, beyond the number that is kept."""
        if len(self._databases) <= MOST_KEPT:
            return
        idle = [limit for limit, database in self._databases.items() if database.is_idle]
        for limit in idle[: max(0, len(idle) - MOST_KEPT)]:
            self._databases.pop(limit).close()
