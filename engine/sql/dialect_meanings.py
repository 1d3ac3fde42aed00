"""What operators and functions of other dialects mean, said in the engine's.

sqlglot translates names and the order of arguments. Where a dialect gives an operator or a function another
value than the engine does, the parsed tree says here what is meant. Sources are the manuals of Spark SQL,
PostgreSQL, Snowflake, BigQuery, MySQL, Trino and SQL Server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from functools import lru_cache

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, Dialects

from engine.errors import Unsupported
from engine.sql.output_names import name_outputs_around

_BEGINNING = "A substring's beginning"
MAX_REPEATED_NODES = 50
"""Of an expression that has to be written twice; what nests would become twice as long at each level."""

_SPARK = frozenset({"spark", "spark2", "databricks", "hive"})
_POSTGRES = frozenset({"postgres", "materialize", "risingwave"})
_MYSQL = frozenset({"mysql", "doris", "starrocks", "singlestore"})
_TRINO = frozenset({"trino", "presto", "athena"})
_TSQL = frozenset({"tsql", "fabric"})
_OTHERS = frozenset(str(dialect.value) for dialect in Dialects if dialect.value) - {"duckdb"}

_DECIMAL_DEFAULTS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(_SPARK | _MYSQL, (10, 0)),
    **dict.fromkeys(_TRINO | {"snowflake"}, (38, 0)),
    **dict.fromkeys(_TSQL | {"redshift"}, (18, 0)),
    "bigquery": (38, 9),
    # It keeps all digits there; so many are the most that leave room for whole numbers of 23.
    **dict.fromkeys(_POSTGRES, (38, 15)),
}
"""Digits, and those behind the point, of a DECIMAL that does not say them."""
_CUTS_FRACTIONS = _SPARK | _TSQL | {"sqlite", "clickhouse", "teradata"}
_ROUNDS_AWAY = _MYSQL | _TRINO | {"snowflake", "bigquery", "oracle"}
_DATE_UNITS = frozenset({"day", "week", "month", "quarter", "year"})
_WHOLE_TYPES = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
)
_CHOSEN = "whole where"
"""Of a quotient: the conditions under which it is a whole number."""
_FIRST = "first index"
_ARRAYS = (exp.Array, exp.Split, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.Filter)
"""What is known to give an array, and no map."""
_INDEXED_TYPES = (exp.DType.UNKNOWN, exp.DType.ARRAY)
_TRUNC_UNITS = {
    **dict.fromkeys(("yyyy", "yy"), "year"),
    **dict.fromkeys(("mon", "mm"), "month"),
    "dd": "day",
}
"""Spark's short words for units."""
_TEMPLATE_NODES = (
    exp.TimeToStr,
    exp.StrToTime,
    exp.StrToDate,
    exp.StrToUnix,
    exp.UnixToStr,
    exp.TsOrDsToDate,
)
_POSTGRES_TEMPLATES = {
    "FM%uay": "%A",
    "%uy": "%a",
    "F%month": "%B",
    "AM": "%p",
    "PM": "%p",
    "Mon": "%b",
}
"""What sqlglot leaves of words in templates of to_char, and what they are."""
_POSTGRES_WORD = re.compile("FM%uay|%uy|F%month|AM|PM|Mon(?!th)")
_QUOTED = re.compile(r"""'([^'%]*)'|"([^"%]*)\"""")
_CODE = re.compile(r"%-?[A-Za-z%](?:strict)?")
_LETTER = re.compile(r"[A-Za-z]+")

_Rewrite = Callable[[exp.Expr, str], exp.Expr]


def say_in_engine_terms(tree: exp.Expr, dialect: str) -> None:
    """Put what a statement means in the place of what another dialect would compute otherwise.

    Args:
        tree: A statement as it was parsed. It is changed.
        dialect: sqlglot's name of its dialect, which is not the engine's.

    Raises:
        Unsupported: It has something whose meaning cannot be said.
        LimitExceeded: Names of its columns would become much longer than itself.
    """
    rewrites = _rewrites_of(dialect)
    found = [
        (node, rewrites[type(node)])
        for node in tree.walk()
        if type(node) in rewrites and (not isinstance(node, exp.Select) or node.args.get("laterals"))
    ]
    if not found:
        return
    for bracket in (node for node, _ in found if isinstance(node, exp.Bracket)):
        bracket.meta[_FIRST] = _first_index(bracket, dialect)
    name_outputs_around(node for node, _ in found)
    # Inner ones first: what is around them takes them along.
    for node, rewrite in reversed(found):
        parent, name, place = node.parent, node.arg_key, node.index
        put = rewrite(node, dialect)
        # It may have the node within it, which then has another parent.
        if put is not node and parent is not None and name is not None:
            parent.set(name, put, place)


