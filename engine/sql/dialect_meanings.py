"""What operators and functions of other dialects mean, said in the engine's.

sqlglot translates names and the order of arguments. Where a dialect gives an operator or a function another
value than the engine does, the parsed tree says here what is meant. Sources are the manuals of Spark SQL,
PostgreSQL, Snowflake, BigQuery, MySQL, Trino and SQL Server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import lru_cache

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.dialect import Dialect, Dialects
from sqlglot.errors import UnsupportedError

from engine.errors import Unsupported
from engine.sql.engine_dialect import EngineDialect
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
_PARTS_BY_NAME = {*(("microsecond", each) for each in _MYSQL), *(("millisecond", each) for each in _TRINO)}
_WEEK_CODES = {"SUNDAY": "%U", "MONDAY": "%W"}
"""Of strftime, by the first day of a week."""
_PARTS_OF_SECONDS = {"MILLISECOND": 1_000, "MICROSECOND": 1_000_000}
_SIZED_TEXTS = ("varchar", "char", "nvarchar", "nchar")
_CUTS_TEXTS = _POSTGRES | _MYSQL | _TRINO | _TSQL | {"redshift"}
_DATE_UNITS = frozenset({"day", "week", "month", "quarter", "year"})
_FIRST = "first index"
_NAMES_AGGREGATE = "names an aggregate"
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
    "MS": "%g",
    "US": "%f",
    "AM": "%p",
    "PM": "%p",
    "Mon": "%b",
}
"""What sqlglot leaves of words in templates of to_char, and what they are."""
_POSTGRES_WORD = re.compile("FM%uay|%uy|F%month|MS|US|AM|PM|Mon(?!th)")
_QUOTED = re.compile(r"""'([^'%]*)'|"([^"%]*)\"""")
_GROUP = re.compile(r"\$(\d)")
_OTHER_FORMATS = re.compile(r"%(?!s)|[{}]")
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
    found: list[tuple[exp.Expr, _Rewrite]] = [
        (node, rewrites[type(node)])
        for node in tree.walk()
        if type(node) in rewrites and not (isinstance(node, exp.Select) and _is_plain(node))
    ]
    _mark_names_of_aggregates(tree)
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
    _read_aggregates(tree)


def _read_aggregates(tree: exp.Expr) -> None:
    """Have aggregates be those that the engine is asked for: hosts share the work by what they are."""
    for node in list(tree.find_all(exp.AggFunc)):
        call = node.parent if isinstance(node.parent, exp.WithinGroup) else node
        with suppress(UnsupportedError):
            written = call.sql(dialect=EngineDialect, unsupported_level=ErrorLevel.RAISE)
            read: exp.Expr = exp.maybe_parse(f"SELECT {written}", dialect=EngineDialect).expressions[0]
            if read != call:
                call.replace(read)


def _is_plain(select: exp.Select) -> bool:
    return not select.args.get("laterals") and not any(join.args.get("using") for join in _joins(select))


def _joins(select: exp.Expr) -> list[exp.Expr]:
    return select.args.get("joins") or []


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


def _element(node: exp.Expr, dialect: str) -> exp.Expr:
    """What an array has at a place, or a map at a key. The engine counts from 1."""
    if (
        len(node.expressions) != 1
        or isinstance(node.expressions[0], exp.Slice)
        or node.args.get("json_access")
    ):
        return node
    (index,) = node.expressions
    number = _whole_number(index)
    node.set("offset", 1)
    if isinstance(index, exp.Literal) and number is None:
        return node
    if Dialect.get_or_raise(dialect).INDEX_OFFSET == 1:
        if node.meta[_FIRST] == 0:
            index = (
                exp.Add(this=_bracketed(index), expression=_number(1))
                if number is None
                else _number(number + 1)
            )
            is_before = number is not None and number < 0 and dialect in _POSTGRES
            node.set("expressions", [exp.null() if is_before else index])
        return node
    if node.meta[_FIRST] == 1:
        return node
    if number is None or not isinstance(node.this, _ARRAYS):
        return _typed_call("at_index", node.this, index)
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
        if size > MAX_REPEATED_NODES or _is_made_once(part):
            raise Unsupported(
                f"{what} of this dialect is given something too long, a nameless parameter or a subquery: "
                "work it out in a subquery of its own, or ask in DuckDB's dialect."
            )
    return node.copy()


