"""`AS OF` in a text: where it is found, where it is not, and which groups it means."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from engine.errors import InvalidInput
from engine.model.kinds import Behaviour, Versioned
from engine.model.read_point import NEWEST, AsOf, AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, GroupName, define_store
from engine.sql.as_of import resolve_as_of, take_as_of
from engine.sql.bind import bind
from engine.sql.lexer import VALUES_AT_ONCE
from engine.sql.literals import lift
from engine.sql.parse import parse
from engine.sql.text import SourceText
from engine.sql.versions import AsOfParameter, Moments

SCHEMA = pa.schema([("k", pa.int64()), ("epoch", pa.int64()), ("of", pa.int64())])
STORES = {
    definition.name: definition
    for definition in (
        define_store("plays", SCHEMA, ["k"], group="music"),
        define_store("My Songs", SCHEMA, ["k"], group="music"),
        define_store("trips", SCHEMA, ["k"], group="cars"),
    )
}
PRICES = define_store(
    "prices",
    pa.schema([("k", pa.int64()), ("at", pa.timestamp("us"))]),
    ["k"],
    behaviour=Behaviour(Versioned("at")),
)
LONG = ", ".join(map(str, range(100)))
NEW_YEAR = AsOfTimestamp(1_767_225_600_000_000)


def epoch(number: int) -> AsOf:
    return AsOfEpoch(Epoch(number))


def read(text: str, dialect: str = "duckdb") -> dict[GroupName, AsOf]:
    """The groups that a text names, after its rest was parsed and bound."""
    taken = take_as_of(text, dialect)
    assert len(taken.text) == len(text)
    assert all(new in (old, " ") for new, old in zip(taken.text, text, strict=True))
    lifted = lift(taken.text, dialect)
    bound = bind(parse(lifted, dialect), lifted.lists, STORES)
    return resolve_as_of(SourceText(text, text), taken.clauses, bound.references, bound.source)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM plays AS OF EPOCH 5", {"music": epoch(5)}),
        ("select * from plays as of epoch 5;", {"music": epoch(5)}),
        ("SELECT * FROM plays AS\nOF\tEPOCH\n 5 -- the end", {"music": epoch(5)}),
        ("SELECT * FROM Plays AS OF EPOCH 5 WHERE k = 1", {"music": epoch(5)}),
        ("SELECT p.k FROM plays AS OF EPOCH 5 p WHERE p.k = 1", {"music": epoch(5)}),
        ("SELECT p.k FROM plays AS OF EPOCH 5 AS p WHERE p.k = 1", {"music": epoch(5)}),
        ("SELECT p.k FROM plays p AS OF EPOCH 5 WHERE p.k = 1", {"music": epoch(5)}),
        ("SELECT p.k FROM livestate.main.plays AS p AS OF EPOCH 5 WHERE p.k = 1", {"music": epoch(5)}),
        ('SELECT * FROM "My Songs" AS OF EPOCH 5', {"music": epoch(5)}),
        ("FROM plays AS OF EPOCH 5 SELECT k", {"music": epoch(5)}),
        ("SELECT * FROM plays AT (VERSION => 5) WHERE k = 1", {"music": epoch(5)}),
        ("SELECT * FROM plays AT (TIMESTAMP => TIMESTAMP '2026-01-01')", {"music": NEW_YEAR}),
        ("SELECT * FROM plays AS OF TIMESTAMP '2026-01-01'", {"music": NEW_YEAR}),
        ("SELECT * FROM plays AS OF TIMESTAMP '2026-01-01 02:00:00+02:00'", {"music": NEW_YEAR}),
        ("SELECT * FROM plays AS OF TIMESTAMP '2026-01-01T00:00:00Z'", {"music": NEW_YEAR}),
        ("SELECT * FROM plays AS OF EPOCH 5 JOIN trips USING (k)", {"music": epoch(5)}),
        ("SELECT * FROM plays JOIN trips AS OF EPOCH 5 USING (k)", {"cars": epoch(5)}),
        ("SELECT * FROM plays, trips AS OF EPOCH 5", {"cars": epoch(5)}),
        ("SELECT * FROM plays AS OF EPOCH 5, trips AS OF EPOCH 6", {"music": epoch(5), "cars": epoch(6)}),
        (
            "SELECT * FROM plays JOIN trips USING (k) AS OF TIMESTAMP '2026-01-01'",
            {"music": NEW_YEAR, "cars": NEW_YEAR},
        ),
        ("SELECT * FROM plays WHERE k IN (SELECT k FROM trips AS OF EPOCH 6)", {"cars": epoch(6)}),
        ("WITH c AS (SELECT k FROM plays AS OF EPOCH 5) SELECT * FROM c", {"music": epoch(5)}),
        ("WITH c AS (SELECT k FROM plays) SELECT * FROM c AS OF EPOCH 5", {"music": epoch(5)}),
        (
            "WITH plays AS (FROM plays AS OF EPOCH 5) FROM plays, livestate.main.trips AS OF EPOCH 6 t",
            {"music": epoch(5), "cars": epoch(6)},
        ),
        (
            "WITH plays AS (SELECT 1 AS k) SELECT * FROM plays, main.plays AS OF EPOCH 5 p",
            {"music": epoch(5)},
        ),
        (
            f"FROM plays WHERE k IN ({LONG}) AND k IN (SELECT k FROM trips AS OF EPOCH 6)",
            {"cars": epoch(6)},
        ),
        ("SELECT * FROM (plays AS OF EPOCH 5)", {"music": epoch(5)}),
        ("SELECT * FROM (plays AS OF EPOCH 5 p JOIN trips t ON p.k = t.k) WHERE true", {"music": epoch(5)}),
        ("FROM plays p JOIN ((trips t AS OF EPOCH 6 JOIN plays q USING (k))) USING (k)", {"cars": epoch(6)}),
        ("FROM plays, (main.trips AS OF EPOCH 6 CROSS JOIN plays q)", {"cars": epoch(6)}),
        ("PIVOT plays AS OF EPOCH 5 ON k IN (1) USING count(*)", {"music": epoch(5)}),
        ("WITH c AS (SELECT 1) PIVOT plays AS OF EPOCH 5 ON k IN (1) USING count(*)", {"music": epoch(5)}),
        ("FROM (PIVOT plays AS OF EPOCH 5 ON k IN (1) USING count(*)), trips", {"music": epoch(5)}),
        ("(TABLE plays AS OF EPOCH 5) UNION ALL TABLE plays AS OF EPOCH 5", {"music": epoch(5)}),
        ("SELECT * FROM plays AS /* c */ OF EPOCH 5 WHERE k = 1", {"music": epoch(5)}),
        ("SELECT * FROM plays p AS -- c\nOF/**/EPOCH /* ' */5/* c */WHERE k = 1", {"music": epoch(5)}),
        ("SELECT * FROM plays AT /* c */ (VERSION -- c\n=> 5 /* c */) WHERE k = 1", {"music": epoch(5)}),
        ("SELECT * FROM plays WHERE k = 1 AS OF /* AS OF EPOCH 6 */ EPOCH 5 /* c */", {"music": epoch(5)}),
        ("SELECT * FROM plays WHERE k IS DISTINCT FROM epoch AS OF EPOCH 5", {"music": epoch(5)}),
        ("SELECT * FROM plays WHERE k = epoch ORDER BY k, epoch LIMIT 3 AS OF EPOCH 5", {"music": epoch(5)}),
        (
            "SELECT * FROM plays a ASOF JOIN plays b ON a.k = b.k AND a.epoch >= b.epoch AS OF EPOCH 5",
            {"music": epoch(5)},
        ),
        (
            "SELECT * FROM plays AS OF EPOCH 5 UNION ALL SELECT * FROM plays AS OF EPOCH 5",
            {"music": epoch(5)},
        ),
        ("EXPLAIN SELECT * FROM plays AS OF EPOCH 5", {"music": epoch(5)}),
        (
            "SELECT k FROM plays WHERE k IN (1, 2, 3) AND k IN (SELECT (k) FROM plays) AS OF EPOCH 5",
            {"music": epoch(5)},
        ),
    ],
)
def test_what_is_read(text: str, expected: dict[str, AsOf]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'AS OF EPOCH 5' FROM plays",
        "SELECT 'it''s AS OF EPOCH 5' FROM plays",
        "SELECT e'\\' AS OF EPOCH 5' FROM plays",
        "SELECT $$ AS OF EPOCH 5 $$, $x$ $$ AS OF EPOCH 6 $x$ FROM plays",
        'SELECT k AS " AS OF EPOCH 5" FROM plays',
        "SELECT k /* AS OF EPOCH 5 */ FROM plays -- AS OF EPOCH 6",
        "SELECT k AS of, epoch FROM plays",
        "SELECT k AS epoch, epoch AS of FROM plays",
        "SELECT extract(epoch FROM TIMESTAMP '2026-01-01') FROM plays",
        "SELECT a.k FROM plays a ASOF JOIN plays b ON a.k = b.k AND a.epoch >= b.epoch",
        "SELECT p.of FROM plays AS p WHERE p.epoch = 5",
    ],
)
def test_what_is_something_else(text: str) -> None:
    assert take_as_of(text).text == text
    assert read(text) == {}


@pytest.mark.parametrize(
    ("dialects", "text"),
    [
        ("spark mysql bigquery", r"SELECT '\' AS OF EPOCH 5', `AS OF EPOCH 6` FROM plays AS OF EPOCH 7"),
        ("postgres trino tsql", r"SELECT 'C:\', ' FROM plays AS OF EPOCH 5 ' FROM plays AS OF EPOCH 7"),
        ("postgres trino", r"SELECT k FROM plays WHERE 'C:\' <> '' AND k <> 3 AS OF EPOCH 7"),
        ("mysql bigquery", "SELECT k # it's\nFROM plays AS OF EPOCH 7 WHERE true # FROM plays AS OF EPOCH 5"),
        ("snowflake", "SELECT k FROM plays // AS OF EPOCH 5\nAS OF EPOCH 7; // the end"),
        ("mysql", "SELECT k FROM plays WHERE k = 1 AS OF EPOCH 7 # the end"),
        ("postgres snowflake", "SELECT $$ FROM plays AS OF EPOCH 5 ' $$ FROM plays AS OF EPOCH 7"),
        ("tsql sqlite", "SELECT 1 AS [it's AS OF EPOCH 5] FROM [plays] AS OF EPOCH 7"),
        ("bigquery", 'SELECT """it\'s AS OF EPOCH 5""" FROM plays AS OF EPOCH 7'),
        ("spark", r"SELECT r'\' FROM plays AS OF EPOCH 7 WHERE 'AS OF EPOCH 5' <> ''"),
        (
            "mysql bigquery",
            "SELECT k FROM plays AS # it's\nOF EPOCH 7 WHERE 'AS OF EPOCH 5' <> '' # AS OF EPOCH 5",
        ),
        ("oracle", "SELECT q'[it's AS OF EPOCH 5]' FROM plays AS OF EPOCH 7"),
    ],
)
def test_other_dialects_have_other_texts_and_comments(dialects: str, text: str) -> None:
    for dialect in dialects.split():
        assert read(text, dialect) == {"music": epoch(7)}, dialect