@lru_cache
def _rewrites_of(dialect: str) -> Mapping[type[exp.Expr], _Rewrite]:
    """By kinds of nodes, what says what they mean in a dialect."""
    return {kind: rewrite for kinds, dialects, rewrite in _REWRITES if dialect in dialects for kind in kinds}


def _first_index(bracket: exp.Bracket, dialect: str) -> int:
    """From which number on an index counts, as it stands in the tree."""
    offset = bracket.args.get("offset")
    if offset is not None:
        return int(offset)
    if Dialect.get_or_raise(dialect).INDEX_OFFSET == 0:
        return 0
    index, kind = bracket.expressions[0], bracket.this.type
    # What sqlglot knows to be a whole number it has made count from 0, and left it without a type.
    return int((kind is not None and kind.this not in _INDEXED_TYPES) or index.type is not None)


def _element(node: exp.Expr, _: str) -> exp.Expr:
    """What an array has at a place, or a map at a key. The engine counts from 1."""
    if (
        len(node.expressions) != 1
        or isinstance(node.expressions[0], exp.Slice)
        or node.args.get("json_access")
    ):
        return node
    (index,) = node.expressions
    is_key = isinstance(index, exp.Literal) and index.is_string
    node.set("offset", 1)
    if is_key or node.meta[_FIRST] == 1:
        return node
    number = _whole_number(index)
    if number is None or not isinstance(node.this, _ARRAYS):
        return _call("at_index", node.this, index)
    node.set("expressions", [_number(number + 1) if number >= 0 else exp.null()])
    return node


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def _bracketed(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node)


def _second(node: exp.Expr, what: str) -> exp.Expr:
    """An expression once more."""
    for size, part in enumerate(node.walk(), 1):
        if size > MAX_REPEATED_NODES or isinstance(part, exp.Placeholder | exp.Parameter | exp.Query):
            raise Unsupported(
                f"{what} of this dialect is given something too long, a parameter or a subquery: work it out "
                "in a subquery of its own, or ask in DuckDB's dialect."
            )
    return node.copy()


def _whole_number(node: exp.Expr | None) -> int | None:
    """The value of a literal."""
    sign = 1
    while isinstance(node, exp.Neg | exp.Paren):
        sign, node = -sign if isinstance(node, exp.Neg) else sign, node.this
    return sign * int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def _is_aggregated(*nodes: exp.Expr) -> bool:
    """Whether there is an aggregate or a window in expressions."""
    return any(
        isinstance(part, exp.AggFunc | exp.AnonymousAggFunc | exp.Window)
        for node in nodes
        for part in node.walk(prune=lambda each: isinstance(each, exp.Query))
    )


def _divide(node: exp.Expr, _: str) -> exp.Expr:
    if not node.args.get("typed"):
        return node
    dividend, divisor = node.this, node.expression
    if node.args.get("safe"):
        divisor = exp.Nullif(this=divisor, expression=_number(0))
    if not _is_aggregated(dividend, divisor):
        return _call("typed_division", dividend, divisor)
    what = "The quotient of aggregates"
    types = [*_types_of_terms(dividend), *_types_of_terms(divisor)]
    fraction = exp.Div(this=_second(dividend, what), expression=_second(divisor, what))
    if types.count(None):
        return _bracketed(fraction)
    conditions = [each for each in types if each is not None and not isinstance(each, exp.Boolean)]
    whole: exp.Expr = exp.IntDiv(this=dividend, expression=divisor)
    if _has_chosen(dividend) or _has_chosen(divisor):
        # These are whole, but of a type that has fractions.
        whole = _call("trunc", exp.Div(this=_bracketed(dividend), expression=_bracketed(divisor)))
    if not conditions:
        return _bracketed(whole)
    chosen = exp.Case(ifs=[exp.If(this=exp.and_(*conditions), true=whole)], default=fraction)
    chosen.meta[_CHOSEN] = conditions
    return chosen


