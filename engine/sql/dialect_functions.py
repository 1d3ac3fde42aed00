"""Functions that the engine lacks, and that statements of other dialects become; each of its databases has
them. Types choose among the ways to compute one.

Of aggregates and windows the engine does not know the types when it chooses, and refuses the call.
"""

from __future__ import annotations

from collections.abc import Mapping

_OVERLOADS: Mapping[str, tuple[str, ...]] = {
    # Whole numbers have a whole quotient, others a fraction.
    "typed_division": (
        "(a BIGINT, b BIGINT) AS a // b",
        "(a HUGEINT, b HUGEINT) AS a // b",
        "(a BIGINT, b HUGEINT) AS a // b",
        "(a HUGEINT, b BIGINT) AS a // b",
        "(a DOUBLE, b DOUBLE) AS a / b",
        "(a INTERVAL, b DOUBLE) AS a / b",
    ),
    # What a cast to a whole number is given, where that cuts fractions off.
    "without_fraction": (
        "(a BIGINT) AS a",
        "(a HUGEINT) AS a",
        "(a DOUBLE) AS trunc(a)",
        "(a DECIMAL(38, 12)) AS trunc(a)",
        "(a VARCHAR) AS a",
        "(a BOOLEAN) AS a",
    ),
    # Likewise, where it rounds, in the middle away from zero.
    "to_nearest": (
        "(a BIGINT) AS a",
        "(a HUGEINT) AS a",
        "(a DOUBLE) AS round(a)",
        "(a DECIMAL(38, 12)) AS round(a)",
        "(a VARCHAR) AS a",
        "(a BOOLEAN) AS a",
    ),
    # A date and some days, weeks, months or years is a date.
    "move_by": (
        "(d DATE, i INTERVAL) AS CAST(d + i AS DATE)",
        "(d TIMESTAMP, i INTERVAL) AS d + i",
        "(d TIMESTAMPTZ, i INTERVAL) AS d + i",
        "(d TIMESTAMP_NS, i INTERVAL) AS d + i",
        "(d VARCHAR, i INTERVAL) AS CAST(d AS TIMESTAMP) + i",
    ),
    # So is the beginning of its week, month or year.
    "begin_of": (
        "(unit, d DATE) AS CAST(date_trunc(unit, d) AS DATE)",
        "(unit, d TIMESTAMP) AS date_trunc(unit, d)",
        "(unit, d TIMESTAMPTZ) AS date_trunc(unit, d)",
        "(unit, d TIMESTAMP_NS) AS date_trunc(unit, d)",
    ),
    # Elements of an array by their places from 0, and values of a map by their keys.
    "at_index": (
        "(a, i BIGINT) AS CASE WHEN typeof(a) LIKE 'MAP(%' THEN a[i] WHEN i >= 0 THEN a[i + 1] END",
        "(a, i VARCHAR) AS a[i]",
    ),
}
DIALECT_FUNCTIONS = tuple(
    f"CREATE MACRO {name}{', '.join(overloads)}" for name, overloads in _OVERLOADS.items()
)
"""Statements that make them."""
