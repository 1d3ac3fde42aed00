"""What a host keeps of a statement serves the same statement with other values: its template, and what was
planned for its parameters.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.oracle.kinds import NESTED, Family
from tests.oracle.metamorphic.parameters import types_of
from tests.oracle.metamorphic.relation import Agreement, Pair, Relation, Subject
from tests.oracle.plain_duckdb import put_literals
from tests.oracle.queries import Generated
from tests.oracle.scalars import Sample, Scalars, Scope, marks_of

_COMMENT = " /* a text with a comment is run as it is written */"
_UNUSUAL = {
    Family.INTEGER: ("NULL", "0.5", "-129", "300", "4294967296", "99999999999999999999", "'7'", "7e0", "7.0"),
    Family.DECIMAL: ("NULL", "1", "0.1234567", "1e1", "'0.5'", "12345678901234567890123456789"),
    Family.FLOAT: ("NULL", "1", "0.1", "'nan'", "1e300", "16777217"),
    Family.TEXT: ("NULL", "''", "'it''s'", "'a\\b'", "'ÄÖ'", "'a' 'b'", "e'a\\nb'"),
    Family.DATE: ("NULL", "'2024-02-29'", "'infinity'", "DATE '0044-03-15 (BC)'"),
    Family.TIMESTAMP: ("NULL", "'2024-02-29'", "'-infinity'", "DATE '2024-03-01'"),
}
"""Literals that a column is seldom compared with: of other types, or what none of its values can be."""


def _with_other_value(sample: Sample, random: Random, *, is_usual: bool = False) -> Sample:
    """Another literal for the same column to be compared with."""
    column, drawn = sample.column, random.random()
    if drawn < 0.2 and column.family in _UNUSUAL and not is_usual:
        return replace(sample, literal=random.choice(_UNUSUAL[column.family]))
    if column.samples and (drawn < 0.85 or column.family in NESTED):
        return replace(sample, literal=random.choice(column.samples))
    return replace(sample, literal=Scalars(random, Scope(())).literal(column.family).sql)


def _as_written(query: Generated) -> Generated:
    """The query for a host that is to plan it as if it had never seen one like it."""
    return replace(query, sql=put_literals(query.sql, query.parameters) + _COMMENT, parameters=())


def _with_other_values(subject: Subject) -> Pair | None:
    """The text of the query with other literals, planned on its own and as what the host knows by now."""
    source = subject.source
    numbers = [number for number in marks_of(source.text) if subject.random.random() < 0.8]
    if not numbers:
        return None
    samples = list(source.samples)
    for number in numbers:
        samples[number] = _with_other_value(samples[number], subject.random)
    sql, parameters = replace(source, samples=tuple(samples)).statement(source.text)
    variant = replace(subject.query, sql=sql, parameters=parameters, source=None)
    return Pair(variant, _as_written(variant), Agreement.ORDERED)


def _with_other_parameters(subject: Subject) -> Pair | None:
    """A statement with parameters, and the same with other values for them, of other types as well."""
    source, random = subject.source, subject.random
    first, second = {}, {}
    for number in marks_of(source.text):
        sample = source.samples[number]
        other = _with_other_value(sample, random, is_usual=True)
        kinds, other_kinds = types_of(sample), types_of(other)
        if kinds and other_kinds:
            first[number] = f"CAST({sample.literal} AS {random.choice(kinds)})"
            second[number] = f"CAST({other.literal} AS {random.choice(other_kinds)})"
    if not first:
        return None
    before, variant = (
        replace(subject.query, sql=sql, parameters=parameters, source=None)
        for sql, parameters in (source.statement(source.text, values) for values in (first, second))
    )
    return Pair(variant, _as_written(variant), Agreement.ORDERED, (before,))


OTHER_VALUES = Relation("other values", _with_other_values)
OTHER_PARAMETERS = Relation("other values of parameters", _with_other_parameters)
