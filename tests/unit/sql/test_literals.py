"""Lifting literals out of a text changes nothing but its speed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import chain, repeat

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sql.lexer import VALUES_AT_ONCE
from engine.sql.literal_values import SHORT_LIST, integer_list, integer_rows, list_values, row_values
from engine.sql.literals import MIN_LIST_LENGTH, ends_in_limit, lift, likely_template, template_of

NUMBERS = [str(number) for number in range(MIN_LIST_LENGTH)]
LONG = ", ".join(NUMBERS)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT 'x IN ({LONG})'",
        f'SELECT "x IN ({LONG})"',
        f"SELECT 1 -- x IN ({LONG})",
        f"SELECT 1 /* x IN ({LONG}) */",
        f"SELECT E'\\' x IN ({LONG})'",
        f"SELECT $$ x IN ({LONG}) $$",
        f"SELECT $a$ x IN ({LONG}) $a$",
        f"SELECT x IN ({LONG}, 1.5)",
        f"SELECT x IN ({LONG}, y)",
        f"SELECT x IN ({LONG}, 'a')",
        f"SELECT x IN ({LONG}, 99999999999999999999)",
        f"SELECT x IN ({LONG}, --1\n2)",
        f"SELECT x IN ({LONG}",
        f"SELECT x IN ({', '.join(NUMBERS[:-1])})",
        f"SELECT x IN ({', '.join(['NULL'] * 100)})",
        f"FROM (VALUES {', '.join(f'({number})' for number in NUMBERS)}, (1, 2)) v",
        f"FROM (VALUES {', '.join(f'({number})' for number in NUMBERS)}, ('a')) v",
        f"VALUES {', '.join(f'({number})' for number in NUMBERS)}",
        f"SELECT __list_0, x IN ({LONG})",
    ],
)
def test_what_is_not_plainly_a_list_stays(text: str) -> None:
    assert lift(text, "duckdb").source.text == text


def test_other_dialects_keep_their_lists() -> None:
    assert lift(f"SELECT x IN ({LONG})", "spark").lists == ()


def test_a_list_becomes_a_table() -> None:
    lifted = lift(
        (
            f"SELECT 'it''s', x IN ({LONG}) AND y NOT IN ( "
            f"'a''b',{', '.join(repr(number) for number in NUMBERS)} , null ) -- ?"
        ),
        "duckdb",
    )
    assert lifted.source.text == (
        "SELECT 'it''s', x IN (SELECT col0 FROM \"__list_0\") AND y NOT IN (SELECT col0 FROM \"__list_1\") "
        "-- ?"
    )
    assert lifted.lists[0].rows.column(0).to_pylist() == list(range(MIN_LIST_LENGTH))
    assert lifted.lists[1].rows.column(0).to_pylist() == ["a'b", *NUMBERS, None]


def test_places_map_back() -> None:
    text = f"SELECT ?,\n x IN ({LONG}),\n ?, here FROM t"
    lifted = lift(text, "duckdb")
    assert lifted.marks == 2
    for word in ("SELECT", "here", "FROM t"):
        assert lifted.source.position(lifted.source.text.index(word)).offset == text.index(word)
    place = lifted.source.position(lifted.source.text.index("here"))
    assert (place.line, place.column) == (3, 5)


def test_marks_are_numbered_outside_of_strings() -> None:
    assert lift("SELECT ?, '?', \"?\", ? -- ?", "duckdb").source.text == "SELECT  $1 , '?', \"?\",  $2  -- ?"
    assert lift("SELECT ?, 'it\\'s ?', `?`, ?", "spark").source.text == "SELECT  @1 , 'it\\'s ?', `?`,  @2 "


@given(
    marks=st.lists(
        st.sampled_from(["?", "?", "$1", "$2", "$3", "'$9'", "/* $9 */ $1"]), min_size=1, max_size=6
    )
)
def test_marks_are_numbered_as_the_engine_numbers_them(
    connection: duckdb.DuckDBPyConnection, marks: list[str]
) -> None:
    """Each is one above the highest number so far."""
    text = f"SELECT {', '.join(marks)}"

    def answer(sql: str, values: list[str]) -> object:
        try:
            return connection.execute(sql, values).fetchall()
        except duckdb.Error:
            return None

    for count in range(8):
        values = [f"value {number}" for number in range(1, count + 1)]
        assert answer(lift(text, "duckdb").source.text, values) == answer(text, values)


ITEMS = {
    "int": st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9)).map(str),
    "text": st.text(st.sampled_from("a'(),é😀 \n-0N"), max_size=5).map(
        lambda text: "'" + text.replace("'", "''") + "'"
    ),
}
BLANKS = st.sampled_from(["", " ", "\n"])


@st.composite
def row_lists(draw: st.DrawFn) -> str:
    kinds = draw(st.lists(st.sampled_from(sorted(ITEMS)), min_size=1, max_size=3))
    row = st.tuples(
        *(st.one_of(ITEMS[kind], ITEMS[kind], st.sampled_from(["NULL", "null"])) for kind in kinds)
    )
    rows = draw(st.lists(row, min_size=1, max_size=8))
    blank = draw(BLANKS)
    return f",{blank}".join("(" + f"{blank},{blank}".join(values) + f"{blank})" for values in rows)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as found:
        yield found


@given(body=row_lists())
@settings(max_examples=200)
def test_rows_are_those_of_the_engine(connection: duckdb.DuckDBPyConnection, body: str) -> None:
    expected = connection.sql(f"FROM (VALUES {body})").to_arrow_table()
    found = row_values(body)
    if found is None:
        assert any(column.null_count == len(column) for column in expected.columns)
    else:
        assert pa.Table.from_batches([found]) == expected


@given(
    items=st.sampled_from(sorted(ITEMS)).flatmap(lambda kind: st.lists(ITEMS[kind], min_size=1, max_size=9))
)
@settings(max_examples=100)
def test_items_are_those_of_the_engine(connection: duckdb.DuckDBPyConnection, items: list[str]) -> None:
    found = list_values(", ".join(items))
    assert found is not None
    assert found.column(0).to_pylist() == [
        connection.sql(f"SELECT {item}").fetchall()[0][0] for item in items
    ]


INTEGERS = st.lists(
    st.tuples(BLANKS, st.sampled_from(["0", "-0", "007", str(2**63)]) | ITEMS["int"], BLANKS).map("".join),
    min_size=1,
    max_size=9,
)


@given(items=INTEGERS)
@settings(max_examples=100)
def test_integers_are_read_as_any_items_are(items: list[str]) -> None:
    assert integer_list(",".join(items)) == list_values(",".join(items))
    rows = " , ".join(f"({item})" for item in items)
    assert integer_rows(rows) == row_values(rows)


@pytest.mark.parametrize("blank", ["", " ", "\n", "\t", "\r\n", "\f\v"])
def test_integers_may_stand_between_blanks(blank: str) -> None:
    items = f"{blank},{blank}".join(NUMBERS)
    rows = f"{blank},{blank}".join(f"({blank}{number}{blank})" for number in NUMBERS)
    lifted = lift(f"SELECT x IN ({blank}{items}{blank}) FROM (VALUES {rows}{blank}) v(x)", "duckdb")
    assert [each.rows.column(0) for each in lifted.lists] == [
        pa.array(range(MIN_LIST_LENGTH), pa.int64()),
        pa.array(range(MIN_LIST_LENGTH), pa.int32()),
    ]


def test_templates() -> None:
    found = template_of("SELECT a1, \"b 2\" FROM t WHERE x = 'it''s' AND y IN (3, -4) AND z = w - 6 LIMIT 5")
    assert found is not None
    assert (
        found.text
        == 'SELECT a1, "b 2" FROM t WHERE x =  $1  AND y IN ( $2 ,  $3 ) AND z = w -  $4  LIMIT  $5 '
    )
    assert found.values == ("it's", 3, -4, 6, 5)
    for text in (
        "SELECT a FROM t",
        "SELECT ?",
        "SELECT $1",
        "SELECT 1 -- x",
        "SELECT /* */ 1",
        "SELECT E'a'",
        "SELECT 1" + " " * 5000,
    ):
        assert template_of(text) is None
    decimals = template_of("SELECT 1.5, 1e5, 0x1F, a.1, 7")
    assert decimals is not None
    assert decimals.values == (7,)


@pytest.mark.parametrize("literal", ["7", "-7", " 7", " -7 ", "'seven'", " ''", "\n7\n", " 007"])
def test_a_likely_template_is_the_template_where_nothing_else_is_a_literal(literal: str) -> None:
    text = f'SELECT a1, "b 2" FROM t WHERE k ={literal}'
    assert likely_template(text) == template_of(text) is not None


@pytest.mark.parametrize("literal", ["7", "-7 ", "'seven'", "''", "1", "'LIMIT 1'", "'a b  c'"])
@pytest.mark.parametrize("limit", [" LIMIT 1", "\n limit  20 ", "\tLIMIT\n1"])
def test_a_limit_behind_the_literal_stays(literal: str, limit: str) -> None:
    text = f"SELECT a FROM t WHERE k = {literal}{limit}"
    guess, found = likely_template(text), template_of(text)
    assert guess is not None
    assert found is not None
    assert ends_in_limit(found)
    assert guess.values == found.values[:1]
    assert guess.text == f"{found.parts[0]} $1 {found.parts[1]}{found.written[1]}{found.parts[2]}"


@pytest.mark.parametrize(
    "text",
    ["SELECT a LIMIT 1 OFFSET 2", "SELECT a WHERE k = 5", "SELECT a LIMIT '1'", "SELECT a LIMIT 1 % 2"],
)
def test_what_does_not_end_in_a_limit(text: str) -> None:
    found = template_of(text)
    assert found is not None
    assert not ends_in_limit(found)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "",
        "a =",
        "a = \n",
        "LIMIT 1",
        "SELECT a = b",
        "a = 1.5",
        "a = 1e5",
        "a = 'it''s'",
        "a = E'x'",
        "a = '",
        "a = - 5",
        "a = ٣",
        "a = 5 LIMIT",
        "a = 5 LIMIT ٣",
        "a = 5 LIMIT 1 OFFSET 2",
        "a = 5 + 6 LIMIT 1",
        "a = LIMIT 1",
        "a = 'b' 'c' LIMIT 1",
        "a = " + "1" * 5000,
    ],
)
def test_what_ends_otherwise_has_no_likely_template(text: str) -> None:
    assert likely_template(text) is None


@pytest.mark.parametrize(
    "head",
    [
        "SELECT 5 FROM t WHERE k ",
        "SELECT a -- ",
        "SELECT $1 FROM t WHERE k ",
        "SELECT a FROM t WHERE j = 'x' AND k ",
    ],
)
@pytest.mark.parametrize("end", ["", " LIMIT 1"])
def test_a_wrong_guess_is_no_texts_template(head: str, end: str) -> None:
    guess = likely_template(f"{head}= 7{end}")
    assert guess is not None
    for text in (f"{head}= 7{end}", f"{head}= 8{end}", guess.text.replace("$1", "7")):
        found = template_of(text)
        assert found is None or found.text != guess.text


@pytest.mark.parametrize(
    "body",
    [
        "1",
        " 1 ,\t-2\n",
        "007, -0",
        "-9223372036854775808, 9223372036854775807",
        "9223372036854775808",
        "",
        " ",
        "1,",
        ",1",
        "1,,2",
        "1 2",
        "--1",
        "- 1",
        "-",
    ],
)
def test_short_lists_are_read_as_long_ones(body: str) -> None:
    long = integer_list(", ".join(["5"] * SHORT_LIST + [body]))
    short = integer_list(body)
    assert (short is None) == (long is None)
    if short is not None and long is not None:
        assert short.column(0) == long.column(0)[SHORT_LIST:]


MANY = 3 * VALUES_AT_ONCE + 7


@pytest.mark.parametrize(
    ("head", "value", "tail"),
    [
        ("SELECT k IN (", "'a''b'", ") FROM t"),
        ("SELECT k IN (", "-5", ", NULL) FROM t"),
        ("SELECT * FROM (VALUES ", "('a', 1)", ") x"),
        ("SELECT * FROM (VALUES ", "(1)", ") x"),
    ],
)
def test_lists_of_more_values_than_are_matched_at_once(head: str, value: str, tail: str) -> None:
    lifted = lift(f"{head}{', '.join([value] * MANY)}{tail}", "duckdb")
    (found,) = lifted.lists
    assert found.rows.num_rows == MANY + ("NULL" in tail)
    assert len(lifted.source.text) < 100


@pytest.mark.parametrize("broken", ["x", "", "- 1", "'a"])
@pytest.mark.parametrize("place", [VALUES_AT_ONCE, 2 * VALUES_AT_ONCE + 5, MANY - 1])
def test_a_long_list_with_something_else_in_it_stays(broken: str, place: int) -> None:
    values = ["'a'"] * MANY
    values[place] = broken
    assert not lift(f"SELECT k IN ({', '.join(values)}) FROM t", "duckdb").lists


def test_a_long_list_takes_little_memory_to_match() -> None:
    """One that is no list in the end, so that nothing is made of its values."""
    text = f"SELECT k IN ({', '.join(chain(['NULL'], repeat('1', 200_000)))} x) FROM t"
    lift(text, "duckdb")
    tracemalloc.start()
    try:
        assert not lift(text, "duckdb").lists
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * len(text)
