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
    # The quotient without its fraction.
    "whole_quotient": (
        "(a BIGINT, b BIGINT) AS a // b",
        "(a HUGEINT, b HUGEINT) AS a // b",
        "(a BIGINT, b HUGEINT) AS a // b",
        "(a HUGEINT, b BIGINT) AS a // b",
        "(a DOUBLE, b DOUBLE) AS CAST(trunc(a / b) AS BIGINT)",
    ),
    # What a cast to a whole number is given, where that cuts fractions off.
    "without_fraction": (
        "(a BIGINT) AS a",
        "(a HUGEINT) AS a",
        "(a DOUBLE) AS trunc(a)",
        "(a DECIMAL(38, 12)) AS trunc(a)",
        "(a VARCHAR) AS trunc(TRY_CAST(a AS DECIMAL(38, 12)))",
        "(a BOOLEAN) AS a",
        "(a TIMESTAMP) AS floor(epoch(a))",
        "(a TIMESTAMPTZ) AS floor(epoch(a))",
    ),
    # Likewise, where a text that is no number is an error.
    "strictly_without_fraction": (
        "(a BIGINT) AS a",
        "(a HUGEINT) AS a",
        "(a DOUBLE) AS trunc(a)",
        "(a DECIMAL(38, 12)) AS trunc(a)",
        "(a VARCHAR) AS a",
        "(a BOOLEAN) AS a",
        "(a TIMESTAMP) AS floor(epoch(a))",
        "(a TIMESTAMPTZ) AS floor(epoch(a))",
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
    # What a cast to a moment is given, where numbers are seconds since 1970.
    "seconds_as_moment": (
        "(a BIGINT) AS TRY(make_timestamp(a * 1000000))",
        "(a DOUBLE) AS TRY(make_timestamp(CAST(a * 1000000 AS BIGINT)))",
        "(a BOOLEAN) AS make_timestamp(CAST(a AS BIGINT) * 1000000)",
        "(a VARCHAR) AS a",
        "(a DATE) AS a",
        "(a TIMESTAMP) AS a",
        "(a TIMESTAMPTZ) AS a",
    ),
    # What clocks of a zone show at a moment; one without a zone is of UTC.
    "local_time": (
        "(zone, a TIMESTAMP) AS (a AT TIME ZONE 'UTC') AT TIME ZONE zone",
        "(zone, a TIMESTAMPTZ) AS a AT TIME ZONE zone",
        "(zone, a VARCHAR) AS (CAST(a AS TIMESTAMP) AT TIME ZONE 'UTC') AT TIME ZONE zone",
    ),
    # Numbers or days from one to another, downwards where that is smaller.
    "sequence_between": (
        "(a BIGINT, b BIGINT) AS generate_series(a, b, if(a <= b, 1, -1))",
        "(a DATE, b DATE) AS CAST(generate_series(a, b, to_days(if(a <= b, 1, -1))) AS DATE[])",
    ),
    # A date and some days, weeks, months or years is a date.
    "move_by": (
        "(i INTERVAL, d DATE) AS CAST(d + i AS DATE)",
        "(i INTERVAL, d TIMESTAMP) AS d + i",
        "(i INTERVAL, d TIMESTAMPTZ) AS d + i",
        "(i INTERVAL, d TIMESTAMP_NS) AS d + i",
        "(i INTERVAL, d TIME) AS d + i",
        "(i INTERVAL, d INTERVAL) AS d + i",
        "(i INTERVAL, d VARCHAR) AS CAST(d AS TIMESTAMP) + i",
    ),
    # So is the beginning of its week, month or year.
    "begin_of": (
        "(unit, d DATE) AS CAST(date_trunc(unit, d) AS DATE)",
        "(unit, d TIMESTAMP) AS date_trunc(unit, d)",
        "(unit, d TIMESTAMPTZ) AS date_trunc(unit, d)",
        "(unit, d TIMESTAMP_NS) AS date_trunc(unit, d)",
    ),
    # How many units have passed between two times.
    "complete_units": (
        "(unit, a TIMESTAMP, b TIMESTAMP) AS datesub(unit, a, b)",
        "(unit, a TIMESTAMPTZ, b TIMESTAMPTZ) AS datesub(unit, a, b)",
        "(unit, a VARCHAR, b VARCHAR) AS datesub(unit, CAST(a AS TIMESTAMP), CAST(b AS TIMESTAMP))",
        "(unit, a VARCHAR, b TIMESTAMP) AS datesub(unit, CAST(a AS TIMESTAMP), b)",
        "(unit, a TIMESTAMP, b VARCHAR) AS datesub(unit, a, CAST(b AS TIMESTAMP))",
    ),
    # Whether any, or all, of some answers are true; not known where one that is not known could change that.
    "any_of": ("(l) AS if(list_contains(l, TRUE), TRUE, if(list_count(l) = len(l), FALSE, NULL))",),
    "all_of": ("(l) AS if(list_contains(l, FALSE), FALSE, if(list_count(l) = len(l), TRUE, NULL))",),
    # Elements of an array by their places from 0, and values of a map by their keys; of JSON the engine
    # counts from 0, too.
    "at_index": (
        "(a, i BIGINT) AS CASE WHEN typeof(a)[:3] IN ('MAP', 'JSO') THEN a[i] WHEN i >= 0 THEN a[i + 1] END",
        "(a, i VARCHAR) AS a[i]",
        "(a, i DATE) AS map_extract_value(a, i)",
        "(a, i TIMESTAMP) AS map_extract_value(a, i)",
        "(a, i DOUBLE) AS map_extract_value(a, i)",
        "(a, i BOOLEAN) AS map_extract_value(a, i)",
    ),
}
DIALECT_FUNCTIONS = tuple(
    f"CREATE MACRO {name}{', '.join(overloads)}" for name, overloads in _OVERLOADS.items()
)
"""Statements that make them."""
