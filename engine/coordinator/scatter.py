"""Runs a plan's fragments on the hosts of a route: gathers the rows of those that others read, and hands
through the rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import ParamSpec

import pyarrow as pa

from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import HostName
from engine.coordinator.epoch_lease import EpochLease
from engine.coordinator.exchange_stream import ExchangeStream
from engine.coordinator.fragment_context import FragmentContext, FragmentStats
from engine.coordinator.fragment_runs import FragmentRun, FragmentRuns, RefusedError, stopping_error
from engine.coordinator.gather_memory import MemoryReservation
from engine.coordinator.gathered_rows import GatheredRows
from engine.coordinator.host_threads import HostThreads
from engine.coordinator.plan_cache import ReadyFragment
from engine.errors import InvalidInput, Unsupported
from engine.plan.partition_pruning import Partitions
from engine.telemetry.statement_ids import run_in_context

P = ParamSpec("P")

HostBatches = tuple[HostName, Iterator[pa.RecordBatch]]
"""A host, and what it gives."""


@dataclass
class _Arrival:
    """Rows of a fragment, as its hosts give them.

    Attributes:
        fragment: The fragment.
        missing: Hosts that have given neither all their rows, nor the first of them where those are enough.
        table_bytes: Arrow bytes beyond which the rest may come later; None: all rows are waited for.
        nbytes: Arrow bytes so far, counted where they may be enough.
        batches: Rows so far.
        rest: The other rows of hosts that have more.
    """

    fragment: ReadyFragment
    missing: int
    table_bytes: int | None
    nbytes: int = 0
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rest: list[HostBatches] = field(default_factory=list)

    def is_enough(self, batch: pa.RecordBatch) -> bool:
        """Whether with one more batch, from whatever host, the rest may come later."""
        if self.table_bytes is None:
            return False
        self.nbytes += batch.nbytes
        return self.nbytes > self.table_bytes

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches, self.fragment.outputs.schema)


class Scatter:
    """One try of a plan over one route.

    Args:
        context: What its fragments have in common.
        needs: The partitions that each fragment needs, by its name.
        runs: What is under way.
        threads: Run the calls to hosts; a call never waits for another one.
        reservation: Bytes that may be gathered.
        lease: Keeps the epochs for what has not begun yet.

    Attributes:
        stats: What came from where, so far.
        tables: Rows of the fragments that were gathered, by name.
        has_streams: Whether rows are read while they come.
        gather_seconds: Time until the rows that were gathered were there, and those that are handed through
            had begun.
    """

    def __init__(
        self,
        context: FragmentContext,
        needs: Mapping[str, Partitions],
        runs: FragmentRuns,
        threads: HostThreads,
        reservation: MemoryReservation,
        lease: EpochLease,
    ) -> None:
        self._context = context
        self._needs = needs
        self._runs = runs
        self._threads = threads
        self._reservation = reservation
        self._lease = lease
        self._to_start = set(needs)
        self._to_open = 0
        self._changed = threading.Condition()
        self._arriving: list[_Arrival] = []
        self.stats: list[FragmentStats] = []
        self.tables: dict[str, pa.Table] = {}
        self.has_streams = False
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
        self._runs.add_end_listener(self._wake)
        waiting = list(fragments)
        while len(self.tables) < len(fragments):
            ready = [fragment for fragment in waiting if self.tables.keys() >= set(fragment.fragment.inputs)]
            waiting = [fragment for fragment in waiting if fragment not in ready]
            for fragment in ready:
                self._start(fragment)
            for arrived in self._wait_for_arrivals():
                self.tables[arrived.fragment.fragment.name] = arrived.table()
        self.gather_seconds += time.perf_counter() - begun
        return self.tables

    def gather_or_stream(self, fragment: ReadyFragment, table_bytes: int) -> pa.Table | ExchangeStream:
        """Run a fragment whose rows are read once, from the first to the last.

        Args:
            fragment: The fragment.
            table_bytes: Arrow bytes up to which its rows become a table.

        Returns:
            All its rows if they are few; else a flow of them, of which every host has given its first.

        Raises:
            HostFailedError: A host failed.
            RefusedError: A host refused the fragment.
            LivestateError: It failed in another way, or the time is over.
        """
        begun = time.perf_counter()
        self._runs.add_end_listener(self._wake)
        self._start(fragment, table_bytes)
        (arrived,) = self._wait_for_arrivals()
        self.gather_seconds += time.perf_counter() - begun
        if not arrived.rest:
            return arrived.table()
        self.has_streams = True
        return ExchangeStream(
            fragment.outputs.schema,
            arrived.batches,
            interleave(self._runs, arrived.rest, self._threads),
            self._runs,
            self._reservation,
        )

    def end(self) -> None:
        """End what is under way: nobody wants more rows."""
        self._runs.end()

    def forget(self) -> None:
        """Let go of rows that came for nobody, when all is over: those that are still to come
        refer to this.
        """
        with self._changed:
            self._arriving.clear()
        self.tables.clear()

    def _wait_for_arrivals(self) -> list[_Arrival]:
        """Wait for fragments whose rows have come."""
        with self._runs.note_wait(), self._changed:
            while not self._changed.wait_for(
                lambda: self._runs.has_ended or any(not each.missing for each in self._arriving),
                self._lease.seconds_left,
            ):
                self._keep_epochs()
            if self._runs.has_ended:
                raise self._runs.cause
            done = [each for each in self._arriving if not each.missing]
            self._arriving = [each for each in self._arriving if each.missing]
        return done

    def _keep_epochs(self) -> None:
        """Have hosts keep the epochs, if a run has not begun."""
        if self._to_start or self._to_open:
            self._lease.renew()
        else:
            self._lease.end()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _requests(self, fragment: ReadyFragment) -> dict[HostName, FragmentRequest]:
        """What each host is asked for, from now on."""
        shares = self._context.shares(fragment.text, self._needs[fragment.fragment.name])
        with self._changed:
            self._to_start.discard(fragment.fragment.name)
            self._to_open += len(shares)
        return {
            host: self._context.request(fragment.text, share, self.tables) for host, share in shares.items()
        }

    def _start(self, fragment: ReadyFragment, table_bytes: int | None = None) -> None:
        requests = self._requests(fragment)
        arriving = _Arrival(fragment, len(requests), table_bytes)
        with self._changed:
            self._arriving.append(arriving)
        for host, request in requests.items():
            self._begin_here(host)
            _submit(self._runs, self._threads, host, self._read, arriving, host, request)

    def _read(self, arriving: _Arrival, host: HostName, request: FragmentRequest) -> None:
        """Gather one run, or as much of it as is enough."""
        try:
            batches, rest = self._read_run(arriving, host, request)
        finally:
            self._end_here(host)
        with self._changed:
            arriving.batches += batches
            arriving.rest += rest
            arriving.missing -= 1
            self._changed.notify_all()

    def _read_run(
        self, arriving: _Arrival, host: HostName, request: FragmentRequest
    ) -> tuple[list[pa.RecordBatch], list[HostBatches]]:
        run, stats = self._begin(arriving.fragment, host, request)
        rows = rename_columns(stats.count(self._runs.batches(run)), arriving.fragment.outputs.schema)
        if arriving.table_bytes is None:
            return self._gather_all(arriving.fragment.outputs.schema, rows), []
        batches, is_enough = self._gather_enough(arriving, rows)
        return batches, [(host, self._count_batches(rows))] if is_enough else []

    def _gather_all(self, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
        gathered = GatheredRows(schema, self._reservation)
        try:
            for batch in rows:
                gathered.add(batch)
            return gathered.batches()
        finally:
            gathered.close()

    def _gather_enough(
        self, arriving: _Arrival, rows: Iterator[pa.RecordBatch]
    ) -> tuple[list[pa.RecordBatch], bool]:
        """Rows of one run, up to where the rest may come later; and whether that is so."""
        batches: list[pa.RecordBatch] = []
        for batch in self._count_batches(rows):
            batches.append(batch)
            with self._changed:
                is_enough = arriving.is_enough(batch)
            if is_enough:
                return batches, True
        return batches, False

    def _count_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches that are taken from the reservation."""
        for batch in batches:
            self._reservation.take(batch.nbytes)
            yield batch

    def _begin(
        self, fragment: ReadyFragment, host: HostName, request: FragmentRequest
    ) -> tuple[FragmentRun, FragmentStats]:
        begun = time.perf_counter()
        run = self._runs.open(host, request)
        if run.rows.schema.types != fragment.outputs.schema.types:
            if fragment.text.parameter_indexes:
                raise RefusedError(InvalidInput("Values of parameters decide which columns there are."))
            raise RefusedError(
                Unsupported(
                    f"Host {host} gives other columns than this one expects: run one version of livestate on "
                    "all hosts."
                )
            )
        sent = 0 if host == self._context.here else sum(table.nbytes for table in request.inputs.values())
        stats = FragmentStats(fragment.fragment.name, run, sent, begun)
        with self._changed:
            self.stats.append(stats)
            self._to_open -= 1
        return run, stats

    def _begin_here(self, host: HostName) -> None:
        if host == self._context.here:
            self._runs.begin_here()

    def _end_here(self, host: HostName) -> None:
        if host == self._context.here:
            self._runs.end_here()

    def stream(self, fragment: ReadyFragment) -> Iterator[pa.RecordBatch]:
        """Run a fragment whose rows are the answer.

        Args:
            fragment: The fragment.

        Returns:
            Its batches as they come, from all hosts. All runs have begun when this returns.

        Raises:
            HostFailedError: A host failed.
            RefusedError: A host refused the fragment.
            LivestateError: It failed in another way, or the time is over.
        """
        begun = time.perf_counter()
        requests = self._requests(fragment)
        opened: SimpleQueue[HostBatches | None] = SimpleQueue()
        self._runs.add_end_listener(lambda: opened.put(None))

        def begin(host: HostName, request: FragmentRequest) -> None:
            try:
                run, stats = self._begin(fragment, host, request)
            finally:
                self._end_here(host)
            opened.put((host, stats.count(self._runs.batches(run))))

        for host, request in requests.items():
            self._begin_here(host)
            _submit(self._runs, self._threads, host, begin, host, request)
        streams: list[HostBatches] = []
        with self._runs.note_wait():
            while len(streams) < len(requests):
                try:
                    found = opened.get(timeout=self._lease.seconds_left)
                except Empty:
                    self._keep_epochs()
                    continue
                if found is None:
                    raise self._runs.cause
                streams.append(found)
        self.gather_seconds += time.perf_counter() - begun
        return read_together(self._runs, streams, self._threads)


