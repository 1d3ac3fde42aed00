"""Keeping the epochs of a read where they can be read, for as long as somebody reads."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType

import pyarrow as pa

from engine.errors import LivestateError
from flight_server.client.connection import HostLostError
from spark_pipeline.host_calls import ReaderConnection, ReadPlan
from spark_pipeline.reader_options import ReaderOptions

_LOG = logging.getLogger(__name__)

LEASE_SECONDS = 60.0
"""How long hosts keep an epoch for a reader that says nothing more: what Spark may take between planning and
reading, or between two tasks.
"""
RENEWAL_SECONDS = 15.0
MOST_UNANSWERED = 2
"""A host that leaves so many calls in a row unanswered, and sends no rows meanwhile, is lost."""
_LOOK_SECONDS = 0.5
"""How often whoever waits for rows looks whether their host is lost."""


def take_lease(plan: ReadPlan, options: ReaderOptions) -> tuple[ReadPlan, LivestateError | None]:
    """Have all hosts of a plan keep its epochs.

    Args:
        plan: The plan.
        options: How hosts are reached.

    Returns:
        The plan without the hosts that do not; and what one of these said.
    """
    refused = _refusals(plan, options)
    return plan.drop_hosts(tuple(refused)), next(iter(refused.values()), None)


def _refusals(plan: ReadPlan, options: ReaderOptions) -> Mapping[str, LivestateError]:
    """Have all hosts of a plan keep its epochs; what those say that do not."""
    refused: dict[str, LivestateError] = {}
    for uri in plan.uris if plan.epochs else ():
        try:
            with ReaderConnection(options.connection.with_uri(uri), options.timeout_seconds) as host:
                host.hold(plan.epochs, LEASE_SECONDS)
        except LivestateError as error:
            refused[uri] = error
    return refused


class Lease:
    """Has the epochs of a plan kept while a task reads a part of it: the tasks that run keep them for those
    that wait. It knows by this which hosts do not answer any more. A context, at whose end it stops.

    Args:
        plan: The plan.
        options: How hosts are reached.
    """

    def __init__(self, plan: ReadPlan, options: ReaderOptions) -> None:
        self._plan = plan
        self._options = options
        self._unanswered: Counter[str] = Counter()
        self._ended = threading.Event()

    def __enter__(self) -> Lease:
        threading.Thread(target=self._keep_renewing, name="livestate-lease", daemon=True).start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()

    def rows_of(
        self, uri: str, batches: Generator[pa.RecordBatch, None, None]
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a host, for as long as it answers.

        Args:
            uri: The host, which has just answered.
            batches: Its rows, as they arrive. They are read in another thread, and closed there.

        Yields:
            The batches.

        Raises:
            HostLostError: The host does not answer any more.
            LivestateError: As reading them does.
        """
        # A host that is frozen, or whose machine is gone, breaks no connection, and nothing ends pyarrow's
        # wait for the first rows of a call. So a thread waits, and is left to itself if they do not come.
        reading = ThreadPoolExecutor(1, "livestate-rows")
        self._unanswered[uri] = 0
        try:
            while True:
                coming = reading.submit(next, batches, None)
                while not wait([coming], _LOOK_SECONDS).done:
                    if self._unanswered[uri] >= MOST_UNANSWERED:
                        raise HostLostError(
                            f"The host at {uri} does not answer any more: it is frozen, or its machine or "
                            "network is gone. Where partitions have replicas, another host answers for it."
                        )
                batch = coming.result()
                if batch is None:
                    return
                self._unanswered[uri] = 0
                yield batch
        finally:
            reading.submit(batches.close)
            reading.shutdown(wait=False)

    def _keep_renewing(self) -> None:
        while True:
            try:
                self._renew()
            except Exception:  # noqa: BLE001 - the top of the thread
                _LOG.exception(
                    "The epochs of a read could not be held for longer; it is tried again in %g seconds.",
                    RENEWAL_SECONDS,
                )
            if self._ended.wait(RENEWAL_SECONDS):
                return

    def _renew(self) -> None:
        # A host that does not answer now can lack the epoch later; whoever reads there is told then.
        refused = _refusals(self._plan, self._options)
        for uri in self._plan.uris:
            self._unanswered[uri] = (
                self._unanswered[uri] + 1 if isinstance(refused.get(uri), HostLostError) else 0
            )
