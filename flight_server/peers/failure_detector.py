"""What a host knows of the others: their newest reports, and who is alive. No network and no clock of its
own.

A host is alive for another one that reached it and has heard of it lately. To be heard of is not enough: a
host that is being started tells others of itself before they can reach it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from engine.cluster.reports import HostName, HostReport
from engine.errors import InvalidInput
from flight_server.peers.sent_columns import fill_columns
from flight_server.wire.report_messages import SentReport


@dataclass(frozen=True)
class Contact:
    """What is known of a host.

    Attributes:
        sent: Its newest report.
        at: When it was last heard of, seconds of the clock that `FailureDetector` is told.
        reached: Whether it answered the last call to it.
    """

    sent: SentReport
    at: float
    reached: bool


class FailureDetector:
    """The other hosts of a deployment, as far as they were heard of. Not safe for threads.

    Args:
        here: Name of this host.
        hosts: Names of the others.
        dead_after_seconds: A host that was not heard of for so long is not alive.
    """

    def __init__(self, here: HostName, hosts: Collection[HostName], dead_after_seconds: float) -> None:
        self._here = here
        self._hosts = frozenset(hosts)
        self._dead_after_seconds = dead_after_seconds
        self._contacts: dict[HostName, Contact] = {}

    def note_report(self, sent: SentReport, now: float, *, answered: bool) -> bool:
        """Take note of a report.

        Args:
            sent: From another host.
            now: The time.
            answered: It is the answer to a call of this host.

        Returns:
            Whether it says anything new, or comes from a host that was not alive.

        Raises:
            InvalidInput: It does not come from another host of this deployment.
        """
        host = sent.report.host
        self._check(host)
        known = self._contacts.get(host)
        # Reports overtake each other: one is pushed while another travels as an answer. A host that was
        # started again begins anew.
        overtaken = (
            known is not None and known.sent.started == sent.started and known.sent.number > sent.number
        )
        reached = answered or (known is not None and known.reached)
        kept = sent
        if known is not None:
            # What is not said of columns was said before, also by a report that was overtaken.
            newer, older = (known.sent, sent) if overtaken else (sent, known.sent)
            kept = replace(newer, report=fill_columns(newer.report, older.report))
        self._contacts[host] = Contact(kept, now, reached)
        return (
            known is None
            or reached != self._is_alive(known, now)
            or (not overtaken and known.sent.report != sent.report)
        )

    def note_lost(self, host: HostName) -> None:
        """Take note that a host could not be reached."""
        contact = self._contacts.get(host)
        if contact is not None:
            self._contacts[host] = replace(contact, reached=False)

    def _check(self, host: HostName) -> None:
        if host == self._here:
            raise InvalidInput(f"Two hosts are called {host}: start each with a --host of its own.")
        if host not in self._hosts:
            raise InvalidInput(
                f"The deployment of host {self._here} has no host {host[:100]!r}: give all hosts the same "
                "deployment file."
            )

    def reports_of_alive(self, now: float) -> Mapping[HostName, HostReport]:
        """The newest report of every other host that is alive.

        Args:
            now: The time.
        """
        return {
            host: contact.sent.report
            for host, contact in self._contacts.items()
            if self._is_alive(contact, now)
        }

    def is_alive(self, host: HostName, now: float) -> bool:
        """Whether a host is alive."""
        contact = self._contacts.get(host)
        return contact is not None and self._is_alive(contact, now)

    def seconds_left(self, host: HostName, now: float) -> float:
        """How much longer a host counts as alive if it is not heard of; 0.0 if it does not."""
        contact = self._contacts.get(host)
        return (
            max(0.0, contact.at + self._dead_after_seconds - now)
            if contact is not None and contact.reached
            else 0.0
        )

    def contact(self, host: HostName) -> Contact | None:
        """What is known of a host, alive or not; None if it was never heard of."""
        return self._contacts.get(host)

    def _is_alive(self, contact: Contact, now: float) -> bool:
        return contact.reached and now - contact.at < self._dead_after_seconds