@pytest.mark.parametrize("dialect", ["clickhouse", "mysql", "postgres", "tsql"])
def test_a_moment_may_be_a_parameter_in_other_dialects(dialect: str) -> None:
    text = "SELECT ?, '?', k FROM plays AS OF TIMESTAMP ? WHERE k = ?"
    taken = take_as_of(text, dialect)
    assert [clause.as_of for clause in taken.clauses] == [AsOfParameter("2")]
    assert " ".join(taken.text.split()) == "SELECT @1 , '?', k FROM plays WHERE k = @3"
    assert parse(lift(taken.text, dialect), dialect).tree is not None


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        (
            "SELECT k AS OF EPOCH 5 FROM plays",
            "behind the name of a table in FROM or JOIN, or at the end",
            10,
        ),
        (
            "SELECT * FROM plays WHERE k IN (SELECT k FROM plays WHERE k = 1 AS OF EPOCH 5)",
            "behind the name of a table",
            65,
        ),
        ("SELECT * FROM (SELECT 1 AS k) x AS OF EPOCH 5 WHERE k = 1", "behind the name of a table", 33),
        ("SELECT * FROM plays AS OF EPOCH five", "needs a whole number", 32),
        ("SELECT * FROM plays AS OF EPOCH 5.5", "needs a whole number", 32),
        ("SELECT * FROM plays AS OF EPOCH -5", "needs a whole number", 32),
        ("SELECT * FROM plays AS OF EPOCH 99999999999999999999", "No epoch is as large", 33),
        ("SELECT * FROM plays AS OF TIMESTAMP 5", "needs a timestamp in quotes", 36),
        ("SELECT * FROM plays AS OF TIMESTAMP 'yesterday'", "'yesterday' is no timestamp", 38),
        ("SELECT * FROM plays AS OF TIMESTAMP '9999-12-31 23:59:59-05:00'", "or after 9999 in UTC", 38),
        ("SELECT * FROM plays AS OF TIMESTAMP '0001-01-01 00:00:00+05:00'", "before the year 1", 38),
        ("SELECT * FROM plays AT (VERSION => 5", "not closed", 37),
        (
            "SELECT * FROM plays AS OF EPOCH 5, plays AS OF EPOCH 6",
            "Group music is to be read as of two moments",
            42,
        ),
        (
            "SELECT * FROM plays AS OF EPOCH 5 WHERE k = 1 AS OF EPOCH 6",
            "Group music is to be read as of two moments",
            47,
        ),
        ("SELECT * FROM plays AS OF EPOCH 5, \"My Songs\" AS OF TIMESTAMP '2026-01-01'", "two moments", 47),
        ("SELECT * FROM plays JOIN trips USING (k) AS OF EPOCH 5", "the groups cars, music", 42),
        ("WITH c AS (SELECT k FROM plays) SELECT * FROM c AS OF EPOCH 5 WHERE k = 1", "c is no store", 49),
        (
            "WITH plays AS (SELECT k FROM main.plays) SELECT * FROM plays AS OF EPOCH 5 WHERE k = 1",
            "plays is no store",
            62,
        ),
        (
            "WITH plays AS (SELECT 1 k) SELECT * FROM main.plays a, Plays b AS OF EPOCH 5 WHERE a.k = b.k",
            "Plays is no store",
            64,
        ),
        ("SELECT 1 AS OF EPOCH 5", "reads no store", 10),
        ("SELECT * FROM plays WHERE k IN (k AS OF EPOCH 5)", "behind the name of a table", 35),
        ("SELECT * FROM range(plays AS OF EPOCH 5)", "behind the name of a table", 27),
        ("SELECT /* it's */ * FROM plays AS /* c */ OF EPOCH five", "needs a whole number", 51),
    ],
)
def test_mistakes(text: str, message: str, column: int) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        read(text)
    assert caught.value.position is not None
    assert caught.value.position.column == column