def _has_chosen(node: exp.Expr) -> bool:
    return any(_CHOSEN in part.meta for part in node.find_all(exp.Case))


def _types_of_terms(node: exp.Expr) -> list[exp.Expr | None]:
    """Of each term: that it is whole, a condition that says whether it is, or None where it is not."""
    match node:
        case exp.Paren() | exp.Neg() | exp.Filter():
            return _types_of_terms(node.this)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod() | exp.Nullif():
            return [*_types_of_terms(node.this), *_types_of_terms(node.expression)]
        case exp.Case() if _CHOSEN in node.meta:
            return list(node.meta[_CHOSEN])
        case exp.Literal() if not node.is_string:
            return [exp.true() if node.is_int else None]
        case exp.Count() | exp.CountIf():
            return [exp.true()]
        case exp.Avg() | exp.Div():
            return [None]
    if _has_chosen(node):
        raise Unsupported(
            "What is made of a quotient of aggregates is divided: work the quotient out in a subquery."
        )
    kind = _call("typeof", _second(node, "The quotient of aggregates"))
    return [exp.In(this=kind, expressions=[exp.Literal.string(each) for each in _WHOLE_TYPES])]


def _cast(node: exp.Expr, dialect: str) -> exp.Expr:
    kind = node.args["to"]
    if kind.this in exp.DataType.INTEGER_TYPES:
        name, of_numbers = ("without_fraction", "trunc")
        if dialect in _ROUNDS_AWAY:
            name, of_numbers = ("to_nearest", "round")
        name = of_numbers if _is_aggregated(node.this) else name
        if dialect in _CUTS_FRACTIONS | _ROUNDS_AWAY and not isinstance(node.this, exp.Literal | exp.Count):
            node.set("this", _call(name, node.this))
    elif kind.is_type("decimal") and not kind.expressions and dialect in _DECIMAL_DEFAULTS:
        digits = _DECIMAL_DEFAULTS[dialect]
        kind.set("expressions", [exp.DataTypeParam(this=_number(each)) for each in digits])
    return node


def _day_of_week_from_1(node: exp.Expr, _: str) -> exp.Expr:
    return _bracketed(exp.Add(this=exp.DayOfWeek(this=node.this), expression=_number(1)))


def _week_from_sunday(moment: exp.Expr) -> exp.Expr:
    """Weeks of the year, which begin on Sundays; days before the first one are in week 0."""
    return exp.cast(_call("strftime", moment, exp.Literal.string("%U")), "INT")


def _week(node: exp.Expr, _: str) -> exp.Expr:
    mode = _whole_number(node.args.get("mode")) if node.args.get("mode") else 0
    if mode == 3:
        node.set("mode", None)
        return node
    if mode != 0:
        raise Unsupported("WEEK has mode 0, as without one, and mode 3 here.")
    return _week_from_sunday(node.this)


def _extract(node: exp.Expr, dialect: str) -> exp.Expr:
    part, moment = node.name.upper(), node.expression
    if part in ("SECOND", "SECONDS") and dialect in _POSTGRES | _SPARK:
        return _microseconds(moment, 1_000_000)
    if part in ("MILLISECOND", "MILLISECONDS") and dialect in _POSTGRES:
        return _microseconds(moment, 1_000)
    if part in ("DOW", "DAYOFWEEK") and dialect in _SPARK | _TSQL | {"bigquery"}:
        return _day_of_week_from_1(exp.DayOfWeek(this=moment), dialect)
    if (part in ("DOW", "DAY_OF_WEEK") and dialect in _TRINO) or part in ("DOW_ISO", "DAYOFWEEK_ISO"):
        return exp.DayOfWeekIso(this=moment)
    if dialect == "bigquery" and part == "WEEK":
        return _week_from_sunday(moment)
    if dialect == "bigquery" and part == "ISOWEEK":
        node.set("this", exp.var("WEEK"))
    return node


def _microseconds(moment: exp.Expr, divisor: int) -> exp.Expr:
    """The microseconds of a minute in another unit."""
    found = _call("date_part", exp.Literal.string("microseconds"), moment)
    return _bracketed(exp.Div(this=found, expression=_number(divisor)))


