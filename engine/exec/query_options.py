"""The limits of a query service, declared once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.plan.split.sizes import DEFAULT_LIMIT_BYTES

LEAST_KEY_ANSWER_BYTES = 16 << 20
"""What answers to keys may take where memory is small: a message may ask for many."""


@dataclass(frozen=True)
class QueryOptions:
    """Limits of the query service.

    Attributes:
        memory_limit_bytes: Memory of all queries together, beyond the cached state they read: that of the
            engine, of gathered rows and of answers to keys.
        threads: Threads of the engine for all queries together.
        statement_timeout_seconds: Time that a statement may take until its last batch is read; None for no
            limit.
        max_sql_bytes: Size of the longest statement text, in UTF-8; None: a 128th of `memory_limit_bytes`,
            but 1 MiB at least and 16 MiB at the most.
        answer_bytes: Bytes of answers that are kept for those who ask the same of the same epochs; 0: none;
            None: a 32nd of `memory_limit_bytes`.
        batch_bytes: Arrow bytes that a batch of a result should not exceed.
        cached_statements: How many statements are kept parsed and planned.
        statement_bytes: About how much these may take, in each of the forms in which they are kept; None: a
            64th of `memory_limit_bytes`.
        merge_table_bytes: Arrow bytes of hosts' rows up to which a merge reads them as a table; where it can,
            it reads more as they come.
        gather_limit_bytes: Arrow bytes of hosts' rows that one statement may hold in memory for its merge;
            more of them go to the spill directory. None: as much as all together.
        total_gather_limit_bytes: What all statements may hold together; None: a quarter of
            `memory_limit_bytes`.
        broadcast_limit_bytes: Arrow bytes that a statement may send to every host to be joined there.
        peer_threads: Threads that wait for one host, for all statements together.
        spill_directory: Directory for what the engine's memory does not hold, used for nothing else: it is
            emptied at the start and removed at the end. None: the engine keeps to its memory.
        spill_limit_bytes: What all statements may put there together, as gathered rows and as what the engine
            works with, each; 0: nothing.
        max_lag_seconds: How long ago the oldest commit may be that an answer lacks, unless its statement
            allows more (`ReadPoint.allow_stale`); None for no limit.
    """

    memory_limit_bytes: int = 2 << 30
    threads: int = os.cpu_count() or 1
    statement_timeout_seconds: float | None = 300.0
    max_sql_bytes: int | None = None
    batch_bytes: int = 8 << 20
    cached_statements: int = 1000
    statement_bytes: int | None = None
    merge_table_bytes: int = 8 << 20
    gather_limit_bytes: int | None = None
    total_gather_limit_bytes: int | None = None
    broadcast_limit_bytes: int = DEFAULT_LIMIT_BYTES
    peer_threads: int = 32
    spill_directory: Path | None = None
    spill_limit_bytes: int = 8 << 30
    answer_bytes: int | None = None
    max_lag_seconds: float | None = None

    @property
    def longest_text_bytes(self) -> int:
        """Bytes of the longest statement text. It is held in several forms while it is read, each of which
        takes four times as much where one character is beyond 16 bits.
        """
        if self.max_sql_bytes is not None:
            return self.max_sql_bytes
        return min(max(self.memory_limit_bytes // 128, 1 << 20), 16 << 20)

    @property
    def kept_statement_bytes(self) -> int:
        """Bytes of statements that are kept, in each form."""
        return self.memory_limit_bytes // 64 if self.statement_bytes is None else self.statement_bytes

    @property
    def kept_answer_bytes(self) -> int:
        """Bytes of answers that are kept."""
        return self.memory_limit_bytes // 32 if self.answer_bytes is None else self.answer_bytes

    @property
    def all_gathered_bytes(self) -> int:
        """Bytes of gathered rows of all statements."""
        total = self.total_gather_limit_bytes
        return self.memory_limit_bytes // 4 if total is None else total

    @property
    def gathered_bytes(self) -> int:
        """Bytes of gathered rows of one statement."""
        return self.all_gathered_bytes if self.gather_limit_bytes is None else self.gather_limit_bytes

    @property
    def key_answer_bytes(self) -> int:
        """Bytes of answers to keys that clients have not taken, of all streams."""
        return max(self.memory_limit_bytes // 8, LEAST_KEY_ANSWER_BYTES)
