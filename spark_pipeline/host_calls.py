"""What the reader asks of hosts, over plain Flight: a plan, to keep its epochs, and rows.

| call | what travels |
|---|---|
| GetFlightInfo | a JSON ticket as descriptor, with `"endpoints": "partitions"`; its application metadata is `{"epochs": {group: number}}` |
| DoAction `livestate.hold` | `{"epochs": {group: number}, "seconds": number}`: the host keeps these epochs readable for so long |
| DoGet | a ticket of the plan |
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from flight_server.client.connection import Connection
from flight_server.client.connection_options import ConnectionOptions

CALL_SECONDS = 10.0
"""How long a host may take to say that it is there."""
HOST_SECONDS = 300.0
"""How long hosts take for a statement at most, unless they are told otherwise."""
MARGIN_SECONDS = 10.0
"""What a host that has run out of time has to say so, before the call is given up."""


@dataclass(frozen=True)
class Share:
    """Rows that one task reads.

    Attributes:
        ticket: What to ask for.
        uris: The hosts that have them, best first.
    """

    ticket: bytes = field(repr=False)
    uris: tuple[str, ...]


@dataclass(frozen=True)
class ReadPlan:
    """How a statement is read, all of it at the same epochs.

    Attributes:
        schema: Arrow schema of the rows.
        epochs: The epoch of each store group.
        shares: Their rows together are the answer.
    """

    schema: pa.Schema
    epochs: Mapping[str, int]
    shares: tuple[Share, ...]

    @property
    def uris(self) -> tuple[str, ...]:
        """All hosts that rows are read from, or could be."""
        return tuple(dict.fromkeys(uri for share in self.shares for uri in share.uris))

    def drop_hosts(self, lost: Sequence[str]) -> ReadPlan:
        """The same plan, in which some hosts are asked for nothing."""
        shares = tuple(
            Share(share.ticket, tuple(uri for uri in share.uris if uri not in lost)) for share in self.shares
        )
        return replace(self, shares=shares)


class ReaderConnection:
    """Calls of the reader to one host; a context that closes the connection.

    Args:
        host: How it is reached.
        timeout_seconds: How long hosts may take for a statement; None: as long as they allow.

    Attributes:
        uri: The host.

    Raises:
        InvalidInput: The address is none.
    """

    def __init__(self, host: ConnectionOptions, timeout_seconds: float | None) -> None:
        self.uri = host.uri
        self._connection = Connection(replace(host, call_seconds=CALL_SECONDS))
        self._statement_seconds = (timeout_seconds or HOST_SECONDS) + MARGIN_SECONDS

    def __enter__(self) -> ReaderConnection:
        return self

    def __exit__(self, *unused: object) -> None:
        self._connection.close()

    def plan(self, command: Mapping[str, object]) -> ReadPlan:
        """Have a statement planned.

        Args:
            command: The fields of a JSON descriptor.

        Raises:
            HostLostError: The host does not answer.
            LivestateError: What the host says of the statement, by kind.
        """
        info = self._connection.info(json.dumps(command).encode(), self._statement_seconds)
        epochs = self._connection.document(info.app_metadata or b"{}").get("epochs", {})
        shares = tuple(
            Share(
                endpoint.ticket.ticket,
                tuple(location.uri.decode() for location in endpoint.locations) or (self._connection.uri,),
            )
            for endpoint in info.endpoints
        )
        return ReadPlan(info.schema, epochs, shares)

    def hold(self, epochs: Mapping[str, int], seconds: float) -> None:
        """Have epochs kept readable.

        Raises:
            HostLostError: The host does not answer.
            Unavailable: It has not got one of the epochs (any more).
        """
        self._connection.act("livestate.hold", json.dumps({"epochs": epochs, "seconds": seconds}).encode())

    def rows(self, ticket: bytes) -> Generator[pa.RecordBatch, None, None]:
        """Read rows.

        Args:
            ticket: What for.

        Yields:
            The batches, as they arrive.

        Raises:
            HostLostError: The host does not answer (any more).
            LivestateError: What the host says, by kind.
        """
        stream = self._connection.rows(ticket, self._statement_seconds)
        try:
            yield from stream
        finally:
            stream.close()