@pytest.mark.parametrize(
    ("text", "rest", "names"),
    [
        (
            "SELECT * FROM plays AS OF TIMESTAMP $at WHERE k = $k",
            "SELECT * FROM plays WHERE k = $k",
            ["at"],
        ),
        (
            "SELECT ? FROM plays AS OF TIMESTAMP ? WHERE k = ?",
            "SELECT $1 FROM plays WHERE k = $3",
            ["2"],
        ),
        (
            "SELECT '?' FROM plays AT (TIMESTAMP => ?) -- ?",
            "SELECT '?' FROM plays -- ?",
            ["1"],
        ),
        (
            "SELECT ? /* ? */ FROM plays AS /* ? */ OF TIMESTAMP /**/ ? -- ?",
            "SELECT $1 /* ? */ FROM plays -- ?",
            ["2"],
        ),
        (
            "SELECT * FROM plays AS OF TIMESTAMP ?, plays AS OF TIMESTAMP ?",
            "SELECT * FROM plays , plays",
            ["1", "2"],
        ),
        (
            "SELECT $2, ? FROM plays AS OF TIMESTAMP ? WHERE k = $1",
            "SELECT $2 , $3 FROM plays WHERE k = $1",
            ["4"],
        ),
    ],
)
def test_a_moment_may_be_a_parameter(text: str, rest: str, names: list[str]) -> None:
    taken = take_as_of(text)
    assert taken.text.split() == rest.split()
    assert len(taken.marked) == len(taken.text)
    assert [clause.as_of for clause in taken.clauses] == [AsOfParameter(name) for name in names]