def _is_made_once(node: exp.Expr) -> bool:
    """Whether an expression written twice would be another one: a `?` without a number is the next one."""
    return isinstance(node, exp.Query) or (isinstance(node, exp.Placeholder) and not node.name)


def _whole_number(node: exp.Expr | None) -> int | None:
    """The value of a literal."""
    sign = 1
    while isinstance(node, exp.Neg | exp.Paren):
        sign, node = -sign if isinstance(node, exp.Neg) else sign, node.this
    return sign * int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def _is_aggregated(*nodes: exp.Expr) -> bool:
    """Whether there is an aggregate or a window in expressions, or the name of one."""
    return any(
        isinstance(part, exp.AggFunc | exp.AnonymousAggFunc | exp.Window) or _NAMES_AGGREGATE in part.meta
        for node in nodes
        for part in node.walk(prune=lambda each: isinstance(each, exp.Query))
    )


def _mark_names_of_aggregates(tree: exp.Expr) -> None:
    """Note which columns may be outputs that have an aggregate or a window in them."""
    aliases = {
        str(alias.alias).lower()
        for alias in tree.find_all(exp.Alias)
        if isinstance(alias.parent, exp.Select) and _is_aggregated(alias.this)
    }
    for column in tree.find_all(exp.Column) if aliases else ():
        if not column.table and column.name.lower() in aliases:
            column.meta[_NAMES_AGGREGATE] = True


def _typed_call(name: str, *operands: exp.Expr, before: Sequence[exp.Expr] = ()) -> exp.Expr:
    """A call that is chosen by the types of its operands."""
    if not _is_aggregated(*operands):
        return _call(name, *before, *operands)
    # Within a lambda the engine knows the types of aggregates, too.
    fields = [f"_{number}" for number in range(len(operands))]
    values = exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(field, quoted=True), expression=operand)
            for field, operand in zip(fields, operands, strict=True)
        ]
    )
    parts = [
        _call("struct_extract", exp.to_identifier("_values"), exp.Literal.string(field)) for field in fields
    ]
    called = exp.Lambda(this=_call(name, *before, *parts), expressions=[exp.to_identifier("_values")])
    mapped = _call("list_transform", exp.Array(expressions=[values]), called)
    return exp.Bracket(this=mapped, expressions=[_number(1)], offset=1)


def _divide(node: exp.Expr, _: str) -> exp.Expr:
    if not node.args.get("typed"):
        return node
    divisor = node.expression
    if node.args.get("safe"):
        divisor = exp.Nullif(this=divisor, expression=_number(0))
    return _typed_call("typed_division", node.this, divisor)


def _divide_whole(node: exp.Expr, _: str) -> exp.Expr:
    return _typed_call("whole_quotient", node.this, node.expression)


def _cast(node: exp.Expr, dialect: str) -> exp.Expr:
    kind = node.args["to"]
    if kind.this in exp.DataType.INTEGER_TYPES:
        name = "to_nearest"
        if dialect in _CUTS_FRACTIONS:
            name = "without_fraction" if isinstance(node, exp.TryCast) else "strictly_without_fraction"
        if dialect in _CUTS_FRACTIONS | _ROUNDS_AWAY and not _is_whole(node.this):
            node.set("this", _typed_call(name, node.this))
    elif kind.is_type("decimal") and not kind.expressions and dialect in _DECIMAL_DEFAULTS:
        digits = _DECIMAL_DEFAULTS[dialect]
        kind.set("expressions", [exp.DataTypeParam(this=_number(each)) for each in digits])
    elif kind.is_type(*_SIZED_TEXTS) and dialect in _CUTS_TEXTS and len(kind.expressions) == 1:
        length = kind.expressions[0].this
        kind.set("expressions", [])
        return exp.Left(this=node, expression=length) if _whole_number(length) is not None else node
    return node


def _convert(node: exp.Expr, dialect: str) -> exp.Expr:
    """A cast in another form, where nothing says how a text is to look."""
    if node.args.get("style") is not None:
        raise Unsupported("CONVERT with a style is not supported: use strftime, or strptime.")
    made = exp.TryCast if node.args.get("safe") else exp.Cast
    return _cast(made(this=node.expression, to=node.this), dialect)


