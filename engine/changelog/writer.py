"""The one writer of a store group.

Why two writers never interleave, and nothing but create-only writes is needed:

1. An epoch's commit is created, never overwritten, and a writer creates epoch e+1 only after epoch e was seen
   or created by it. So epochs have no gaps, and each has one commit for ever.
2. A writer opens a term by creating an empty epoch, the fence, behind the newest one, with the token that
   follows the newest. Whoever loses that race reads the winner's and tries behind it. So tokens rise from
   term to term, and no two terms share one.
3. A writer moves on only by its own creates. An older writer stands before the fence: its next create is for
   the fence's number or an earlier one, which exists. It reads what is there, sees the higher token, and is
   fenced for good. Behind a fence there are only epochs of that term until the next fence.
4. Epochs that snapshots have made dispensable are dropped in order, and never the newest. A writer that
   stands among them could create an epoch that was there before; so it asks after each create whether the
   epoch that it stands on is there still (`Epochs.create`).
5. Migrations are created beside the epochs and never dropped, and each commit takes up all that are there: so
   its generation is that of the commit before or a later one, and rows that were staged meanwhile are of this
   generation or an earlier one.
6. What a fenced writer staged lies in the directories of epochs that have another's commit. No commit names
   it; it is garbage.

Exactly once follows from 1 and 3: each commit carries the last batch of each streaming query, taken over from
the commit before it, so the newest commit alone tells a new writer what is in.
"""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from engine.changelog.codec import RowsByPartition, inline_file
from engine.changelog.commit import Commit, CommittedBatch, DataFile
from engine.changelog.epochs import Epochs
from engine.changelog.objects import MAX_RACES
from engine.errors import Corrupt, Fenced, InvalidInput, LivestateError, NotFound, Unavailable
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.retention import Cutoffs, advance_cutoffs, check_clock, check_cutoffs
from engine.model.schema import Epoch, GroupName, StoreName

MAX_QUERIES = 256
"""Streaming queries whose last batch a commit carries. Of those that this term does not go on with, the ones
that committed longest ago are forgotten; it goes on with no more than these.
"""

INLINE_LIMIT = 256 * 1024
"""Bytes of rows up to which they travel inside the commit, so that a small epoch is one durable write."""

NO_CUTOFFS: Cutoffs = MappingProxyType({})

SECONDS_BETWEEN_CLOCK_READINGS = 3600.0
"""How long what the storage's clock has said once tells what it says: the monotonic clock, by which that is
told, drifts by little in this time.
"""

_SLICE_OVERHEAD = 512
_RIVALRY_TIMES = 3
"""So often in a short time is a group hardly taken over by one job that somebody starts again."""
_RIVALRY_MICROSECONDS = 600_000_000


@dataclass(frozen=True)
class ClockReading:
    """What the clock of the storage said.

    Attributes:
        storage: That, microseconds since 1970 UTC.
        at: When it was read, seconds of the monotonic clock, which is never set.
    """

    storage: int
    at: float

    def storage_time_at(self, at: float) -> int:
        """What it says at another moment of the monotonic clock."""
        return self.storage + int((at - self.at) * MICROSECONDS_PER_SECOND)


