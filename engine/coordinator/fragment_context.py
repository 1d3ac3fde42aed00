"""What the fragments of a statement have in common on their way to hosts, and what is counted of
their rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.fragment_runs import FragmentRun
from engine.deadline import Deadline
from engine.model.schema import StoreName
from engine.plan.partition_pruning import Partitions
from engine.plan.query_text import QueryText
from engine.plan.values import Arguments

Shares = Mapping[HostName, Partitions]
"""Which hosts run a fragment, each over which of its partitions."""


@dataclass(frozen=True)
class FragmentContext:
    """What all fragments of a statement have in common.

    Attributes:
        arguments: What the statement is used with.
        route: Epochs, and who reads what.
        here: This host.
        deadline: When the statement must end.
    """

    arguments: Arguments
    route: Route
    here: HostName
    deadline: Deadline

    def request(self, text: QueryText, share: Partitions, tables: Mapping[str, pa.Table]) -> FragmentRequest:
        """A fragment on its way to a host.

        Args:
            text: Its text.
            share: What it reads there.
            tables: Rows of the fragments before it.
        """
        lists = self.arguments.lists
        inputs = {
            name: tables[name] if name in tables else pa.Table.from_batches([lists[name]])
            for name in sorted(text.tables)
        }
        values = [self.arguments.parameters[place] for place in text.parameter_indexes]
        names = [str(number) for number in range(1, len(values) + 1)]
        parameters = pa.record_batch([pa.repeat(value, 1) for value in values], names) if values else None
        # Without partitions any epoch will do, and this host need not have that of the others.
        is_reading = any(share.values())
        return FragmentRequest(
            text.sql,
            self.route.epochs if is_reading else {},
            share,
            parameters,
            inputs,
            self.deadline.remaining_seconds,
            self.route.migrated,
            self.route.digests if is_reading else {},
            self.route.complete_until if is_reading else 0,
            engine_limit=self.deadline.engine_limit,
        )

    def shares(self, text: QueryText, needs: Partitions) -> Shares:
        """Which hosts run a fragment, over which of its partitions.

        A fragment that needs no partition runs here all the same, as an aggregate over no rows has a row. One
        that needs those of global stores alone runs once, as every host has the same rows for it.

        Args:
            text: The fragment.
            needs: The partitions that it needs, at most those that the route knows of.
        """
        wanted = {name: frozenset(needs[name]) for name in text.stores}
        shares: dict[HostName, dict[StoreName, tuple[Any, ...]]] = {}
        spread = [name for name, numbers in wanted.items() if numbers and name not in self.route.everywhere]
        # Of hosts that are equally good this one is asked first.
        for host in sorted(self.route.hosts, key=lambda host: host != self.here):
            held = self.route.partitions[host]
            share = {
                name: tuple(number for number in held.get(name, ()) if number in numbers)
                for name, numbers in wanted.items()
            }
            if any(share[name] for name in spread) or (not spread and any(share.values())):
                shares[host] = share
                if not spread:
                    break
        return shares or {self.here: dict.fromkeys(text.stores, ())}


class FragmentStats:
    """What one host gave for a fragment, counted as it comes. Written by one thread at a time.

    Args:
        fragment: Name of the fragment.
        run: Its run on the host.
        sent_bytes: Arrow bytes of inputs that went there; 0 to this host.
        begun: When it was asked for, by `time.perf_counter`.

    Attributes:
        rows: Rows that came.
        nbytes: Arrow bytes of them, as they came.
        seconds: Time until the last of them was there.
    """

    def __init__(self, fragment: str, run: FragmentRun, sent_bytes: int, begun: float) -> None:
        self.fragment = fragment
        self.host = run.host
        self.metadata: Mapping[str, Any] = run.rows.metadata
        self.sent_bytes = sent_bytes
        self.rows = 0
        self.nbytes = 0
        self._run = run
        self._begun = begun
        self.seconds = time.perf_counter() - begun

    def count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, counted."""
        for batch in batches:
            self.rows += batch.num_rows
            self.nbytes = self._run.rows.nbytes
            self.seconds = time.perf_counter() - self._begun
            yield batch
