"""Dates and moments: their parts, differences and sums, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from engine.errors import Unsupported
from engine.sql.dialects.expressions import (
    Rewrite,
    bracket,
    call,
    choice,
    copy_of,
    number_literal,
    typed_call,
    whole_number,
)
from engine.sql.dialects.families import MYSQL, OTHERS, POSTGRES, SPARK, TRINO, TSQL

_SHORT_UNITS = {
    **dict.fromkeys(("us", "usec", "usecs"), "MICROSECOND"),
    **dict.fromkeys(("ms", "msec", "msecs"), "MILLISECOND"),
    **dict.fromkeys(("s", "sec", "secs"), "SECOND"),
    **dict.fromkeys(("m", "min", "mins"), "MINUTE"),
    **dict.fromkeys(("h", "hr", "hrs"), "HOUR"),
    "d": "DAY",
    **dict.fromkeys(("w", "wk", "wks"), "WEEK"),
    **dict.fromkeys(("mon", "mons"), "MONTH"),
    **dict.fromkeys(("y", "yr", "yrs"), "YEAR"),
}
"""Units of intervals, in the short forms that PostgreSQL and others have."""
_ONE_PART = re.compile(r"%-?\w|\w+")
"""What sqlglot makes of DATENAME."""
_NAMED_PARTS = ("%A", "%B", "%Y")
"""Those that have the same text in the engine."""
_POSTGRES_WEEKS = {"%u": "D", "%U": "WW"}
_MYSQL_WEEKS = {"%W": "%u", "%V": "%V", "%X": "%X"}
_LETTER_TEMPLATES = SPARK | POSTGRES | {"redshift", "snowflake"}
_OTHER_WEEKS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(POSTGRES | {"redshift"}, _POSTGRES_WEEKS),
    **dict.fromkeys(MYSQL, _MYSQL_WEEKS),
}
"""Codes that sqlglot has put in the place of those of a dialect, which count days and weeks in another way,
and what was written there.
"""
_WEEK_CODES = {"SUNDAY": "%U", "MONDAY": "%W"}
"""Of strftime, by the first day of a week."""
_PARTS_OF_SECONDS = {"MILLISECOND": 1_000, "MICROSECOND": 1_000_000}
_DATE_UNITS = frozenset({"day", "week", "month", "quarter", "year"})
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
_CODE = re.compile(r"%-?[A-Za-z%](?:strict)?")
_UNKNOWN = re.compile(r"[A-Za-z'\"]+")


def _day_of_week_from_1(node: exp.Expr, _: str) -> exp.Expr:
    return bracket(exp.Add(this=exp.DayOfWeek(this=node.this), expression=number_literal(1)))


def _week_of_year(moment: exp.Expr, code: str) -> exp.Expr:
    """Weeks of the year, by strftime's codes: days before the first one are in week 0."""
    return exp.cast(call("strftime", moment, exp.Literal.string(code)), "INT")


def _whole_seconds(moment: exp.Expr) -> exp.Expr:
    """Since 1970, without a fraction."""
    return exp.cast(exp.Floor(this=call("epoch", moment)), "BIGINT")


def _unix_seconds(node: exp.Expr, _: str) -> exp.Expr:
    return _whole_seconds(node.this)


def _week(node: exp.Expr, _: str) -> exp.Expr:
    mode = whole_number(node.args.get("mode")) if node.args.get("mode") else 0
    if mode == 3:
        node.set("mode", None)
        return node
    if mode != 0:
        raise Unsupported("WEEK takes mode 0, as without one, or mode 3: write one of these.")
    return _week_of_year(node.this, "%U")


def _extract(node: exp.Expr, dialect: str) -> exp.Expr:
    part, moment = node.name.upper().removesuffix("S"), node.expression
    if part == "EPOCH_SECOND":
        return _whole_seconds(moment)
    if part in ("DATE", "TIME") and dialect == "bigquery":
        return exp.cast(moment, part)
    if part in _PARTS_OF_SECONDS or part == "SECOND":
        return _part_of_second(node, part, dialect)
    return _part_of_week(node, part, dialect)