def test_each_place_has_its_moment() -> None:
    other, session = AsOfTimestamp(1), AsOfTimestamp(2)

    def moments(text: str, read_point: ReadPoint = NEWEST) -> list[object]:
        taken = take_as_of(text)
        places = [place.start() for place in re.finditer(r"(?:main\.|\b)prices\b(?! AS)", taken.text)]
        return list(
            Moments.from_clauses(taken.clauses, read_point).moments_of(
                [(PRICES.name, PRICES.group, place) for place in places]
            )
        )

    new_year, of_session = (
        "AS OF TIMESTAMP '2026-01-01'",
        ReadPoint(as_of_default=session, as_of={PRICES.group: other}),
    )
    assert moments("FROM prices, prices") == [None, None]
    assert moments(f"FROM prices {new_year}, prices") == [NEW_YEAR, None]
    assert moments(f"FROM prices, prices b {new_year}") == [None, NEW_YEAR]
    assert moments(f"FROM prices, prices WHERE true {new_year}") == [NEW_YEAR, NEW_YEAR]
    assert moments(f"FROM prices AS OF TIMESTAMP $1, prices WHERE true {new_year}") == [
        AsOfParameter("1"),
        NEW_YEAR,
    ]
    assert moments("FROM prices AS OF EPOCH 5, prices") == [None, None]
    assert moments(f"FROM prices {new_year}, prices", of_session) == [NEW_YEAR, other]
    assert moments("FROM prices", ReadPoint(as_of_default=session)) == [session]


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("FROM main.prices a, prices AS OF TIMESTAMP '2026-01-01' b", [False, True]),
        ("FROM prices AS OF TIMESTAMP '2026-01-01' a, main.prices b", [True, False]),
        (
            "WITH prices AS (FROM main.prices) FROM main.prices a, prices AS OF TIMESTAMP '2026-01-01' b",
            [False, False],
        ),
        (
            "WITH prices AS (FROM prices AS OF TIMESTAMP '2026-01-01') FROM prices, main.prices b",
            [True, False],
        ),
        (
            f"FROM (FROM prices WHERE k IN ({LONG})) a, main.prices AS OF TIMESTAMP '2026-01-01' b",
            [False, True],
        ),
    ],
)
def test_a_moment_is_that_of_the_table_before_it(text: str, held: list[bool]) -> None:
    taken = take_as_of(text)
    lifted = lift(taken.text, "duckdb")
    moments = Moments.from_clauses(taken.clauses, NEWEST)
    bound = bind(parse(lifted, "duckdb"), lifted.lists, {PRICES.name: PRICES}, moments=moments)
    assert bound.tree is not None
    in_order = sorted(bound.references, key=lambda reference: reference.offset)
    wheres = {
        select.args["from_"].this.name: select.args["where"].sql()
        for select in bound.tree.find_all(exp.Select)
        if isinstance(select.args.get("where"), exp.Where)
        and isinstance(select.args["from_"].this, exp.Table)
    }
    assert ["2026-01-01" in wheres[reference.scan] for reference in in_order] == held


