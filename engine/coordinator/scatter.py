"""Runs a plan's fragments on the hosts of a route: gathers the rows of those that others read, and hands through the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import ParamSpec

import pyarrow as pa

from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import HostName
from engine.coordinator.errand import Errand, Tally
from engine.coordinator.memory import Ration
from engine.coordinator.parts import Part, Parts, RefusedError, stopping
from engine.coordinator.plans import ReadyFragment
from engine.errors import Unsupported
from engine.plan.placement import Partitions

P = ParamSpec("P")
NeedsOf = Callable[[ReadyFragment], Partitions]
"""The partitions that a fragment needs."""


class Scatter:
    """One try of a plan over one route.

    Args:
        errand: What its fragments have in common.
        needs_of: What each fragment needs.
        parts: What is under way.
        threads: Run the calls to hosts; a call never waits for another one.
        ration: Bytes that may be gathered.

    Attributes:
        tallies: What came from where, so far.
        tables: Rows of the fragments that were gathered, by name.
        gather_seconds: Time until the rows that were gathered were there, and those that are handed through had begun.
    """

    def __init__(self, errand: Errand, needs_of: NeedsOf, parts: Parts, threads: Executor, ration: Ration) -> None:
        self._errand = errand
        self._needs_of = needs_of
        self._parts = parts
        self._threads = threads
        self._ration = ration
        self._changed = threading.Condition()
        self._arrived: dict[str, list[pa.RecordBatch]] = {}
        self._missing: dict[str, int] = {}
        self.tallies: list[Tally] = []
        self.tables: dict[str, pa.Table] = {}
        self.gather_seconds = 0.0

    def gather(self, fragments: Sequence[ReadyFragment]) -> Mapping[str, pa.Table]:
        """Run fragments, each as soon as its inputs are there, and wait for all their rows.

        Args:
            fragments: The fragments, inputs before those who read them.

        Returns:
            The rows of each, by its name.

        Raises:
            HostFailedError: A host failed.
            RefusedError: A host refused a fragment.
            LivestateError: A fragment failed in another way, or the time is over.
        """
        begun = time.perf_counter()
        self._parts.when_ended(self._wake)
        schemas = {fragment.fragment.name: fragment.outputs.schema for fragment in fragments}
        waiting = list(fragments)
        while len(self.tables) < len(fragments):
            ready = [fragment for fragment in waiting if self.tables.keys() >= set(fragment.fragment.inputs)]
            waiting = [fragment for fragment in waiting if fragment not in ready]
            for fragment in ready:
                self._start(fragment)
            for name in self._finished():
                self.tables[name] = pa.Table.from_batches(self._arrived.pop(name), schemas[name])
        self.gather_seconds += time.perf_counter() - begun
        return self.tables

    def _finished(self) -> list[str]:
        """Wait for fragments all of whose rows have come."""
        with self._changed:
            self._changed.wait_for(lambda: self._parts.has_ended or any(not missing for missing in self._missing.values()))
            if self._parts.has_ended:
                raise self._parts.cause
            done = [name for name, missing in self._missing.items() if not missing]
            for name in done:
                del self._missing[name]
        return done

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _requests(self, fragment: ReadyFragment) -> dict[HostName, FragmentRequest]:
        shares = self._errand.shares(fragment.text, self._needs_of(fragment))
        return {host: self._errand.request(fragment.text, share, self.tables) for host, share in shares.items()}

    def _start(self, fragment: ReadyFragment) -> None:
        requests = self._requests(fragment)
        name = fragment.fragment.name
        with self._changed:
            self._arrived[name], self._missing[name] = [], len(requests)
        for host, request in requests.items():
            _submit(self._parts, self._threads, self._read, fragment, host, request)

    def _read(self, fragment: ReadyFragment, host: HostName, request: FragmentRequest) -> None:
        """Gather one part."""
        part, tally = self._begin(fragment, host, request)
        batches = []
        for batch in tally.counted(self._parts.batches(part)):
            self._ration.take(batch.nbytes)
            batches.append(pa.RecordBatch.from_arrays(batch.columns, schema=fragment.outputs.schema))
        name = fragment.fragment.name
        with self._changed:
            self._arrived[name] += batches
            self._missing[name] -= 1
            self._changed.notify_all()

    def _begin(self, fragment: ReadyFragment, host: HostName, request: FragmentRequest) -> tuple[Part, Tally]:
        begun = time.perf_counter()
        part = self._parts.open(host, request)
        if part.rows.schema.types != fragment.outputs.schema.types:
            raise RefusedError(Unsupported(f"Host {host} gives other columns than this one expects: run one version of livestate on all hosts."))
        sent = 0 if host == self._errand.here else sum(table.nbytes for table in request.inputs.values())
        tally = Tally(fragment.fragment.name, part, sent, begun)
        with self._changed:
            self.tallies.append(tally)
        return part, tally

    def stream(self, fragment: ReadyFragment) -> Iterator[pa.RecordBatch]:
        """Run a fragment whose rows are the answer.

        Args:
            fragment: The fragment.

        Returns:
            Its batches as they come, from all hosts. All parts have begun when this returns.

        Raises:
            HostFailedError: A host failed.
            RefusedError: A host refused the fragment.
            LivestateError: It failed in another way, or the time is over.
        """
        begun = time.perf_counter()
        requests = self._requests(fragment)
        opened: SimpleQueue[Iterator[pa.RecordBatch] | None] = SimpleQueue()
        self._parts.when_ended(lambda: opened.put(None))

        def begin(host: HostName, request: FragmentRequest) -> None:
            part, tally = self._begin(fragment, host, request)
            opened.put(tally.counted(self._parts.batches(part)))

        for host, request in requests.items():
            _submit(self._parts, self._threads, begin, host, request)
        streams: list[Iterator[pa.RecordBatch]] = []
        while len(streams) < len(requests):
            found = opened.get()
            if found is None:
                raise self._parts.cause
            streams.append(found)
        self.gather_seconds += time.perf_counter() - begun
        return concatenated(self._parts, streams, self._threads)


def concatenated(parts: Parts, streams: Sequence[Iterator[pa.RecordBatch]], threads: Executor) -> Iterator[pa.RecordBatch]:
    """The rows of parts as they come.

    One batch a part is read ahead: the next one is asked for when the last was taken. So a slow reader holds up hosts, and no threads.

    Args:
        parts: What is under way.
        streams: The batches of each part.
        threads: Read them.

    Yields:
        Batches, in any order of the parts.
    """
    if len(streams) == 1:
        yield from streams[0]
        return
    arrived: SimpleQueue[tuple[Iterator[pa.RecordBatch], pa.RecordBatch | None] | None] = SimpleQueue()
    parts.when_ended(lambda: arrived.put(None))

    def advance(rows: Iterator[pa.RecordBatch]) -> None:
        arrived.put((rows, next(rows, None)))

    for rows in streams:
        _submit(parts, threads, advance, rows)
    left = len(streams)
    while left:
        found = arrived.get()
        if found is None:
            raise parts.cause
        rows, batch = found
        if batch is None:
            left -= 1
            continue
        _submit(parts, threads, advance, rows)
        yield batch


def _submit(parts: Parts, threads: Executor, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Let a thread make a call, whose failure ends all parts; whoever waits for them raises it."""

    def done(ended: Future[None]) -> None:
        error = stopping() if ended.cancelled() else ended.exception()
        if error is not None:
            parts.end(error)

    try:
        threads.submit(call, *args, **kwargs).add_done_callback(done)
    except RuntimeError as error:
        # The threads take nothing any more, because the host is stopping.
        raise stopping() from error


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows of batches.

    Args:
        batches: The batches.
        limit: How many rows at most; None for all.
    """
    if limit is None:
        yield from batches
        return
    for batch in batches if limit else ():
        kept = batch.slice(0, limit)
        limit -= kept.num_rows
        yield kept
        if not limit:
            return


def renamed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches under the names of a schema whose types they have."""
    for batch in batches:
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema) if batch.num_columns else batch