def _is_whole(node: exp.Expr) -> bool:
    return _whole_number(node) is not None or isinstance(node, exp.Count)


def _day_of_week_from_1(node: exp.Expr, _: str) -> exp.Expr:
    return _bracketed(exp.Add(this=exp.DayOfWeek(this=node.this), expression=_number(1)))


def _week_of_year(moment: exp.Expr, code: str) -> exp.Expr:
    """Weeks of the year, by strftime's codes: days before the first one are in week 0."""
    return exp.cast(_call("strftime", moment, exp.Literal.string(code)), "INT")


def _whole_seconds(moment: exp.Expr) -> exp.Expr:
    """Since 1970, without a fraction."""
    return exp.cast(exp.Floor(this=_call("epoch", moment)), "BIGINT")


def _unix_seconds(node: exp.Expr, _: str) -> exp.Expr:
    return _whole_seconds(node.this)


def _week(node: exp.Expr, _: str) -> exp.Expr:
    mode = _whole_number(node.args.get("mode")) if node.args.get("mode") else 0
    if mode == 3:
        node.set("mode", None)
        return node
    if mode != 0:
        raise Unsupported("WEEK has mode 0, as without one, and mode 3 here.")
    return _week_of_year(node.this, "%U")


def _extract(node: exp.Expr, dialect: str) -> exp.Expr:
    part, moment = node.name.upper().removesuffix("S"), node.expression
    if part == "EPOCH_SECOND":
        return _whole_seconds(moment)
    if part in _PARTS_OF_SECONDS or part == "SECOND":
        return _part_of_second(node, part, dialect)
    return _part_of_week(node, part, dialect)


def _part_of_second(node: exp.Expr, part: str, dialect: str) -> exp.Expr:
    moment = node.expression
    if part == "SECOND":
        return _microseconds(moment, 1_000_000) if dialect in _POSTGRES | _SPARK else node
    if dialect in _POSTGRES:
        return _microseconds(moment, 1_000) if part == "MILLISECOND" else node
    # Those of a minute are the engine's.
    whole = _call("date_part", exp.Literal.string(part.lower()), moment)
    return _bracketed(exp.Mod(this=whole, expression=_number(_PARTS_OF_SECONDS[part])))


def _part_of_week(node: exp.Expr, part: str, dialect: str) -> exp.Expr:
    moment = node.expression
    if isinstance(node.this, exp.WeekStart):
        if part not in _WEEK_CODES:
            raise Unsupported("Weeks of the year begin on SUNDAY or MONDAY here.")
        return _week_of_year(moment, _WEEK_CODES[part])
    if part in ("DOW", "DAYOFWEEK") and dialect in _SPARK | _TSQL | {"bigquery"}:
        return _day_of_week_from_1(exp.DayOfWeek(this=moment), dialect)
    if part in ("DOW_ISO", "DAYOFWEEK_ISO") or (part in ("DOW", "DAY_OF_WEEK") and dialect in _TRINO):
        return exp.DayOfWeekIso(this=moment)
    if part == "WEEK" and dialect in _TSQL:
        # The week with 1 January is the first.
        begin = _call("date_trunc", exp.Literal.string("year"), _second(moment, "A week"))
        is_sunday = exp.EQ(this=exp.DayOfWeek(this=begin), expression=_number(0))
        before = _choice(is_sunday, _number(0), _number(1))
        return _bracketed(exp.Add(this=_week_of_year(moment, "%U"), expression=before))
    if dialect == "bigquery" and part == "WEEK":
        return _week_of_year(moment, "%U")
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
    return _typed_call("complete_units", *times, before=[exp.Literal.string(unit)])


def _weeks_from_sunday(node: exp.Expr, _: str) -> exp.Expr:
    """Borders of weeks that begin on Sundays: a day later they are those of weeks that begin on Mondays."""
    if _unit(node) == "week":
        for name in ("this", "expression"):
            day = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("DAY"))
            later = exp.Add(this=_bracketed(node.args[name]), expression=day)
            node.set(name, _call("date_trunc", exp.Literal.string("week"), later))
    return node