def test_a_moment_of_versions_is_none_of_their_history() -> None:
    text = "SELECT * FROM history.prices h, prices AS OF TIMESTAMP '2026-01-01' p"
    taken = take_as_of(text)
    bound = bind(parse(lift(taken.text, "duckdb"), "duckdb"), (), {PRICES.name: PRICES})
    assert resolve_as_of(SourceText(text, text), taken.clauses, bound.references) == {}


def test_long_lists_are_passed_over() -> None:
    numbers = ", ".join(str(number) for number in range(100_000))
    text = f"SELECT * FROM plays WHERE k IN ({numbers}) AS OF EPOCH 5"
    (clause,) = take_as_of(text).clauses
    assert clause.as_of == epoch(5)
    assert clause.is_last


@given(st.text(alphabet="AS OF EPOCH5'\"()$/*-e\n,.;", max_size=60))
def test_any_text_keeps_its_length(text: str) -> None:
    try:
        taken = take_as_of(f"{text} AS OF EPOCH 5")
    except InvalidInput:
        return
    assert len(taken.text) == len(text) + len(" AS OF EPOCH 5")
    assert taken.text.count("\n") == text.count("\n")


@pytest.mark.parametrize("value", ["1", "'a'"])
def test_a_list_of_more_values_than_are_matched_at_once_is_no_end_of_a_table(value: str) -> None:
    listed = ", ".join([value] * (2 * VALUES_AT_ONCE + 5))
    text = f"SELECT * FROM plays AS OF EPOCH 5, trips AS OF EPOCH 6 WHERE song IN ({listed})"
    short = text.replace(listed, value)
    taken, expected = take_as_of(text, "duckdb"), take_as_of(short, "duckdb")
    assert taken.text == expected.text.replace(f"({value})", f"({listed})")
    assert taken.clauses == expected.clauses
