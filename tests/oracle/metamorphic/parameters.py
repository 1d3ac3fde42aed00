"""A literal that a column is compared with says the same as a parameter, of any type that holds the value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from tests.oracle.kinds import Family
from tests.oracle.metamorphic.relation import Agreement, Pair, Relation, Subject
from tests.oracle.plain_duckdb import put_literals
from tests.oracle.scalars import Sample, marks_of

_INTEGERS = {
    "TINYINT": (-(2**7), 2**7),
    "SMALLINT": (-(2**15), 2**15),
    "INTEGER": (-(2**31), 2**31),
    "BIGINT": (-(2**63), 2**63),
    "UTINYINT": (0, 2**8),
    "USMALLINT": (0, 2**16),
    "UINTEGER": (0, 2**32),
    "UBIGINT": (0, 2**64),
}
"""The least value of each type, and the first that is too large."""
_EXACT_IN_FLOAT = 2**24
_TEXTS = (Family.TEXT, Family.BLOB)
"""A BLOB writes bytes otherwise than a text of it does."""
_OF_ONE_TYPE = {Family.TEXT: "VARCHAR", Family.BLOB: "BLOB", Family.BOOLEAN: "BOOLEAN"}
_FLOAT = re.compile(r"CAST\('?([^']+)'? AS (?:FLOAT|DOUBLE)\)|(-?[0-9.]+e0)")


def types_of(sample: Sample) -> tuple[str, ...]:
    """Types that hold a literal's value exactly, and in which a comparison with its column says the same."""
    return tuple(dict.fromkeys(filter(None, _types_of(sample))))


def _types_of(sample: Sample) -> Iterator[str]:
    family, text = sample.column.family, sample.literal
    match family:
        case Family.TEXT | Family.BLOB | Family.BOOLEAN | Family.LIST | Family.STRUCT | Family.MAP:
            yield _OF_ONE_TYPE.get(family, sample.column.kind)
        case Family.INTEGER | Family.DECIMAL:
            yield from _numbers(Decimal(text), sample)
        case Family.FLOAT:
            if sample.column.kind:
                yield sample.column.kind
            yield "DOUBLE"
            found = _FLOAT.fullmatch(text)
            value = Decimal((found[1] or found[2]) if found else "nan")
            # -0.0 and 0.0 are equal, but a text of them is not.
            if value.is_finite() and sample.column.is_tame and abs(value) < _EXACT_IN_FLOAT:
                yield from _numbers(value, sample)
        case Family.DATE:
            yield "DATE"
            yield "TIMESTAMP"
            yield "TIMESTAMPTZ"
        case Family.TIMESTAMP:
            yield "TIMESTAMP"
            yield "TIMESTAMPTZ"
            if text.endswith("00:00:00'"):
                yield "DATE"
        case Family.TIMESTAMPTZ:
            yield "TIMESTAMPTZ"
            yield "TIMESTAMP"
        case _:
            return


def _numbers(value: Decimal, sample: Sample) -> Iterator[str]:
    """Types of numbers that hold one. Next to a wild column a DOUBLE would round the column."""
    kind = sample.column.kind
    # A literal may be one that the column cannot hold.
    if kind and sample.column.family is not Family.FLOAT and kind not in _INTEGERS:
        yield kind
    places = max(0, -int(value.as_tuple().exponent))
    if value == value.to_integral_value():
        for name, (low, high) in _INTEGERS.items():
            if low <= value < high:
                yield name
    if sample.column.is_tame:
        if Decimal(float(value)) == value:
            yield "DOUBLE"
        if places <= 6 and abs(value) < 10**10:
            yield f"DECIMAL(18,{places})"
            yield f"DECIMAL(38,{places + 2})"


def _pair_of(subject: Subject) -> Pair | None:
    """Some of the literals as parameters, each of some type that holds it."""
    random = subject.random
    values = {}
    for number in marks_of(subject.source.text):
        sample = subject.source.samples[number]
        kinds = types_of(sample)
        if kinds and random.random() < 0.8:
            values[number] = f"CAST({sample.literal} AS {random.choice(kinds)})"
    if not values:
        return None
    sql, parameters = subject.source.statement(subject.source.text, values)
    return Pair(
        replace(subject.query, sql=sql, parameters=parameters, source=None), agreement=Agreement.ORDERED
    )


def _pair_with_text(subject: Subject) -> Pair | None:
    """One of the literals as a parameter that is its text: said the same where texts may stand for the
    column's values, else refused.
    """
    numbers = [
        number
        for number in marks_of(subject.source.text)
        if subject.source.samples[number].column.family not in _TEXTS
    ]
    if not numbers:
        return None
    number = subject.random.choice(numbers)
    literal = subject.source.samples[number].literal
    sql, parameters = subject.source.statement(subject.source.text, {number: f"CAST({literal} AS VARCHAR)"})
    return Pair(
        replace(subject.query, sql=sql, parameters=parameters, source=None),
        agreement=Agreement.ORDERED_OR_REFUSED,
    )


def _back(subject: Subject) -> Pair | None:
    """Literals in place of parameters."""
    query = subject.query
    if not query.parameters:
        return None
    sql = put_literals(query.sql, query.parameters)
    return Pair(replace(query, sql=sql, parameters=(), source=None), agreement=Agreement.ORDERED)


LITERALS_AS_PARAMETERS = Relation("literals as parameters", _pair_of)
TEXT_AS_PARAMETER = Relation("a text as parameter", _pair_with_text)
PARAMETERS_AS_LITERALS = Relation("parameters as literals", _back)