def _unit(node: exp.Expr) -> str | None:
    """The unit of an interval or of a function of times; None for one that is no plain word."""
    unit = node.args.get("unit")
    return unit.name.lower().removesuffix("s") if isinstance(unit, exp.Var | exp.Literal) else None


def _complete_units(node: exp.Expr, dialect: str) -> exp.Expr:
    """Units that have passed between two times, and not borders that lie between them."""
    unit = _unit(node)
    if unit is None or (unit == "day" and dialect in _SPARK and node.args.get("unit") is None):
        return node
    times = [
        each.this if dialect in _SPARK and isinstance(each, exp.TsOrDsToDate) else each
        for each in (node.expression, node.this)
    ]
    return _call("datesub", exp.Literal.string(unit), *times)


def _move(node: exp.Expr, dialect: str) -> exp.Expr:
    """A date that stays one, or a moment, and an interval."""
    amount = node.expression
    unit = _unit(amount if isinstance(amount, exp.Interval) else node)
    if unit not in _DATE_UNITS or _is_aggregated(node.this):
        return node
    if not isinstance(amount, exp.Interval):
        if isinstance(node, exp.Add | exp.Sub):
            return node
        amount = exp.Interval(this=amount, unit=exp.var(unit.upper()))
    if isinstance(node, exp.Sub | exp.DateSub):
        amount = exp.Neg(this=_bracketed(amount))
    if dialect == "bigquery":
        # What this function is given is a date.
        return exp.cast(exp.Add(this=_bracketed(node.this), expression=amount), "DATE")
    return _call("move_by", node.this, amount)


def _to_date(node: exp.Expr, _: str) -> exp.Expr:
    return exp.cast(node, "DATE")


def _begin_of(node: exp.Expr, dialect: str) -> exp.Expr:
    unit = _unit(node)
    if unit is None:
        return node
    if dialect in _SPARK:
        node.set("unit", exp.Literal.string(_TRUNC_UNITS.get(unit, unit)))
        return exp.cast(node, "DATE") if isinstance(node, exp.DateTrunc) else node
    unit = "week" if unit == "isoweek" else unit
    return _call(
        "date_trunc" if _is_aggregated(node.this) else "begin_of", exp.Literal.string(unit), node.this
    )


def _substring_start(node: exp.Expr) -> tuple[exp.Expr, int | None] | None:
    """Where a substring begins, and which number that is, if it is known; None where the engine takes it as
    all dialects do.
    """
    start = node.args.get("start")
    known = _whole_number(start)
    if start is None or (isinstance(start, exp.Literal) and start.is_string) or (known or 0) > 0:
        return None
    return start, known


def _substring_of_places(node: exp.Expr, _: str) -> exp.Expr:
    """Places before the beginning count, and have nothing."""
    found, length = _substring_start(node), node.args.get("length")
    if found is None:
        return node
    start, known = found
    if length is not None:
        first = start.copy() if known is not None else _second(start, _BEGINNING)
        before = _call("least", exp.Sub(this=_bracketed(first), expression=_number(1)), _number(0))
        rest = exp.Add(this=_bracketed(length), expression=before)
        node.set("length", _choice(_is_below(_second(rest, "The length"), 0), _number(0), rest))
    is_before = _is_below(start.copy() if known is not None else _second(start, _BEGINNING), 1)
    node.set("start", _number(1) if known is not None else _choice(is_before, _number(1), start))
    return node


def _substring_from_0(node: exp.Expr, dialect: str) -> exp.Expr:
    """0 is the beginning, as 1 is."""
    found, length = _substring_start(node), node.args.get("length")
    if found is None or length is None:
        return node
    start, known = found
    if known == 0:
        node.set("start", _number(1))
    elif known is None:
        is_0 = exp.EQ(this=_bracketed(_second(start, _BEGINNING)), expression=_number(0))
        node.set("start", _choice(is_0, _number(1), start))
    elif dialect == "bigquery":
        # What would begin before the text begins with it.
        node.set("length", None)
        return exp.Left(this=node, expression=length)
    return node


