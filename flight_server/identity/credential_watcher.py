"""Has an authenticator read its files again when one of them has changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from engine.access.principal import NOBODY, Principal
from flight_server.identity.authenticator import Authenticator

SECONDS_BETWEEN_LOOKS = 1.0

_log = logging.getLogger(__name__)


class EventLog(Protocol):
    """Takes lines; as `flight_server.server.audit.AuditLog`."""

    def write(self, event: str, principal: Principal, peer: str, facts: Mapping[str, Any]) -> None:
        """Write a line."""


class CredentialWatcher:
    """A thread that looks at the files each second.

    Args:
        authenticator: Whose files.
        audit: Gets a line for each time that they are read again, or cannot be; None: there is none.
    """

    def __init__(self, authenticator: Authenticator, audit: EventLog | None = None) -> None:
        self._authenticator = authenticator
        self._audit = audit
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="credentials", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def reload(self) -> None:
        """Have the files read again now, changed or not."""
        self._wanted.set()

    def stop(self) -> None:
        """End. May be called again."""
        self._ended.set()
        self._wanted.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        while True:
            is_wanted = self._wanted.wait(SECONDS_BETWEEN_LOOKS)
            if self._ended.is_set():
                return
            self._wanted.clear()
            try:
                if (is_wanted or self._authenticator.has_changed()) and self._authenticator.reload():
                    self._tell(self._authenticator.credentials.unread)
            except Exception:  # noqa: BLE001 - the top of a thread
                _log.exception("what callers prove themselves by could not be read again")

    def _tell(self, unread: Mapping[str, str]) -> None:
        if not unread:
            _log.info("what callers prove themselves by was read again")
            self._write_line("ok")
        for name, message in unread.items():
            _log.error(
                "what callers prove themselves by was read again, but %s stays as it was: %s", name, message
            )
            self._write_line("InvalidInput", error=f"{name} stays as it was: {message}")

    def _write_line(self, outcome: str, **facts: str) -> None:
        if self._audit is not None:
            self._audit.write("reload", NOBODY, "", {**facts, "outcome": outcome})
