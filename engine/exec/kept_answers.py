"""Answers that are kept: the same question of the same epochs has the same answer, so a kept one is never
wrong, and nothing has to be invalidated.

A question is a text with its values, over stores in certain shapes. It is kept what the engine has computed,
where that is small and somebody asks again; those who ask while it is computed wait for it. What is never
kept: what a clock, chance or the session has a part in, errors, and answers at other epochs than those that
were asked for.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from engine.cached_property import cached_property
from engine.deadline import POLL_SECONDS, Deadline
from engine.errors import Cancelled, DeadlineExceeded
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.exec.read_metadata import EpochsRead, age_seconds, stale_seconds
from engine.model.names import fold
from engine.model.schema import StoreName
from engine.model.table_shapes import TableShape
from engine.plan.logical.function_properties import VOLATILE, is_volatile
from engine.plan.plans import EnginePlan
from engine.plan.statement import ReadyStatement
from engine.sql.parsed_statement import StatementClass
from engine.sql.versions import NO_MOMENTS
from engine.statements.request import Request
from engine.statements.statement_cache import MAX_CACHED_LENGTH

MOST_ANSWER_BYTES = 1 << 20
"""Larger answers are not kept: to send them takes as long as to make them."""
LARGEST_SHARE = 8
"""Nor is what takes more than this part of all that may be kept."""
ENTRY_BYTES = 2000
"""What a question takes besides its text, its values and its answer."""
_UNREPEATABLE = VOLATILE | {"tablesample", "sample"}
_WORD = re.compile(r"\w+")


class Question(NamedTuple):
    """What is asked, of whatever epochs. A tuple: one is made for each statement that comes.

    Attributes:
        text: The statement's text.
        dialect: Its dialect.
        values: What its parameters are, as bytes.
        apart: What else tells it from others of its text; empty for the newest epochs.
    """

    text: str
    dialect: str
    values: bytes = b""
    apart: tuple[str, ...] = ()


def plain_question(text: str, dialect: str, values: pa.RecordBatch | None) -> Question:
    """The question of a text that is asked of the newest epochs.

    Args:
        text: The text.
        dialect: Its dialect.
        values: One row with a column a parameter; None for no parameters.
    """
    return Question(text, dialect, b"" if values is None else _bytes_of(values))


def _bytes_of(values: pa.RecordBatch) -> bytes:
    if any(pa.types.is_dictionary(each) or pa.types.is_nested(each) for each in values.schema.types):
        # The values of a dictionary are in no batch.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, values.schema) as stream:
            stream.write_batch(values)
        return bytes(sink.getvalue().to_pybytes())
    return bytes(values.schema.serialize().to_pybytes() + values.serialize().to_pybytes())


def question_of(request: Request) -> Question | None:
    """The question of a request.

    Args:
        request: Any statement.

    Returns:
        The question; None where its answer is not worth keeping, or depends on more than that.
    """
    ready = request.ready
    statement = ready.statement
    bound = statement.bound
    if (
        not isinstance(statement.plan, EnginePlan)
        or bound.statement_class is not StatementClass.QUERY
        # What stores there are, and who asks, has no epoch.
        or bound.catalog_tables
        or len(ready.text) > MAX_CACHED_LENGTH
        # A value that the client has not given is the statement's own, such as its time.
        or len(request.arguments.parameters) != len(bound.parameters)
    ):
        return None
    # Values that were taken out of a text stand in what was written.
    values = None if isinstance(request.given, tuple) else request.given
    found = plain_question(request.written or ready.text, request.dialect, values)
    if request.read_point.is_newest and ready.moments == NO_MOMENTS:
        return found
    return found._replace(apart=(str(request.read_point), str(ready.moments)))


def is_repeatable(statement: ReadyStatement) -> bool:
    """Whether a statement gives the same answer each time, for as long as the stores are the same.

    Args:
        statement: A query.

    Returns:
        False if chance, a clock or the session may have a part in it: by its functions, and by the words of
        the text that the engine gets, in whatever way the parser has read them.
    """
    tree = statement.bound.tree
    if tree is None or not _UNREPEATABLE.isdisjoint(_WORD.findall(fold(statement.sql))):
        return False
    return not any(isinstance(node, exp.TableSample) or is_volatile(node) for node in tree.walk())


@dataclass(frozen=True)
class KeptAnswer:
    """An answer.

    Attributes:
        statement: What it answers, bound with what stores are at its epochs.
        epochs: What it was read at.
        result: A result that was read; its table is the answer.
    """

    statement: ReadyStatement
    epochs: EpochsRead
    result: QueryResult

    @cached_property
    def stores(self) -> frozenset[StoreName]:
        """The stores that were read."""
        return self.statement.bound.stores

    @cached_property
    def shapes(self) -> tuple[TableShape, ...]:
        """What names mean to it."""
        return self.statement.bound.shapes

    def result_now(self, started: float, complete_until: int) -> QueryResult:
        """The answer as a result.

        Args:
            started: When the question came, by `time.perf_counter`.
            complete_until: Until when its epochs lack no commit, microseconds since 1970 UTC.
        """
        result = self.result
        assert result.table is not None
        oldest = min((each.committed_at for each in self.epochs if each.committed_at), default=0)
        seconds = {"total": time.perf_counter() - started}
        metadata = result.metadata.replace_quickly(
            age_seconds=age_seconds(oldest),
            seconds=seconds,
            stale_seconds=stale_seconds(complete_until),
            kept=True,
        )
        return QueryResult(result.schema, metadata, result.table, table_bytes=result.table_bytes)


def _is_read_at(metadata: QueryMetadata, epochs: EpochsRead) -> bool:
    """Whether a result is of some epochs: it may have been begun anew at others."""
    return len(metadata.epochs) == len(epochs) and all(
        metadata.epochs.get(each.group) == each.epoch and metadata.digests.get(each.group, "") == each.digest
        for each in epochs
    )


class _Outcome(Enum):
    """How a computation has ended that has no answer for others."""

    TAKEN_BACK = "whoever computed has gone or ran out of time: another one may"
    NOT_KEPT = "it failed, or is nothing to keep: everybody computes alone"


class Computation:
    """The right to compute an answer that others wait for; a context, at whose end they go on.

    Args:
        answers: Where it is kept.
        question: What is asked.
        statement: The statement.
        epochs: What it is to be read at.
    """

    def __init__(
        self, answers: KeptAnswers, question: Question, statement: ReadyStatement, epochs: EpochsRead
    ) -> None:
        self.statement = statement
        self.epochs = epochs
        self.outcome: KeptAnswer | _Outcome = _Outcome.NOT_KEPT
        self.ended = threading.Event()
        self._answers = answers
        self._question = question

    def keep(self, result: QueryResult) -> QueryResult:
        """Read a result, and keep it if it is small and of the right epochs.

        Args:
            result: Just begun.

        Returns:
            The same rows.

        Raises:
            LivestateError: It failed.
        """
        if not _is_read_at(result.metadata, self.epochs):
            return result
        batches: list[pa.RecordBatch] = []
        nbytes = 0
        for batch in result:
            batches.append(batch)
            nbytes += batch.get_total_buffer_size()
            if nbytes > self._answers.most_answer_bytes:
                self._answers.leave_out(self._question)
                rest = chain(batches, result)
                flowing = QueryResult(result.schema, result.metadata, rest, result, (result,))
                flowing.explain, flowing.moved_bytes = result.explain, result.moved_bytes
                return flowing
        found = QueryResult(result.schema, result.metadata, pa.Table.from_batches(batches, result.schema))
        self.outcome = KeptAnswer(self.statement, self.epochs, found)
        self._answers.put(self._question, self, self.outcome, nbytes)
        answer = QueryResult(found.schema, found.metadata, found.table or iter(batches))
        answer.explain, answer.moved_bytes = result.explain, result.moved_bytes
        return answer

    def __enter__(self) -> Computation:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, Cancelled | DeadlineExceeded):
            self.outcome = _Outcome.TAKEN_BACK
        self._answers.end(self._question, self)
        self.ended.set()


@dataclass
class _Asked:
    """What is known of a question.

    Attributes:
        nbytes: What it takes in all.
        is_left_out: Its answers are not kept; None until it is asked for the second time.
        answer: The last answer that was kept.
        running: Who computes it now.
    """

    nbytes: int
    is_left_out: bool | None = None
    answer: KeptAnswer | None = None
    running: Computation | None = None


class KeptAnswers:
    """The answers that are kept, up to a number of bytes; those not asked for longest go first. Safe for
    threads.

    Args:
        limit_bytes: How much they may take, with their questions; 0: nothing is kept.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.most_answer_bytes = min(MOST_ANSWER_BYTES, limit_bytes // LARGEST_SHARE)
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._asked: OrderedDict[Question, _Asked] = OrderedDict()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """What they take now."""
        return self._nbytes

    def __len__(self) -> int:
        return len(self._asked)

    def find(self, question: Question) -> KeptAnswer | None:
        """The last answer to a question, of whatever epochs."""
        with self._lock:
            asked = self._asked.get(question)
            if asked is None or asked.answer is None:
                return None
            self._asked.move_to_end(question)
            return asked.answer

    def begin(
        self, question: Question, statement: ReadyStatement, epochs: EpochsRead, deadline: Deadline
    ) -> KeptAnswer | Computation | None:
        """Ask; waits while somebody else computes the same.

        Args:
            question: What is asked.
            statement: The statement, bound with what stores are at the epochs.
            epochs: What it is to be read at.
            deadline: When it must end.

        Returns:
            The answer; or the right to compute it for all; or None where everybody computes alone.

        Raises:
            LivestateError: The statement must end, or too many wait.
        """
        if not self._limit_bytes:
            return None
        is_first, shapes = not self._note(question, statement), statement.bound.shapes
        while not is_first:
            with self._lock:
                asked = self._asked.get(question)
                if asked is None or asked.is_left_out:
                    return None
                answer, running = asked.answer, asked.running
                if answer is not None and answer.epochs == epochs and answer.shapes == shapes:
                    return answer
                if running is None or running.epochs != epochs or running.statement.bound.shapes != shapes:
                    asked.running = Computation(self, question, statement, epochs)
                    return asked.running
            _wait(running, deadline)
            if isinstance(running.outcome, KeptAnswer):
                return running.outcome
            if running.outcome is _Outcome.NOT_KEPT:
                return None
        return None

    def _note(self, question: Question, statement: ReadyStatement) -> bool:
        """Take note that something is asked; whether it was before."""
        with self._lock:
            asked = self._asked.get(question)
            if asked is None:
                size = ENTRY_BYTES + sum(map(len, (question.text, question.values, *question.apart)))
                self._asked[question] = _Asked(size)
                self._change_size(size)
                return False
            self._asked.move_to_end(question)
            if asked.is_left_out is None:
                asked.is_left_out = not is_repeatable(statement)
            return True

    def put(self, question: Question, computation: Computation, answer: KeptAnswer, nbytes: int) -> None:
        """Keep an answer in place of the one before, unless a later computation has begun.

        Args:
            question: What was asked.
            computation: By whom it was computed.
            answer: The answer.
            nbytes: What it takes.
        """
        with self._lock:
            asked = self._asked.get(question)
            if asked is None or asked.running is not computation:
                return
            size = ENTRY_BYTES + sum(map(len, (question.text, question.values, *question.apart))) + nbytes
            grown, asked.nbytes, asked.answer = size - asked.nbytes, size, answer
            self._change_size(grown)

    def _change_size(self, nbytes: int) -> None:
        self._nbytes += nbytes
        while self._nbytes > self._limit_bytes and self._asked:
            _, gone = self._asked.popitem(last=False)
            self._nbytes -= gone.nbytes

    def leave_out(self, question: Question) -> None:
        """Keep no answers to a question any more."""
        with self._lock:
            asked = self._asked.get(question)
            if asked is not None:
                asked.is_left_out, asked.answer = True, None

    def end(self, question: Question, computation: Computation) -> None:
        """Take note that nobody need wait for a computation any more."""
        with self._lock:
            asked = self._asked.get(question)
            if asked is not None and asked.running is computation:
                asked.running = None


def _wait(running: Computation, deadline: Deadline) -> None:
    """Wait until somebody else has computed, without the slot that a computation takes."""
    if running.ended.is_set():
        return
    with deadline.idle():
        while True:
            remaining = deadline.remaining_seconds
            longest = POLL_SECONDS if deadline.needs_polling else remaining
            if running.ended.wait(longest if remaining is None else min(longest or 0.0, remaining)):
                return
            deadline.check()