def _substring_within(node: exp.Expr, _: str) -> exp.Expr:
    """There is nothing at 0, nor before the beginning."""
    found = _substring_start(node)
    if found is None:
        return node
    start, known = found
    nothing = exp.Left(this=_second(node.this, "A text"), expression=_number(0))
    if known is None:
        is_0 = exp.EQ(this=_bracketed(_second(start, _BEGINNING)), expression=_number(0))
        return _choice(is_0, nothing, node)
    is_outside = _is_below(exp.Length(this=_second(node.this, "A text")), max(-known, 1))
    return _choice(is_outside, nothing, node) if known else nothing


def _is_below(value: exp.Expr, bound: int) -> exp.Expr:
    return exp.LT(this=_bracketed(value), expression=_number(bound))


def _choice(condition: exp.Expr, chosen: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=chosen)], default=otherwise)


def _template(node: exp.Expr, dialect: str) -> exp.Expr:
    """Check that nothing of a template of letters was left as it is: each letter means something."""
    template = node.args.get("format")
    if not isinstance(template, exp.Literal) or not template.is_string:
        return node
    text = _QUOTED.sub("", template.name)
    if dialect not in _SPARK:
        text = _POSTGRES_WORD.sub(lambda found: _POSTGRES_TEMPLATES[found[0]], text)
    unknown = _LETTER.search(_CODE.sub("", text))
    if unknown is not None:
        raise Unsupported(
            f"The template of a date has {unknown[0]!r}, which is not known here: use strftime."
        )
    quoted = _QUOTED.sub(lambda found: found[1] or found[2] or "", template.name)
    if dialect not in _SPARK:
        quoted = _POSTGRES_WORD.sub(lambda found: _POSTGRES_TEMPLATES[found[0]], quoted)
    node.set("format", exp.Literal.string(quoted))
    return node


def _as_double(node: exp.Expr) -> exp.Expr:
    return exp.cast(node, "DOUBLE")


def _within_group(node: exp.Expr, dialect: str) -> exp.Expr:
    call, order = node.this, node.expression
    if isinstance(call, exp.PercentileCont):
        for ordered in order.expressions:
            ordered.set("this", _as_double(ordered.this))
    elif isinstance(call, exp.ArrayAgg):
        order.set("this", call.this)
        call.set("this", order)
        call.parent = node.parent
        return _array_of_values(call, dialect)
    return node


def _percentile(node: exp.Expr, _: str) -> exp.Expr:
    return exp.PercentileCont(this=_as_double(node.this), expression=node.args["quantile"])


def _array_of_values(node: exp.Expr, _: str) -> exp.Expr:
    """Without NULLs."""
    if not node.args.get("nulls_excluded") or isinstance(node.parent, exp.WithinGroup):
        return node
    node.set("nulls_excluded", None)
    value = node.this
    while isinstance(value, exp.Order | exp.Limit | exp.Distinct):
        value = value.expressions[0] if isinstance(value, exp.Distinct) else value.this
    there = exp.Not(this=exp.Is(this=_second(value, "An array of values"), expression=exp.null()))
    if isinstance(node.parent, exp.Filter):
        condition = node.parent.expression
        condition.set("this", exp.And(this=_bracketed(condition.this), expression=_bracketed(there)))
        return node
    return exp.Filter(this=node, expression=exp.Where(this=there))


def _at_extreme(node: exp.Expr, _: str) -> exp.Expr:
    """The value of the row that has the extreme, be it NULL."""
    if node.args.get("count") is not None:
        return node
    name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
    return _call(name, node.this, node.expression)


def _pad(node: exp.Expr, _: str) -> exp.Expr:
    node.set("this", exp.cast(node.this, "TEXT"))
    return node


def _joined_text(node: exp.Expr, _: str) -> exp.Expr:
    """Of no elements an empty text, of NULL none."""
    delimiter = node.expression
    if node.args.get("null") is not None:
        return node
    if not isinstance(delimiter, exp.Literal):
        raise Unsupported(
            "Texts of an array are joined by a literal here: ask in DuckDB's dialect otherwise."
        )
    first = exp.Array(expressions=[exp.Literal.string("")])
    texts = exp.DPipe(this=first, expression=exp.cast(_bracketed(node.this), "TEXT[]", dialect="duckdb"))
    node.set("this", texts)
    return exp.Substring(this=node, start=_number(len(delimiter.name) + 1))


