"""Functions whose results can be much larger than their arguments, and where a statement may call them.

The engine bounds them for the rows of a chunk (`engine.duckdb.growth`). That holds for any of them, but not
where one chunk after the other goes into the same value, as with lambdas; and it writes arguments down twice.
"""

from __future__ import annotations

from sqlglot import exp

from engine.sql.functions import function_name
from engine.sql.text import SourceText, offset_of

MAX_NESTING = 4
"""Calls of them in each other."""
MAX_COUNT = 100
"""In a lambda, where their count has to be a number."""

ROOM_FUNCTION = "livestate_room"
"""Bounds them in the engine; no statement calls it itself."""

_PADDING = frozenset({"repeat", "pad"})
_LISTS = frozenset({"generate_series", "list_resize", "array_resize", "bitstring"})
GROWING_FUNCTIONS = _PADDING | _LISTS | {"format", "printf", "concat_ws", "replace", "regexp_replace"}
"""Their names in parsed trees, where `range` is `generate_series`, and `lpad` and `rpad` are `pad`."""

_SCHEMAS = frozenset({"system", "main", "memory", "temp", "pg_catalog", "information_schema"})


def check_growing(source: SourceText, tree: exp.Expr) -> None:
    """Check where a statement calls these functions.

    Args:
        source: Its text.
        tree: Its tree.

    Raises:
        InvalidInput: They are called in each other too often; in a lambda without a count that is known; or a
            function is called with a schema, past what bounds it.
    """
    stack = [(tree, 0, False)]
    while stack:
        node, nesting, in_lambda = stack.pop()
        if (
            isinstance(node, exp.Dot)
            and isinstance(node.expression, exp.Func)
            and node.sql("duckdb").partition(".")[0].strip('"').lower() in _SCHEMAS
        ):
            raise source.error(
                "Functions are called by their names alone: leave the schema out.", offset_of(node)
            )
        if isinstance(node, exp.Func) and function_name(node) in GROWING_FUNCTIONS:
            nesting += 1
            if nesting > MAX_NESTING:
                raise source.error(
                    (
                        f"More than {MAX_NESTING} calls of functions such as repeat, replace and range in "
                        "each other: use a subquery."
                    ),
                    offset_of(node),
                )
            if in_lambda:
                _check_in_lambda(source, node)
        in_lambda = in_lambda or isinstance(node, exp.Lambda | exp.Comprehension)
        stack += [(child, nesting, in_lambda) for child in node.iter_expressions()]


def _first_name(node: exp.Dot) -> str:
    first = node.this
    while isinstance(first, exp.Dot):
        first = first.this
    return str(first.name).lower()


def _check_in_lambda(source: SourceText, node: exp.Func) -> None:
    name = function_name(node)
    if name in _LISTS:
        raise source.error(
            "In a lambda a list cannot be made of numbers: use unnest in a subquery, and list(…).",
            offset_of(node),
        )
    count = node.args.get("times") or node.args.get("expression")
    if name in _PADDING and not (
        isinstance(count, exp.Literal) and str(count.this).isdigit() and int(count.this) <= MAX_COUNT
    ):
        raise source.error(
            f"In a lambda the count of repeat, lpad and rpad is a number up to {MAX_COUNT}.", offset_of(node)
        )