def _move(node: exp.Expr, dialect: str) -> exp.Expr:
    """A date that stays one, or a moment, and an interval."""
    moment, amount = node.this, node.expression
    if isinstance(node, exp.Sub) and isinstance(amount, exp.Add):
        # An interval of several units, which sqlglot makes a sum and does not bracket.
        node.set("expression", _bracketed(amount))
        return node
    if isinstance(node, exp.Add) and isinstance(moment, exp.Interval):
        moment, amount = amount, moment
    unit = _unit(amount if isinstance(amount, exp.Interval) else node)
    if unit not in _DATE_UNITS or isinstance(moment, exp.Interval):
        return node
    if not isinstance(amount, exp.Interval):
        if isinstance(node, exp.Add | exp.Sub):
            return node
        amount = exp.Interval(this=amount, unit=exp.var(unit.upper()))
    if isinstance(node, exp.Sub | exp.DateSub):
        amount = exp.Neg(this=_bracketed(amount))
    return _typed_call("move_by", moment, before=[amount])


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
    return _typed_call("begin_of", node.this, before=[exp.Literal.string(unit)])


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


def _format(node: exp.Expr, dialect: str) -> exp.Expr:
    """Texts put into a text, at each %s."""
    template, nothing = node.this, "" if dialect in _POSTGRES else "null"
    if not isinstance(template, exp.Literal) or _OTHER_FORMATS.search(template.name):
        raise Unsupported("A format is a literal with %s alone here: put the text together with ||.")
    node.set("this", exp.Literal.string(template.name.replace("%s", "{}")))
    if dialect != "bigquery":
        texts = [
            exp.Coalesce(this=exp.cast(each, "TEXT"), expressions=[exp.Literal.string(nothing)])
            for each in node.expressions
        ]
        node.set("expressions", texts)
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


def _is_nan(node: exp.Expr, _: str) -> exp.Expr:
    """NULL is a number."""
    return exp.Coalesce(this=node, expressions=[exp.false()])


def _comparison(node: exp.Expr, _: str) -> exp.Expr:
    """A value and all elements of an array: where there is no array, it is not known."""
    compared = node.expression
    is_array = isinstance(compared, exp.Any | exp.All) and not isinstance(compared.this.unnest(), exp.Query)
    if not is_array or compared.find(exp.Column) is None:
        return node
    is_null = exp.Is(this=_bracketed(_second(compared.this, "ANY")), expression=exp.null())
    return _bracketed(_choice(is_null, exp.null(), node))


def _place_in_array(node: exp.Expr, _: str) -> exp.Expr:
    """0 where the value is not in it."""
    what = "The place in an array"
    is_null = exp.Or(
        this=exp.Is(this=_bracketed(_second(node.this, what)), expression=exp.null()),
        expression=exp.Is(this=_bracketed(_second(node.expression, what)), expression=exp.null()),
    )
    found = exp.Coalesce(this=node, expressions=[_number(0)])
    return _choice(is_null, exp.null(), found)


def _array_without(node: exp.Expr, _: str) -> exp.Expr:
    """Other values are kept, and so are NULLs."""
    name = exp.to_identifier("_value")
    is_other = exp.NullSafeNEQ(this=name.copy(), expression=_bracketed(node.expression))
    return _call("list_filter", node.this, exp.Lambda(this=is_other, expressions=[name]))


def _indexed_lambda(node: exp.Expr, _: str) -> exp.Expr:
    """The places of elements, the second parameter of a lambda, count from 0."""
    found = node.expression
    if not isinstance(found, exp.Lambda) or len(found.expressions) != 2:
        return node
    place = found.expressions[1].name
    for part in list(found.this.find_all(exp.Identifier)):
        if part.name == place and not isinstance(part.parent, exp.Column | exp.Dot):
            from_0 = exp.Sub(this=exp.to_identifier(place), expression=_number(1))
            part.replace(_bracketed(from_0))
    return node


def _trim(node: exp.Expr, _: str) -> exp.Expr:
    """A text is taken off as a whole."""
    taken = node.expression
    if taken is None or (isinstance(taken, exp.Literal) and len(taken.name) == 1):
        return node
    raise Unsupported("TRIM takes one character off here, and no longer text.")


