"""Statements that run in a thread of their own, as a call of the network blocks where Python handles no
signals: so Ctrl-C is heard, and cancels the statement on its host, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.errors import LivestateError
from flight_server.cli.call_threads import CallThread
from flight_server.cli.render import first_rows
from flight_server.client.client import Client

# How long Ctrl-C may go unheard.
_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Shown:
    """A result that is ready to be shown.

    Attributes:
        table: The rows.
        more: Whether there were more than the limit.
        metadata: What the host said of the query.
        seconds: Time from sending the statement to having the rows.
    """

    table: pa.Table
    more: bool
    metadata: Mapping[str, Any]
    seconds: float


class StatementRun:
    """A statement that runs; it begins when it is made.

    Args:
        client: Connection to the host.
        sql: One statement.
        limit: How many rows to take at most; 0 takes all.
    """

    def __init__(self, client: Client, sql: str, limit: int) -> None:
        self._client = client
        self._sql = sql
        self._limit = limit
        self._call_id = os.urandom(8)
        self._ended = threading.Event()
        self._shown: Shown | None = None
        self._error: Exception | None = None
        CallThread("statement", self._run).start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end.

        Args:
            seconds: How long at most; None: as long as it takes.

        Returns:
            Whether it has ended.
        """
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """Have the host end it."""
        with suppress(LivestateError):
            # It may have ended in this moment.
            self._client.cancel(self._call_id)

    def result(self) -> Shown:
        """What it came to, when it has ended.

        Raises:
            LivestateError: It failed.
        """
        if self._error is not None:
            raise self._error
        assert self._shown is not None
        return self._shown

    def _run(self) -> None:
        started = time.perf_counter()
        try:
            rows = self._client.query(self._sql, call_id=self._call_id)
            table, more = first_rows(rows, rows.schema, self._limit)
            if more:
                rows.close()
            self._shown = Shown(table, more, rows.metadata, time.perf_counter() - started)
        except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
            self._error = error
        finally:
            self._ended.set()


def run_cancellable(client: Client, sql: str, limit: int) -> Shown:
    """Run a statement so that Ctrl-C cancels it, on the host too.

    Args:
        client: Connection to the host.
        sql: One statement.
        limit: How many rows to take at most; 0 takes all.

    Returns:
        The rows.

    Raises:
        LivestateError: The statement failed.
        KeyboardInterrupt: The user cancelled it.
    """
    run = StatementRun(client, sql, limit)
    try:
        while not run.wait(_LOOK_SECONDS):
            pass  # Ctrl-C in the moment before the thread falls asleep does not wake it
    except KeyboardInterrupt:
        run.cancel()
        raise
    return run.result()
