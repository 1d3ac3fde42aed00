"""Which rows of a store exist for somebody: a condition of SQL, made a test that Arrow's kernels decide.

What the engine alone could decide is refused: it would have to see rows that do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from engine.access.claims import Claim
from engine.errors import InvalidInput
from engine.model.names import fold
from engine.model.schema import StoreDefinition
from engine.plan.predicates import operand_of, predicate_of
from engine.plan.row_tests import (
    EVERY_ROW,
    NO_ROW,
    AllTests,
    AnyTest,
    Containment,
    RowTest,
    RowTests,
    TextTest,
    ValueTest,
    count_tests,
    null_test,
    opposite_test,
)
from engine.plan.values import Arguments, Constant, Parameter
from engine.sql.engine_dialect import EngineDialect

LONGEST_CONDITION = 16_384
"""Characters."""
MOST_TESTS = 1000
_CLAIM = "CLAIM"
_CONTAINMENTS: Mapping[type[exp.Expr], Containment] = {
    exp.Like: Containment.WHOLE,
    exp.StartsWith: Containment.BEGIN,
    exp.EndsWith: Containment.END,
    exp.Contains: Containment.ANYWHERE,
}
_LIKE = {
    (False, False): Containment.WHOLE,
    (True, False): Containment.BEGIN,
    (False, True): Containment.END,
    (True, True): Containment.ANYWHERE,
}
"""Where the text of a pattern stands, by whether it has `%` at its end and at its beginning."""
_TEXT_ARGUMENTS = frozenset({"this", "expression", "negate"})


def row_filter(
    definition: StoreDefinition, conditions: Sequence[str], claims: Mapping[str, Claim]
) -> RowTest:
    """The test of rows that exist.

    Args:
        definition: The store, with all of its columns.
        conditions: Rows meet one of these; an empty one is met by all. They know comparisons of a column with
            a value, `IN`, `BETWEEN`, `IS NULL`, `LIKE` with `%` at the ends of a text, `starts_with`,
            `ends_with`, `contains`, `AND`, `OR`, `NOT`, and `claim('name')` as a value; of a claim that is a
            list, `column IN claim('name')`.
        claims: Values of claims. A condition that calls another one is met by no row.

    Returns:
        The test.

    Raises:
        InvalidInput: A condition is none, names a column that the store does not have, or says what only an
            engine could decide.
    """
    if "" in conditions:
        return EVERY_ROW
    tests = tuple(_condition(definition, text, claims) for text in conditions)
    return _any_of(tests)


def _all_of(tests: Sequence[RowTest]) -> RowTest:
    parts = tuple(test for test in tests if test != EVERY_ROW)
    return parts[0] if len(parts) == 1 else AllTests(parts)


def _any_of(tests: Sequence[RowTest]) -> RowTest:
    if EVERY_ROW in tests:
        return EVERY_ROW
    parts = tuple(test for test in tests if test != NO_ROW)
    return parts[0] if len(parts) == 1 else AnyTest(parts)


def _condition(definition: StoreDefinition, text: str, claims: Mapping[str, Claim]) -> RowTest:
    refusal = InvalidInput(
        f"The rows of store {definition.name} cannot be told by {text[:200]!r}: write comparisons of its "
        "columns with values or claim('name'), IN, BETWEEN, IS NULL, LIKE with % at the ends, starts_with, "
        "ends_with and contains, joined by AND, OR and NOT."
    )
    if len(text) > LONGEST_CONDITION:
        raise refusal
    try:
        tree = sqlglot.parse_one(f"SELECT 1 WHERE {text}", dialect=EngineDialect)
    except (SqlglotError, RecursionError) as error:
        raise refusal from error
    if not isinstance(tree, exp.Select) or {name for name, value in tree.args.items() if value} != {
        "expressions",
        "where",
    }:
        raise refusal
    try:
        condition, values = _put_claims(tree.args["where"].this, claims)
    except (OverflowError, UnicodeEncodeError, pa.ArrowException) as error:
        raise InvalidInput(
            f"The rows of store {definition.name} cannot be told by {text[:200]!r} with these claims: "
            "numbers have 64 bits at the most, and texts are Unicode."
        ) from error
    if condition is None:
        return NO_ROW
    test = _ConditionReader(definition, Arguments(tuple(values))).test(condition)
    if test is None or count_tests(test) > MOST_TESTS:
        raise refusal
    return test


def _put_claims(
    condition: exp.Expr, claims: Mapping[str, Claim]
) -> tuple[exp.Expr | None, Sequence[pa.Scalar]]:
    """A condition with parameters where it calls claims, and their values; None where one is missing."""
    values: list[pa.Scalar] = []
    whole = exp.Paren(this=condition.copy())
    for call in list(whole.find_all(exp.Anonymous)):
        arguments = call.expressions
        if call.name.upper() != _CLAIM or len(arguments) != 1 or not arguments[0].is_string:
            continue
        claim = claims.get(arguments[0].name)
        if claim is None:
            return None, ()
        # An empty list of claims is one of texts, too.
        values.append(
            pa.scalar(list(claim), pa.list_(pa.string())) if isinstance(claim, tuple) else pa.scalar(claim)
        )
        call.replace(exp.Placeholder(this=str(len(values))))
    return whole, values


class _ConditionReader:
    """Makes tests of conditions on one store.

    Args:
        definition: The store.
        arguments: Values of parameters.
    """

    def __init__(self, definition: StoreDefinition, arguments: Arguments) -> None:
        self._names = {fold(name): name for name in definition.schema.names}
        self._definition = definition
        self._arguments = arguments
        self._tests = RowTests(definition, arguments)

    def test(self, node: exp.Expr) -> RowTest | None:
        """The test that a condition is; None where it is none."""
        if isinstance(node, exp.Paren):
            return self.test(node.this)
        if isinstance(node, exp.And | exp.Or):
            parts = [self.test(part) for part in node.flatten()]
            known = tuple(part for part in parts if part is not None)
            if len(known) < len(parts):
                return None
            return _all_of(known) if isinstance(node, exp.And) else _any_of(known)
        if isinstance(node, exp.Boolean):
            return EVERY_ROW if node.this else NO_ROW
        if isinstance(node, exp.NEQ):
            return self._difference(node)
        if isinstance(node, exp.Not):
            return null_test(node, self._column) or self._opposite(node.this)
        if isinstance(node, tuple(_CONTAINMENTS)):
            return self._text_test(node)
        predicate = predicate_of(node, self._column, {}, self._definition.key)
        return null_test(node, self._column) or self._tests.row_test(predicate)

    def _opposite(self, node: exp.Expr) -> RowTest | None:
        """The test of rows for which a condition is false; None where it is none."""
        if isinstance(node, exp.Paren):
            return self._opposite(node.this)
        if isinstance(node, exp.Not):
            return self.test(node.this)
        if isinstance(node, exp.And | exp.Or):
            parts = [self._opposite(part) for part in node.flatten()]
            known = tuple(part for part in parts if part is not None)
            if len(known) < len(parts):
                return None
            return _any_of(known) if isinstance(node, exp.And) else _all_of(known)
        if not isinstance(node, exp.Is) and node.find(exp.Null) is not None:
            return None
        test = self.test(node)
        return None if test is None else opposite_test(test)

    def _text_test(self, node: exp.Expr) -> RowTest | None:
        """The test that LIKE, or a function that looks for a text, is: where Arrow's kernels compare bytes as
        the engine does.
        """
        arguments = {name for name, value in node.args.items() if value}
        column = self._column(node.this) if isinstance(node.this, exp.Column) else None
        operand = operand_of(node.args.get("expression"))
        if not {"this", "expression"} <= arguments <= _TEXT_ARGUMENTS or column is None:
            return None
        value = self._arguments.value_of(operand) if isinstance(operand, Parameter) else None
        text = operand.value if isinstance(operand, Constant) else None if value is None else value.as_py()
        if not isinstance(text, str) or not pa.types.is_string(self._definition.schema.field(column).type):
            return None
        containment = _CONTAINMENTS[type(node)]
        if isinstance(node, exp.Like):
            if "_" in text or "%" in text[1:-1]:
                return None
            begins, ends = text.endswith("%"), text.startswith("%")
            containment = _LIKE[begins, ends]
            text = text.strip("%")
        return TextTest(column, containment, text, is_negated="negate" in arguments)

    def _difference(self, node: exp.NEQ) -> RowTest | None:
        # In the engine's order of values: below, or above, where NaN is.
        below, above = (kind(**{n: v.copy() for n, v in node.args.items() if v}) for kind in (exp.LT, exp.GT))
        parts = [self.test(below), self.test(above)]
        if not all(isinstance(part, ValueTest) for part in parts):
            return NO_ROW if parts == [NO_ROW, NO_ROW] else None
        return AnyTest(tuple(part for part in parts if part is not None))

    def _column(self, column: exp.Column) -> str | None:
        if column.table:
            return None
        return self._names.get(fold(column.name))
