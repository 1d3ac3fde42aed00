"""The query service as its callers see it."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidInput,
    LimitExceeded,
    LivestateError,
    NotFound,
    Position,
    Unsupported,
)
from engine.scan import RowFilter
from engine.service import QueryOptions, QueryService, Session
from tests.support.memory_source import MemorySource
from tests.support.prepared import execute_prepared
from tests.unit.exec.conftest import PLAYS

ENDLESS = "SELECT count(*) FROM range(1000000000000) a"


def rows(service: QueryService, sql: str, **values: Any) -> list[dict[str, Any]]:
    parameters = (
        pa.record_batch([pa.array([value]) for value in values.values()], names=list(values))
        if values
        else None
    )
    with service.execute(sql, parameters) as result:
        found: list[dict[str, Any]] = result.read_all().to_pylist()
    return found


def plan_of(service: QueryService, sql: str) -> str:
    with service.execute(sql) as result:
        return result.metadata.plan


@pytest.mark.parametrize(
    ("sql", "plan"),
    [
        ("SELECT * FROM plays WHERE song_id = 3", "lookup"),
        ("SELECT genre, p.count AS n FROM plays p WHERE p.song_id IN (1, 2, 3) LIMIT 2", "lookup"),
        ('SELECT title FROM "my songs" WHERE "song id" = 1 OR "Song Id" = 2', "lookup"),
        ("SELECT p.song_id AS id, p.* FROM plays p WHERE song_id = 3", "lookup"),
        ("SELECT * FROM plays WHERE song_id = 3 AND count > 1", "rows"),
        ("SELECT * FROM plays WHERE song_id = 3 ORDER BY count", "engine"),
        ("SELECT song_id + 1 FROM plays WHERE song_id = 3", "engine"),
        ("SELECT DISTINCT genre FROM plays WHERE song_id = 3", "engine"),
        ("SELECT * FROM plays WHERE song_id = '3'", "engine"),
        ("SELECT * FROM plays WHERE song_id = 3.5", "engine"),
        ("SELECT count AS song_id FROM plays WHERE song_id = 3", "engine"),
        ("SELECT * FROM plays", "rows"),
        ("FROM plays LIMIT 3", "rows"),
        ("SELECT genre FROM plays OFFSET 3", "rows"),
        ("SELECT * FROM plays WHERE song_id > 3 ORDER BY song_id LIMIT 2", "rows"),
        ("SELECT genre AS g FROM plays WHERE genre IS NULL ORDER BY plays.song_id DESC", "rows"),
        ("SELECT * FROM plays WHERE song_id > 3 ORDER BY genre LIMIT 2", "engine"),
        (f"SELECT * FROM plays WHERE {' OR '.join(f'count = {n}' for n in range(65))}", "engine"),
        ("SELECT sum(count) AS s, min(genre) FROM plays WHERE song_id > 3", "summary"),
        ("SELECT sum(count) AS s FROM plays WHERE song_id > 3 GROUP BY genre", "engine"),
        ("SELECT count(*) FROM plays", "count"),
        ("SELECT count(genre) FROM plays", "engine"),
        ("SHOW TABLES", "catalog"),
    ],
)
def test_the_plan_fits_the_statement(service: QueryService, sql: str, plan: str) -> None:
    assert plan_of(service, sql) == plan


def test_texts_of_one_shape_get_their_own_answers(service: QueryService) -> None:
    for number in (3, 4, 5, 99):
        assert rows(service, f"SELECT song_id, genre FROM plays WHERE song_id = {number} LIMIT 7") == (
            [{"song_id": number, "genre": ["rock", "pop"][number % 2]}] if number < 20 else []
        )
    assert rows(service, "SELECT song_id, genre FROM plays WHERE song_id = 3 LIMIT 0") == []
    with pytest.raises(InvalidInput, match="Could not convert"):
        rows(service, "SELECT song_id, genre FROM plays WHERE song_id = 'x' LIMIT 7")
    assert (
        rows(service, "SELECT song_id, genre FROM plays WHERE song_id = 99999999999999999999 LIMIT 7") == []
    )


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("SELECT * FROM plays WHERE song_id = 1 LIMIT 0%", 0),
        ("SELECT * FROM plays WHERE song_id = 1 LIMIT 1 OFFSET 1", 0),
        ("SELECT * FROM plays WHERE song_id = -1", 0),
        ("SELECT 'a', 1, song_id FROM plays WHERE song_id = 1", 1),
        ("SELECT song_id FROM plays WHERE song_id = 1_9", 1),
        ("SELECT song_id FROM plays WHERE song_id = 1 -- 2", 1),
        ("SELECT song_id FROM plays WHERE song_id = 1.0", 1),
    ],
)
def test_literals_that_are_no_keys_keep_their_meaning(service: QueryService, sql: str, count: int) -> None:
    assert [len(rows(service, sql)) for _ in range(3)] == [count] * 3


def test_lists_of_one_shape_get_their_own_answers(service: QueryService) -> None:
    for first in (0, 10, 1000):
        keys = ", ".join(str(first + place) for place in range(100))
        expected = max(0, 20 - first)
        assert len(rows(service, f"SELECT song_id FROM plays WHERE song_id IN ({keys})")) == expected
        assert rows(service, f"SELECT count(*) AS n FROM plays WHERE song_id NOT IN ({keys})") == [
            {"n": 20 - expected}
        ]
        values = ", ".join(f"({first + place}, 'v{place}')" for place in range(100))
        assert (
            rows(
                service,
                f"SELECT max(v) AS v, count(*) AS n FROM plays JOIN (VALUES {values}) x(k, v) ON k = song_id",
            )[0]["n"]
            == expected
        )


def test_a_long_list_that_needs_casts_is_left_to_the_engine(service: QueryService) -> None:
    keys = ", ".join(f"'{place}'" for place in range(100))
    assert len(rows(service, f"SELECT song_id FROM plays WHERE song_id IN ({keys})")) == 20
    assert rows(
        service, f"SELECT count(*) AS n FROM plays WHERE song_id + 1 IN ({keys.replace(chr(39), '')})"
    ) == [{"n": 20}]


def test_pruned_rows_are_not_read(service: QueryService, source: MemorySource) -> None:
    reads = source.views[PLAYS.name].reads
    reads.clear()
    rows(service, "SELECT sum(count) AS n FROM plays WHERE song_id BETWEEN 3 AND 5 AND genre LIKE 'ro%'")
    [(kind, wanted)] = reads
    assert kind == "scan"
    assert isinstance(wanted, RowFilter)
    assert wanted.points is None
    assert {
        name: (interval.low.as_py(), interval.high.as_py())
        for name, interval in wanted.intervals.items()
        if interval.low and interval.high
    } == {
        "song_id": (3, 5),
        "genre": ("ro", "rp"),
    }


def test_parameters(service: QueryService) -> None:
    assert rows(service, "SELECT genre FROM plays WHERE song_id = ?", a=3) == [{"genre": "pop"}]
    assert rows(
        service, "SELECT count(*) AS n FROM plays WHERE count > $2 AND genre = $1", a="rock", b=5
    ) == [{"n": 5}]
    assert rows(
        service, "SELECT song_id FROM plays WHERE genre = $g AND song_id < $top LIMIT $n", top=3, n=1, g="pop"
    ) == [{"song_id": 1}]
    assert len(rows(service, "SELECT * FROM plays WHERE song_id = ANY(?)", a=[1, 2, 2, 77, None])) == 2
    assert rows(service, "SELECT * FROM plays WHERE song_id = ?", a=None) == []
    assert rows(service, "SELECT count(*) AS n FROM plays WHERE song_id > ?", a=17.5) == [{"n": 2}]
    assert rows(service, "SELECT ? + 1 AS x, ? AS y", a=41, b="t") == [{"x": 42, "y": "t"}]
    assert rows(service, "SELECT '?' AS q, \"count\" FROM plays WHERE song_id = ? -- ?", a=1) == [
        {"q": "?", "count": 3}
    ]


def test_parameters_have_types(service: QueryService) -> None:
    sql = (
        "SELECT * FROM plays WHERE song_id = ? AND genre LIKE ? AND (song_id, genre) IN ((?, ?)) AND count "
        "< CAST(? AS SMALLINT) LIMIT ?"
    )
    prepared = service.prepare(sql)
    assert prepared.parameters == pa.schema(
        [
            ("1", pa.int64()),
            ("2", pa.string()),
            ("3", pa.int64()),
            ("4", pa.string()),
            ("5", pa.int64()),
            ("6", pa.int64()),
        ]
    )
    assert service.prepare("SELECT $name").parameters == pa.schema([("name", pa.string())])
    assert prepared.schema == pa.schema([(field.name, field.type) for field in PLAYS.schema])


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("FLOAT", pa.float64()),
        ("REAL", pa.float64()),
        ("INT", pa.int64()),
        ("STRING", pa.string()),
        ("BOOL", pa.bool_()),
        ("DATETIME", pa.timestamp("us")),
        ("DECIMAL(9,2)", pa.decimal128(9, 2)),
        ("INT[]", pa.list_(pa.field("item", pa.int64()))),
    ],
)
def test_a_cast_parameter_has_the_type_of_the_cast(
    service: QueryService, written: str, told: pa.DataType
) -> None:
    assert service.prepare(f"SELECT CAST(? AS {written})").parameters == pa.schema([("1", told)])


@pytest.mark.parametrize(
    ("sql", "values", "message"),
    [
        ("SELECT * FROM plays WHERE song_id = ?", {"a": "x"}, "Parameter 1 must be BIGINT, not VARCHAR."),
        ("SELECT * FROM plays WHERE genre = $g", {"g": 5}, "Parameter g must be VARCHAR, not BIGINT."),
        (
            "SELECT * FROM plays WHERE song_id = ?",
            {},
            "The statement has 1 parameter, and values were given for 0.",
        ),
        ("SELECT * FROM plays", {"a": 1}, "The statement has 0 parameters, and values were given for 1."),
        (
            "SELECT * FROM plays WHERE song_id = $1 AND count = $3",
            {"a": 1, "b": 1},
            "Parameters must be numbered from $1 without gaps; there are $1, $3.",
        ),
        ("SELECT * FROM plays WHERE song_id = $1 AND count = $x", {"a": 1, "b": 1}, "either numbered"),
    ],
)
def test_wrong_parameters_are_named(
    service: QueryService, sql: str, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        rows(service, sql, **values)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("sql", "kind", "message", "place"),
    [
        (
            "SELECT * FROM play",
            NotFound,
            (
                "There is no store play. Did you mean plays?\nLine 1, column 15:\nSELECT * FROM play\n       "
                "    "
                "   ^"
            ),
            Position(14, 1, 15),
        ),
        (
            "SELECT genr FROM plays",
            NotFound,
            "There is no column genr. Did you mean genre?",
            Position(7, 1, 8),
        ),
        (
            "SELECT\n  song_id,\n  p.cuont FROM plays p",
            NotFound,
            "There is no column cuont in p. Did you mean count?",
            Position(22, 3, 5),
        ),
        ("SELECT nofunction(1) FROM plays", NotFound, "There is no function nofunction.", Position(7, 1, 8)),
        ("SELECT * FROM plays WHERE", InvalidInput, "Syntax error", Position(20, 1, 21)),
        ("SELECT * FRM plays", InvalidInput, "Syntax error at 'plays'.", Position(13, 1, 14)),
        ("SELECT sum(genre) FROM plays", InvalidInput, "No function matches", Position(7, 1, 8)),
        (
            "SELECT count FROM plays LIMIT count",
            InvalidInput,
            "LIMIT and OFFSET are the same for all rows: count is a column.",
            Position(30, 1, 31),
        ),
        (
            "SELECT genre FROM plays OFFSET Genre + 1",
            InvalidInput,
            "LIMIT and OFFSET are the same for all rows: Genre is a column.",
            Position(31, 1, 32),
        ),
        (
            "WITH other AS (SELECT 1 AS one WHERE count = 1) SELECT genre FROM plays, other",
            InvalidInput,
            "There is no column count in one of the places where it is used",
            None,
        ),
        (
            "SELECT nolist(genre) WITHIN GROUP (ORDER BY genre) FROM plays",
            InvalidInput,
            'Unknown ordered aggregate "nolist".',
            None,
        ),
        ("EXPLAIN SELECT x FROM plays", NotFound, "There is no column x.", Position(15, 1, 16)),
        (
            "SELECT " + "(" * 10000 + "1" + ")" * 10000,
            InvalidInput,
            "nests deeper than 200 levels",
            Position(207, 1, 208),
        ),
        (
            "SELECT genre, count(*) FROM plays",
            InvalidInput,
            "must appear in the GROUP BY clause",
            Position(7, 1, 8),
        ),
    ],
)
def test_errors_point_at_their_place(
    service: QueryService, sql: str, kind: type[LivestateError], message: str, place: Position | None
) -> None:
    with pytest.raises(kind) as caught:
        rows(service, sql)
    assert message in caught.value.message
    assert ".." not in caught.value.message
    assert getattr(caught.value, "position", None) == place
    assert "__scan" not in caught.value.message


def test_places_behind_a_long_list_are_those_of_the_users_text(service: QueryService) -> None:
    sql = f"SELECT * FROM plays WHERE song_id IN ({', '.join(map(str, range(1000)))}) AND genr = 'x'"
    with pytest.raises(NotFound) as caught:
        rows(service, sql)
    assert caught.value.position == Position(sql.index("genr "), 1, sql.index("genr ") + 1)


@pytest.mark.parametrize(
    "sql", ["", "  \n", "-- nothing", ";", "INSERT INTO plays VALUES (1)", "select 1; select 2"]
)
def test_what_is_not_one_query_is_refused(service: QueryService, sql: str) -> None:
    with pytest.raises((InvalidInput, Unsupported)):
        rows(service, sql)


@pytest.mark.parametrize(
    ("memory", "longest"),
    [(64 << 20, 1 << 20), (256 << 20, 2 << 20), (2 << 30, 16 << 20), (64 << 30, 16 << 20)],
)
def test_small_hosts_take_shorter_texts(memory: int, longest: int) -> None:
    assert QueryOptions(memory_limit_bytes=memory).longest_text_bytes == longest
    assert QueryOptions(memory_limit_bytes=memory, max_sql_bytes=5).longest_text_bytes == 5


def test_ten_megabytes_of_sql(source: MemorySource) -> None:
    service = QueryService(source, QueryOptions(memory_limit_bytes=2 << 30, threads=2))
    keys = ",".join(str(place) for place in range(1_300_000))
    assert len(keys) > 8_800_000
    assert len(rows(service, f"SELECT song_id FROM plays WHERE song_id IN ({keys})")) == 20
    text = "x" * 10_000_000
    assert rows(service, f"SELECT length('{text}') AS n") == [{"n": 10_000_000}]
    with pytest.raises(LimitExceeded, match="1048576"):
        rows(
            service,
            "SELECT * FROM plays WHERE " + " OR ".join(f"song_id={place}" for place in range(700_000)),
        )
    with pytest.raises(LimitExceeded, match="max_sql_bytes"):
        rows(service, f"SELECT '{text}', '{text}'")
    service.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1" + " UNION ALL SELECT 1" * 10000,
        "SELECT " + "NOT " * 10000 + "TRUE",
        "SELECT " + "- " * 10000 + "1",
        "SELECT * FROM " + "(SELECT * FROM " * 10000 + "plays" + ")" * 10000,
        "SELECT " + "CASE WHEN TRUE THEN " * 5000 + "1" + " END" * 5000,
        "SELECT genre" + "[1]" * 10000 + " FROM plays",
        "SELECT 1" + "::INTEGER" * 5000,
        "SELECT 1" + " + 1" * 5000,
        "SELECT " + "{'a': " * 5000 + "1" + "}" * 5000,
        "SELECT * FROM plays" + " JOIN plays USING (song_id)" * 2000,
        "SELECT " + "?, " * 5000 + "?",
        "SELECT '\ud800'",
        "SELECT 'open",
        "SELECT /* open",
    ],
    ids=lambda sql: sql[7:30],
)
def test_monstrous_texts_fail_cleanly(service: QueryService, sql: str) -> None:
    with pytest.raises(LivestateError) as told:
        rows(service, sql)
    assert str(told.value).encode(), "what is told can be sent"


def test_a_statement_ends_at_its_time_out(service: QueryService) -> None:
    # Nothing else would end it.
    with pytest.raises(DeadlineExceeded, match=r"time-out of 0\.2 s"):
        service.execute(ENDLESS, session=Session(timeout_seconds=0.2)).read_all()
    assert rows(service, "SELECT sum(count) AS n FROM plays WHERE song_id < 3") == [{"n": 9}]


def test_a_statement_ends_when_it_is_cancelled(service: QueryService) -> None:
    cancelled = threading.Event()
    threading.Timer(0.1, cancelled.set).start()
    with pytest.raises(Cancelled):
        service.execute(ENDLESS, cancelled=cancelled.is_set).read_all()
    with pytest.raises(Cancelled):
        service.execute("SELECT * FROM plays", cancelled=lambda: True).read_all()


def test_a_result_can_be_closed_while_it_is_read(service: QueryService, source: MemorySource) -> None:
    result = service.execute("SELECT a.range, b.count FROM range(1000000000) a, plays b")
    assert next(result).num_rows > 0
    assert source.pins == 1
    result.close()
    result.close()
    assert source.pins == 0
    assert list(result) == []


def test_a_forgotten_result_is_released(service: QueryService, source: MemorySource) -> None:
    result = service.execute("SELECT a.range, b.count FROM range(1000000000) a, plays b")
    assert source.pins == 1
    del result
    assert source.pins == 0


def test_too_much_memory_names_the_limit(service: QueryService) -> None:
    with pytest.raises(LimitExceeded, match="memory_limit_bytes"):
        service.execute("SELECT list(range) FROM range(300000000)").read_all()
    assert rows(service, "SELECT sum(count) AS n FROM plays WHERE song_id < 3") == [{"n": 9}]


def test_an_error_in_mid_result_has_its_kind(service: QueryService, source: MemorySource) -> None:
    result = service.execute(
        "SELECT CASE WHEN range = 2900000 THEN error('no such thing') ELSE range END FROM range(3000000)"
    )
    with pytest.raises(InvalidInput, match="no such thing"):
        result.read_all()
    assert source.pins == 0


def test_batches_are_small(source: MemorySource) -> None:
    service = QueryService(source, QueryOptions(batch_bytes=100_000))
    with service.execute("SELECT range, repeat('x', 100) AS s FROM range(100000)") as result:
        sizes = [batch.nbytes for batch in result]
    service.close()
    assert len(sizes) > 50
    assert max(sizes) <= 110_000


def test_result_types_are_canonical(service: QueryService) -> None:
    sql = """SELECT sum(count) AS s, 1::HUGEINT AS h, NULL AS n, [1] AS l, {'a': [1]} AS st, MAP {'k': 1} AS m, 'a'::ENUM('a') AS e,
        TIME '10:00' AS t, INTERVAL 1 DAY AS i, now() AS z, '5f8a1c62-93d3-4e0f-8a3e-7d1b0c1d2e3f'::UUID AS u, [1, 2]::INTEGER[2] AS f,
        TIMESTAMP_S '2024-01-01 00:00:00' AS ts,
        'x'::BLOB AS b, '{}'::JSON AS j FROM plays"""
    item = pa.field("item", pa.int32())
    expected = {
        "s": pa.decimal128(38, 0),
        "h": pa.decimal128(38, 0),
        "n": pa.int32(),
        "l": pa.list_(item),
        "st": pa.struct([("a", pa.list_(item))]),
        "m": pa.map_(pa.string(), pa.int32()),
        "e": pa.string(),
        "t": pa.time64("us"),
        "i": pa.month_day_nano_interval(),
        "z": pa.timestamp("us", "UTC"),
        "u": pa.string(),
        "f": pa.list_(item),
        "ts": pa.timestamp("us"),
        "b": pa.binary(),
        "j": pa.string(),
    }
    with service.execute(sql) as result:
        table = result.read_all()
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == expected
    assert service.prepare(sql).schema == table.schema
    assert table.column("s").to_pylist() == [Decimal(97)]
    table.validate(full=True)


@pytest.mark.parametrize(
    "value", ["'101'::BIT", "'10:00:00+02'::TIMETZ", "1::VARIANT", "union_value(a := 1)", "123::BIGNUM"]
)
def test_types_that_arrow_lacks_are_refused(service: QueryService, value: str) -> None:
    with pytest.raises(Unsupported, match="cast it"):
        rows(service, f"SELECT {value} AS v")
    assert isinstance(rows(service, f"SELECT CAST({value} AS VARCHAR) AS v")[0]["v"], str)


def test_what_cannot_be_said_in_the_engines_dialect_is_refused(service: QueryService) -> None:
    with pytest.raises(Unsupported):
        rows(service, "SELECT * FROM plays WHERE song_id = 1 FOR UPDATE")


def test_metadata_is_json(service: QueryService) -> None:
    with service.execute("SELECT avg(count) FROM plays WHERE song_id > 5") as result:
        document = json.loads(result.metadata.to_json())
    assert document["plan"] == "engine"
    assert document["epochs"] == {"plays": 1}
    assert document["rows_read"] < document["rows"] == 25
    assert document["age_seconds"] > 0


def test_metadata_of_one_row_has_the_same_fields(service: QueryService) -> None:
    documents = []
    for sql in (
        "SELECT * FROM plays WHERE song_id = 5",
        "SELECT * FROM plays WHERE song_id = 6",
        "SELECT * FROM plays WHERE song_id + 1 = 6",
    ):
        with service.execute(sql) as result:
            known = {**vars(result.metadata), "statement": ""}
            assert json.loads(result.metadata.to_json()) == json.loads(json.dumps(known))
            documents.append(json.loads(result.metadata.to_json()))
    assert [document["plan"] for document in documents] == ["lookup", "lookup", "engine"]
    assert len({tuple(document) for document in documents}) == 1
    assert documents[1]["rows_read"] == 1
    assert documents[1]["epochs"] == documents[2]["epochs"]


def test_one_row_is_answered_at_once_when_its_statement_is_known(service: QueryService) -> None:
    sql = "SELECT song_id, song_id AS again, genre FROM plays WHERE song_id = "
    assert service.row(f"{sql}?", [5]) is None
    by_parameter, by_literal = service.prepare(f"{sql}?"), f"{sql}5"
    expected = service.execute(by_literal).read_all()
    for values in (
        [5],
        pa.record_batch([pa.array([5])], ["1"]),
        pa.record_batch([pa.array([5], pa.int8())], ["1"]),
    ):
        found = service.row(by_parameter.sql, values)
        assert found is not None
        assert found.read_all().equals(expected)
    found = service.row(by_literal, None)
    assert found is not None
    assert found.read_all().equals(expected)
    nothing = service.row(f"{sql}-5", None)
    assert nothing is not None
    assert nothing.schema == expected.schema
    assert nothing.read_all().num_rows == 0


@pytest.mark.parametrize("value", ["5", 5.0, True, None, 1 << 63])
def test_values_that_are_no_plain_keys_are_left_to_the_statement(
    service: QueryService, value: object
) -> None:
    sql = "SELECT genre FROM plays WHERE song_id = ?"
    service.prepare(sql)
    assert service.row(sql, [value]) is None
    assert service.row(sql, [5, 5]) is None
    assert service.row(sql, pa.record_batch([pa.array([5.0])], ["1"])) is None


def test_explain_is_stable(service: QueryService) -> None:
    engine_sql = (
        'SELECT UPPER(genre) AS g FROM "__scan_0" AS "plays" WHERE song_id IN (4, 5, 6, 7) AND count >= 2'
    )
    lines = [
        row["plan"]
        for row in rows(
            service,
            "EXPLAIN SELECT upper(genre) AS g FROM plays WHERE song_id IN (4, 5, 6, 7) AND count >= 2",
        )
    ]
    assert lines == [
        "plan: engine",
        "store: plays",
        "  columns: song_id, genre, count",
        "  points: 4 of (song_id): (4), (5), (6), …",
        "  interval: 2 <= count",
        "  interval: 4 <= song_id <= 7",
        "  reads: the rows of these points",
        f"engine: {engine_sql}",
    ]
    assert [row["plan"] for row in rows(service, "EXPLAIN SELECT * FROM plays WHERE song_id = 3")][:4] == [
        "plan: lookup",
        "store: plays",
        "  columns: song_id, genre, count",
        "  points: 1 of (song_id): (3)",
    ]
    lines = [
        row["plan"] for row in rows(service, "EXPLAIN SELECT DISTINCT genre FROM plays WHERE count >= 2")
    ]
    assert lines[3:] == [
        "  interval: 2 <= count",
        "  reads: 1 of 1 partitions, 1 of 1 segments, 1 of 1 blocks, 21 of 25 rows",
        (
            'engine: SELECT DISTINCT genre FROM (SELECT "genre", "count" FROM "__scan_0" WHERE __live = 1) AS "plays" '
            "WHERE count >= 2"
        ),
    ]
    analyzed = [row["plan"] for row in rows(service, "EXPLAIN ANALYZE SELECT * FROM plays WHERE song_id = 3")]
    assert "rows: 1" in analyzed


def test_the_catalog(service: QueryService) -> None:
    assert rows(service, "SHOW TABLES;") == [{"name": "My Songs"}, {"name": "plays"}]
    assert [row["store"] for row in rows(service, "show stores")] == ["My Songs", "plays"]
    described = {
        "column_name": "song_id",
        "column_type": "BIGINT",
        "null": "NO",
        "key": "PRI 1",
        "extra": "places rows",
    }
    assert rows(service, "DESCRIBE plays")[0] == described
    assert (
        rows(service, "DESCRIBE SELECT genre, count(*) AS n FROM plays GROUP BY 1")[1]["column_type"]
        == "BIGINT"
    )
    for sql in ("SHOW TABLES", "SHOW STORES", "DESCRIBE plays", "EXPLAIN SELECT 1"):
        with service.execute(sql) as result:
            assert service.prepare(sql).schema == result.schema


def test_another_dialect(service: QueryService) -> None:
    spark = Session(dialect="spark")
    with service.execute(
        (
            "SELECT `genre`, date_format(timestamp '2024-01-31 00:00:00', 'yyyy') AS y FROM plays WHERE "
            "song_id = 3 AND genre != 'it\\'s'"
        ),
        session=spark,
    ) as result:
        assert result.read_all().to_pylist() == [{"genre": "pop", "y": "2024"}]
    prepared = service.prepare("SELECT `genre` FROM plays WHERE song_id = ? AND genre != '?'", spark)
    assert prepared.parameters == pa.schema([("1", pa.int64())])
    given = pa.record_batch([pa.array([3])], names=["1"])
    with execute_prepared(service, prepared, given, spark) as result:
        assert result.read_all().to_pylist() == [{"genre": "pop"}]
    with pytest.raises(InvalidInput, match="dialect"):
        service.execute("SELECT 1", session=Session(dialect="klingon"))


def test_many_threads(service: QueryService, source: MemorySource) -> None:
    failures: list[str] = []

    def work(number: int) -> None:
        for place in range(20):
            key = (number * 7 + place) % 20
            if rows(service, f"SELECT song_id FROM plays WHERE song_id = {key}") != [{"song_id": key}]:
                failures.append(f"lookup {key}")
            if rows(service, f"SELECT count(*) AS n FROM plays WHERE song_id < {key}") != [{"n": key}]:
                failures.append(f"count {key}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert source.pins == 0


def test_a_statement_that_is_prepared_again_is_not_made_again(service: QueryService) -> None:
    sql = "SELECT song_id, count FROM plays WHERE song_id = ?"
    assert service.prepare(sql) is service.prepare(sql)
    pivot = "PIVOT plays ON song_id USING sum(count)"
    assert service.prepare(pivot).schema == service.execute(pivot).read_all().schema
    assert service.prepare(pivot) is not service.prepare(pivot)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        (
            (
                "SELECT * FROM (PIVOT plays ON genre IN ('pop', 'jazz') USING sum(count) GROUP BY song_id) "
                "WHERE song_id > $1"
            ),
            ["song_id", "pop", "jazz"],
        ),
        (
            (
                "SELECT * FROM (SELECT song_id, genre, count FROM plays) PIVOT (sum(count) FOR genre IN "
                "('pop')) WHERE song_id > $1"
            ),
            ["song_id", "pop"],
        ),
        (
            (
                "SELECT name, value FROM (SELECT song_id, count FROM plays) UNPIVOT (value FOR name IN "
                "(count)) WHERE value > $1"
            ),
            ["name", "value"],
        ),
    ],
)
def test_columns_that_do_not_depend_on_rows_are_known_without_parameters(
    service: QueryService, sql: str, names: list[str]
) -> None:
    assert service.prepare(sql).schema.names == names
    assert service.execute(sql, pa.record_batch({"1": [0]})).read_all().schema == service.prepare(sql).schema


@pytest.mark.parametrize("operator", ["OR", "AND", "+"])
def test_many_terms(service: QueryService, operator: str) -> None:
    terms = 3000
    condition = f" {operator} ".join(
        f"song_id {'=' if operator == 'OR' else '<>'} {number + 5}" for number in range(terms)
    )
    sql = (
        f"SELECT count(*) AS n FROM plays WHERE {condition}"
        if operator != "+"
        else f"SELECT sum(song_id{' + 1' * terms}) AS n FROM plays"
    )
    with service.execute(sql) as result:
        (found,) = result.read_all()["n"].to_pylist()
    assert found == {"OR": 15, "AND": 5, "+": sum(range(20)) + 20 * terms}[operator]


def test_what_was_prepared_before_is_found_as_long_as_it_means_the_same(service: QueryService) -> None:
    # The service has been asked by other tests.
    sql = "SELECT genre AS prepared_once FROM plays WHERE song_id = ?"
    assert service.prepared_before(sql) is None
    prepared = service.prepare(sql)
    value = pa.record_batch([pa.array([5])], ["1"])
    known = service.prepared_before(sql, expected_shapes=prepared.shapes, given=lambda: value)
    assert known is prepared
    assert prepared.shapes is not None
    other = replace(prepared.shapes[0], generation=1)
    assert service.prepared_before(sql, expected_shapes=(other,)) is None
    assert service.prepared_before(sql, Session(dialect="spark")) is None
    for sql in ("SELECT ?, genre FROM plays", "SELECT count * ? FROM plays"):
        plain = service.prepare(sql)
        assert service.prepared_before(sql) is plain
        for given in (pa.array(["x"]), pa.array([1.5]), pa.nulls(1)):
            assert service.prepared_before(sql, given=partial(pa.record_batch, [given], ["1"])) is None
