"""Functions whose results can be much larger than their arguments, bounded.

The engine's memory limit does not count the values that scalar functions make, and none of them can be
interrupted. So each that can make much of little is hidden behind a macro of its name, which adds up what the
rows of one chunk, 2,048 at the most, would make before it makes it. Which these are a test finds in the
engine's own catalogue (`tests/unit/exec/test_growth.py`). Where arguments are constants the engine has one
row, at planning.

Macros write their arguments down again where the size depends on them, so calls nest in each other only so
far (`engine.sql.growing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from duckdb.func import PythonUDFType

from engine.errors import LimitExceeded
from engine.sql.growing import ROOM_FUNCTION

MAX_GROWTH_BYTES = 64 << 20
"""What one function may make of the rows of one chunk while a statement runs."""
MAX_WIDTH = 9999
"""Of a field in the pattern of `format` and `printf`."""

_ELEMENT = 64
"""Bytes that the engine takes for an element of a list while it makes it, measured: 59."""
_MOST_ARGUMENTS = 32
"""Of functions that take any number of them: macros do not."""
_LISTS = ("range", "generate_series")


def room(
    limit: int, name: pa.ChunkedArray, count: pa.ChunkedArray, unit: pa.ChunkedArray, given: pa.ChunkedArray
) -> pa.ChunkedArray:
    """See that there is room for what a function makes of the rows of a chunk.

    Args:
        limit: Bytes that there are.
        name: The function, in each row.
        count: How many pieces a row makes (double).
        unit: Bytes of a piece (double).
        given: Bytes of the argument that the pieces are made of (double).

    Returns:
        True for each row.

    Raises:
        LimitExceeded: There is none. The engine hands its text on.
    """
    made = pc.max_element_wise(pc.subtract(pc.multiply(count, unit), pc.multiply(given, 8.0)), 0.0)
    total = pc.sum(made).as_py()
    if total is not None and not total <= limit:
        raise LimitExceeded(
            f"{name[0]} would make values of more than {limit >> 20} MiB at once: ask for shorter ones, or "
            "for rows, as with FROM range(…)."
        )
    return pa.chunked_array([pa.repeat(pa.scalar(value=True), len(name))])


def _with_check(value: str, name: str, count: str, unit: str = "1", given: str = "0") -> str:
    """An argument that is only computed if there is room; NULL where something of it is NULL, as is the
    function then.
    """
    return f"CASE WHEN {ROOM_FUNCTION}('{name}', {count}, {unit}, {given}) THEN {value} END"


def _text(value: str) -> str:
    return f"strlen(CAST({value} AS VARCHAR))"


def _macro(name: str, *overloads: tuple[str, str]) -> str:
    """A macro: parameters, and the arguments for the function that it hides."""
    made = ", ".join(
        f"({parameters}) AS system.main.{name}({arguments})" for parameters, arguments in overloads
    )
    return f"CREATE MACRO {name} {made}"


def _repeat_macro() -> str:
    def checked(size: str) -> str:
        return f"s, {_with_check('n', 'repeat', 'n', size)}"

    return _macro(
        "repeat",
        ("s VARCHAR, n", checked("strlen(s)")),
        ("s BLOB, n", checked("octet_length(s)")),
        ("s, n", checked(f"32 * {_text('s')}")),
    )


def _range_macro(name: str) -> str:
    def steps(difference: str, step: str) -> str:
        # A step of nothing makes nothing.
        return f"CASE WHEN {step} = 0 THEN 0 ELSE ({difference}) / {step} END"

    numbers, times = (
        steps("CAST(b AS DOUBLE) - a", "CAST(c AS DOUBLE)"),
        steps("epoch_us(b)::DOUBLE - epoch_us(a)", "epoch_us(c)::DOUBLE"),
    )
    return _macro(
        name,
        ("b", _with_check("b", name, "b", str(_ELEMENT))),
        ("a, b", f"a, {_with_check('b', name, 'CAST(b AS DOUBLE) - a', str(_ELEMENT))}"),
        ("a BIGINT, b BIGINT, c BIGINT", f"a, {_with_check('b', name, numbers, str(_ELEMENT))}, c"),
        ("a, b, c INTERVAL", f"a, {_with_check('b', name, times, str(_ELEMENT))}, c"),
    )


def _pad_macro(name: str) -> str:
    # The text has to be part of what is counted: with numbers alone there would be one row.
    return _macro(name, ("s, n, p", f"s, {_with_check('n', name, 'n', '4', 'strlen(s)')}, p"))


def _resize_macro(name: str) -> str:
    size = f"{_ELEMENT} + 2 * coalesce({_text('v')}, 0)"
    # As with texts that are padded, the list has to be part of what is counted.
    alone, filled = (
        _with_check("n", name, "n", unit, "coalesce(len(l), 0)") for unit in (str(_ELEMENT), size)
    )
    return _macro(name, ("l, n", f"l, {alone}"), ("l, n, v", f"l, {filled}, v"))


def _format_macro(name: str) -> str:
    names = [f"a{place}" for place in range(_MOST_ARGUMENTS)]
    message = (
        f"The pattern of {name} has a field of more than {MAX_WIDTH} characters, or one whose width is "
        "an argument: use lpad or rpad."
    )
    # A field's width, or a place for one: `{:10000}`, `{:{}}`, `%10000d`, `%*d`. Braces that are doubled are
    # text.
    found = r"[0-9]{5}|\{[^}]*\{|%[^a-zA-Z]*\*"
    pattern = (
        f"CASE WHEN regexp_matches(replace(replace(f, '{{{{', ''), '}}}}', ''), '{found}') THEN "
        f"error('{message}') ELSE f END"
    )
    return _macro(
        name,
        *(
            (", ".join(["f", *names[:count]]), ", ".join([pattern, *names[:count]]))
            for count in range(_MOST_ARGUMENTS)
        ),
    )


def _concat_ws_macro() -> str:
    names = [f"a{place}" for place in range(_MOST_ARGUMENTS)]

    def overload(given: Sequence[str]) -> tuple[str, str]:
        # No list has more elements than its text has characters.
        count = _text(f"row({', '.join(given)})")
        return ", ".join(["s", *given]), ", ".join(
            [_with_check("s", "concat_ws", count, "strlen(s)", f"{count} + strlen(s)"), *given]
        )

    return _macro("concat_ws", *(overload(names[:count]) for count in range(1, _MOST_ARGUMENTS)))


def bound_functions(database: duckdb.DuckDBPyConnection, limit: int = MAX_GROWTH_BYTES) -> None:
    """Bound the functions of a database whose results can be much larger than their arguments.

    Args:
        database: A connection; the macros come into its current schema.
        limit: What one function may make of the rows of one chunk, in bytes, beyond eight times their size.
    """
    database.create_function(
        ROOM_FUNCTION,
        partial(room, limit),
        ["VARCHAR", "DOUBLE", "DOUBLE", "DOUBLE"],
        "BOOLEAN",
        type=PythonUDFType.ARROW,
    )
    for macro in _MACROS:
        database.execute(macro)


def _replace_macro() -> str:
    count = "strlen(s) / greatest(strlen(a), 1)"
    return _macro(
        "replace", ("s, a, b", f"s, a, {_with_check('b', 'replace', count, 'strlen(b)', 'strlen(s)')}")
    )


def _regexp_replace_macro() -> str:
    def checked(matches: str) -> str:
        # What is put in can have all of the text in it, any number of times.
        count = f"1 + strlen(s) * ({matches})"
        return f"s, a, {_with_check('b', 'regexp_replace', count, 'strlen(b)', 'strlen(s)')}"

    has_text = "contains(b, chr(92))::INT"
    return _macro(
        "regexp_replace",
        ("s, a, b", checked(has_text)),
        ("s, a, b, o", f"{checked(f'1 + strlen(s) * {has_text}')}, o"),
    )


_MACROS = (
    _repeat_macro(),
    *(_range_macro(name) for name in _LISTS),
    *(_pad_macro(name) for name in ("lpad", "rpad")),
    *(_resize_macro(name) for name in ("list_resize", "array_resize")),
    *(_format_macro(name) for name in ("format", "printf")),
    _concat_ws_macro(),
    _macro("bitstring", ("s, n", f"s, {_with_check('n', 'bitstring', 'n', '1', 'bit_length(s)')}")),
    _replace_macro(),
    _regexp_replace_macro(),
)