def _part_before(node: exp.Expr, _: str) -> exp.Expr:
    """A text up to the n-th delimiter, or from there, counted from its end."""
    count, delimiter = _whole_number(node.args.get("count")), node.args.get("delimiter")
    if count is None or not isinstance(delimiter, exp.Literal):
        raise Unsupported("SUBSTRING_INDEX has a literal delimiter and a literal count here.")
    if count == 0:
        return exp.Left(this=node.this, expression=_number(0))
    parts = _call("string_split", node.this, delimiter)
    first, last = (_number(1), _number(count)) if count > 0 else (_number(count), _number(-1))
    return _call("array_to_string", _call("list_slice", parts, first, last), delimiter.copy())


def _member(node: exp.Expr, _: str) -> exp.Expr:
    if isinstance(node.expression, exp.Literal) and node.expression.is_string:
        return node
    raise Unsupported("GET is not supported for elements of an array: write a[0].")


def _named_call(node: exp.Expr, dialect: str) -> exp.Expr:
    """A function that sqlglot does not know."""
    arguments, name = node.expressions, str(node.this).lower()
    if name == "weekday" and dialect in _SPARK | _MYSQL and len(arguments) == 1:
        day = exp.DayOfWeekIso(this=exp.cast(arguments[0], "DATE"))
        return _bracketed(exp.Sub(this=day, expression=_number(1)))
    if name == "every" and dialect in _SPARK | _POSTGRES and len(arguments) == 1:
        return exp.LogicalAnd(this=arguments[0])
    if name == "cardinality" and dialect in _POSTGRES and len(arguments) == 1:
        return exp.ArraySize(this=arguments[0])
    if name == "array_upper" and dialect in _POSTGRES and _is_one(arguments[1:]):
        return exp.Nullif(this=exp.ArraySize(this=arguments[0]), expression=_number(0))
    return node


def _array_length(node: exp.Expr, _: str) -> exp.Expr:
    """An empty array has no dimension that could be long."""
    if node.expression is None or not _is_one([node.expression]):
        return node
    node.set("expression", None)
    return exp.Nullif(this=node, expression=_number(0))


def _is_one(arguments: list[exp.Expr]) -> bool:
    return len(arguments) == 1 and _whole_number(arguments[0]) == 1


def _groups(node: exp.Expr, _: str) -> exp.Expr:
    """WITH ROLLUP and WITH CUBE are about all groups."""
    for kind in ("rollup", "cube"):
        for each in node.args.get(kind) or ():
            if not each.expressions and node.expressions:
                each.set("expressions", node.expressions)
                node.set("expressions", [])
    return node


def _lateral_views(node: exp.Expr, _: str) -> exp.Expr:
    """LATERAL VIEW OUTER keeps rows without elements. Views after it may read it: all become joins."""
    views = node.args.get("laterals") or []
    if not any(view.args.get("outer") for view in views):
        return node
    joins = []
    for number, view in enumerate(views, 1):
        columns = view.args["alias"].columns if view.args.get("alias") else []
        wanted = {exp.Explode: 1, exp.Posexplode: 2}.get(type(view.this))
        if not view.args.get("view") or wanted != len(columns):
            raise Unsupported(
                "LATERAL VIEW OUTER stands with views of explode and posexplode alone, with names for their "
                "columns."
            )
        name = view.args["alias"].this or exp.to_identifier(f"_view{number}")
        elements = _elements(view.this.this, columns[-1], columns[0] if wanted == 2 else None)
        found = exp.Lateral(this=exp.Subquery(this=elements), alias=exp.TableAlias(this=name))
        is_outer = bool(view.args.get("outer"))
        joins.append(
            exp.Join(this=found, side="LEFT", on=exp.true())
            if is_outer
            else exp.Join(this=found, kind="CROSS")
        )
    node.set("laterals", [])
    node.set("joins", [*(node.args.get("joins") or ()), *joins])
    return node


