"""What a server takes now, and has counted so far: figures for whoever watches the host."""

from __future__ import annotations

from dataclasses import dataclass

from flight_server.server.statement_meter import StatementTotals


@dataclass(frozen=True)
class SlotFigures:
    """How many requests of a kind there are.

    Attributes:
        limit: How many may be computed at once.
        held: How many are.
        waiting: How many wait for that.
    """

    limit: int
    held: int
    waiting: int


@dataclass(frozen=True)
class ServerFigures:
    """What a server takes now, and has counted so far.

    Attributes:
        totals: What statements have taken.
        running: Statements and fragments that run.
        connections: Connections by which somebody has called in the last minutes.
        key_streams: Streams of keys that are open.
        statements: Statements of clients.
        fragments: Fragments for other hosts.
        endpoints: Endpoints of divided results.
        input_bytes: Memory of the input tables of fragments.
        is_draining: Whether clients are sent to other hosts.
    """

    totals: StatementTotals
    running: int
    connections: int
    key_streams: int
    statements: SlotFigures
    fragments: SlotFigures
    endpoints: SlotFigures
    input_bytes: int
    is_draining: bool
