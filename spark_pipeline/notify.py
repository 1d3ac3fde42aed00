"""Telling hosts that there is a new epoch, so that they need not wait for their next poll."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace

from engine.errors import LivestateError
from engine.model.schema import Epoch, GroupName
from flight_server.client.connection import Connection
from flight_server.client.connection_options import ConnectionOptions

_ACTION = "livestate.notify"
_TIMEOUT_SECONDS = 2.0
_LOG = logging.getLogger(__name__)


class Notifier:
    """Tells one host of a group's commits, in the background: it never delays or fails a batch.

    A host that cannot be reached finds the epoch by itself at its next poll, so nothing is repeated or kept;
    the log says once that an outage began, and once that it ended. Commits that follow each other faster than
    the host answers become one call.

    Args:
        host: How the host is reached; one host.
        group: The store group.

    Raises:
        InvalidInput: That is no host's address, or several.
    """

    def __init__(self, host: ConnectionOptions, group: GroupName) -> None:
        self._host = replace(host, call_seconds=_TIMEOUT_SECONDS)
        self._location = host.uri
        self._group = group
        self._changed = threading.Condition()
        self._newest: Epoch | None = None
        self._running = False
        self._failing = False
        self._connection: Connection | None = None

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
            if self._connection is None:
                self._connection = Connection(self._host)
            self._connection.act(_ACTION, self._group.encode())
        except Exception as error:  # noqa: BLE001 - the top of the thread: whatever fails, later epochs are told again
            self._log_failure(epoch, error)
        else:
            if self._failing:
                _LOG.info(
                    "The host at %s is told of new epochs of %s again, from epoch %d.",
                    self._location,
                    self._group,
                    epoch,
                )
            self._failing = False

    def _log_failure(self, epoch: Epoch, error: Exception) -> None:
        if not self._failing:
            is_expected = isinstance(error, LivestateError)
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
        self._connection = None


def notifiers_of(notify: str | Sequence[str] | ConnectionOptions, group: GroupName) -> tuple[Notifier, ...]:
    """A notifier for each host that is to be told.

    Args:
        notify: Their addresses; or these with a token and TLS roots.
        group: The store group.

    Raises:
        InvalidInput: One of the addresses is none.
    """
    options = notify if isinstance(notify, ConnectionOptions) else ConnectionOptions.read(notify)
    return tuple(Notifier(host, group) for host in options.hosts)
