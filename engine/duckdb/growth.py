"""Which statements can make more than the engine counts, or take longer than anybody can interrupt.

The engine's memory limit does not count the values that scalar functions make, and nothing interrupts those,
nor its planning. Statements that can make much of little, or take long to plan, run in a process that can be
killed (`engine.duckdb.worker_pool`). That is decided on the text alone and errs to that side: a text literal
with `range(` in it costs the way to the other process, and no more.

Which functions these are is found in the engine's own catalogue (`tests/unit/exec/test_growth.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import TypeVar

Answer = TypeVar("Answer")

MAX_TEXT = 16 << 10
"""Bytes of a text that is planned in this process."""
MAX_COPIES = 8
"""Operations of a text that have their arguments in their results, those with many arguments counted higher.
By names that stand for results each can have the one before it in its own several times, so that a value
grows some 600 times at the most.
"""

MAX_DOUBLINGS = 6
"""Parts of a text that the engine binds twice, each of which can stand in the one before it."""
MAX_LISTED_COPIES = 300
"""How often something of a text is planned, at the most, that stands before lists behind each other."""
MOST_NESTED_CALLS = 3
"""Calls in each other that are taken for a name where they stand before a list."""
MAX_LISTED = 1000
"""Commas of a text: the engine holds 2,048 values of each column and key that is listed, in several places
and for each of its threads, which it does not count: some 60 KB for one of texts.
"""
MAX_SORTED = 200
"""Commas behind the beginning of the first order: its keys are rows of keys beside those vectors. 900 took
230 MiB where the engine was told 128, 300 took 150.
"""
MAX_ROW_WIDTH = 30
"""Columns of a row that stands as a value in a statement of this process: rows can have rows as values, each
time twice as many, and what is made of one, such as its type as a text, is as long.
"""
MAX_JOINS = 40
"""Joins of a text that is bound in this process: the engine binds long chains of lateral ones for minutes."""
MAX_NESTING = 16
"""Brackets in each other of a text that is bound in this process."""
MAX_PLANNED_PIECES = 400
"""Names, words and signs of a text that is planned in this process without a trial, each word that begins a
query or joins one counted as ten more. The engine plans sums of many constants, conditions and aggregates in
time that grows with the third power of their number, and queries in expressions with the fifth.
"""
MAX_PLANNED_COLUMNS = 2000
"""Likewise, how often a text names a table, or has all columns by stars, times those of the widest table."""
MAX_WITHS = 5
"""WITHs of a text that is parsed in this process: with each that stands in another one the engine's parser
takes six times as long to find that there is a mistake, and as much memory.
"""

MULTIPLYING_FUNCTIONS = frozenset(
    """
    aggregate apply array_aggr array_aggregate array_apply array_reduce array_resize array_to_string
    array_to_string_comma_default array_transform bar bin bitstring collate_aa collate_az collate_ee
    collate_ssy concat_ws equi_width_bins format generate_series hive_partition_component invoke
    list_aggr list_aggregate list_apply list_reduce list_resize list_transform lpad printf range reduce
    regexp_extract_all regexp_replace regexp_split_to_array repeat replace rpad split stats str_split
    str_split_regex string_split string_split_regex string_to_array to_binary url_encode
    """.split()  # noqa: SIM905 - a list of sixty lines otherwise
)
"""Their results can be more than twice as large as all of their arguments."""
UNMEASURED_FUNCTIONS = frozenset(
    """
    ago combine create_sort_key days_in_month enum_code enum_first enum_last enum_range
    enum_range_boundary error finalize from_binary from_hex from_json from_json_strict get_type
    json_transform json_transform_strict list_bool_and list_bool_or make_type map_concat
    map_contains_entry map_contains_value parse_formatted_bytes remap_struct st_asbinary st_asgeojson
    st_astext st_aswkb st_aswkt st_crs st_geomfromgeojson st_geomfromwkb st_intersects_extent st_setcrs
    struct_contains struct_extract struct_has struct_indexof struct_insert struct_position struct_update
    to_aggregate_state to_base unbin unhex union_extract union_value uuid_extract_timestamp
    variant_array_length variant_bytes_to_variant variant_comparator variant_contains variant_exists
    variant_extract variant_extract_string variant_keys variant_normalize variant_to_parquet_variant
    variant_type variant_typeof vertex_extract
    """.split()  # noqa: SIM905 - a list of sixty lines otherwise
)
"""What they make is not known."""
COPYING_FUNCTIONS = frozenset(
    """
    add array_cat array_concat array_value array_zip base64 concat date_add hex icu_sort_key json_array
    json_group_array json_group_object json_object json_quote list_cat list_concat list_histogram
    list_pack list_value list_zip map overlay path_join regexp_escape row struct_pack to_base64 to_hex
    to_json unpivot_list variant_group_array
    """.split()  # noqa: SIM905 - a list of sixty lines otherwise
)
"""Their results can be larger than the largest of their arguments."""

SLOW_FUNCTIONS = frozenset(
    {
        *("damerau_levenshtein", "editdist3", "jaccard", "jaro_similarity", "jaro_winkler_similarity"),
        *("json_pretty", "levenshtein"),
    }
)
"""Their time or their memory grows with the product of the lengths of what they are given."""

SLOW_WINDOWED_FUNCTIONS = frozenset(
    """
    approx_top_k bitstring_agg entropy histogram histogram_exact lttb mad mode reservoir_quantile
    """.split()  # noqa: SIM905 - as above
)
"""Aggregates that the engine computes for each row of a window anew, with all rows of its frame, and is not
interrupted for 2,048 rows: minutes, where frames have some ten thousand.
"""
_LARGEST_OF = {
    **dict.fromkeys(("max", "min"), 1),
    **dict.fromkeys(("argmax", "argmin", "arg_max", "arg_min", "max_by", "min_by"), 2),
}
"""Aggregates that are so, too, where they have more arguments than these: the number of values wanted."""

BREAKING_FUNCTIONS = frozenset({"json_contains"})
"""They follow JSON as deep as it is nested, by calls of themselves, and overflow the stack, which ends the
process; so does a cast of JSON to a VARIANT.
"""

_IN_WORKER = MULTIPLYING_FUNCTIONS | UNMEASURED_FUNCTIONS | SLOW_FUNCTIONS | BREAKING_FUNCTIONS
_CALL = re.compile(r'\b([a-z0-9_]++)"?\s*+\(')
_MULTIPLYING = re.compile(r"\bfor\b|\bpivot\b|icu_collate_")
"""List comprehensions, values of rows that become columns, each of which is planned, and the sort keys of
collations.
"""
_VARIANT = re.compile(r"\b(?:parquet_)?variant\b")
_VARIANT_TYPE = re.compile(
    r"""(?:::|\bas\b)\s*+(?:"?\w++"?\s*+\.\s*+)*"?(?:parquet_)?variant\b|\bvariant\b"?\s*+(?:[a-z]?'|\$)"""
)
_NESTED_TYPE = re.compile(r"(?:::|\bas\b)\s*+\"?(?:array|list|map|row|struct|union)\b|/\*|--")
"""Where the word alone may be a type: types of values within values, and comments, which stand anywhere."""
_PATTERN = re.compile(r"~|\bregexp_|\bsimilar\s", re.IGNORECASE)
_WINDOW = re.compile(r"\bover\b")
_SLOW_FRAME = re.compile(r"\(\s*+distinct\b|\bexclude\s++(?:current|group|ties)\b")
_LARGEST = re.compile(rf'\b({"|".join(_LARGEST_OF)})"?\s*+\(')
_COPYING_OPERATOR = re.compile(r"\|\||[\[{]|\+(?!\s*(?:\d|interval\s+'))|collate")
"""What is added to a number or an interval is no list."""
_DOUBLING = re.compile(r"\b(?:nullif|any|all|some|array)\s*\(")
"""What the engine binds twice or more often: NULLIF becomes a CASE, a comparison with all rows of a query
several aggregates. (Lambdas, of which that is true as well, are among the others.)
"""
_IN_LIST = re.compile(r"\bin\s*\((?!\s*select\b)")
"""The engine plans what stands before a list once for each value."""
_COLUMN_IN_LIST = re.compile(
    r'(?:\b(?:and|or|where|when|having|on|by|select)\b|[(,])\s*+[\w."]++\s++(?:not\s++)?in(?=\s*\((?!\s*select\b))'
)
"""Where that is a name or a number."""
_BOUNDS = re.compile(r'\bbetween\b[^(]*?(?:\(|\band\b(?:\s*+[\w."]++\s++(?:not\s++)?in\b)?|(?=\bbetween\b))')
"""Up to where one of its bounds may end what began before, if that ends in a bracket or in the word `in`:
`x BETWEEN 1 AND a IN (1, 2)`.
"""
_PLAIN_CALL = re.compile(
    r'(?<![\w."])(?!(?:in|between|and|or|not|where|when|having|on|by|select)\b)[\w."]++'
    r"\((?![\w .,$]*\bin\b)(?:[\w .,]|\$\d)*+\)"
)
"""What stands before lists like a name: a call, a cast, or a value that was taken out of a text. None has a
quote, a comment or an end of a line in it, where a bracket may be no bracket.
"""
_JOIN = re.compile(r"\b(?:join|lateral|unnest|json_each|json_tree)\b")
_IN_FROM = re.compile(
    r"[(),]|\b(?:from|where|group|having|window|qualify|order|limit|select|union|except|intersect)\b"
)
"""What tells the commas between tables from others."""
_PIECE = re.compile(r"""'[^']*+'|(?:"[^"]*+"|\$?\w++)(?>(?:\.(?:"[^"]*+"|\w++))*)|[^\s\w,.()]""")
_WORD_OR_SIGN = re.compile(r"\w++|[^\s\w,.()]")
ODD_STRING = re.compile(r"\\|\$(?!\d)|--|/\*")
"""Where a quotation mark may not begin or end a string: in comments, between dollars, behind a backslash."""
_QUERY_WORD = re.compile(r"\b(?:select|from|join|lateral|unnest|except|intersect)\b")
_PIECES_OF_QUERY_WORD = 10
_STAR = re.compile(
    r"(?:\bselect|\bdistinct|\ball|[,.])\s*+\*|\bcolumns\s*+\("
    r"|(?:^|\(|\bas|\ball|\bunion|\bexcept|\bintersect|\bname)\s*+from\b"
)
"""All columns: a star, and a query that begins with FROM."""
_LARGEST_LOGARITHM = 20.0
_SUMMARY = re.compile(r"\bsummarize\b", re.IGNORECASE)
_AGGREGATES_OF_SUMMARY = 10
"""For each column."""
_MATERIALIZED = re.compile(r"\bmaterialized\b")
"""The engine plans a query that is NOT MATERIALIZED as often as its name is read."""
_ORDER = re.compile(r"\b(?:order|partition)\s++by\b")
_BRACKET = re.compile(r"[()\[\]{}]")
_WITH = re.compile(r"\bwith\b(?!\s+time\s+zone\b)")
_RECURSION = re.compile(r"\brecursive\b")


