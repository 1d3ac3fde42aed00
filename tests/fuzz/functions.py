"""Statements that call each function of the engine's catalogue with huge and extreme arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import duckdb

from engine.sql.functions import TABLE_FUNCTIONS, is_refused

WHOLE = ("0", "1", "-1", "3", "20000", "1000000", "2147483647", "9223372036854775807", "-9223372036854775808", "NULL", "a")  # fmt: skip
NUMBERS = ("0", "1.5", "-1e300", "'inf'::DOUBLE", "'nan'::DOUBLE", "1e-300", "NULL", "a", "1e18")
TEXTS = (
    "'x'", "''", "NULL", "s", "repeat('x', 1000)", "repeat('x', 1000000)", "repeat('ü', 100000)", "repeat(s, 100000)", "repeat('[', 100000)",
    "repeat('{{\"a\":', 10000)", "repeat('a,', 300000)", "repeat('(a|a)*', 1000)", "repeat('%', 30000)", "repeat('1', 100000)",
    "'%999999999d'", "'{{:999999999}}'", "'{{0:>{{1}}}}'", "'$[*]'", "'$..a'", "'(a|a|a)*$'", "'year'", "'UTC'", "'string_agg'", "'[1, 2]'", "'{{\"a\": 1}}'",
    "'a.b.c'", "'%Y-%m-%d %H:%M:%S.%f'", "'sum'", "chr(0)", "'\\'", "repeat(chr(92), 100000)", "$1", "'g'", "'2020-01-01'", "'9999999-12-31'", "'1 year'",
)  # fmt: skip
LISTS = ("range(3)", "range(1000000)", "range(20000)", "[]", "NULL", "[NULL]", "[range(1000)]", "[s]", "list_value(a)", "[repeat('x', 100000)]", "[1.5, 2.5]", "[[[[1]]]]", "repeat([1], 1000000)", "range(a)")  # fmt: skip
BY_TYPE = {
    "TINYINT": ("0", "127", "-128", "NULL"),
    "BOOLEAN": ("true", "NULL"),
    "BLOB": ("'x'::BLOB", "encode(repeat('x', 1000000))", "NULL", "''::BLOB"),
    "BIT": ("'0101'::BIT", "repeat('01', 100000)::BIT", "NULL"),
    "BIGNUM": ("1::BIGNUM", "repeat('9', 5000)::BIGNUM", "NULL"),
    "UUID": ("uuid()", "NULL"),
    "DATE": ("DATE '2020-01-01'", "'infinity'::DATE", "'290000-01-01'::DATE", "'5877642-06-25 (BC)'::DATE", "NULL"),
    "TIME": ("TIME '23:59:59.999999'", "TIME '24:00:00'", "NULL"),
    "INTERVAL": ("INTERVAL 1 DAY", "INTERVAL (2147483647) MONTH", "INTERVAL (-1) MICROSECOND", "INTERVAL 0 DAY", "NULL"),
    "JSON": ("'[1, 2]'::JSON", "$1::JSON", "to_json(range(100000))", "(repeat('[', 1000) || repeat(']', 1000))::JSON", "NULL::JSON"),
    "LAMBDA": ("lambda x: x", "lambda x: range(100000)", "lambda x, y: x", "lambda x: repeat('x', 100000)", "lambda x: true", "lambda x: a"),
    "STRUCT": ("{{'a': 1}}", "{{'a': range(100000)}}", "ROW(1, 2)", "NULL"),
    "UNION": ("union_value(a := 1)", "NULL"),
    "ENUM": ("'a'::ENUM('a', 'b')",),
    "MAP": ("MAP {{'a': 1}}", "MAP(range(10000), range(10000))", "NULL"),
    "GEOMETRY": ("'POINT (1 2)'::GEOMETRY", "NULL"),
    "VARIANT": ("1::VARIANT", "$1::JSON::VARIANT", "range(100000)::VARIANT", "NULL::VARIANT"),
}  # fmt: skip
EVERYTHING = (*TEXTS, *LISTS, *WHOLE, *NUMBERS, *(each for values in BY_TYPE.values() for each in values))
OF_EACH_TYPE = (
    "true", "1::TINYINT", "2::UTINYINT", "3::SMALLINT", "4::USMALLINT", "5::INTEGER", "6::UINTEGER", "7::BIGINT", "8::UBIGINT", "9::HUGEINT", "10::UHUGEINT",
    "1.5::FLOAT", "2.5::DOUBLE", "3.5::DECIMAL(4, 1)", "4.125::DECIMAL(18, 3)", "5::DECIMAL(38, 0)", "12::BIGNUM", "'abc'", "'12'", "'ab'::BLOB", "'0101'::BIT",
    "DATE '2024-01-02'", "TIMESTAMP '2024-01-02 03:04:05'", "TIMESTAMPTZ '2024-01-02 03:04:05+00'", "TIMESTAMP_NS '2024-01-02 03:04:05'", "TIMESTAMP_S '2024-01-02 03:04:05'",
    "TIME '03:04:05'", "TIMETZ '03:04:05+00'", "INTERVAL 1 DAY", "UUID '12345678-1234-1234-1234-123456789012'", "[1, 2]", "['a', 'b']", "[[1], [2]]", "[1, 2, 3]::INTEGER[3]",
    "[1.0, 2.0]::DOUBLE[2]", "{{'a': 1, 'b': 'x'}}", "MAP {{'a': 1}}", "union_value(a := 1)", "'{{\"a\": 1}}'::JSON", "1::VARIANT", "'a'::ENUM('a', 'b')", "NULL",
)  # fmt: skip
"""A plain value of each type: what takes any type, or one that others are cast to, gets all of them."""
_ARRAYS = ("[1.0, 2.0, 3.0]::FLOAT[3]", "range(1000)::DOUBLE[1000]", "NULL::FLOAT[3]")
_WHOLES = {"BIGINT", "INTEGER", "HUGEINT", "UHUGEINT", "UBIGINT", "UINTEGER", "SMALLINT", "USMALLINT"}
_TIMES = {"TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIMESTAMP_S", "TIMESTAMP_MS"}  # fmt: skip
_HUGE_SHARE = 0.2
"""How often arguments are huge. Such a statement mostly ends with its process, and a new one takes half a second
of a processor.
"""
_MANY = re.compile(r"(?<=\b\d)0{3,}(?=\))")
"""Zeros of a number behind which a call ends: mostly how long a value is."""
_ROW = "(SELECT 1 a, 1 k, 'x' s, 0.5 b)"
_FORMS = {
    "scalar": (
        f"SELECT {{}} FROM {_ROW}", f"SELECT {{}} FROM {_ROW}", f"SELECT {{}} FROM {_ROW}", f"SELECT {{}} IS NULL FROM {_ROW}",
        "SELECT {} FROM t WHERE k = 3", "SELECT a FROM t WHERE k = 3 AND {} IS NOT NULL",
        "SELECT count({}) FROM u", "SELECT max({}) FROM u GROUP BY s", "SELECT a FROM u ORDER BY {} LIMIT 3", "SELECT 1 FROM t JOIN u USING (k) WHERE k < 5 AND {} IS NULL",
        "SELECT len(({})::VARCHAR) FROM range(100) x(a), (SELECT 'x' s)",
        "WITH RECURSIVE r(a, s) AS (SELECT 1, 'x' UNION ALL SELECT a + 1, s FROM r WHERE {} IS NOT NULL AND a < 1000) SELECT count(*) FROM r",
    ),
    "aggregate": (
        "SELECT {} FROM u", "SELECT {} FROM range(1000) x(a), (SELECT 'x' s)", "SELECT s, {} FROM u GROUP BY s",
        "SELECT {} OVER (ORDER BY k ROWS BETWEEN 5 PRECEDING AND 1000 FOLLOWING) FROM u", "SELECT {} FILTER (WHERE a > 3) FROM u", "SELECT {} FROM t WHERE a = 3",
        "SELECT {} OVER () FROM t", "SELECT k, (SELECT {} FROM t) FROM t",
    ),
    "window": ("SELECT {} OVER (ORDER BY k) FROM u", "SELECT {} OVER (PARTITION BY s ORDER BY a RANGE BETWEEN 1 PRECEDING AND 100000 FOLLOWING) FROM u"),
    "table": ("SELECT * FROM {}", "SELECT count(*) FROM {}", "SELECT count(*) FROM u, {}", "SELECT * FROM u, LATERAL (SELECT * FROM {})"),
}  # fmt: skip


@dataclass(frozen=True)
class Function:
    """A function of the catalogue.

    Attributes:
        name: Its name.
        form: What it may stand in, of `_FORMS`.
        kinds: Types of its arguments.
        more: Type of those that may follow; None: none may.
    """

    name: str
    form: str
    kinds: tuple[str, ...]
    more: str | None


@cache
def catalogue() -> Sequence[Function]:
    """The functions that statements may call, each overload for itself."""
    with duckdb.connect(":memory:", config={"threads": "1"}) as database:
        rows = database.execute("""
            SELECT function_name, function_type, parameter_types, varargs FROM duckdb_functions()
            WHERE internal ORDER BY ALL
        """).fetchall()
    found = []
    for name, kind, types, more in rows:
        form = "table" if kind.startswith("table") else kind if kind in _FORMS else "scalar"
        allowed = name in TABLE_FUNCTIONS if form == "table" else not is_refused(name)
        if kind != "pragma" and allowed:
            found.append(
                Function(name, form, tuple("ANY" if each is None else each for each in types or ()), more)
            )
    return found


@cache
def _names() -> Sequence[str]:
    return sorted({each.name for each in catalogue()})


@cache
def _overloads(name: str) -> Sequence[Function]:
    return [each for each in catalogue() if each.name == name]


def _samples(kind: str) -> Sequence[str]:
    name = kind.upper()
    if name == "VARCHAR":
        return TEXTS
    if name in _WHOLES:
        return WHOLE
    if name in ("DOUBLE", "FLOAT", "DECIMAL"):
        return NUMBERS
    if name in _TIMES:
        return (f"'2020-01-01'::{name}", f"'infinity'::{name}", f"NULL::{name}", f"'0001-01-01'::{name}")
    if name.startswith("TIME"):
        return BY_TYPE["TIME"]
    if name.startswith(("MAP", "STRUCT", "TUPLE(", "LAMBDA")) and not name.endswith("[]"):
        return BY_TYPE[name[:3] if name[:3] == "MAP" else "LAMBDA" if name[0] == "L" else "STRUCT"]
    if name.endswith(("[ANY]", "[3]")):
        return _ARRAYS
    if name.endswith("[]") or name == "LIST":
        return LISTS
    return BY_TYPE.get(name, BY_TYPE["TINYINT"] if name.endswith("TINYINT") else EVERYTHING)


def _call(function: Function, random: Random, depth: int) -> str:
    kinds = list(function.kinds)
    if function.more is not None:
        kinds += [function.more] * random.choice((0, 1, 2, 2, 30))
    arguments = [_argument(kind, random, depth) for kind in kinds]
    if random.random() < 0.03 and arguments:
        arguments = arguments[: random.randrange(len(arguments) + 1)] * random.choice((1, 2, 100))
    written = ", ".join(arguments)
    if random.random() < 0.05:
        written = random.choice(_ODD_ARGUMENTS).format(written, arguments[0] if arguments else "1")
    # What livestate itself rewrites is known by its bare name.
    is_bare = function.name in _SYNTAX or (function.name in REWRITTEN and random.random() < 0.8)
    return f"{function.name}({written})" if is_bare else f'"{function.name}"({written})'


_SYNTAX = frozenset({"unnest", "coalesce", "columns", "struct_pack", "row", "grouping"})
REWRITTEN = (
    *("now", "current_date", "today", "current_timestamp", "get_current_timestamp", "transaction_timestamp"),
    *("current_localtimestamp", "localtimestamp", "current_time", "get_current_time", "current_localtime"),
    *("localtime", "ago", "age", "utc_timestamp", "utc_date", "count", "avg", "sum", "nullif", "date_trunc"),
)
"""Functions that livestate takes apart, or puts something in place of."""
_ODD_ARGUMENTS = (
    *("a := {1}", "format => {1}", "{0}, x := {1}", "x => {1}, {0}", "*", "DISTINCT {1}", "ALL {1}"),
    *("SELECT {1}", "(SELECT {1})", "{0} ORDER BY {1}", "lambda x: {1}", "{1} IGNORE NULLS", "({0}, {0})"),
)
_BEHIND = (
    "",
    "",
    "",
    " FILTER (WHERE true)",
    " OVER ()",
    " WITHIN GROUP (ORDER BY a)",
    ".a",
    "[1]",
    " IGNORE NULLS",
)
"""What stands behind a call that takes none of it."""


def _argument(kind: str, random: Random, depth: int) -> str:
    if kind.upper().startswith("LAMBDA") or depth == 0 or random.random() < 0.7:
        chance = random.random()
        samples = _samples(kind) if chance < 0.9 else EVERYTHING if chance < 0.95 else OF_EACH_TYPE
        return random.choice(samples).replace("{{", "{").replace("}}", "}")
    while True:
        inner = random.choice(_overloads(random.choice(_names())))
        if inner.form == "scalar":
            return _call(inner, random, depth - 1)


def function_text(random: Random) -> tuple[str, str]:
    """A text, and the name of the function that it calls."""
    text, name = _statement(random)
    return (text if random.random() < _HUGE_SHARE else _MANY.sub("00", text)), name


def _rewritten_call(random: Random) -> tuple[str, str]:
    """A statement that calls a function of `REWRITTEN` with what it may have, and may not have."""
    name = random.choice(REWRITTEN)
    value = _argument(random.choice(("VARCHAR", "INTERVAL", "DATE", "INTEGER")), random, 1)
    arguments = random.choice(("", "", "{1}", *_ODD_ARGUMENTS)).format(value, value)
    call = f"{name}({arguments}){random.choice(_BEHIND)}"
    return random.choice(_FORMS[random.choice(("scalar", "aggregate"))]).replace("{}", call), name


def _statement(random: Random) -> tuple[str, str]:
    if random.random() < 0.05:
        return _rewritten_call(random)
    name = random.choice(_names())
    function = random.choice(_overloads(name))
    form, call = random.choice(_FORMS[function.form]), _call(function, random, 2)
    if function.form == "scalar" and form.startswith("SELECT {} FROM"):
        # What one of many functions refuses hides the others, so there are few.
        others = [random.choice(_overloads(random.choice(_names()))) for _ in range(random.choice((0, 1, 3)))]
        call = ", ".join([call, *(_call(each, random, 1) for each in others if each.form == "scalar")])
    return form.replace("{}", call), name