def _length(node: exp.Expr, _: str) -> exp.Expr:
    if not node.args.get("binary"):
        return node
    kind = _call("typeof", _second(node.this, "A text"))
    of_bytes = _call("octet_length", exp.cast(_second(node.this, "A text"), "BLOB"))
    is_blob = exp.EQ(this=kind, expression=exp.Literal.string("BLOB"))
    return _choice(is_blob, of_bytes, _call("strlen", exp.cast(node.this, "TEXT")))


def _joined_values(node: exp.Expr, _: str) -> exp.Expr:
    """Of no values an empty text."""
    if isinstance(node.parent, exp.Filter | exp.Window | exp.WithinGroup):
        return node
    return exp.Coalesce(this=node, expressions=[exp.Literal.string("")])


def _extracted_text(node: exp.Expr, _: str) -> exp.Expr:
    """NULL where the pattern is not found."""
    what = "A pattern's text"
    matches = _call("regexp_matches", _second(node.this, what), _second(node.expression, what))
    return exp.Case(ifs=[exp.If(this=matches, true=node)])


def _replaced_text(node: exp.Expr, _: str) -> exp.Expr:
    """Groups have a backslash before their numbers in the engine."""
    put = node.args.get("replacement")
    if isinstance(put, exp.Literal) and put.is_string:
        node.set("replacement", exp.Literal.string(_GROUP.sub(r"\\\1", put.name)))
    return node


def _percentile(node: exp.Expr, _: str) -> exp.Expr:
    return exp.PercentileCont(this=_as_double(node.this), expression=node.args["quantile"])


def _array_of_values(node: exp.Expr, dialect: str) -> exp.Expr:
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
    is_in_window = isinstance(node.parent, exp.Window)
    found = exp.Filter(this=node, expression=exp.Where(this=there))
    return found if is_in_window else _or_empty(found, dialect)


def _filtered(node: exp.Expr, dialect: str) -> exp.Expr:
    is_list = isinstance(node.this, exp.ArrayAgg)
    return _or_empty(node, dialect) if is_list and not isinstance(node.parent, exp.Window) else node


def _set_of_values(node: exp.Expr, dialect: str) -> exp.Expr:
    found = exp.ArrayAgg(this=exp.Distinct(expressions=[node.this]), nulls_excluded=True)
    found.parent = node.parent
    return _array_of_values(found, dialect)


def _or_empty(node: exp.Expr, dialect: str) -> exp.Expr:
    """An array of no values, where that is no NULL."""
    if dialect not in _SPARK | {"snowflake"}:
        return node
    return exp.Coalesce(this=node, expressions=[exp.Array(expressions=[])])


def _at_extreme(node: exp.Expr, _: str) -> exp.Expr:
    """The value of the row that has the extreme, be it NULL."""
    if node.args.get("count") is not None:
        return node
    name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
    return exp.AnonymousAggFunc(this=name, expressions=[node.this, node.expression])


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
    if (name, dialect) in _PARTS_BY_NAME and len(arguments) == 1:
        return _part_of_second(
            exp.Extract(this=exp.var(name), expression=arguments[0]), name.upper(), dialect
        )
    if name == "every" and dialect in _SPARK | _POSTGRES | _TRINO and len(arguments) == 1:
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


def _select(node: exp.Expr, _: str) -> exp.Expr:
    _put_shared_columns_first(node)
    return _join_lateral_views(node)


def _put_shared_columns_first(node: exp.Expr) -> None:
    """Of all columns those of USING come first, and those of the last join before all."""
    joins = _joins(node)
    if not joins or node.args.get("laterals") or not all(join.args.get("using") for join in joins):
        # Other tables may have columns of these names that are not shared.
        return
    shared = {str(column.name).lower(): column for join in reversed(joins) for column in join.args["using"]}
    outputs: list[exp.Expr] = []
    for output in node.expressions:
        if isinstance(output, exp.Star) and not any(output.args.values()):
            outputs += [exp.Column(this=column.copy()) for column in shared.values()]
            output.set("except_", [column.copy() for column in shared.values()])
        outputs.append(output)
    node.set("expressions", outputs)


