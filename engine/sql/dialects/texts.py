"""Texts: their parts, what is put into them, and what is taken off."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from engine.errors import Unsupported
from engine.sql.dialects.expressions import (
    Rewrite,
    bracket,
    call,
    choice,
    copy_of,
    number_literal,
    whole_number,
)
from engine.sql.dialects.families import MYSQL, POSTGRES, SPARK, TRINO, TSQL
from engine.sql.dialects.times import written_time

_BEGINNING = "A substring's beginning"
_GROUP = re.compile(r"(?<!\\)\$(\d)")
_OTHER_FORMATS = re.compile(r"%(?!s)|[{}]")
_NUMBER_TEMPLATE = re.compile(r"(?=.*[09X])[09X.,DGLSBVEPRMITFx$ ]*")
"""Of TO_CHAR; one of dates has no 0, 9 or X."""


def _substring_start(node: exp.Expr) -> tuple[exp.Expr, int | None] | None:
    """Where a substring begins, and which number that is, if it is known; None where the engine takes it as
    all dialects do.
    """
    start = node.args.get("start")
    known = whole_number(start)
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
        first = start.copy() if known is not None else copy_of(start, _BEGINNING)
        before = call("least", exp.Sub(this=bracket(first), expression=number_literal(1)), number_literal(0))
        rest = exp.Add(this=bracket(length), expression=before)
        node.set("length", choice(_is_below(copy_of(rest, "The length"), 0), number_literal(0), rest))
    is_before = _is_below(start.copy() if known is not None else copy_of(start, _BEGINNING), 1)
    node.set("start", number_literal(1) if known is not None else choice(is_before, number_literal(1), start))
    return node


def _substring_from_0(node: exp.Expr, dialect: str) -> exp.Expr:
    """0 is the beginning, as 1 is."""
    found, length = _substring_start(node), node.args.get("length")
    if found is None or length is None:
        return node
    start, known = found
    if known == 0:
        node.set("start", number_literal(1))
    elif known is None:
        is_0 = exp.EQ(this=bracket(copy_of(start, _BEGINNING)), expression=number_literal(0))
        node.set("start", choice(is_0, number_literal(1), start))
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
    nothing = exp.Left(this=copy_of(node.this, "A text"), expression=number_literal(0))
    if known is None:
        is_0 = exp.EQ(this=bracket(copy_of(start, _BEGINNING)), expression=number_literal(0))
        return choice(is_0, nothing, node)
    is_outside = _is_below(exp.Length(this=copy_of(node.this, "A text")), max(-known, 1))
    return choice(is_outside, nothing, node) if known else nothing


def _is_below(value: exp.Expr, bound: int) -> exp.Expr:
    return exp.LT(this=bracket(value), expression=number_literal(bound))


def _format(node: exp.Expr, dialect: str) -> exp.Expr:
    """Texts put into a text, at each %s."""
    template, nothing = node.this, "" if dialect in POSTGRES else "null"
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


def _trim(node: exp.Expr, _: str) -> exp.Expr:
    """A text is taken off as a whole."""
    taken = node.expression
    if taken is None or (isinstance(taken, exp.Literal) and len(taken.name) == 1):
        return node
    raise Unsupported("TRIM takes off one character, no longer text: write regexp_replace.")


def _length(node: exp.Expr, _: str) -> exp.Expr:
    if not node.args.get("binary"):
        return node
    kind = call("typeof", copy_of(node.this, "A text"))
    of_bytes = call("octet_length", exp.cast(copy_of(node.this, "A text"), "BLOB"))
    is_blob = exp.EQ(this=kind, expression=exp.Literal.string("BLOB"))
    return choice(is_blob, of_bytes, call("strlen", exp.cast(node.this, "TEXT")))


def _extracted_text(node: exp.Expr, _: str) -> exp.Expr:
    """NULL where the pattern is not found."""
    what = "A pattern's text"
    matches = call("regexp_matches", copy_of(node.this, what), copy_of(node.expression, what))
    return exp.Case(ifs=[exp.If(this=matches, true=node)])


def _replaced_text(node: exp.Expr, dialect: str) -> exp.Expr:
    """Groups have a backslash before their numbers in the engine."""
    put = node.args.get("replacement")
    if dialect == "redshift":
        node.set("single_replace", None)
    if isinstance(put, exp.Literal) and put.is_string:
        text = _GROUP.sub(r"\\\1", put.name).replace("\\$", "$")
        node.set("replacement", exp.Literal.string(text))
    return node


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
    texts = exp.DPipe(this=first, expression=exp.cast(bracket(node.this), "TEXT[]", dialect="duckdb"))
    node.set("this", texts)
    return exp.Substring(this=node, start=number_literal(len(delimiter.name) + 1))


def _like(node: exp.Expr, _: str) -> exp.Expr:
    """A backslash takes the meaning of the character behind it, unless ESCAPE names another one."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape):
        return node
    if isinstance(pattern, exp.Any | exp.All):
        if any("\\" in str(each.this) for each in pattern.find_all(exp.Literal)):
            raise Unsupported(
                "LIKE ANY and LIKE ALL have patterns without backslashes here: write them with OR."
            )
        return node
    if isinstance(pattern, exp.Literal) and "\\" not in pattern.name:
        return node
    return exp.Escape(this=node, expression=exp.Literal.string("\\"))


