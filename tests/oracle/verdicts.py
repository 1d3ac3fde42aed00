"""One query, asked of the oracle and of a system: do they agree?

Where plain DuckDB refuses a statement (it does not parse or bind), the system must refuse it. Where DuckDB
fails while it runs, because of some row (an overflow, a cast), the system may fail or answer: a host that
prunes rows, or evaluates an expression behind a filter rather than before it, does not meet that row, as
DuckDB itself would not with another plan. The kind of error is not compared. Where DuckDB answers, the system
must answer, and the same, unless DuckDB too fails when rows come in another order. A difference that DuckDB
has with itself is no finding: when its answer changes with the order of the rows (the generator's fault), or
when it is the system's answer that DuckDB gives in another way, as without its optimizer (DuckDB's).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TypeVar

import duckdb
import pyarrow as pa

from engine.errors import InvalidInput, LimitExceeded, LivestateError
from tests.oracle.comparison import difference
from tests.oracle.kinds import Trust
from tests.oracle.metamorphic.relation import Agreement, Pair
from tests.oracle.plain_duckdb import REFUSALS, PlainDuckDB
from tests.oracle.queries import Generated
from tests.oracle.systems import Answer, System, TelltaleError

Answered = TypeVar("Answered")

FAILURES = (
    LivestateError,
    TelltaleError,
    duckdb.Error,
    AssertionError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RuntimeError,
    pa.ArrowException,
    RecursionError,
)
"""What a system under test may raise: a defect of it is a finding, and ends no run."""


ROW_FAILURES = (InvalidInput, duckdb.DataError)
"""Failures that some row brings about."""


class Outcome(Enum):
    """How two answers relate."""

    SAME = "same"
    REFUSED = "refused by both"
    FAILED = "failed in both"
    ONLY_HERE = "answered where DuckDB failed"
    DIFFERENT = "different"
    UNDETERMINED = "not determined"
    CONTRADICTED = "DuckDB contradicts itself"
    LIMITED = "refused for its size in one way alone"


@dataclass(frozen=True)
class Verdict:
    """What came of a query.

    Attributes:
        outcome: How the answers relate.
        detail: What differs, or why DuckDB failed.
        rules: Rules that planned it.
        expected: The oracle's answer, if it has one.
        found: The system's answer, if it has one.
    """

    outcome: Outcome
    detail: str = ""
    rules: tuple[str, ...] = ()
    expected: pa.Table | None = None
    found: pa.Table | None = None


@dataclass(frozen=True)
class Judge:
    """Asks the oracle and a system.

    Attributes:
        oracle: Plain DuckDB over all rows.
        others: The same over the rows in other orders, made when they are needed.
        otherwise: The same in other ways of DuckDB's, as without an optimizer, likewise.
        system: What is tested.
    """

    oracle: PlainDuckDB
    others: Callable[[], Sequence[PlainDuckDB]]
    otherwise: Callable[[], Sequence[PlainDuckDB]]
    system: System

    def is_empty(self, query: Generated) -> bool:
        """Whether plain DuckDB answers a query without rows."""
        answer, _ = _ask(lambda: self.oracle.answer(query.sql, query.parameters))
        return answer is not None and not answer.num_rows

    def verdict(self, query: Generated, seed: int) -> Verdict:
        """Ask a query, and compare."""
        return self.judge(query.sql, query.parameters, query.trusts, query.named, query.ordered, seed)

    def agreement(self, pair: Pair, query: Generated, answer: pa.Table, seed: int) -> Verdict:
        """Ask a query in another way, and compare the answers with each other. Where they disagree, plain
        DuckDB says whether that is the system's fault: where it answers both like the system, it contradicts
        itself, or the relation does not hold.

        Args:
            pair: The other way, and maybe a query that it must agree with instead.
            query: The query.
            answer: The system's answer of the query, which is right.
            seed: Chooses among ways to ask.
        """
        expected = answer
        if pair.base is not None:
            base = self.verdict(pair.base, seed)
            if base.outcome is not Outcome.SAME or base.found is None:
                return base
            expected = base.found
        variant = pair.variant
        found, error = self._ask_variant(pair, seed + 1)
        detail = f"{type(error).__name__}: {error}"
        if found is not None:
            disagreement = pair.disagreement(query, expected, found.table)
            if disagreement is None:
                return Verdict(Outcome.SAME, "", found.rules, expected, found.table)
            detail = disagreement
        table = None if found is None else found.table
        if isinstance(error, LimitExceeded):
            # The other way says more: three parts of a query need more memory than the query.
            return Verdict(Outcome.LIMITED, detail, (), expected)
        if pair.agreement is Agreement.ORDERED_OR_REFUSED and isinstance(error, InvalidInput):
            return Verdict(Outcome.REFUSED, detail, (), expected)
        if pair.agreement is Agreement.ANSWERED:
            return Verdict(Outcome.DIFFERENT, detail, (), None, table)
        verdict = self.verdict(variant, seed + 1)
        if verdict.outcome is not Outcome.SAME:
            return verdict
        if found is None:
            # A plan that was refused once is not tried again.
            return Verdict(Outcome.DIFFERENT, f"failed at first: {detail}", verdict.rules, expected)
        return Verdict(
            Outcome.CONTRADICTED, f"{detail}; plain DuckDB says the same", verdict.rules, expected, table
        )

    def _ask_variant(self, pair: Pair, seed: int) -> tuple[Answer | None, Exception | None]:
        """The system's answer of a variant, behind what is asked before it."""

        def ask(query: Generated) -> tuple[Answer | None, Exception | None]:
            values = self.oracle.row_of_literals(query.parameters)
            return _ask(lambda: self.system.answer(query.sql, query.parameters, values, seed))

        for query in pair.before:
            ask(query)
        return ask(pair.variant)

    def judge(
        self,
        sql: str,
        parameters: Sequence[str],
        trusts: Sequence[Trust] | None,
        named: Collection[int],
        ordered: Sequence[int],
        seed: int,
    ) -> Verdict:
        """Ask a text, and compare.

        Args:
            sql: The text.
            parameters: Its parameters as literals.
            trusts: How surely each column is determined; None: every column may be rounded.
            named: Places of the columns that the text names.
            ordered: Places of columns that rows are ordered by.
            seed: Chooses among ways to ask.
        """
        expected, failure = _ask(lambda: self.oracle.answer(sql, parameters))
        answer, error = _ask(
            lambda: self.system.answer(sql, parameters, self.oracle.row_of_literals(parameters), seed)
        )
        if isinstance(error, TelltaleError):
            return Verdict(Outcome.DIFFERENT, str(error), (), expected)
        rules = () if answer is None else answer.rules
        if expected is None:
            if answer is None:
                return Verdict(
                    Outcome.REFUSED if isinstance(failure, REFUSALS) else Outcome.FAILED, str(failure)
                )
            if isinstance(failure, REFUSALS):
                return Verdict(
                    Outcome.DIFFERENT, f"answered where DuckDB refuses: {failure}", rules, None, answer.table
                )
            return Verdict(Outcome.ONLY_HERE, str(failure), rules, None, answer.table)
        if answer is None:
            return self._judge_failure(sql, parameters, expected, error)
        expected, table = _under_one_name(expected, answer, named)
        known = tuple(trusts) if trusts is not None else (Trust.CLOSE,) * len(expected.schema)
        found = difference(expected, table, known, ordered)
        if found is None:
            return Verdict(Outcome.SAME, "", rules, expected, answer.table)
        outcome = Outcome.DIFFERENT
        if not self._is_determined(sql, parameters, expected, known, ordered):
            outcome = Outcome.UNDETERMINED
        elif self._says_otherwise(sql, parameters, table, known, ordered):
            outcome = Outcome.CONTRADICTED
        return Verdict(outcome, found, rules, expected, answer.table)

    def _judge_failure(
        self, sql: str, parameters: Sequence[str], expected: pa.Table, error: Exception | None
    ) -> Verdict:
        """The system failed where DuckDB answers; maybe DuckDB fails too when rows are in another order, as a
        sum that overflows and comes back.
        """
        if isinstance(error, ROW_FAILURES) and any(
            _ask(partial(other.answer, sql, parameters))[0] is None for other in self.others()
        ):
            return Verdict(Outcome.FAILED, str(error))
        return Verdict(
            Outcome.DIFFERENT, f"failed where DuckDB answers: {type(error).__name__}: {error}", (), expected
        )

    def _says_otherwise(
        self,
        sql: str,
        parameters: Sequence[str],
        table: pa.Table,
        trusts: Sequence[Trust],
        ordered: Sequence[int],
    ) -> bool:
        """Whether an answer is what DuckDB says in another way."""
        for other in self.otherwise():
            answer, _ = _ask(partial(other.answer, sql, parameters))
            if (
                answer is not None
                and difference(answer.rename_columns(table.schema.names), table, trusts, ordered) is None
            ):
                return True
        return False

    def _is_determined(
        self,
        sql: str,
        parameters: Sequence[str],
        expected: pa.Table,
        trusts: Sequence[Trust],
        ordered: Sequence[int],
    ) -> bool:
        """Whether DuckDB says the same whatever the order of the rows."""
        for other in self.others():
            answer, _ = _ask(partial(other.answer, sql, parameters))
            if (
                answer is None
                or difference(expected.rename_columns(answer.schema.names), answer, trusts, ordered)
                is not None
            ):
                return False
        return True