def _part_of_second(node: exp.Expr, part: str, dialect: str) -> exp.Expr:
    moment = node.expression
    if part == "SECOND":
        return _microseconds(moment, 1_000_000) if dialect in POSTGRES | SPARK else node
    if dialect in POSTGRES:
        return _microseconds(moment, 1_000) if part == "MILLISECOND" else node
    # Those of a minute are the engine's.
    whole = call("date_part", exp.Literal.string(part.lower()), moment)
    return bracket(exp.Mod(this=whole, expression=number_literal(_PARTS_OF_SECONDS[part])))


def _part_of_week(node: exp.Expr, part: str, dialect: str) -> exp.Expr:
    moment = node.expression
    if isinstance(node.this, exp.WeekStart):
        if part not in _WEEK_CODES:
            raise Unsupported("Weeks of the year begin on SUNDAY or MONDAY here.")
        return _week_of_year(moment, _WEEK_CODES[part])
    if part in ("DOW", "DAYOFWEEK") and dialect in SPARK | TSQL | {"bigquery"}:
        return _day_of_week_from_1(exp.DayOfWeek(this=moment), dialect)
    if part in ("DOW_ISO", "DAYOFWEEK_ISO") or (part in ("DOW", "DAY_OF_WEEK") and dialect in TRINO):
        return exp.DayOfWeekIso(this=moment)
    if part == "WEEK" and dialect in TSQL:
        # The week with 1 January is the first.
        begin = call("date_trunc", exp.Literal.string("year"), copy_of(moment, "A week"))
        is_sunday = exp.EQ(this=exp.DayOfWeek(this=begin), expression=number_literal(0))
        before = choice(is_sunday, number_literal(0), number_literal(1))
        return bracket(exp.Add(this=_week_of_year(moment, "%U"), expression=before))
    if dialect in MYSQL | {"bigquery"} and part == "WEEK":
        return _week_of_year(moment, "%U")
    if dialect == "bigquery" and part == "ISOWEEK":
        node.set("this", exp.var("WEEK"))
    return node


def _microseconds(moment: exp.Expr, divisor: int) -> exp.Expr:
    """The microseconds of a minute in another unit."""
    found = call("date_part", exp.Literal.string("microseconds"), moment)
    return bracket(exp.Div(this=found, expression=number_literal(divisor)))


def _unit(node: exp.Expr) -> str | None:
    """The unit of an interval or of a function of times; None for one that is no plain word."""
    unit = node.args.get("unit")
    return unit.name.lower().removesuffix("s") if isinstance(unit, exp.Var | exp.Literal) else None


def _complete_units(node: exp.Expr, dialect: str) -> exp.Expr:
    """Units that have passed between two times, and not borders that lie between them."""
    unit = _unit(node)
    if unit is None:
        return node
    times = [
        each.this if dialect in SPARK and isinstance(each, exp.TsOrDsToDate) else each
        for each in (node.expression, node.this)
    ]
    return typed_call("complete_units", *times, before=[exp.Literal.string(unit)])


def _weeks_from_sunday(node: exp.Expr, _: str) -> exp.Expr:
    """Borders of weeks that begin on Sundays: a day later they are those of weeks that begin on Mondays."""
    if _unit(node) == "week":
        for name in ("this", "expression"):
            day = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("DAY"))
            later = exp.Add(this=bracket(node.args[name]), expression=day)
            node.set(name, call("date_trunc", exp.Literal.string("week"), later))
    return node


def _move(node: exp.Expr, dialect: str) -> exp.Expr:
    """A date that stays one, or a moment, and an interval."""
    moment, amount = node.this, node.expression
    if isinstance(node, exp.Sub) and isinstance(amount, exp.Add):
        # An interval of several units, which sqlglot makes a sum and does not bracket.
        node.set("expression", bracket(amount))
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
        amount = exp.Neg(this=bracket(amount))
    return typed_call("move_by", moment, before=[amount])


def _to_date(node: exp.Expr, _: str) -> exp.Expr:
    return exp.cast(node, "DATE")


