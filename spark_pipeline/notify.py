"""Telling hosts that there is a new epoch, so that they need not wait for their next poll."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

import pyarrow as pa
from pyarrow import flight

from engine.model.schema import Epoch, GroupName

_ACTION = "livestate.notify"
_TIMEOUT_SECONDS = 2.0
_LOG = logging.getLogger(__name__)


class Notifier:
    """Tells one host of a group's commits, in the background: it never delays or fails a batch.

    A host that cannot be reached finds the epoch by itself at its next poll, so nothing is repeated or kept;
    the log says once that an outage began, and once that it ended. Commits that follow each other faster than
    the host answers become one call.

    Args:
        location: The host's Flight URI, such as `grpc://127.0.0.1:8815`.
        group: The store group.
    """

    def __init__(self, location: str, group: GroupName) -> None:
        self._location = location
        self._group = group
        self._changed = threading.Condition()
        self._newest: Epoch | None = None
        self._running = False
        self._failing = False
        self._client: flight.FlightClient | None = None

    def notify(self, epoch: Epoch) -> None:
        """Tell the host of an epoch, soon.

        Args:
            epoch: The newest committed epoch.
        """
        with self._changed:
            self._newest = epoch
            if not self._running:
                self._running = True
                threading.Thread(
                    target=self._work, name=f"livestate-notify-{self._location}", daemon=True
                ).start()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until nothing is left to tell.

        Args:
            timeout_seconds: How long at most.

        Returns:
            Whether it is so.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout_seconds)

    def _work(self) -> None:
        """The life of a thread: it ends when nothing is left to tell, and the next commit starts
        another one.
        """
        while True:
            with self._changed:
                if self._newest is None:
                    self._running = False
                    self._changed.notify_all()
                    return
                epoch, self._newest = self._newest, None
            self._tell(epoch)

    def _tell(self, epoch: Epoch) -> None:
        try:
            if self._client is None:
                self._client = flight.connect(self._location)
            action = flight.Action(_ACTION, self._group.encode())
            for _ in self._client.do_action(action, flight.FlightCallOptions(timeout=_TIMEOUT_SECONDS)):
                pass
        except Exception as error:  # noqa: BLE001 - the top of the thread: whatever fails, later epochs are told again
            self._failed(epoch, error)
        else:
            if self._failing:
                _LOG.info(
                    "The host at %s is told of new epochs of %s again, from epoch %d.",
                    self._location,
                    self._group,
                    epoch,
                )
            self._failing = False

    def _failed(self, epoch: Epoch, error: Exception) -> None:
        if not self._failing:
            is_expected = isinstance(error, pa.ArrowException | OSError)
            _LOG.warning(
                (
                    "The host at %s could not be told of epoch %d of %s; it will find new epochs by polling "
                    "until it can be reached again: %s"
                ),
                self._location,
                epoch,
                self._group,
                error,
                exc_info=None if is_expected else error,
            )
        self._failing = True
        client, self._client = self._client, None
        if client is not None:
            with suppress(pa.ArrowException, OSError):
                client.close()
