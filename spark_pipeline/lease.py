"""Keeping the epochs of a read where they can be read, for as long as somebody reads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import LivestateError
from spark_pipeline.host_calls import ReaderConnection, ReadPlan
from spark_pipeline.reader_options import ReaderOptions

_LOG = logging.getLogger(__name__)

LEASE_SECONDS = 60.0
"""How long hosts keep an epoch for a reader that says nothing more: what Spark may take between planning and
reading, or between two tasks.
"""
RENEWAL_SECONDS = 15.0


def take_lease(plan: ReadPlan, options: ReaderOptions) -> tuple[ReadPlan, LivestateError | None]:
    """Have all hosts of a plan keep its epochs.

    Args:
        plan: The plan.
        options: How hosts are reached.

    Returns:
        The plan without the hosts that do not; and what one of these said.
    """
    refused: dict[str, LivestateError] = {}
    for uri in plan.uris if plan.epochs else ():
        try:
            with ReaderConnection(options.connection.with_uri(uri), options.timeout_seconds) as host:
                host.hold(plan.epochs, LEASE_SECONDS)
        except LivestateError as error:
            refused[uri] = error
    return plan.drop_hosts(tuple(refused)), next(iter(refused.values()), None)


@contextmanager
def keep_renewing(plan: ReadPlan, options: ReaderOptions) -> Iterator[None]:
    """Have the epochs of a plan kept during a block, which reads a part of it: the tasks that run keep them
    for those that wait.

    Args:
        plan: The plan.
        options: How hosts are reached.
    """
    done = threading.Event()
    thread = threading.Thread(target=_renew, args=(plan, options, done), name="livestate-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


def _renew(plan: ReadPlan, options: ReaderOptions, done: threading.Event) -> None:
    while True:
        try:
            # A host that does not answer now can lack the epoch later; whoever reads there is told then.
            take_lease(plan, options)
        except Exception:  # noqa: BLE001 - the top of the thread
            _LOG.exception(
                "The epochs of a read could not be held for longer; it is tried again in %g seconds.",
                RENEWAL_SECONDS,
            )
        if done.wait(RENEWAL_SECONDS):
            return