def _ask(ask: Callable[[], Answered]) -> tuple[Answered | None, Exception | None]:
    try:
        return ask(), None
    except FAILURES as error:
        return None, error


def _under_one_name(expected: pa.Table, answer: Answer, named: Collection[int]) -> tuple[pa.Table, pa.Table]:
    """The expected answer and the system's under the names that they should have; under the system's where
    these cannot be told.
    """
    table = answer.table
    if answer.unsplit_names is None:
        return expected, _finish(table, expected.schema)
    if table.schema.names == expected.schema.names or len(table.schema) != len(expected.schema):
        return expected, table
    unsplit, _ = _ask(answer.unsplit_names)
    # A statement is prepared without values, whose types it may need.
    others = table.schema.names if unsplit is None else unsplit
    return expected.rename_columns(_merged_names(expected.schema.names, named, others)), table


def _merged_names(names: Sequence[str], named: Collection[int], unsplit: Sequence[str]) -> list[str]:
    """What columns are to be called: as the text says, else as on one host.

    DuckDB names an expression by its text, and livestate hands it the text that sqlglot makes of the tree:
    CAST(x AS TEXT) for VARCHAR.
    """
    return [name if place in named else unsplit[place] for place, name in enumerate(names)]


def _finish(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """An answer with the names and types that the unsplit statement has, where they can be given to it."""
    if len(table.schema) != len(schema):
        return table
    try:
        return table.rename_columns(schema.names).cast(schema)
    except pa.ArrowException:
        return table