def needs_worker(sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> bool:
    """Whether a statement has to run where it can be killed.

    Args:
        sql: A statement in DuckDB's dialect.
        values: Of its parameters: the engine puts what it copies them into in 2,048 rows at once, and is not
            interrupted while it matches a text with a pattern, which takes a minute where both are long.
    """
    if text_bytes(sql) > MAX_TEXT or _can_grow(sql):
        return True
    return (
        len(values) > 0
        and (copies(sql) > 0 or _PATTERN.search(sql) is not None)
        and value_bytes(values) > MAX_TEXT
    )


def text_bytes(text: str) -> int:
    """How many bytes a text has where the engine holds it, as UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def value_bytes(value: object) -> int:
    """About how many bytes the texts in a value, or in several, have."""
    if isinstance(value, str):
        return text_bytes(value)
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(value_bytes(each) for each in value.values())
    return 8 + sum(map(value_bytes, value)) if isinstance(value, Sequence) else 8


def is_parsed_quickly(sql: str) -> bool:
    """Whether the engine's parser takes little time for a text, also where it has mistakes.

    Args:
        sql: Any text.
    """
    return len(sql) <= MAX_TEXT and len(_WITH.findall(sql.lower())) <= MAX_WITHS


def is_planned_quickly(sql: str, columns: int) -> bool:
    """Whether the engine binds and plans a text in little time and memory, which nothing could interrupt or
    bound in this process.

    Args:
        sql: A statement, or an expression of one, in DuckDB's dialect, for which `needs_worker` is false.
        columns: Of the widest table that it reads.
    """
    weight, tables = _planning_weight(sql)
    if weight > MAX_PLANNED_PIECES or tables * columns > MAX_PLANNED_COLUMNS:
        return False
    listed = _most_repetitions(sql) * columns
    return listed * (_AGGREGATES_OF_SUMMARY if _SUMMARY.search(sql) else 1) <= MAX_PLANNED_COLUMNS


def lists_many_columns(sql: str, columns: int) -> bool:
    """Whether stars can stand for more columns in a text than may be listed in this process.

    Args:
        sql: A statement in DuckDB's dialect, for which `needs_worker` is false.
        columns: Of the widest table that it reads.
    """
    return _most_repetitions(sql) * columns > MAX_LISTED


@lru_cache(256)
def _most_repetitions(sql: str) -> float:
    """How often a query of a text can have a column of a table, by stars, at the most: each has what the one
    that it reads has as often as it has stars and tables. That is most where all have as many.
    """
    text = sql.lower()
    stars = len(_STAR.findall(text))
    if not stars:
        return 0.0
    words = _QUERY_WORD.findall(text)
    tables = words.count("from") + words.count("join") + _count_commas_of_from(text, 0)
    logarithms = [count * math.log(stars * tables / count**2) for count in range(1, 1 + min(stars, tables))]
    return math.exp(min(max(logarithms, default=0.0), _LARGEST_LOGARITHM))


@lru_cache(256)
def _planning_weight(sql: str) -> tuple[float, int]:
    """What to compare with `MAX_PLANNED_PIECES`, and how often a text names tables."""
    text = sql.lower()
    words = _QUERY_WORD.findall(text)
    piece = _WORD_OR_SIGN if ODD_STRING.search(text) else _PIECE
    pieces = len(piece.findall(text)) + _PIECES_OF_QUERY_WORD * len(words)
    tables = words.count("from") + words.count("join") + _count_commas_of_from(text)
    return math.inf if _MATERIALIZED.search(text) else pieces, tables


@lru_cache(256)
def _can_grow(sql: str) -> bool:
    """Remembered, because a statement asks more than once: when it is bound, and when it runs."""
    if sql.count(",") > MAX_LISTED:
        return True
    text = sql.lower()
    calls = _CALL.findall(text)
    if not _IN_WORKER.isdisjoint(calls) or _MULTIPLYING.search(text) or _casts_to_variant(text):
        return True
    order = _ORDER.search(text)
    if order is not None and text.count(",", order.end()) > MAX_SORTED:
        return True
    if _WINDOW.search(text) and _is_windowed_slowly(text, calls):
        return True
    if (
        len(_JOIN.findall(text)) + _count_commas_of_from(text) > MAX_JOINS
        or len(_WITH.findall(text)) > MAX_WITHS
    ):
        return True
    if len(_DOUBLING.findall(text)) > MAX_DOUBLINGS or _deepest_nesting(text) > MAX_NESTING:
        return True
    if _copies_by_lists(text) > MAX_LISTED_COPIES:
        return True
    count = _count_copies(text, calls)
    return count > MAX_COPIES or (count > 0 and _RECURSION.search(text) is not None)


def _casts_to_variant(text: str) -> bool:
    """Whether a text may name the type, and not a column that is called so."""
    return _VARIANT.search(text) is not None and (
        _VARIANT_TYPE.search(text) is not None or _NESTED_TYPE.search(text) is not None
    )


def _is_windowed_slowly(text: str, calls: Sequence[str]) -> bool:
    """Whether a text with windows may have some whose frames are read anew for each row."""
    return (
        not SLOW_WINDOWED_FUNCTIONS.isdisjoint(calls)
        or _SLOW_FRAME.search(text) is not None
        or any(
            _count_arguments(text, found.end()) > _LARGEST_OF[found[1]] for found in _LARGEST.finditer(text)
        )
    )


def _count_arguments(text: str, start: int) -> float:
    """How many arguments a call has whose bracket opens before a place; no end of them where a string may
    have brackets of its own.
    """
    count, depth = 1, 1
    for place in range(start, len(text)):
        sign = text[place]
        depth += (sign in "([{") - (sign in ")]}")
        if not depth:
            return count
        if sign in "'\"$":
            return math.inf
        count += sign == "," and depth == 1
    return math.inf


def remember_short(function: Callable[[str], Answer]) -> Callable[[str], Answer]:
    """Decorate a function of a statement, which is asked more than once each time that this runs: what it
    says of the last ones is remembered, but not with texts of a megabyte.
    """
    remembered = lru_cache(256)(function)

    @wraps(function)
    def answer(sql: str) -> Answer:
        return function(sql) if len(sql) > MAX_TEXT else remembered(sql)

    return answer


@remember_short
def copies(sql: str) -> int:
    """How many operations of a statement have their arguments in their results.

    Args:
        sql: A statement in DuckDB's dialect.
    """
    text = sql.lower()
    return _count_copies(text, _CALL.findall(text))


def _count_copies(text: str, calls: Sequence[str]) -> int:
    count = len(_COPYING_OPERATOR.findall(text)) + sum(name in COPYING_FUNCTIONS for name in calls)
    # Some of them take any number of arguments.
    return count + text.count(",") // 4 if count > 1 else count


def _copies_by_lists(text: str) -> float:
    """How often the engine plans something, at the most, as it stands before lists: once for each value, and
    for each of those of a list behind the list.
    """
    lists = len(_IN_LIST.findall(text))
    if lists < 2:
        return 1.0
    for _ in range(MOST_NESTED_CALLS):
        text = _PLAIN_CALL.sub("0", text)
    # What looks like a name before a list may be the end of a comment.
    columns = 0 if "--" in text else len(_COLUMN_IN_LIST.findall(text))
    bounds = sum(found.endswith(("(", "in")) for found in _BOUNDS.findall(text))
    others = lists - columns + bounds
    # The most is what they make when their values are as many.
    length = min(lists, others + 1, 64)
    return (1.0 + text.count(",") / length) ** length if others else 1.0


def _count_commas_of_from(text: str, least: int = MAX_JOINS // 2) -> int:
    """How many tables are joined by commas, if the text has more of these than `least`."""
    if text.count(",") <= least:
        return 0
    count, is_from, around = 0, False, list[bool]()
    for piece in _IN_FROM.findall(text):
        if piece == ",":
            count += is_from
        elif piece == "(":
            around.append(is_from)
            is_from = False
        elif piece == ")":
            is_from = around.pop() if around else False
        else:
            is_from = piece == "from"
    return count


def _deepest_nesting(text: str) -> int:
    """How many brackets a text has in each other; those in its literals count, too."""
    if text.count("(") + text.count("[") + text.count("{") <= MAX_NESTING:
        return 0
    depth = most = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket in "([{" else -1
        most = max(most, depth)
    return most