def read_together(
    runs: FragmentRuns, streams: Sequence[HostBatches], threads: HostThreads
) -> Iterator[pa.RecordBatch]:
    """The rows of runs as they come; those of a single run without a thread in between.

    Args:
        runs: What is under way.
        streams: The host of each run, and its batches.
        threads: Read them.

    Returns:
        Batches, in any order of the runs.
    """
    return streams[0][1] if len(streams) == 1 else interleave(runs, streams, threads)


def interleave(
    runs: FragmentRuns, streams: Sequence[HostBatches], threads: HostThreads
) -> Iterator[pa.RecordBatch]:
    """The rows of runs as they come. What fails ends all runs.

    One batch a run is read ahead: the next one is asked for when the last was taken. So a slow reader holds
    up hosts, and no threads.

    Args:
        runs: What is under way.
        streams: The host of each run, and its batches.
        threads: Read them.

    Yields:
        Batches, in any order of the runs.
    """
    arrived: SimpleQueue[tuple[HostBatches, pa.RecordBatch | None] | None] = SimpleQueue()
    runs.add_end_listener(lambda: arrived.put(None))

    def advance(stream: HostBatches) -> None:
        arrived.put((stream, next(stream[1], None)))

    for stream in streams:
        _submit(runs, threads, stream[0], advance, stream)
    left = len(streams)
    while left:
        found = arrived.get()
        if found is None:
            raise runs.cause
        stream, batch = found
        if batch is None:
            left -= 1
            continue
        _submit(runs, threads, stream[0], advance, stream)
        yield batch


def _submit(
    runs: FragmentRuns,
    threads: HostThreads,
    host: HostName,
    call: Callable[P, None],
    *args: P.args,
    **kwargs: P.kwargs,
) -> None:
    """Let a thread of a host make a call, whose failure ends all runs; whoever waits for them raises it."""

    def end_on_failure(ended: Future[None]) -> None:
        error = stopping_error() if ended.cancelled() else ended.exception()
        if error is not None:
            runs.end(error)

    try:
        work = run_in_context(call)
        threads.executor(host).submit(work, *args, **kwargs).add_done_callback(end_on_failure)
    except RuntimeError as error:
        # The threads take nothing any more, because the host is stopping.
        raise stopping_error() from error


def take_rows(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
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


def rename_columns(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches under the names of a schema whose types they have."""
    for batch in batches:
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema) if batch.num_columns else batch
