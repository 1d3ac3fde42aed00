"""The statement's time in place of functions that read the clock.

What `now()` and its kin give is one value for a statement, wherever its parts run. So they become expressions
of one parameter, which no client sees: the moment at which the statement was taken. It is a TIMESTAMP WITH
TIME ZONE; the session's time zone, by which dates and times of day follow from it, is always UTC.

What moves within a statement, such as `random()`, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from engine.model.names import fold
from engine.sql.engine_dialect import EngineDialect
from engine.sql.functions import function_name
from engine.sql.output_names import name_outputs_around

_CASTS: Mapping[str, tuple[str, ...]] = {
    "now": (),
    "current_timestamp": (),
    "get_current_timestamp": (),
    "transaction_timestamp": (),
    "current_localtimestamp": ("TIMESTAMP",),
    "localtimestamp": ("TIMESTAMP",),
    "current_date": ("DATE",),
    "today": ("DATE",),
    "current_time": ("TIMETZ",),
    "get_current_time": ("TIMETZ",),
    "current_localtime": ("TIMESTAMP", "TIME"),
    "localtime": ("TIMESTAMP", "TIME"),
}
"""The functions of DuckDB that read the clock, and the casts of the statement's time that give the same."""
CLOCK_NODES = (
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.CurrentTimestamp,
    exp.CurrentTimestampLTZ,
    exp.Localtime,
    exp.Localtimestamp,
    exp.UtcDate,
    exp.UtcTime,
    exp.UtcTimestamp,
)
"""Calls for which the parser has nodes of their own; other dialects give some of them a time zone, or a
number of digits.
"""


def bind_statement_time(tree: exp.Expr, number: int) -> bool:
    """Put the statement's time in place of functions that read the clock.

    Args:
        tree: A statement; it is changed.
        number: Number of the parameter that is the statement's time.

    Returns:
        Whether the statement reads it.
    """
    calls = [node for node in tree.find_all(exp.Func) if _reads_clock(node)]
    if not calls:
        return False
    name_outputs_around(calls)
    # Inner ones first: what is around them takes them along.
    for call in reversed(calls):
        call.replace(_value(call, number))
    return True


def _reads_clock(node: exp.Func) -> bool:
    if isinstance(node, CLOCK_NODES):
        return True
    if not isinstance(node, exp.Anonymous):
        return False
    name, arguments = function_name(node), node.expressions
    if name in _CASTS or len(arguments) != 1:
        # A star stands for no arguments here, as in count(*).
        return name in _CASTS and all(isinstance(each, exp.Star) for each in arguments)
    # Of a text without a type the engine cannot say which `age` is meant, and refuses it.
    return name == "ago" or (name == "age" and not isinstance(arguments[0], exp.Literal | exp.Placeholder))


def _value(call: exp.Func, number: int) -> exp.Expr:
    """What a call gives."""
    if isinstance(call, exp.Anonymous) and function_name(call) not in _CASTS:
        (argument,) = call.expressions
        if function_name(call) == "age":
            return exp.Anonymous(this="age", expressions=[_cast(("DATE",), number), argument])
        return exp.Paren(this=exp.Sub(this=_cast((), number), expression=_as_interval(argument)))
    name = _name(call)
    if name in _CASTS:
        return _cast(_CASTS[name], number)
    # Other dialects name a time zone with it, for which the engine has an expression.
    written: exp.Expr = exp.maybe_parse(call.sql(dialect=EngineDialect), dialect=EngineDialect)
    for inner in [node for node in written.find_all(*CLOCK_NODES) if _name(node) in _CASTS]:
        inner.replace(_cast(_CASTS[_name(inner)], number))
    return exp.Paren(this=written)


def _name(call: exp.Expr) -> str:
    """What the engine calls a function without arguments."""
    if isinstance(call, exp.Anonymous):
        return function_name(call)
    return fold(call.sql(dialect=EngineDialect)).removesuffix("()")


def _as_interval(node: exp.Expr) -> exp.Expr:
    """As the macro has it."""
    return exp.cast(node, "INTERVAL", dialect="duckdb")


def _cast(types: Sequence[str], number: int) -> exp.Expr:
    found: exp.Expr = exp.Placeholder(this=str(number))
    for each in types:
        found = exp.Cast(this=found, to=exp.DataType.build(each, dialect="duckdb"))
    return found
