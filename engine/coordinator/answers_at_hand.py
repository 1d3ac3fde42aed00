"""The short ways: answers that take next to nothing, past everything that other statements need."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.coordinator.key_rows import KeyQuery, KeyRows
from engine.coordinator.lag_limit import LagLimit
from engine.exec.kept_answers import KeptAnswers, plain_question
from engine.exec.local_executor import LocalExecutor
from engine.exec.query_result import QueryResult
from engine.model.read_point import ReadPoint
from engine.model.table_shapes import ExpectedShapes
from engine.plan.key_lookup import KeyLookup
from engine.scan import BuildingError, StoreSource
from engine.statements.pin import ALL_NEWEST, MigratedError
from engine.statements.request import Request
from engine.statements.session import Session
from engine.statements.statement_cache import MAX_CACHED_LENGTH
from engine.statements.texts import Texts


class AnswersAtHand:
    """Answers texts that are known already: one row by its key, rows by a list of keys, and what was answered
    before. Safe for threads.

    Args:
        source: The stores that are here.
        cluster: The hosts of the deployment.
        texts: Knows statements by their texts.
        local: Answers from this host's stores.
        key_rows: Looks up rows on other hosts.
        answers: What was answered before.
        lag_limit: Knows how old answers may be.
        most_seconds: What any statement may take; None for no limit.
    """

    def __init__(
        self,
        source: StoreSource,
        cluster: DeploymentHosts,
        texts: Texts,
        local: LocalExecutor,
        key_rows: KeyRows,
        answers: KeptAnswers,
        lag_limit: LagLimit,
        most_seconds: float | None,
    ) -> None:
        self._source = source
        self._cluster = cluster
        self._texts = texts
        self._local = local
        self._key_rows = key_rows
        self._answers = answers
        self._lag_limit = lag_limit
        self._most_seconds = most_seconds

    def find(
        self,
        text: str,
        parameters: pa.RecordBatch | Sequence[object] | None,
        session: Session,
        cancelled: Callable[[], bool] | None,
        expected_shapes: ExpectedShapes | None,
    ) -> QueryResult | None:
        """One row by its key, or what was answered before. Args and errors as those of `row`.

        Returns:
            The result, all of it there already; None where `QueryService.execute` has to find more out.
        """
        row = self.row(text, parameters, session, cancelled, expected_shapes)
        if row is not None:
            return row
        if parameters is None or isinstance(parameters, pa.RecordBatch):
            return self._kept_answer(text, parameters, session, expected_shapes)
        return None

    def row(
        self,
        text: str,
        parameters: pa.RecordBatch | Sequence[object] | None,
        session: Session,
        cancelled: Callable[[], bool] | None,
        expected_shapes: ExpectedShapes | None,
    ) -> QueryResult | None:
        """Answer the most frequent statement, one row by its key, past everything that other statements need.

        Args:
            text: Any statement.
            parameters: One row with a column a parameter, or plain Python values; None where the text has
                literals.
            session: The client's choices.
            cancelled: Tells, from any thread, whether the client took the statement back; only asked while
                another host is waited for.
            expected_shapes: As in `QueryService.execute`.

        Returns:
            The result; None where the statement asks for anything else, has not been made ready before, or
            was told other columns, so that `execute` has to answer it.

        Raises:
            Unavailable: The store cannot be read now.
        """
        started = time.perf_counter()
        if not session.read_point.is_newest:
            return None
        texts = self._texts
        found = (
            texts.lookup_by_literal(text, session.dialect)
            if parameters is None
            else texts.lookup_by_parameter(text, session.dialect, parameters)
        )
        if found is None:
            return None
        statement, key = found
        lookup = statement.key_lookup
        if (
            lookup is None
            or not lookup.is_key(key)
            or (expected_shapes is not None and expected_shapes != statement.bound.shapes)
        ):
            return None
        if not self._cluster.has_peers:
            return self._row_of_one_host(lookup, key, session.read_point, started)
        definitions, seconds = self._source.definitions(), session.time_limit(self._most_seconds)
        return self._key_rows.row(
            KeyQuery(statement, lookup, key, definitions, seconds, started, cancelled, session.read_point)
        )

    def _row_of_one_host(
        self, lookup: KeyLookup, key: int | str, read_point: ReadPoint, started: float
    ) -> QueryResult | None:
        """Answer a lookup of one row on a host without peers; None where `execute` has to find out more.

        The row is here or nowhere, and a route to find that out would take three times as long as the lookup.
        """
        until = self._lag_limit.complete_until(lookup.definitions, read_point)
        if until is None:
            return None
        try:
            return self._local.row(lookup, key, ALL_NEWEST, started, until)
        except (MigratedError, BuildingError):
            return None

    def rows_of_list(
        self, text: str, session: Session, started: float, expected_shapes: ExpectedShapes | None
    ) -> QueryResult | None:
        """Answer a lookup of rows by the list of keys that a text in DuckDB's dialect ends in, on a host
        without peers; None for anything else, and where its like has not been answered before.

        Args:
            text: Any text in that dialect.
            session: The client's choices.
            started: When it came, by `time.perf_counter`.
            expected_shapes: As in `QueryService.execute`.
        """
        if self._cluster.has_peers or not session.read_point.is_newest:
            return None
        found = self._texts.lookup_by_list(text)
        if found is None:
            return None
        statement, keys = found
        lookup = statement.key_list_lookup
        if lookup is None or (expected_shapes is not None and expected_shapes != statement.bound.shapes):
            return None
        until = self._lag_limit.complete_until(lookup.definitions, session.read_point)
        if until is None:
            return None
        try:
            return self._local.rows_of_keys(lookup, keys, ALL_NEWEST, started, until)
        except (MigratedError, BuildingError):
            return None

    def learn_list(self, request: Request, session: Session) -> None:
        """Take note of what was answered, for `rows_of_list`.

        Args:
            request: What was answered.
            session: The client's choices.
        """
        if (
            self._cluster.has_peers
            or request.dialect != "duckdb"
            or request.read_point is not session.read_point
        ):
            return
        # Parameters of a client are in no text.
        text = request.ready.text if request.given is None else request.written
        if text is not None:
            self._texts.learn_list_lookup(text, request.statement, request.arguments)

    def _kept_answer(
        self,
        text: str,
        parameters: pa.RecordBatch | None,
        session: Session,
        expected_shapes: ExpectedShapes | None,
    ) -> QueryResult | None:
        """The answer that a text had last, if it is that of the newest epochs still, on a host without peers;
        None where that takes more to find out.
        """
        if (
            self._cluster.has_peers
            or not session.read_point.is_newest
            or not self._answers
            or len(text) > MAX_CACHED_LENGTH
        ):
            return None
        started = time.perf_counter()
        answer = self._answers.find(plain_question(text, session.dialect, parameters))
        if (
            answer is None
            or not answer.statement.is_current(self._source.tables())
            or (expected_shapes is not None and expected_shapes != answer.shapes)
        ):
            return None
        until = self._lag_limit.complete_until(answer.stores, session.read_point)
        if until is None:
            return None
        try:
            is_newest = self._local.newest_epochs(answer.stores) == answer.epochs
        except BuildingError:
            return None
        return answer.result_now(started, until) if is_newest else None
