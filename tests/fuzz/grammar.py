"""Texts of SELECT, by a table of productions: each nested in itself and in others, and repeated, up to the
size of the longest text that a host reads.

A production is a text with holes: `{e}` an expression, `{q}` a query, `{r}` what stands behind FROM, `{t}` a
type, `{n}` a name, `{v}` a value without parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random

from sqlglot.dialects.dialect import Dialect

PRODUCTIONS: Mapping[str, Sequence[str]] = {
    "e": """
        ({e}) | NOT {e} | -{e} | - {e} | +{e} | ~{e} | ~ {e} | {e} + {e} | {e} - {e} | {e} * {e} | {e} / {e} | {e} // {e} | {e} % {e}
        | {e} ** {e} | {e} ^ {e} | {e} & {e} | {e} \\| {e} | {e} << {e} | {e} >> {e} | {e} \\|\\| {e} | {e} = {e} | {e} == {e}
        | {e} <> {e} | {e} != {e} | {e} < {e} | {e} <= {e} | {e} > {e} | {e} >= {e} | {e} AND {e} | {e} OR {e} | {e} XOR {e} | {e}!
        | {e} IS NULL | {e} ISNULL | {e} NOTNULL | {e} IS NOT NULL | {e} IS TRUE | {e} IS DISTINCT FROM {e} | {e} IS NOT DISTINCT FROM {e}
        | {e} LIKE {e} | {e} NOT LIKE {e} | {e} ILIKE {e} ESCAPE {v} | {e} SIMILAR TO {e} | {e} GLOB {e} | {e} ~~ {e} | {e} !~~* {e}
        | {e} ~ {e} | {e} RLIKE {e} | {e} REGEXP {e} | {e} ^@ {e} | {e} <-> {e} | {e} && {e} | {e} @> {e} | {e} <@ {e} | {e} <=> {e}
        | {e} BETWEEN {e} AND {e} | {e} LIKE ANY ({e}, {e}) | {e} IN UNNEST([{e}]) | {e} NOT BETWEEN {e} AND {e} | {e} BETWEEN SYMMETRIC {e} AND {e}
        | {e} IN ({e}, {e}) | {e} NOT IN ({e}) | {e} IN {e} | {e} IN ({q}) | {e} = ANY ({q}) | {e} > ALL ({q}) | {e} = SOME ({e})
        | EXISTS ({q}) | NOT EXISTS ({q}) | ({q}) | ARRAY({q}) | ARRAY[{e}, {e}] | [{e}, {e}] | [{e}] | {{'a': {e}}} | {{a: {e}, b: {e}}}
        | MAP {{{e}: {e}}} | MAP([{e}], [{e}]) | ROW({e}, {e}) | ({e}, {e}) | struct_pack(a := {e}) | {e}[{e}] | {e}[1:{e}] | {e}[{e}:{e}:2]
        | ({e}).a | ({e}).abs() | {e}.upper() | a.{n} | {e} -> {e} | {e} ->> {e} | {e} #> {e} | {e} ? {e} | {e}::{t} | CAST({e} AS {t})
        | TRY_CAST({e} AS {t}) | CONVERT({e}, {t}) | {t} '1' | {t}({e}) | CAST(NULL AS {t})
        | CASE WHEN {e} THEN {e} ELSE {e} END | CASE {e} WHEN {e} THEN {e} END | IF({e}, {e}, {e}) | COALESCE({e}, {e}) | NULLIF({e}, {e})
        | DECODE({e}, {e}, {e}) | GREATEST({e}, {e}) | list_transform([{e}], lambda x: {e}) | list_transform([{e}], x -> {e}) | list_filter([1], lambda x, i: {e}) | list_transform({e}, x -> {e})
        | list_reduce([{e}], lambda p, q: {e}) | [{e} FOR x IN [{e}]] | [{e} FOR x IN [{e}] IF {e}] | INTERVAL {e} DAY | INTERVAL '{n}' | INTERVAL ({e}) YEAR
        | EXTRACT(YEAR FROM {e}) | {e} AT TIME ZONE {e} | {e} COLLATE NOCASE | {e} COLLATE {n} | POSITION({e} IN {e}) | SUBSTRING({e} FROM {e} FOR {e})
        | TRIM(BOTH {e} FROM {e}) | OVERLAY({e} PLACING {e} FROM {e}) | DATE {v} | sum({e}) | count(DISTINCT {e}) | count(*) FILTER (WHERE {e})
        | string_agg({e}, {v} ORDER BY {e}) | array_agg({e} ORDER BY {e} DESC NULLS LAST) | quantile_cont({e}, {v}) | max({e}, 3) | mode() WITHIN GROUP (ORDER BY {e})
        | sum({e}) OVER (PARTITION BY {e} ORDER BY {e}) | lag({e}, {e}, {e}) OVER (ORDER BY {e})
        | sum({e}) OVER (ORDER BY {e} ROWS BETWEEN {e} PRECEDING AND {e} FOLLOWING EXCLUDE TIES)
        | row_number() OVER w | first({e} IGNORE NULLS) OVER (ORDER BY {e}) | GROUPING({e}) | unnest([{e}]) | generate_subscripts([{e}], 1) | explode(array({e}))
        | COLUMNS(*) | COLUMNS({e}) | COLUMNS(c -> {e}) | * EXCLUDE ({n}) | * REPLACE ({e} AS a) | t.* | * LIKE {v} | *COLUMNS(*) | {n}({e}) | {n}({n} => {e})
        | abs({e}) | concat({e}, {e}) | format('{{}}', {e}) | json_object({e}, {e}) | json_extract({e}, {e}) | date_trunc({v}, {e}) | now() - {e} | DISTINCT {e} | ALL {e}
        | PRIOR {e} | NEXT VALUE FOR {n} | {e} OVERLAPS {e} | {e} DIV {e} | {e} MOD {e} | {{fn abs({e})}} | TRANSFORM({e}, x -> {e}) | {e} {n} | {e} AS {n} | {n}: {e}
        | SAFE_CAST({e} AS {t}) | XMLTABLE({e}) | JSON_TABLE({e}, {v} COLUMNS (a INT)) | MATCH ({n}) AGAINST ({e}) | STRUCT({e} AS a) | NAMED_STRUCT({v}, {e}) | ({e} :: {t}) | $${n}$$ | e'{n}'
        | {v} | ? | $1 | $a | :a | {n} | {n}.{n} | "{n}" | `{n}`
    """,
    "q": """
        SELECT {e} | SELECT {e}, {e} FROM {r} | SELECT {e} FROM {r} WHERE {e} | SELECT DISTINCT {e} FROM {r} | SELECT DISTINCT ON ({e}) {e} FROM {r}
        | SELECT {e} FROM {r} WHERE {e} GROUP BY {e} HAVING {e} ORDER BY {e} LIMIT {v} | SELECT {e} FROM {r} GROUP BY ALL ORDER BY ALL
        | SELECT {e} FROM {r} GROUP BY GROUPING SETS (({e}), ({e}, {e}), ()) | SELECT {e} FROM {r} GROUP BY ROLLUP ({e}, {e}) | SELECT {e} FROM {r} GROUP BY CUBE ({e}, {e})
        | SELECT {e} FROM {r} QUALIFY {e} | SELECT {e} FROM {r} WINDOW w AS (PARTITION BY {e} ORDER BY {e}) | SELECT {e} FROM {r} ORDER BY {e} LIMIT {e} OFFSET {e}
        | SELECT {e} FROM {r} LIMIT 10 PERCENT | SELECT {e} FROM {r} USING SAMPLE 10% | SELECT {e} FROM {r} TABLESAMPLE RESERVOIR(10)
        | FROM {r} | FROM {r} SELECT {e} | TABLE {n} | VALUES ({e}, {e}), ({e}, {e}) | ({q}) | {q} UNION {q} | {q} UNION ALL {q} | {q} INTERSECT {q} | {q} EXCEPT ALL {q}
        | {q} UNION ALL BY NAME {q} | ({q}) UNION ({q}) ORDER BY {e} | WITH {n} AS ({q}) {q} | WITH t AS MATERIALIZED ({q}), u(a) AS ({q}) {q}
        | WITH RECURSIVE r(a) AS ({q} UNION ALL {q}) {q} | WITH RECURSIVE r AS (SELECT 1 a UNION SELECT a + {e} FROM r) SELECT {e} FROM r
        | EXPLAIN (FORMAT JSON) {q} | SHOW COLUMNS FROM {n} | SHOW STATEMENTS | USE {n}.{n} | RESET {n} | EXPLAIN {q} | EXPLAIN ANALYZE {q} | DESCRIBE {q} | SUMMARIZE {q} | SUMMARIZE {n} | DESCRIBE {n} | PIVOT {r} ON {e} USING sum({e}) GROUP BY a | UNPIVOT {r} ON a, b INTO NAME n VALUE v
        | SELECT {e} FROM {r} AS OF EPOCH {v} | SELECT {e} FROM t AS OF TIMESTAMP {e} | {q};{q} | SELECT {e} INTO {n} FROM {r} | SHOW TABLES | SELECT {e} LATERAL VIEW explode({e}) x AS y
        | SELECT *, * FROM ({q}) | SELECT * FROM ({q}) x, ({q}) | SELECT x.*, x.* FROM ({q}) x JOIN t ON {e} | FROM ({q}) x, ({q}) y | SELECT COLUMNS(*), COLUMNS(*) FROM ({q})
        | SELECT a, x, x AS y FROM ({q}) x | SELECT {{'a': a, 'b': a}} AS a FROM ({q}) | SELECT [{{'a': a, 'b': a, 'c': a}}] AS a FROM ({q}) | SELECT *, * FROM ({q}) GROUP BY ALL | {q} UNION ALL BY NAME SELECT x, x AS y FROM ({q}) x
        | SELECT {e} FROM {r} CONNECT BY {e} | SELECT prior FROM {r} START WITH {e} CONNECT BY PRIOR {e} = ({q}) | SELECT TOP {v} {e} FROM {r} | SELECT AS STRUCT {e} | SELECT {e} FROM {r} FOR UPDATE | SELECT {e} FROM {r} CLUSTER BY {e}
        | INSERT INTO t {q} | CREATE TABLE x AS {q} | COPY ({q}) TO '/dev/null' | ATTACH {v} | SET {n} = {e} | MERGE INTO t USING {r} ON {e} WHEN MATCHED THEN DELETE
    """,
    "r": """
        t | u | w | w AS {n} | l | l AS {n} | {n} | t AS {n} | t x(a, b) | ({q}) | ({q}) AS {n} | ({r}) | {r}, {r} | {r} JOIN {r} ON {e} | {r} LEFT JOIN {r} USING (a) | {r} CROSS JOIN {r} | {r} NATURAL JOIN {r}
        | {r} FULL JOIN {r} ON {e} | {r} SEMI JOIN {r} ON {e} | {r} ANTI JOIN {r} USING (a) | {r} POSITIONAL JOIN {r} | {r} ASOF JOIN {r} ON {e} | {r} JOIN {r} | {r} , LATERAL ({q})
        | {r} LEFT JOIN LATERAL ({q}) ON {e} | range({e}) | generate_series({e}, {e}, {e}) | unnest([{e}, {e}]) | unnest({e}) AS x(y) | repeat({e}, {e}) | repeat_row({e}, num_rows={e})
        | json_each({e}) | json_tree({e}) | {r} PIVOT (sum(a) FOR b IN ({e}, {e})) | {r} UNPIVOT (v FOR n IN (a, b)) | {r} TABLESAMPLE {v} PERCENT | (VALUES ({e})) x(a)
        | t AS OF EPOCH {v} | t AT (VERSION => {v}) | t MATCH_RECOGNIZE (PATTERN (a+) DEFINE a AS {e}) | '{n}' | read_csv({v}) | {r} WITH ORDINALITY | {n}({e}) | ROWS FROM ({e})
    """,
    "t": """
        INT | BIGINT | VARCHAR | DOUBLE | DECIMAL(38, 37) | DECIMAL({v}, {v}) | DATE | TIMESTAMP | TIMESTAMPTZ | INTERVAL | BLOB | JSON | UUID | BIT | HUGEINT | TIME | BIGNUM | VARIANT
        | {t}[] | {t}[3] | {t}[100000] | LIST<{t}> | LIST({t}) | ARRAY<{t}> | STRUCT(a {t}) | STRUCT(a {t}, b {t}) | STRUCT<a {t}> | STRUCT<a: {t}, b: {t}> | ROW(a {t}) | OBJECT({t}) | NESTED({t})
        | MAP({t}, {t}) | MAP<{t}, {t}> | UNION(a {t}, b {t}) | ENUM('a', 'b') | NULLABLE({t}) | LOWCARDINALITY({t}) | {n} | {n}.{n} | VARCHAR({v}) | {t} ARRAY | ({t}) | SETOF {t} | {t} COLLATE {n}
    """,
    "n": """
        a | b | t | u | x | "a b" | "" | select | \"\"\"\" | "it's" | "a)" | ü | 🎵 | _ | a1 | date | struct | list | map | format | index | first | row | current_date
    """,
    "v": """
        0 | 1 | -1 | 1.5 | .5 | 1e400 | 1e-400 | 9223372036854775807 | 9223372036854775808 | 170141183460469231731687303715884105728 | NULL | TRUE | 'a' | '' | '''' | x'61' | 0x1f | 0b101 | 1_000
        | b'101' | e'\\x00' | 'ü🎵' | $$a$$ | $x$a$x$ | DATE '2020-01-01' | TIMESTAMP '9999-12-31 23:59:59' | INTERVAL 1 YEAR | now() | current_date | 'NaN'::DOUBLE | 1 -- x\n | /* a */ 1 | 1 -- '\n | /* it's */ 1 | '"' | '{{"a": [1]}}'
    """,
}  # fmt: skip
"""By category."""
_WIDE_ROW = "{{" + ", ".join(f"'f{number}': a" for number in range(300)) + "}}"
REPEATED: Sequence[tuple[str, str, str, str]] = (
    ("SELECT ", "{e}", ", ", " FROM t"),
    ("SELECT ", "{e} AS {n}", ", ", ""),
    ("SELECT 1 FROM t WHERE a IN (", "{v}", ", ", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "{e}", ", ", ")"),
    ("SELECT 1 FROM t WHERE (a, b) IN (", "({v}, {v})", ", ", ")"),
    ("VALUES ", "({e})", ", ", ""),
    ("VALUES ", "({v}, {v})", ", ", ""),
    ("VALUES (", "{v}", ", ", ")"),
    ("SELECT [", "{e}", ", ", "]"),
    ("SELECT {{", "'{n}': {e}", ", ", "}}"),
    ("SELECT ", "*", ", ", " FROM t"),
    ("SELECT ", "*", ", ", " FROM t GROUP BY ALL"),
    ("SELECT DISTINCT ", "t.*", ", ", " FROM t ORDER BY ALL"),
    ("SELECT ", "COLUMNS(*)", ", ", " FROM t"),
    ("SELECT ", "x", ", ", f" FROM (SELECT {_WIDE_ROW} AS x FROM t)"),
    ("SELECT ", "x AS {n}", ", ", f" FROM (SELECT [{_WIDE_ROW}] AS x)"),
    ("SELECT ", "x AS {n}", ", ", " FROM w"),
    ("SELECT ", "w AS {n}", ", ", " FROM w"),
    ("SELECT ", "typeof(l)", ", ", " FROM w"),
    ("SELECT k FROM w WHERE x IN (", "?", ", ", ")"),
    ("SELECT k FROM w WHERE ", "l = ?", " OR ", ""),
    ("SELECT k FROM w WHERE ", "m = ?", " OR ", ""),
    ("SELECT k FROM w WHERE m IN (", "?", ", ", ")"),
    ("SELECT * FROM w ", "JOIN w USING (k)", " ", ""),
    ("DESCRIBE SELECT ", "*", ", ", " FROM t"),
    ("SUMMARIZE SELECT ", "*", ", ", " FROM t"),
    ("SELECT MAP {{", "{v}: {e}", ", ", "}}"),
    ("SELECT concat(", "{e}", ", ", ")"),
    ("SELECT {n}(", "{e}", ", ", ")"),
    ("SELECT a FROM t ORDER BY ", "{e}", ", ", ""),
    ("SELECT a FROM t ORDER BY ", "a DESC NULLS FIRST", ", ", ""),
    ("SELECT count(*) FROM t GROUP BY ", "{e}", ", ", ""),
    ("SELECT count(*) FROM t GROUP BY GROUPING SETS (", "({e})", ", ", ")"),
    ("SELECT count(*) FROM t GROUP BY CUBE (", "{n}", ", ", ")"),
    ("SELECT 1 FROM t WHERE ", "{e}", " AND ", ""),
    ("SELECT 1 FROM t WHERE ", "a = {v}", " OR ", ""),
    ("SELECT 1 FROM t WHERE ", "(a = {v} AND b = {v})", " OR ", ""),
    ("SELECT ", "{e}", " + ", " FROM t"),
    ("SELECT ", "a", " \\|\\| ", " FROM t"),
    ("SELECT ", "{e}", " = ", " FROM t"),
    ("SELECT ", "a", " - b + ", " FROM t"),
    ("SELECT CASE ", "WHEN {e} THEN {e}", " ", " END FROM t"),
    ("SELECT CASE a ", "WHEN {v} THEN {v}", " ", " END FROM t"),
    ("SELECT a", "::{t}", "", " FROM t"),
    ("SELECT a", "[{e}]", "", " FROM t"),
    ("SELECT a", ".{n}", "", " FROM t"),
    ("SELECT a", ".abs()", "", " FROM t"),
    ("SELECT a", " -> {v}", "", " FROM t"),
    ("SELECT 1 FROM ", "t", ", ", ""),
    ("SELECT 1 FROM ", "{r}", ", ", ""),
    ("SELECT 1 FROM t ", "JOIN t USING (a)", " ", ""),
    ("SELECT 1 FROM t ", "JOIN {r} ON {e}", " ", ""),
    ("SELECT 1 FROM t ", "JOIN t", " ", ""),
    ("SELECT 1 FROM t ", "CROSS JOIN u", " ", ""),
    ("SELECT 1 FROM t ", "NATURAL JOIN u", " ", ""),
    ("SELECT 1 FROM t ", ", LATERAL (SELECT a)", " ", ""),
    ("", "{q}", " UNION ALL ", ""),
    ("", "SELECT a FROM t", " UNION ", ""),
    ("", "(SELECT {e})", " EXCEPT ", ""),
    ("", "SELECT {e}", " INTERSECT ", ""),
    ("SELECT 1 FROM t WHERE ", "EXISTS (SELECT 1 FROM u WHERE u.k = t.k + {v})", " AND ", ""),
    ("SELECT 1 FROM t WHERE ", "a > ANY (SELECT u.a FROM u WHERE u.k = t.{n})", " OR ", ""),
    ("SELECT ", "(SELECT max(u.a + t.{n}) FROM u WHERE u.k > {e})", ", ", " FROM t"),
    ("SELECT 1 FROM t", ", (SELECT t.a + {v} AS {n})", "", ""),
    ("", "SELECT *, {e} FROM t", " EXCEPT ", ""),
    ("WITH x AS (SELECT 1 a)", ", x AS NOT MATERIALIZED (FROM x UNION ALL FROM x)", "", " FROM x"),
    ("SELECT 1 FROM t ", "ASOF JOIN u x USING (k)", " ", ""),
    ("WITH ", "{n} AS ({q})", ", ", " SELECT 1"),
    ("WITH x AS (SELECT 1 a), ", "{n} AS (SELECT * FROM x, x y)", ", ", " SELECT 1"),
    ("SELECT 1 FROM t WINDOW ", "w AS (ORDER BY {e})", ", ", ""),
    ("SELECT ", "sum({e}) OVER (ORDER BY {e})", ", ", " FROM t"),
    ("SELECT ", "count(DISTINCT {e})", ", ", " FROM t"),
    ("SELECT CAST(1 AS STRUCT(", "{n} {t}", ", ", "))"),
    ("SELECT CAST(1 AS ENUM(", "'{n}'", ", ", "))"),
    ("SELECT CAST(1 AS INT", "[]", "", ")"),
    ("SELECT * EXCLUDE (", "{n}", ", ", ") FROM t"),
    ("SELECT * REPLACE (", "{e} AS {n}", ", ", ") FROM t"),
    ("FROM t ", "PIVOT (sum(a) FOR b IN ({v}))", " ", ""),
    ("FROM t PIVOT (sum(a) FOR b IN (", "{v}", ", ", "))"),
    ("PIVOT t ON a IN (", "{v}", ", ", ") USING sum(b)"),
    ("FROM t UNPIVOT (v FOR n IN (", "{n}", ", ", "))"),
    ("SELECT ", "?", ", ", ""),
    ("SELECT ", "${v}", ", ", ""),
    ("", "{q}", "; ", ""),
    ("SELECT ", "(SELECT sum(a + b) FROM l)", ", ", ""),
    ("SELECT 1 FROM ", "l", ", ", ""),
    ("SELECT count(*) FROM l ", "JOIN l x USING (k)", " ", " WHERE l.a < x.b"),
    ("SELECT count(*) FROM l ", "JOIN l x ON l.c = x.k", " ", " WHERE repeat('x', 2) = 'xx'"),
    ("", "SELECT a, b, c FROM l", " UNION ALL ", ""),
    ("SELECT 1 FROM l WHERE ", "a IN (SELECT c FROM l WHERE b > {v})", " AND ", ""),
    ("SELECT '", "x", "", "'"),
    ("SELECT '", "''", "", "'"),
    ("SELECT 1", "0", "", ""),
    ("SELECT 0.", "3", "", "e9"),
    ("SELECT ", "x", "", " FROM t"),
    ('SELECT "', "ü", "", '" FROM t'),
    ("SELECT 1 AS ", "long_name_", "", ""),
    ("SELECT 'a' LIKE '", "%_", "", "'"),
    ("SELECT regexp_matches('a', '", "(a\\|a)*", "", "')"),
    ("SELECT '", "[", "", "'::JSON"),
    ("SELECT '", "[", "", "'::INT[]"),
    ("SELECT x'", "61", "", "'"),
    ("SELECT 1 ", "/* ", "", ""),
    ("SELECT 1 ", "/* */ ", "", ""),
    ("SELECT 1 ", "-- a\n", "", ""),
    ("SELECT $a$ ", "$b$", " ", ""),
    ("", " ", "", ""),
    ("", "\n", "", "SELECT 1"),
    ("", ";", "", ""),
    ("", "(", "", ""),
    ("SELECT 1 FROM t AS OF EPOCH ", "1", "", ""),
    ("SELECT 1 FROM t ", "AS OF EPOCH 1", " ", ""),
    ("", "{e}", " ", ""),
    ("", "{n}", " ", ""),
    ("SELECT ", "{e}", "\0", ""),
    ("SELECT max(a) FILTER (WHERE ", "a > {v}", " AND ", ") FROM t"),
    ("SELECT * FROM (VALUES ", "(1, 'a')", ", ", ") x"),
    ("SELECT a FROM t WHERE a BETWEEN 1 AND 2 AND ", "b IN (1, 2)", " AND ", ""),
)
"""Texts with something many times: what stands before it, itself, between two, and behind it."""
RUNS = (" ", "\n", "-- x\n", "/* */", "''", '""', "( ", "1", "x", "'", '"', ".", ";", ", 1", " 1", "1.", "1 ", "-", ":", "%", "[", "\\", "é", "$", "_")  # fmt: skip
"""What stands in a text so often that whatever reads on from each of them takes time with the square of it."""
UNCLOSED = ("'", '"', "/*", "$$", "$tag$", "(", "[", "{", "e'\\", "\\'", '\\"', "--", "`", "CASE WHEN ", "x'", "b'", "/*/*", "<", "AS OF ", "AT (", "IN (")  # fmt: skip
ODDITIES = ("\0", "\u202e", "\ufeff", "\ud7ff", "\U0010ffff", "ﬁ", "İ", "ß", "\u00a0", "\u2028", "\x1a", "\x7f", "\r", "\t", "\v", "é", "👨‍👩‍👧", "\u0300" * 50, "\uff07", "\uff1b")  # fmt: skip
_PLACE = re.compile(r"\b|\W|$")
_HOLE = re.compile(r"\{\{|\}\}|\{([eqrtnv])\}")
_LEAVES = {"e": "a", "q": "SELECT a FROM t", "r": "t", "t": "INT", "n": "a", "v": "1"}
_SIZES = ((1, 40), (10, 34), (100, 20), (1000, 5), (10_000, 0.8), (100_000, 0.2))
"""How often something stands in a text, and weights. A text of a hundred thousand takes the time of a thousand
small ones.
"""
_WHOLE = {
    "e": ("SELECT {} FROM t", "SELECT 1 FROM t WHERE {}", "SELECT count(*) FROM t GROUP BY {}", "SELECT a FROM t ORDER BY {}", "SELECT {}", "SELECT sum(a) FROM t HAVING {}", "SELECT 1 FROM t JOIN u ON {}", "SELECT a FROM t LIMIT {}", "SELECT * FROM range({})"),
    "r": ("SELECT * FROM {}", "FROM {}", "SELECT count(*) FROM {}"),
    "t": ("SELECT CAST(NULL AS {})", "SELECT a::{} FROM t", "SELECT {}"),
    "n": ("SELECT {} FROM t",),
    "v": ("SELECT {}",),
}  # fmt: skip


@dataclass(frozen=True)
class _Production:
    """A text with holes.

    Attributes:
        pieces: What stands before, between and behind the holes.
        holes: Their categories.
    """

    pieces: tuple[str, ...]
    holes: tuple[str, ...]


def _production(text: str) -> _Production:
    pieces, holes, current, place = [], [], "", 0
    for found in _HOLE.finditer(text):
        current += text[place : found.start()]
        place = found.end()
        if found[1] is None:
            current += found[0][0]
        else:
            pieces.append(current)
            holes.append(found[1])
            current = ""
    return _Production((*pieces, current + text[place:]), tuple(holes))


def _alternatives(text: str) -> Sequence[_Production]:
    return [
        _production(each.strip(" ").strip("\n").strip(" ").replace("\\|", "|"))
        for each in re.split(r"(?<!\\)\|", text)
    ]


PARSED = {category: _alternatives(str(text)) for category, text in PRODUCTIONS.items()}


@cache
def _words(dialect: str) -> Sequence[str]:
    known = Dialect.get_or_raise(dialect)
    parser = known.parser_class
    words = {
        *known.tokenizer_class.KEYWORDS,
        *parser.FUNCTION_PARSERS,
        *parser.NO_PAREN_FUNCTION_PARSERS,
        *known.tokenizer_class.SINGLE_TOKENS,
        *parser.FUNCTIONS,
    }
    return sorted(words)


class Texts:
    """Makes texts.

    Args:
        random: Where the choices come from.
        longest: About how many characters a text has at the most.
    """

    def __init__(self, random: Random, longest: int) -> None:
        self._random = random
        self._longest = longest

    def text(self, dialect: str) -> tuple[str, str]:
        """A text, and how it was made."""
        makers: Sequence[tuple[Callable[[str], tuple[str, str]], int]] = (
            (self._nested_text, 40),
            (self._repeated_text, 30),
            (self._sentence, 20),
            (self._soup, 10),
            (self._run_text, 10),
            (self._constant_text, 5),
        )
        (make,) = self._random.choices([each for each, _ in makers], [weight for _, weight in makers])
        text, about = make(dialect)
        text, how = self._damage(text)
        return text[: self._longest], about + how

    def _count(self, size: int) -> int:
        """How often something of a size may stand in a text: mostly few times."""
        sizes, weights = zip(*_SIZES, strict=True)
        (chosen,) = self._random.choices(sizes, weights)
        if chosen == sizes[-1] and self._random.random() < 0.1:
            chosen = self._longest
        most = max(1, self._longest // max(1, size))
        return min(most, int(chosen * self._random.uniform(0.7, 3)) if chosen > 1 else 1)

    def _leaf(self, category: str) -> str:
        if self._random.random() < 0.5:
            return _LEAVES[category]
        return self.fill(category, 1)

    def fill(self, category: str, depth: int) -> str:
        """A random text of a category.

        Args:
            category: Of `PRODUCTIONS`.
            depth: How deep productions may stand in each other.
        """
        if depth <= 0:
            simple = PARSED["v"] if category == "e" and self._random.random() < 0.3 else None
            if simple is None:
                return _LEAVES[category]
            return self._random.choice(simple).pieces[0]
        made = self._random.choice(PARSED[category])
        text = made.pieces[0]
        for hole, piece in zip(made.holes, made.pieces[1:], strict=True):
            text += self.fill(hole, depth - 1 - self._random.randrange(2)) + piece
        return text

    def _fill_template(self, text: str) -> str:
        made = _production(text.replace("\\|", "|"))
        found = made.pieces[0]
        for hole, piece in zip(made.holes, made.pieces[1:], strict=True):
            found += self._leaf(hole) + piece
        return found

    def _wrap(self, category: str) -> tuple[str, str, str]:
        """A production around one of its holes: what stands before and behind it, and its category."""
        while True:
            made = self._random.choice(PARSED[category])
            places = [place for place, hole in enumerate(made.holes) if hole in "eqrt"]
            if places:
                break
        chosen = self._random.choice(places)
        before, after = made.pieces[0], ""
        for place, (hole, piece) in enumerate(zip(made.holes, made.pieces[1:], strict=True)):
            if place == chosen:
                after = piece
            elif place < chosen:
                before += self._leaf(hole) + piece
            else:
                after += self._leaf(hole) + piece
        return before, after, made.holes[chosen]

    def _nested_text(self, dialect: str) -> tuple[str, str]:
        begin = self._random.choice("eeeqqrrt")
        for _ in range(200):
            before, after, category = "", "", begin
            for _ in range(self._random.choice((1, 1, 2, 3))):
                opening, closing, category = self._wrap(category)
                before, after = before + opening, closing + after
            if category == begin:
                break
        else:
            before, after = "(", ")"
        count = self._count(len(before) + len(after))
        closed = after * count if self._random.random() < 0.9 else ""
        text = before * count + _LEAVES[begin] + closed
        whole = self._random.choice(_WHOLE[begin]).replace("{}", text) if begin in _WHOLE else text
        return whole, f"{before[:60]!r} … {after[:60]!r} nested {count} times"

    def _repeated_text(self, dialect: str) -> tuple[str, str]:
        before, element, between, after = self._random.choice(REPEATED)
        size = len(element) + len(between)
        count = self._count(size)
        if count > 300 or self._random.random() < 0.5:
            middle = between.replace("\\|", "|").join([self._fill_template(element)] * count)
        else:
            middle = between.replace("\\|", "|").join(self._fill_template(element) for _ in range(count))
        return (
            self._fill_template(before) + middle + self._fill_template(after),
            f"{before[:40]!r}, {element[:40]!r} {count} times",
        )

    def _sentence(self, dialect: str) -> tuple[str, str]:
        return self.fill("q", self._random.randint(2, 7)), "a sentence"

    def _soup(self, dialect: str) -> tuple[str, str]:
        words, count = _words(dialect), self._count(8)
        if count > 5000:
            chosen = self._random.choices(words, k=50) * (count // 50)
        else:
            chosen = self._random.choices([*words, "a", "t", "1", "'x'", "(", ")", ","], k=count)
        between = self._random.choice((" ", " ", " ", " ( ", " a ", ", "))
        return (
            self._random.choice(("SELECT ", "SELECT 1 FROM t WHERE ", "", "FROM "))
            + between.join(map(str, chosen)),
            f"{count} words",
        )

    def _constant_text(self, dialect: str) -> tuple[str, str]:
        """A long value of the statement's own in each row of a store, and of what is made of it."""
        character, length = self._random.choice("xü€😀"), int(10 ** self._random.uniform(2, 4.7))
        values = (f"'{character * length}'", "?", f"[{', '.join(['1'] * min(length, 5000))}]")
        (value,) = self._random.choices(values, (6, 1, 1))
        text, doublings = f"SELECT {value} AS a FROM {self._random.choice('tuw')}", self._random.randrange(5)
        for _ in range(doublings):
            made = self._random.choice(("concat(a, a)", "a || a", "[a, a]", "a || '|' || a", "(a, a)"))
            text = f"SELECT {made} AS a FROM ({text}) AS r"
        columns = int(10 ** self._random.uniform(0, 2.5)) if self._random.random() < 0.3 else 1
        text = text if columns == 1 else f"SELECT {', '.join(['a'] * columns)} FROM ({text}) AS r"
        return text, f"{value[:10]!r} of {length}, doubled {doublings} times, in {columns} columns"

    def _run_text(self, dialect: str) -> tuple[str, str]:
        text = self.fill("q", self._random.randint(1, 3))
        place, piece = self._random.randrange(len(text) + 1), self._random.choice(RUNS)
        count = self._count(len(piece))
        return text[:place] + piece * count + text[
            place:
        ], f"{piece!r} {count} times at {place} of {text[:40]!r}"

    def _damage(self, text: str) -> tuple[str, str]:
        chance, place = self._random.random(), self._random.randrange(len(text) + 1)
        if chance < 0.1:
            end = self._random.choice(("", "", "\\"))
            return text[:place] + end, f", cut{end}"
        if chance < 0.16:
            unclosed = self._random.choice(UNCLOSED) * self._random.choice((1, 1, 3, 1000))
            return text[:place] + unclosed + text[place:], f", with {unclosed[:10]!r}"
        if chance < 0.22:
            return text[:place] + self._random.choice(ODDITIES) + text[place:], ", with an odd character"
        if chance < 0.25:
            return text.replace(
                " ", self._random.choice(("/**/", "\n", "\t", "-- \n", "\r"))
            ), ", with other blanks"
        if chance < 0.27:
            return text.upper(), ", in capitals"
        return text, ""


def nested_texts(times: int) -> Iterator[str]:
    """Each production in each of its own holes, and each query as an operand of itself, so many times.

    Args:
        times: How many.
    """
    for category, productions in PARSED.items():
        for made in productions:
            for chosen, hole in enumerate(made.holes):
                if hole != category and (category, hole) != ("q", "e"):
                    continue
                before, after = made.pieces[0], ""
                for place, (other, piece) in enumerate(zip(made.holes, made.pieces[1:], strict=True)):
                    if place < chosen:
                        before += _LEAVES[other] + piece
                    else:
                        after += piece if place == chosen else _LEAVES[other] + piece
                if hole != category:
                    before, after = f"({before}", f"{after})"
                text = before * times + _LEAVES[hole] + after * times
                yield _WHOLE[hole][0].replace("{}", text) if hole in _WHOLE else text


_CORRELATED = ("SELECT a FROM u WHERE u.k = t.k + {}", "FROM u SELECT max(u.a + t.a) WHERE u.k > t.k - {}")
"""Queries within others that read columns from around them, each with a number of its own."""
_BEHIND_EACH_OTHER = (
    ("SELECT ", ", ", " FROM t"),
    ("SELECT 1 FROM t WHERE ", " AND ", ""),
    ("SELECT 1 FROM t WHERE ", " OR ", ""),
    ("SELECT ", " + ", " FROM t"),
    ("SELECT 1 FROM t JOIN u ON ", " AND ", ""),
    ("SELECT count(*) FROM t GROUP BY ", ", ", ""),
)
"""What stands before expressions, between them, and behind them."""


def chained_texts(times: int) -> Iterator[str]:
    """Each production that has a query in it, that joins tables or that puts queries together, so many times
    behind each other, with queries that read columns from around them.

    Args:
        times: How many.
    """
    for made, correlated in product(PARSED["e"], _CORRELATED):
        if "q" in made.holes:
            each = [_fill_holes(made, {"q": correlated.format(number)}) for number in range(times)]
            for before, between, after in _BEHIND_EACH_OTHER[:3]:
                yield before + between.join(each) + after
    yield from _chained_tables(times)
    yield from _chained_queries(times)


def _chained_tables(times: int) -> Iterator[str]:
    numbered = [
        {
            "r": f"u x{number}",
            "e": f"t.k = x{number}.k",
            "q": f"SELECT t.a + {number} AS b",
            "n": f"x{number}",
        }
        for number in range(times)
    ]
    for made in PARSED["r"]:
        if made.holes[:1] == ("r",):
            text = "t"
            for leaves in numbered:
                text = _fill_holes(made, leaves, first=text)
            yield f"SELECT 1 FROM {text}"
        elif "q" in made.holes:
            yield f"SELECT 1 FROM t, {', '.join(_fill_holes(made, leaves) for leaves in numbered)}"


def _chained_queries(times: int) -> Iterator[str]:
    columns = ", ".join(f"a + {number} AS c{number}" for number in range(40))
    within = f"({_CORRELATED[0].format(1)})"
    for made, query in product(PARSED["q"], ("SELECT a FROM t", f"SELECT {columns} FROM t", within)):
        if made.holes[:2] == ("q", "q"):
            text = query
            for _ in range(times):
                text = _fill_holes(made, {"q": query}, first=text)
            yield f"SELECT EXISTS ({text}) FROM t" if query == within else text


def long_texts(characters: int) -> Iterator[str]:
    """Each production of an expression so often behind each other as a text has room for, of columns, of
    numbers and of both, and likewise all that is `REPEATED`.

    Args:
        characters: Of each text, at the most.
    """
    for made, leaf in product(PARSED["e"], ("a", "{}", "a + {}")):
        for before, between, after in _BEHIND_EACH_OTHER:
            one = _fill_holes(made, {"e": leaf.format(100)})
            times = (characters - len(before) - len(after)) // (len(one) + len(between))
            each = (_fill_holes(made, {"e": leaf.format(number)}) for number in range(times))
            yield before + between.join(each) + after
    for parts in REPEATED:
        begin, element, middle, end = (_production(part.replace("\\|", "|")) for part in parts)
        leaves = [{"v": f"{number}", "n": f"n{number}", "e": f"a + {number}"} for number in range(characters)]
        times = characters // (len(_fill_holes(element, leaves[100])) + len(middle.pieces[0]) or 1)
        filled = [_fill_holes(element, numbered) for numbered in leaves[:times]]
        yield _fill_holes(begin, leaves[0]) + middle.pieces[0].join(filled) + _fill_holes(end, leaves[0])


def repeated_nests(depth: int, characters: int) -> Iterator[str]:
    """Each production of an expression in itself, so deep, and that behind each other.

    Args:
        depth: How deep.
        characters: Of each text, at the most; one of them stands twice in any case.
    """
    for made in PARSED["e"]:
        if "e" in made.holes:
            text = _LEAVES["e"]
            for _ in range(depth):
                text = _fill_holes(made, {}, first=text) if made.holes[0] == "e" else text
            yield f"SELECT {', '.join([text] * max(2, characters // len(text)))} FROM t"


def texts_with_runs(characters: int, random: Random, share: float) -> Iterator[str]:
    """Some of all the texts of a production each that have a long run of something at one of their places.

    Args:
        characters: Of the run.
        random: Chooses the texts.
        share: Which part of them.
    """
    for category, productions in PARSED.items():
        whole = _WHOLE.get(category, ("{}",))[0]
        for made in productions:
            text = whole.replace("{}", _fill_holes(made, _LEAVES))
            for place, run in product(_PLACE.finditer(text), RUNS):
                if random.random() < share:
                    yield text[: place.start()] + run * (characters // len(run)) + text[place.start() :]


def _fill_holes(made: _Production, leaves: Mapping[str, str], first: str | None = None) -> str:
    """A production with leaves in its holes.

    Args:
        made: The production.
        leaves: What differs from `_LEAVES`, by category.
        first: What stands in the first hole; None: what stands in others of its category.
    """
    known = {**_LEAVES, **leaves}
    fillings = [known[hole] for hole in made.holes]
    if first is not None:
        fillings[0] = first
    return made.pieces[0] + "".join(
        filling + piece for filling, piece in zip(fillings, made.pieces[1:], strict=True)
    )