def _join_lateral_views(node: exp.Expr) -> exp.Expr:
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
    node.set("joins", [*_joins(node), *joins])
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
    if isinstance(node.parent, exp.Join) and node.parent.side:
        node.parent.set("on", node.parent.args.get("on") or exp.true())
    return exp.Lateral(this=query, alias=exp.TableAlias(this=exp.to_identifier(f"_{element.name}")))


_REWRITES: tuple[tuple[tuple[type[exp.Expr], ...], Set[str], _Rewrite], ...] = (
    ((exp.Div,), _OTHERS, _divide),
    ((exp.IntDiv,), _OTHERS, _divide_whole),
    ((exp.Bracket,), _OTHERS, _element),
    ((exp.Cast, exp.TryCast), _OTHERS, _cast),
    ((exp.Convert,), _TSQL, _convert),
    ((exp.DayOfWeek,), _SPARK | _MYSQL | _TSQL, _day_of_week_from_1),
    ((exp.Week,), _MYSQL, _week),
    (
        (exp.Extract,),
        _SPARK | _POSTGRES | _TRINO | _TSQL | _MYSQL | {"bigquery", "snowflake"},
        _extract,
    ),
    ((exp.UnixSeconds,), _SPARK | {"bigquery"}, _unix_seconds),
    ((exp.TimestampDiff,), _SPARK | _MYSQL | {"bigquery"}, _complete_units),
    ((exp.DateDiff,), _SPARK | _TRINO, _complete_units),
    ((exp.DateDiff,), _TSQL, _weeks_from_sunday),
    ((exp.DateAdd, exp.DateSub), _MYSQL | _TRINO | _TSQL | {"snowflake", "bigquery"}, _move),
    ((exp.Add, exp.Sub), _MYSQL | _SPARK | _TRINO | {"snowflake"}, _move),
    ((exp.TsOrDsAdd, exp.AddMonths), _SPARK, _to_date),
    ((exp.DateFromUnixDate,), _SPARK | {"bigquery"}, _to_date),
    ((exp.DateTrunc,), _SPARK | {"bigquery", "snowflake"}, _begin_of),
    ((exp.TimestampTrunc,), _SPARK | _TRINO | {"snowflake"}, _begin_of),
    ((exp.Substring,), _POSTGRES | _TSQL | {"redshift"}, _substring_of_places),
    ((exp.Substring,), _SPARK | {"bigquery", "snowflake"}, _substring_from_0),
    ((exp.Substring,), _MYSQL | _TRINO, _substring_within),
    (_TEMPLATE_NODES, _SPARK | _POSTGRES | {"redshift"}, _template),
    ((exp.WithinGroup,), _POSTGRES | _TSQL | {"redshift", "snowflake"}, _within_group),
    ((exp.Quantile,), _SPARK, _percentile),
    ((exp.IsNan,), _SPARK, _is_nan),
    ((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _POSTGRES, _comparison),
    ((exp.ArrayPosition,), _SPARK | _TRINO, _place_in_array),
    ((exp.ArrayRemove,), _SPARK | _POSTGRES | _TRINO, _array_without),
    ((exp.Transform, exp.ArrayFilter), _SPARK, _indexed_lambda),
    ((exp.Trim,), _MYSQL, _trim),
    ((exp.Length,), _MYSQL, _length),
    ((exp.GroupConcat,), frozenset({"snowflake"}), _joined_values),
    ((exp.RegexpExtract,), _TRINO, _extracted_text),
    ((exp.RegexpReplace,), _TRINO, _replaced_text),
    ((exp.ArrayAgg,), _OTHERS, _array_of_values),
    ((exp.ArrayUniqueAgg,), _SPARK | {"snowflake"}, _set_of_values),
    ((exp.Filter,), _SPARK | {"snowflake"}, _filtered),
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
    ((exp.Anonymous,), _SPARK | _POSTGRES | _MYSQL | _TRINO, _named_call),
    ((exp.Format,), _SPARK | _POSTGRES | _TRINO | {"bigquery"}, _format),
    ((exp.Group,), _SPARK | _MYSQL, _groups),
    ((exp.Select,), _OTHERS, _select),
    ((exp.Unnest,), frozenset({"bigquery"}), _with_offset),
)
"""Kinds of nodes, the dialects in which they mean something else than in the engine's, and what says it."""
