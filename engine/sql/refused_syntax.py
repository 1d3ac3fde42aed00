"""What a statement must not have: whatever does not only read, and what the engine and the parser understand
differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from engine.errors import LimitExceeded, Unsupported
from engine.model.names import fold
from engine.sql.chained_calls import SCHEMAS
from engine.sql.engine_dialect import EngineDialect
from engine.sql.functions import TABLE_FUNCTIONS, function_name, is_refused, session_column
from engine.sql.statement_time import CLOCK_NODES
from engine.sql.text import SourceText, offset_of

MAX_SELECTS = 500
"""SELECTs and tables of a statement; the engine plans joins and unions in more than linear time."""
MAX_ARRAY_VALUES = 100_000
"""Values of an array of fixed size, and of arrays within each other, as many as the engine lets one have: it
reserves room for all of them in each of 2,048 rows, and more overflow its numbers.
"""
_UNITS = {
    *("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"),
    *("decade", "century", "centurie", "millennium", "millennia"),
}
_PATH_PARTS = (exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript, exp.JSONPathWildcard)
"""Of a path into JSON: what sqlglot writes for the engine."""
_LAMBDA_FUNCTIONS = frozenset(
    {
        *("apply", "array_apply", "array_filter", "array_reduce", "array_transform", "filter", "list_apply"),
        *("list_filter", "list_reduce", "list_transform", "reduce", "transform"),
    }
)
_CLOCK_ARGUMENTS = (exp.Literal, exp.Column, exp.Placeholder, exp.Parameter, exp.Null)
_ORDERED = (exp.Query, exp.Values, exp.Table, exp.Pivot)
"""What has rows in an order."""
_REFUSED_NODES = (
    exp.DML,
    exp.DDL,
    exp.Create,
    exp.Drop,
    exp.Alter,
    exp.Command,
    exp.Copy,
    exp.Set,
    exp.Pragma,
    exp.Attach,
    exp.Detach,
    exp.Use,
    exp.Transaction,
    exp.Commit,
    exp.Rollback,
    exp.Kill,
    exp.Analyze,
    exp.Into,
    exp.Show,
    exp.Block,
    exp.Merge,
)


def check_tree(source: SourceText, tree: exp.Expr) -> None:
    """Refuse a statement that does not only read, or is too large to be planned.

    Args:
        source: The text of the tree, for places in errors.
        tree: The statement, or the table that it describes.

    Raises:
        InvalidInput: It calls what it must not; with its place.
        Unsupported: It does something else than read.
        LimitExceeded: It has too many SELECTs and tables.
    """
    selects = 0
    if not isinstance(tree, exp.Query | exp.Values | exp.Summarize | exp.Table | exp.Pivot):
        raise Unsupported(f"{tree.key.upper()} is not supported: statements only read.")
    for node in tree.walk():
        if isinstance(node, _REFUSED_NODES):
            raise Unsupported(
                f"{node.key.upper()} is not supported inside a statement: statements only read."
            )
        selects += isinstance(node, exp.Select | exp.Table)
        if selects > MAX_SELECTS:
            raise LimitExceeded(
                f"The statement has more than {MAX_SELECTS} SELECTs and tables: ask in parts."
            )
        if isinstance(node, exp.Describe):
            raise Unsupported("DESCRIBE is not supported inside a statement.")
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            _check_table_function(source, node.this)
        elif isinstance(node, exp.Summarize) and not isinstance(node.this, exp.Table | exp.Query):
            raise source.error("SUMMARIZE takes the name of a store, or a query.", offset_of(node))
        else:
            _check_calls_and_types(source, node)


def _check_calls_and_types(source: SourceText, node: exp.Expr) -> None:
    if isinstance(node, exp.Func) and is_refused(function_name(node)) and session_column(node) is None:
        raise source.error(
            f"The function {function_name(node)} is not allowed: it reaches beyond its arguments.",
            offset_of(node),
        )
    if isinstance(node, exp.Func) and _has_arrow_for_lambda(node):
        raise source.error(
            f"Write the lambda of {function_name(node)} as lambda x: x + 1, and not with an arrow.",
            offset_of(node),
        )
    if isinstance(node, exp.DataType) and _array_values(node) > MAX_ARRAY_VALUES:
        raise source.error(
            f"A type holds arrays of more than {MAX_ARRAY_VALUES} values: leave the sizes out.", None
        )
    if isinstance(node, exp.JSONPathPart) and not isinstance(node, _PATH_PARTS):
        raise Unsupported("A path into JSON has names of members, places and * alone: $.a[0].*")
    if isinstance(node, exp.HavingMax):
        raise source.error("HAVING MAX is not supported: use arg_max(value, of).", offset_of(node))
    if isinstance(node, exp.Order) and not isinstance(node.parent, _ORDERED) and _orders_by_all(node):
        raise source.error("ORDER BY ALL orders queries: name what a function orders by.", offset_of(node))
    if isinstance(node, exp.Dot) and _is_call_with_schema(node):
        raise source.error(
            "Functions are called by their names alone: leave the schema out.", offset_of(node)
        )


def _orders_by_all(order: exp.Order) -> bool:
    """Whether ALL is among the keys. In a function the engine makes one call of it for each column."""
    return any(isinstance(key.this, exp.Var) and key.this.name.upper() == "ALL" for key in order.expressions)


def _has_arrow_for_lambda(call: exp.Func) -> bool:
    """Whether a function that takes a lambda is given an arrow. The engine refuses that; where the list is a
    query, it fails, as that is gone when it tries another reading than a lambda.
    """
    if function_name(call) not in _LAMBDA_FUNCTIONS:
        return False
    _, *others = [*call.iter_expressions()] or [call]
    # An arrow binds less than what is around it, so that one within an argument is that of all of it.
    return any(not isinstance(each, exp.Lambda) and each.find(exp.JSONExtract) for each in others[:1])


def _array_values(node: exp.Expr | None) -> int:
    """How many values a type can have in one of the types around it, as its arrays say."""
    values = 1
    while isinstance(node, exp.DataType | exp.ColumnDef):
        for size in node.args.get("values") or () if isinstance(node, exp.DataType) else ():
            values *= int(size.this) if isinstance(size, exp.Literal) and size.is_int else 1
        node = node.parent
    return values


def _is_call_with_schema(node: exp.Dot) -> bool:
    return (
        isinstance(node.expression, exp.Func)
        and fold(node.sql(EngineDialect).partition(".")[0].strip('"')) in SCHEMAS
    )


def _check_table_function(source: SourceText, node: exp.Expr | None) -> None:
    if node is None:
        raise Unsupported("ROWS FROM (…) is not supported: call each function in FROM by itself.")
    if isinstance(node, exp.GenerateSeries | exp.Unnest):
        return
    if isinstance(node, exp.Placeholder):
        raise source.error(
            "A parameter stands for a value, and not for a table: write the name of the table.", None
        )
    name = function_name(node) if isinstance(node, exp.Func) else node.sql(dialect=EngineDialect)
    if name not in TABLE_FUNCTIONS:
        raise source.error(
            f"The table function {name} is not allowed; allowed are {', '.join(sorted(TABLE_FUNCTIONS))}.",
            offset_of(node),
        )


def check_intervals(source: SourceText, tokens: Sequence[Token]) -> None:
    """Refuse INTERVAL 1, as the engine does; the parser reads it as INTERVAL '1', which is a second."""
    for place, token in enumerate(tokens[:-1]):
        number = tokens[place + 1]
        if token.token_type is not TokenType.INTERVAL or number.token_type is not TokenType.NUMBER:
            continue
        unit = fold(tokens[place + 2].text) if place + 2 < len(tokens) else ""
        if unit.removesuffix("s") not in _UNITS:
            raise source.error(f"INTERVAL {number.text} has no unit, such as DAY.", number.start)


def check_states(source: SourceText, tokens: Sequence[Token], tree: exp.Expr) -> None:
    """Refuse `sum(x) EXPORT_STATE`, which gives no name in the engine, as it does for the parser: the answer
    would be the sum.
    """
    starts = {
        token.start
        for before, token in pairwise(tokens)
        if before.token_type is TokenType.R_PAREN and token.text.upper() == "EXPORT_STATE"
    }
    for alias in tree.find_all(exp.Alias) if starts else ():
        name = alias.args["alias"]
        if not name.args.get("quoted") and name.meta.get("start") in starts:
            raise source.error(
                "EXPORT_STATE is not supported: ask for values of aggregates, not for their states.",
                name.meta["start"],
            )


def check_clock_arguments(source: SourceText, tree: exp.Expr) -> None:
    """Refuse what no dialect gives to a function that reads the clock; the parser takes anything."""
    for call in tree.find_all(*CLOCK_NODES):
        for argument in call.iter_expressions():
            if not isinstance(argument, _CLOCK_ARGUMENTS):
                name = fold(call.sql_name())
                raise source.error(
                    f"The function {name} takes no argument of this kind: leave it out.",
                    offset_of(argument),
                )