class Writer:
    """A term of writing to one store group; `Changelog.writer` opens it. Safe to use from several threads.

    An operation that raises Unavailable may have committed its epoch all the same, when the answer was lost.
    Call it again: what turns out to be committed is not committed twice. On this writer that is told by the
    rows, or by the number of the batch; a new writer knows numbered batches alone.
    """

    def __init__(
        self, epochs: Epochs, fence: Commit, reading: ClockReading, query_ids: Collection[str]
    ) -> None:
        self._epochs = epochs
        self._head = fence
        self._first_generation = fence.generation
        self._reading = reading
        self._query_ids = set(query_ids)
        self._fenced: Fenced | None = None
        self._lock = threading.Lock()

    @staticmethod
    def open(
        epochs: Epochs, writer_id: str, *, take_over: bool = True, query_ids: Collection[str] = ()
    ) -> Writer:
        """Commit the fence of a new term, and delete what the terms before left unfinished.

        Args:
            epochs: The epochs of the group.
            writer_id: Who writes; any printable text.
            take_over: Whether to do so in a group that a job has written.
            query_ids: The jobs that this writer goes on with.

        Raises:
            InvalidInput: `writer_id` is empty or not printable; or a job has written the group, and it is not
                to be taken over; or there are too many jobs; or the clock of this machine cannot be believed.
            Corrupt: The newest epoch does not follow the one before it; or the commit behind it was lost, and
                later ones are there.
            Unavailable: The changelog cannot be reached, or other writers keep winning the race.
        """
        if not writer_id or not writer_id.isprintable():
            raise InvalidInput(
                "A changelog writer needs an id of printable characters, such as the run id of its job."
            )
        _check_number_of_queries(epochs.group, len(set(query_ids)))
        newest, reading = Epoch(0), None
        for _ in range(MAX_RACES):
            newest = epochs.newest_epoch(newest)
            before = epochs.read(newest) if newest else None
            if newest and before is None:
                newest = Epoch(0)  # snapshots have made it dispensable since it was found
                continue
            gap = epochs.find_gap(newest)
            if gap is not None:
                raise gap.error()  # another history would begin in it
            if before is not None and not _has_snapshot_of(epochs, before):
                _check_follows(before, _read_undamaged(epochs, Epoch(newest - 1)))
            if before is not None and not take_over:
                check_no_other_job(before, query_ids)
            if reading is None:
                reading = _read_clock(epochs)
            generation = epochs.generation(before.generation if before else 0)
            fence = _next_commit(epochs, before, writer_id, (before.token if before else 0) + 1, generation)
            stored = epochs.create(fence)
            if stored is not None:
                epochs.collect_of([newest, fence.epoch])
                return Writer(epochs, stored, reading, query_ids)
        raise Unavailable(
            f"Other writers keep taking over store group {epochs.group}: make sure that one job writes it, "
            "and try again."
        )

    @property
    def token(self) -> int:
        """The fencing token of this term."""
        return self._head.token

    @property
    def epoch(self) -> Epoch:
        """The newest epoch that this writer committed; the fence, to begin with."""
        return self._head.epoch

    @property
    def group(self) -> GroupName:
        """The store group."""
        return self._head.group

    @property
    def next_epoch(self) -> Epoch:
        """The epoch to stage files for."""
        return Epoch(self._head.epoch + 1)

    def last_batch(self, query_id: str) -> CommittedBatch | None:
        """The last batch of a streaming query that is in the changelog; None where that has none."""
        return self._head.batches.get(query_id)

    def committed_epoch(self, query_id: str, batch_id: int) -> Epoch | None:
        """Whether a batch of a streaming query is in the changelog already.

        Args:
            query_id: The query's id, which outlives restarts from its checkpoint.
            batch_id: The batch's number. Batches of a query come in rising order, so one up to the last is
                in.

        Returns:
            An epoch by which the batch is visible: its own if it is the query's last one. None if it is not
            in.
        """
        last = self.last_batch(query_id)
        return last.epoch if last is not None and batch_id <= last.batch_id else None

    def append(
        self,
        tables: RowsByPartition,
        *,
        query_id: str | None = None,
        batch_id: int | None = None,
        planned_at: int | None = None,
        replaced: Collection[StoreName] = (),
        cutoffs: Cutoffs = NO_CUTOFFS,
    ) -> Commit:
        """Commit one epoch with these rows. It is durable, and visible to every reader, on return.

        Args:
            tables: Rows by store and partition, as `partition_rows` returns them, in any shape that their
                stores have had; may be empty.
            query_id: Streaming query that this is a batch of.
            batch_id: Number of the batch; given if and only if `query_id` is.
            planned_at: When the query planned the batch, microseconds since 1970 UTC, to tell it later from
                another one of its number.
            replaced: Stores whose former rows all go; only those of this epoch stay.
            cutoffs: Times before which rows of stores with retention are gone
                (`engine.model.retention.cutoffs_of`); one that falls counts for nothing.

        Returns:
            The commit. If the batch was committed already nothing happens, and it is the commit of
            `committed_epoch(query_id, batch_id)`.

        Raises:
            Fenced: A newer writer owns the group; this one is of no use any more.
            InvalidInput: Rows do not fit their store's definition, or the batch has a query id and no number,
                or the reverse; or rows would be gone because of a clock or a watermark that lies in the
                future (`engine.model.retention`).
            NotFound: There is no such store.
            Unavailable: The changelog cannot be reached; whether the epoch was committed is not known. Call
                it again.
            LimitExceeded: The disk is full; nothing was committed.
        """
        with self._lock:
            repeated = self._find_committed_batch(query_id, batch_id)
            if repeated is not None:
                return repeated
            generation = self._epochs.generation(self._head.generation)
            fitted = self._fit_tables({**{store: {} for store in replaced}, **tables}, generation)
            self._epochs.check_not_made_anew(fitted, self._first_generation)
            size = sum(
                batch.nbytes + _SLICE_OVERHEAD
                for partitions in fitted.values()
                for batch in partitions.values()
            )
            if size <= INLINE_LIMIT:
                file = inline_file(self.next_epoch, fitted, generation)
            else:
                file = self._epochs.stage(self.next_epoch, fitted, "driver", generation)
            return self._commit([file], generation, query_id, batch_id, planned_at, replaced, cutoffs)

    def _fit_tables(self, tables: RowsByPartition, generation: int) -> RowsByPartition:
        try:
            return self._epochs.fit_tables(tables, generation)
        except NotFound as error:
            if self._epochs.is_committed(self._epochs.newest_epoch(self._head.epoch)):
                raise
            # Where nothing is, as in a directory that is not mounted, a store seems never to have been.
            raise Unavailable(
                f"The changelog has nothing of store group {self.group} any more, of which this writer has "
                f"committed epoch {self.epoch}: make the changelog available, and append again."
            ) from error

    def commit(
        self,
        files: Sequence[DataFile],
        *,
        query_id: str | None = None,
        batch_id: int | None = None,
        planned_at: int | None = None,
        replaced: Collection[StoreName] = (),
        cutoffs: Cutoffs = NO_CUTOFFS,
    ) -> Commit:
        """Commit one epoch with the rows of staged files.

        Args:
            files: What `Changelog.stage` returned for `next_epoch`; later files win over earlier ones.
            query_id: As for `append`.
            batch_id: As for `append`.
            planned_at: As for `append`.
            replaced: As for `append`.
            cutoffs: As for `append`.

        Returns:
            As `append`.

        Raises:
            InvalidInput: A file was staged for another epoch; otherwise as for `append`.
            Fenced: As for `append`.
            Unavailable: As for `append`; stage the files again before calling it again.
            LimitExceeded: As for `append`.
        """
        with self._lock:
            repeated = self._find_committed_batch(query_id, batch_id)
            if repeated is not None:
                return repeated
            generation = self._epochs.generation(
                max(self._head.generation, *(file.generation for file in files), 0)
            )
            self._epochs.fit_tables({store: {} for store in replaced}, generation)
            written = {part.store for file in files for part in file.slices}
            self._epochs.check_not_made_anew(sorted({*replaced, *written}), self._first_generation)
            self._epochs.check_stores(files)
            strange = next((file for file in files if file.epoch != self.next_epoch or not file.name), None)
            if strange is not None:
                raise InvalidInput(
                    f"A data file was staged for epoch {strange.epoch}, and the next one is "
                    f"{self.next_epoch}: stage it again."
                )
            return self._commit(files, generation, query_id, batch_id, planned_at, replaced, cutoffs)

    def _find_committed_batch(self, query_id: str | None, batch_id: int | None) -> Commit | None:
        """Check what every commit needs; returns the commit that holds the batch already, if any."""
        if self._fenced is not None:
            raise self._fenced
        if (query_id is None) != (batch_id is None):
            raise InvalidInput("A batch is named by a query id and a batch id together: give both or none.")
        if query_id is not None and not (isinstance(query_id, str) and query_id):
            raise InvalidInput(f"A query id is a text that is not empty, and not {query_id!r}.")
        if batch_id is not None and not (type(batch_id) is int and 0 <= batch_id < 2**63):
            raise InvalidInput(f"A batch id is a whole number from 0 on, and not {batch_id!r}.")
        if query_id is not None and query_id not in self._query_ids:
            _check_number_of_queries(self.group, len(self._query_ids) + 1)
        epoch = None if query_id is None or batch_id is None else self.committed_epoch(query_id, batch_id)
        if epoch is None:
            return None
        if epoch == self._head.epoch:
            return self._head
        found = self._epochs.read(epoch)
        if found is None:
            # Snapshots have made it dispensable; that it was committed is all that is left of it.
            return dataclasses.replace(
                self._head, epoch=epoch, query_id=query_id, batch_id=batch_id, replaced=(), files=()
            )
        return found

    def _commit(
        self,
        files: Sequence[DataFile],
        generation: int,
        query_id: str | None,
        batch_id: int | None,
        planned_at: int | None,
        replaced: Collection[StoreName],
        cutoffs: Cutoffs,
    ) -> Commit:
        empty = _next_commit(self._epochs, self._head, self._head.writer, self._head.token, generation)
        commit = dataclasses.replace(
            empty,
            query_id=query_id,
            batch_id=batch_id,
            replaced=tuple(replaced),
            batches=_remembered_batches(empty, query_id, batch_id, planned_at, self._query_ids),
            files=tuple(file for file in files if file.slices),
            cutoffs=advance_cutoffs(empty.cutoffs, cutoffs),
            written=self._head.written + sum(file.size for file in files if file.slices),
        )
        self._check_clocks(commit.cutoffs)
        if query_id is not None:
            self._query_ids.add(query_id)
        stored = self._epochs.create(commit)
        if stored is not None:
            self._head = stored
            return stored
        return self._resolve_taken_epoch(commit)

    def check_cutoffs(self, cutoffs: Cutoffs) -> None:
        """See that no commit of now would be refused for a clock, or for what it lets go of; for who has
        something to do before it commits.

        Args:
            cutoffs: As for `append`.

        Raises:
            InvalidInput: It would be.
            Unavailable: The changelog cannot be reached.
        """
        with self._lock:
            self._check_clocks(advance_cutoffs(self._head.cutoffs, cutoffs))

    def _check_clocks(self, cutoffs: Cutoffs) -> None:
        """See that the time of a commit can be believed, and that it lets go of no rows because of an event
        of the future.

        What the storage's clock says is told by the monotonic clock from when it was read last. That one
        stands still while a machine sleeps, so where a commit would be refused the storage's clock is read
        anew first.
        """
        before, now, at = self._head.cutoffs, _wall_clock(), time.monotonic()
        if at - self._reading.at < SECONDS_BETWEEN_CLOCK_READINGS:
            with suppress(InvalidInput):
                check_clock(now, self._reading.storage_time_at(at))
                check_cutoffs(before, cutoffs, self._reading.storage_time_at(at))
                return
        self._reading = _read_clock(self._epochs)
        check_cutoffs(before, cutoffs, self._reading.storage)

    def _resolve_taken_epoch(self, commit: Commit) -> Commit:
        """The epoch has another commit: a newer writer's, or an earlier try of this writer's whose answer was
        lost.

        Or it had one, and newer writers have gone on so far that it was dropped: then the newest epoch says
        who they are. While the changelog is away, or is being restored, it says nothing.
        """
        if not self._epochs.is_whole():
            raise Unavailable(
                f"The changelog of store group {commit.group} was moved away, or is being restored: make it "
                "available, and append again."
            )
        head, is_there = self._head.epoch, self._epochs.holds(self._head.epoch)
        if not is_there:
            self._epochs.forget_amendments()  # a changelog that was restored may have fewer
        found = self._epochs.read(commit.epoch if is_there else self._epochs.newest_epoch())
        if found is None:
            raise Unavailable(
                f"Epoch {commit.epoch} of store group {commit.group} cannot be read back: try again later."
            )
        self._check_token(found)
        if found.token < commit.token:
            raise Corrupt(
                f"Epoch {commit.epoch} of store group {commit.group} has a token older than the epoch "
                "before: restore the changelog from a backup."
            )
        if is_there:
            _check_follows(found, self._head)
        self._head = found
        is_same_batch = (found.query_id, found.batch_id) == (commit.query_id, commit.batch_id)
        if is_same_batch and (commit.query_id is not None or (is_there and _has_same_rows(found, commit))):
            return found
        if not is_there:
            raise Unavailable(
                f"The changelog has lost epoch {head} of store group {commit.group}, or was restored to "
                f"epoch {found.epoch}: do this append again, and those in between."
            )
        raise Unavailable(
            f"An earlier append to store group {commit.group}, of {_rows_text(found)}, had taken place after "
            f"all, as epoch {found.epoch}; this one has other rows and did not: do this one again."
        )

    def check_term(self) -> None:
        """See that no newer writer has taken the group over yet; one request.

        Raises:
            Fenced: One has.
            Unavailable: The changelog cannot be reached.
        """
        with self._lock:
            following = self._epochs.read(self.next_epoch)
            if following is not None:
                self._check_token(following)

    def _check_token(self, found: Commit) -> None:
        head = self._head
        if found.token > head.token:
            self._fenced = Fenced(
                f"Store group {head.group} is written by {found.writer} with token {found.token} now; "
                f"{head.writer} with token {head.token} is too late and must stop."
                f"{self._rivalry_text(found)}"
            )
            raise self._fenced

    def _rivalry_text(self, newest: Commit) -> str:
        """What there is to say where terms follow each other quickly; empty where they do not. Two jobs that
        are started again whenever they fail would take a group from each other for ever.
        """
        oldest = self._first_since(newest, newest.committed_at - _RIVALRY_MICROSECONDS)
        # Each term has the token that follows the one before.
        times = newest.token - oldest.token
        if times < _RIVALRY_TIMES:
            return ""
        seconds = (newest.committed_at - oldest.committed_at) / 1e6
        return (
            f" It was taken over {times} times within {seconds:,.0f} s: if two jobs write it, each "
            "ends the other whenever it is started again. Stop one of them, or give it a store group of its "
            "own."
        )

    def _first_since(self, newest: Commit, since: int) -> Commit:
        """The first commit of a time up to now, as far as it can be read. A quick job commits thousands in
        minutes, so few of them are looked at: times never fall.

        Args:
            newest: A commit of that time.
            since: When the time begins, microseconds since 1970 UTC.
        """
        first, step = newest, 1
        with suppress(LivestateError):
            while (commit := self._read_since(first.epoch - step, since)) is not None:
                first, step = commit, 2 * step
            while step > 1:
                step //= 2
                first = self._read_since(first.epoch - step, since) or first
        return first

    def _read_since(self, epoch: int, since: int) -> Commit | None:
        """A commit, if it is there and of a time that begins then."""
        commit = self._epochs.read(Epoch(epoch)) if epoch > 0 else None
        return commit if commit is not None and commit.committed_at >= since else None