def _like_with_sets(node: exp.Expr, _: str) -> exp.Expr:
    pattern = node.expression
    if isinstance(node.parent, exp.Escape):
        return node
    literals = pattern.walk(prune=lambda each: not isinstance(each, exp.Add | exp.DPipe | exp.Paren))
    if any(isinstance(each, exp.Literal) and "[" in each.name for each in literals):
        raise Unsupported("LIKE with a set of characters is not supported: use regexp_matches.")
    return node


def _template_text(node: exp.Expr, dialect: str) -> exp.Expr:
    """A date by a template; sqlglot leaves the template out where it does not know that it is one."""
    template = node.args.get("format")
    if template is None:
        return node
    if not isinstance(template, exp.Literal) or _NUMBER_TEMPLATE.fullmatch(template.name):
        raise Unsupported("TO_CHAR has a literal template, and one of a date, here: use format for a number.")
    known = Dialect.get_or_raise(dialect)
    texts = template.name.split('"')
    # Every other one is quoted, and stays as it is.
    for place in range(0, len(texts), 2):
        code = known.format_time(exp.Literal.string(texts[place]))
        texts[place] = "" if code is None else code.name
    found = exp.TimeToStr(this=node.this, format=exp.Literal.string('"'.join(texts)))
    return written_time(found, dialect)


def _concat(node: exp.Expr, _: str) -> exp.Expr:
    """NULL where a part is NULL."""
    node.set("coalesce", None)
    return node


def _split(node: exp.Expr, _: str) -> exp.Expr:
    limit = node.args.get("limit")
    if limit is not None and (whole_number(limit) or 0) >= 0:
        raise Unsupported("A text is split without a limit here: take the parts that are wanted.")
    node.set("limit", None)
    return node


def _lower_hex(node: exp.Expr, _: str) -> exp.Expr:
    return exp.Lower(this=node)


def _rows_of_matches(node: exp.Expr, _: str) -> exp.Expr:
    raise Unsupported("regexp_matches gives rows in this dialect: use ~ or regexp_extract_all.")


def _json_text(node: exp.Expr, _: str) -> exp.Expr:
    if node.args.get("returning") or node.args.get("on_condition") is not None:
        raise Unsupported(
            "JSON_VALUE gives a text here, and NULL where there is none: use CAST and COALESCE."
        )
    path = node.args["path"]
    if isinstance(path, exp.Literal):
        path = exp.Literal.string(path.name.removeprefix("strict ").removeprefix("lax "))
    return exp.JSONExtractScalar(this=node.this, expression=path)


def _part_before(node: exp.Expr, _: str) -> exp.Expr:
    """A text up to the n-th delimiter, or from there, counted from its end."""
    count, delimiter = whole_number(node.args.get("count")), node.args.get("delimiter")
    if count is None or not isinstance(delimiter, exp.Literal):
        raise Unsupported("SUBSTRING_INDEX has a literal delimiter and a literal count here.")
    if count == 0:
        return exp.Left(this=node.this, expression=number_literal(0))
    parts = call("string_split", node.this, delimiter)
    first, last = (
        (number_literal(1), number_literal(count))
        if count > 0
        else (number_literal(count), number_literal(-1))
    )
    return call("array_to_string", call("list_slice", parts, first, last), delimiter.copy())


REWRITES: Sequence[Rewrite] = (
    ((exp.Substring,), POSTGRES | TSQL | {"redshift"}, _substring_of_places),
    ((exp.Substring,), SPARK | {"bigquery", "snowflake"}, _substring_from_0),
    ((exp.Substring,), MYSQL | TRINO, _substring_within),
    ((exp.Format,), SPARK | POSTGRES | TRINO | {"bigquery"}, _format),
    ((exp.Trim,), MYSQL, _trim),
    ((exp.Length,), MYSQL, _length),
    ((exp.RegexpExtract,), TRINO, _extracted_text),
    ((exp.RegexpReplace,), TRINO | SPARK | MYSQL | {"redshift"}, _replaced_text),
    ((exp.Like, exp.ILike), SPARK | POSTGRES | MYSQL | {"redshift", "bigquery"}, _like),
    ((exp.Like, exp.ILike), TSQL, _like_with_sets),
    ((exp.ToChar,), SPARK | {"snowflake"}, _template_text),
    ((exp.Concat,), frozenset({"redshift"}), _concat),
    ((exp.Split, exp.RegexpSplit), SPARK | TRINO, _split),
    ((exp.Hex,), POSTGRES, _lower_hex),
    (("regexp_matches",), POSTGRES, _rows_of_matches),
    ((exp.JSONValue,), MYSQL | TRINO, _json_text),
    ((exp.Pad,), SPARK | MYSQL | {"snowflake"}, _pad),
    (
        (exp.ArrayToString,),
        SPARK | POSTGRES | TRINO | {"redshift", "snowflake", "bigquery"},
        _joined_text,
    ),
    ((exp.SubstringIndex,), SPARK | MYSQL, _part_before),
)
