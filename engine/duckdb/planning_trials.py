"""Which statements the engine plans so quickly that this process can do it, where it could neither end nor
bound it.

What a text does not say by its size (`engine.duckdb.growth.is_planned_quickly`) is tried, in a process that
can be killed, over empty tables.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import pyarrow as pa

from engine.deadline import Deadline
from engine.duckdb.binder import widest
from engine.duckdb.engine_errors import NotBoundError
from engine.duckdb.growth import is_planned_quickly
from engine.duckdb.worker_messages import PlanJob, encode_rows
from engine.duckdb.worker_pool import WorkerPool, planning_seconds

QUICK_SECONDS = 0.2
"""Processor time. The engine takes some 100 MiB meanwhile, at the most."""
MOST_KEPT = 4096
"""Texts of which is remembered how they were planned."""
_log = logging.getLogger(__name__)


class PlanningTrials:
    """Tries how long the engine plans statements. Safe for threads.

    Args:
        workers: Where it tries.
    """

    def __init__(self, workers: WorkerPool) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, bool] = OrderedDict()

    def is_quick(
        self,
        sql: str,
        tables: Mapping[str, pa.Schema],
        parameters: Sequence[object],
        deadline: Deadline,
    ) -> bool:
        """Whether the engine plans a statement quickly.

        Args:
            sql: A statement in DuckDB's dialect, for which `needs_worker` is false.
            tables: Schema of each table that it reads.
            parameters: A value for each parameter.
            deadline: When it must end.

        Raises:
            LivestateError: It must end, or its plan takes more memory than it may.
        """
        if is_planned_quickly(sql, widest(tables.values())):
            return True
        shapes = "\0".join(f"{name} {schema}" for name, schema in tables.items())
        key = blake2b(f"{sql}\0{shapes}".encode(), digest_size=16).digest()
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        schemas = {name: encode_rows(schema) for name, schema in tables.items()}
        try:
            seconds = planning_seconds(self._workers, PlanJob(sql, schemas, tuple(parameters)), deadline)
        except NotBoundError as error:
            # Where it runs, it is said in full.
            _log.debug("A statement could not be planned over empty tables: %s", error)
            return False
        with self._lock:
            self._known[key] = seconds <= QUICK_SECONDS
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return seconds <= QUICK_SECONDS