def _begin_of(node: exp.Expr, dialect: str) -> exp.Expr:
    unit = _unit(node)
    if unit is None:
        return node
    if dialect in SPARK:
        node.set("unit", exp.Literal.string(_TRUNC_UNITS.get(unit, unit)))
        return exp.cast(node, "DATE") if isinstance(node, exp.DateTrunc) else node
    unit = "week" if unit == "isoweek" else unit
    return typed_call("begin_of", node.this, before=[exp.Literal.string(unit)])


def _interval(node: exp.Expr, _: str) -> exp.Expr:
    unit = node.args.get("unit")
    if isinstance(unit, exp.Var):
        node.set("unit", exp.var(_SHORT_UNITS.get(unit.name.lower(), unit.name)))
    return node


def _in_zone(node: exp.Expr, dialect: str) -> exp.Expr:
    """A moment without a zone is of UTC, and not of the zone that is named."""
    moment: exp.Expr = node.this
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if dialect in TRINO and (isinstance(around, exp.AtTimeZone) or _is_call(around, "at_timezone")):
        return moment  # it is the same one in each zone: the outermost zone counts
    return typed_call("local_time", moment, before=[node.args["zone"]])


def _is_call(node: exp.Expr | None, name: str) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == name


def _named_zone(node: exp.Expr, dialect: str) -> exp.Expr:
    moment, zone = node.expressions
    in_zone = exp.AtTimeZone(this=moment, zone=zone)
    in_zone.parent = node.parent
    return _in_zone(in_zone, dialect)


def _moment_in_zone(node: exp.Expr, _: str) -> exp.Expr:
    if node.args.get("source_tz") is not None:
        return node
    return typed_call("local_time", node.args["timestamp"], before=[node.args["target_tz"]])


def _moment_of_number(node: exp.Expr, dialect: str) -> exp.Expr:
    template = node.args.get("format")
    if template is None:
        return node
    node.set("format", None)
    return written_time(exp.TimeToStr(this=node, format=template), dialect)


def _begin_of_week_from_sunday(node: exp.Expr, _: str) -> exp.Expr:
    if _unit(node) != "week":
        return node
    raise Unsupported(
        "Weeks begin on Sundays in this dialect: use date_trunc in DuckDB's, whose begin on Mondays."
    )


def _year_and_week(node: exp.Expr, _: str) -> exp.Expr:
    raise Unsupported("YEARWEEK is not supported: use strftime.")


def _part_by_name(node: exp.Expr, dialect: str) -> exp.Expr:
    part, moment = node.expressions
    if not isinstance(part, exp.Literal):
        return node
    return _extract(exp.Extract(this=exp.var(part.name.upper()), expression=moment), dialect)


def _short_name(node: exp.Expr, _: str) -> exp.Expr:
    """Three letters."""
    node.set("abbreviated", True)
    return node


def written_time(node: exp.Expr, dialect: str) -> exp.Expr:
    """A date or a moment as a text, by a template with strftime's codes.

    Args:
        node: A `TimeToStr`, or another node with a template of a date.
        dialect: sqlglot's name of the dialect.

    Raises:
        Unsupported: The template has something that the engine does not have.
    """
    zone = node.args.get("zone")
    if zone is not None and isinstance(node, exp.TimeToStr):
        node.set("zone", None)
        moment = node.this.this if isinstance(node.this, exp.TsOrDsToTimestamp) else node.this
        node.set("this", typed_call("local_time", moment, before=[zone]))
    elif zone is not None:
        if zone.name != "UTC":
            raise Unsupported("A text is read as a moment of UTC here: have the zone in the text.")
        node.set("zone", None)
    template = node.args.get("format")
    if not isinstance(template, exp.Literal) or not template.is_string:
        return node
    text = template.name
    made = node.this.args.get("to") if dialect in TSQL and isinstance(node.this, exp.Cast) else None
    is_part = made is not None and made.this == exp.DType.DATETIME2
    if is_part and _ONE_PART.fullmatch(text) and text not in _NAMED_PARTS:
        raise Unsupported("DATENAME has the names of months and weekdays here: use DATEPART for numbers.")
    if dialect in _LETTER_TEMPLATES:
        text = _text_of_letters(text, dialect)
    other_weeks = _OTHER_WEEKS.get(dialect, {})
    for code in _CODE.findall(text):
        if code in other_weeks:
            raise Unsupported(f"Templates of dates have no {other_weeks[code]} here: use strftime.")
    node.set("format", exp.Literal.string(text.replace("%v", "%V") if dialect in MYSQL else text))
    return node