def _wall_clock() -> int:
    """What this machine's clock says, microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def _read_clock(epochs: Epochs) -> ClockReading:
    """Read the clock of the changelog's storage.

    Args:
        epochs: Epochs in it.

    Raises:
        InvalidInput: That of this machine is too far from it.
        Unavailable: The changelog cannot be reached.
    """
    reading = ClockReading(epochs.storage_time(), time.monotonic())
    check_clock(_wall_clock(), reading.storage)
    return reading


def _read_undamaged(epochs: Epochs, epoch: Epoch) -> Commit | None:
    """The commit of an epoch; None where it is not there, or damaged."""
    try:
        return epochs.read(epoch) if epoch else None
    except Corrupt:
        return None


def _has_snapshot_of(epochs: Epochs, commit: Commit) -> bool:
    """Whether there is a snapshot at a commit, so that nothing is read of what is before."""
    try:
        snapshot = epochs.snapshots.read(commit.epoch)
    except Corrupt:
        return False
    return snapshot is not None and snapshot.digest == commit.digest


def _check_follows(commit: Commit, before: Commit | None) -> None:
    """Refuse to go on behind a commit that does not follow the one before it.

    Args:
        commit: The commit.
        before: The one before it; None where that is not there any more.

    Raises:
        Corrupt: It was committed behind another one: by a job that went on while a backup was restored, most
            likely. No host reads it, nor anything behind it.
    """
    if before is not None and not commit.follows(before.digest):
        raise Corrupt(
            f"Epoch {commit.epoch} of store group {commit.group} was committed behind another epoch "
            f"{before.epoch} than the changelog has, as happens where a job goes on while a backup is "
            "restored: pass it by with `livestate skip`, and start the job again."
        )


def _next_commit(
    epochs: Epochs, before: Commit | None, writer_id: str, token: int, generation: int
) -> Commit:
    """An empty commit behind another one."""
    return Commit(
        group=epochs.group,
        epoch=Epoch(before.epoch + 1 if before else 1),
        token=token,
        writer=writer_id,
        nonce=secrets.token_hex(8),
        query_id=None,
        batch_id=None,
        committed_at=max(_wall_clock(), before.committed_at if before else 0),
        batches=before.batches if before else {},
        cutoffs=epochs.kept_cutoffs(before) if before else {},
        written=before.written if before else 0,
        generation=generation,
        before=before.digest if before else None,
    )


def check_no_other_job(newest: Commit, query_ids: Collection[str]) -> None:
    """Refuse a group that streaming queries, or others who number their batches, have written: they may still
    do so.

    Args:
        newest: Its newest commit.
        query_ids: Those that go on.

    Raises:
        InvalidInput: There are others.
    """
    others = [batch.epoch for query, batch in newest.batches.items() if query not in query_ids]
    if others:
        raise InvalidInput(
            f"A job writes store group {newest.group}: its last batch is epoch {max(others):,}, and it "
            "would be refused from now on. Stop it first, start it again afterwards, and say that the "
            "group is to be taken over, with --take-over or take_over=True."
        )


def _check_number_of_queries(group: GroupName, queries: int) -> None:
    """Refuse more queries than a commit can remember: one that is forgotten could commit a batch twice."""
    if queries > MAX_QUERIES:
        raise InvalidInput(
            f"A writer goes on with {MAX_QUERIES} sources of numbered batches at the most, and store group "
            f"{group} would have {queries}: number the batches of several sources together, or give some of "
            "them a store group of their own."
        )


def _remembered_batches(
    commit: Commit,
    query_id: str | None,
    batch_id: int | None,
    planned_at: int | None,
    kept: Collection[str],
) -> Mapping[str, CommittedBatch]:
    """The last batches of queries, the one that committed last at the end.

    Args:
        commit: With those of the commit before.
        query_id: The query of this one.
        batch_id: Its batch.
        planned_at: As for `Writer.append`.
        kept: Queries that are not forgotten.
    """
    if query_id is None or batch_id is None:
        return commit.batches
    batches = {query: batch for query, batch in commit.batches.items() if query != query_id}
    surplus = max(len(batches) + 1 - MAX_QUERIES, 0)
    for query in [query for query in batches if query not in kept][:surplus]:
        del batches[query]
    return batches | {query_id: CommittedBatch(batch_id, commit.epoch, planned_at)}


def _has_same_rows(commit: Commit, other: Commit) -> bool:
    """Whether two commits bring the same rows, as checksums tell."""
    return commit.replaced == other.replaced and [file.slices for file in commit.files] == [
        file.slices for file in other.files
    ]


def _rows_text(commit: Commit) -> str:
    """How many rows of which stores a commit brings."""
    rows: dict[StoreName, int] = {}
    for file in commit.files:
        for part in file.slices:
            rows[part.store] = rows.get(part.store, 0) + part.rows
    texts = [f"{count:,} row{'s' if count > 1 else ''} of {store}" for store, count in rows.items()]
    return " and ".join(texts) or "no rows"