def _elements(values: exp.Expr, element: exp.Expr, place: exp.Expr | None) -> exp.Expr:
    """A query for the elements of an array, and their places from 0."""
    outer, inner = element.copy(), exp.to_identifier("_place")
    names = exp.TableAlias(this=exp.to_identifier("_elements"), columns=[element.copy(), inner])
    source = exp.Unnest(expressions=[values], alias=names, offset=True)
    columns: list[exp.Expr] = [exp.Column(this=outer)]
    if place is not None:
        from_0 = exp.Sub(this=exp.Column(this=inner.copy()), expression=_number(1))
        columns.insert(0, exp.Alias(this=from_0, alias=place.copy()))
    return exp.Select(expressions=columns, from_=exp.From(this=source))


def _with_offset(node: exp.Expr, _: str) -> exp.Expr:
    """Places count from 0."""
    offset, alias = node.args.get("offset"), node.args.get("alias")
    if not isinstance(offset, exp.Identifier):
        return node
    (values,) = node.expressions
    if node.args.get("explode_array"):
        raise Unsupported("WITH OFFSET is not supported for arrays of structs: ask in DuckDB's dialect.")
    element = alias.columns[0] if alias is not None and alias.columns else exp.to_identifier("_element")
    query = exp.Subquery(this=_elements(values, element, offset))
    return exp.Lateral(this=query, alias=exp.TableAlias(this=exp.to_identifier(f"_{element.name}")))


_REWRITES: tuple[tuple[tuple[type[exp.Expr], ...], Set[str], _Rewrite], ...] = (
    ((exp.Div,), _OTHERS, _divide),
    ((exp.Bracket,), _OTHERS, _element),
    ((exp.Cast, exp.TryCast), _OTHERS, _cast),
    ((exp.DayOfWeek,), _SPARK | _MYSQL | _TSQL, _day_of_week_from_1),
    ((exp.Week,), _MYSQL, _week),
    ((exp.Extract,), _SPARK | _POSTGRES | _TRINO | _TSQL | {"bigquery", "snowflake"}, _extract),
    ((exp.TimestampDiff,), _SPARK | _MYSQL | {"bigquery"}, _complete_units),
    ((exp.DateDiff,), _SPARK | _TRINO, _complete_units),
    ((exp.DateAdd, exp.DateSub), _MYSQL | {"snowflake", "bigquery"}, _move),
    ((exp.Add, exp.Sub), _MYSQL | _SPARK | _TRINO | {"snowflake"}, _move),
    ((exp.TsOrDsAdd, exp.AddMonths), _SPARK, _to_date),
    ((exp.DateTrunc,), _SPARK | {"bigquery", "snowflake"}, _begin_of),
    ((exp.TimestampTrunc,), _SPARK | _TRINO | {"snowflake"}, _begin_of),
    ((exp.Substring,), _POSTGRES | _TSQL | {"redshift"}, _substring_of_places),
    ((exp.Substring,), _SPARK | {"bigquery", "snowflake"}, _substring_from_0),
    ((exp.Substring,), _MYSQL | _TRINO, _substring_within),
    (_TEMPLATE_NODES, _SPARK | _POSTGRES | {"redshift"}, _template),
    ((exp.WithinGroup,), _POSTGRES | _TSQL | {"redshift", "snowflake"}, _within_group),
    ((exp.Quantile,), _SPARK, _percentile),
    ((exp.ArrayAgg,), _OTHERS, _array_of_values),
    ((exp.ArgMax, exp.ArgMin), _SPARK | _TRINO | {"snowflake", "bigquery"}, _at_extreme),
    ((exp.Pad,), _SPARK | _MYSQL | {"snowflake"}, _pad),
    (
        (exp.ArrayToString,),
        _SPARK | _POSTGRES | _TRINO | {"redshift", "snowflake", "bigquery"},
        _joined_text,
    ),
    ((exp.ArraySize,), _POSTGRES, _array_length),
    ((exp.SubstringIndex,), _SPARK | _MYSQL, _part_before),
    ((exp.GetExtract,), frozenset({"snowflake"}), _member),
    ((exp.Anonymous,), _SPARK | _POSTGRES | _MYSQL, _named_call),
    ((exp.Group,), _SPARK | _MYSQL, _groups),
    ((exp.Select,), _SPARK, _lateral_views),
    ((exp.Unnest,), frozenset({"bigquery"}), _with_offset),
)
"""Kinds of nodes, the dialects in which they mean something else than in the engine's, and what says it."""