def _text_of_letters(text: str, dialect: str) -> str:
    """A template of letters with strftime's codes in their place. None may be left: each means something."""
    if dialect not in SPARK:
        text = _POSTGRES_WORD.sub(lambda found: _POSTGRES_TEMPLATES[found[0]], text)
    unknown = _UNKNOWN.search(_CODE.sub("", _QUOTED.sub("", text)))
    if unknown is not None:
        raise Unsupported(
            f"The template of a date has {unknown[0]!r}, which is not known here: use strftime."
        )
    return _QUOTED.sub(lambda found: found[1] or found[2] or "", text)


def _weekday(node: exp.Expr, _: str) -> exp.Expr:
    """From 0, a Monday."""
    (moment,) = node.expressions
    day = exp.DayOfWeekIso(this=exp.cast(moment, "DATE"))
    return bracket(exp.Sub(this=day, expression=number_literal(1)))


def _named_part(node: exp.Expr, dialect: str) -> exp.Expr:
    (moment,) = node.expressions
    name = str(node.this)
    return _part_of_second(exp.Extract(this=exp.var(name), expression=moment), name.upper(), dialect)


REWRITES: Sequence[Rewrite] = (
    ((exp.DayOfWeek,), SPARK | MYSQL | TSQL, _day_of_week_from_1),
    (("weekday",), SPARK | MYSQL, _weekday),
    ((exp.Week,), MYSQL, _week),
    ((exp.Extract,), SPARK | POSTGRES | TRINO | TSQL | MYSQL | {"bigquery", "snowflake"}, _extract),
    (("microsecond",), MYSQL, _named_part),
    (("millisecond",), TRINO, _named_part),
    ((exp.UnixSeconds,), SPARK | {"bigquery"}, _unix_seconds),
    ((exp.TimestampDiff,), SPARK | MYSQL | {"bigquery"}, _complete_units),
    ((exp.DateDiff,), SPARK | TRINO, _complete_units),
    ((exp.DateDiff,), TSQL, _weeks_from_sunday),
    ((exp.DateAdd, exp.DateSub), MYSQL | TRINO | TSQL | {"snowflake", "bigquery"}, _move),
    ((exp.Add, exp.Sub), MYSQL | SPARK | TRINO | {"snowflake"}, _move),
    ((exp.TsOrDsAdd, exp.AddMonths), SPARK, _to_date),
    ((exp.DateFromUnixDate,), SPARK | {"bigquery"}, _to_date),
    ((exp.DateTrunc,), SPARK | {"bigquery", "snowflake"}, _begin_of),
    ((exp.TimestampTrunc,), SPARK | TRINO | {"snowflake"}, _begin_of),
    (_TEMPLATE_NODES, SPARK | POSTGRES | MYSQL | TSQL | {"redshift", "bigquery"}, written_time),
    ((exp.TimestampTrunc,), TSQL, _begin_of_week_from_sunday),
    ((exp.Interval,), OTHERS, _interval),
    ((exp.AtTimeZone,), SPARK | TRINO, _in_zone),
    (("at_timezone",), TRINO, _named_zone),
    ((exp.ConvertTimezone,), frozenset({"snowflake"}), _moment_in_zone),
    ((exp.UnixToTime,), MYSQL, _moment_of_number),
    (("yearweek",), MYSQL, _year_and_week),
    (("date_part",), SPARK, _part_by_name),
    ((exp.Dayname, exp.Monthname), SPARK, _short_name),
)
