"""Partial rows of events, and merge stores that are fed with them, against an aggregation in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.changelog import Changelog, open_appender
from engine.errors import InvalidInput
from engine.model.kinds import Behaviour, Function, Merge, MergedColumn
from engine.model.schema import GroupName, StoreDefinition, StoreName, define_store
from engine.producers.partial_rows import partial_rows
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryService
from flight_server.cli.load import LoadOptions, load_file
from tests.support.seeds import seeded_generator

COLUMNS = (
    MergedColumn("plays", Function.COUNT),
    MergedColumn("rated", Function.COUNT, "rating"),
    MergedColumn("seconds", Function.SUM, "seconds"),
    MergedColumn("price", Function.SUM, "price"),
    MergedColumn("rating", Function.AVG, "rating"),
    MergedColumn("shortest", Function.MIN, "seconds"),
    MergedColumn("word", Function.MAX, "word"),
    MergedColumn("opening", Function.FIRST, "word", "at"),
    MergedColumn("latest", Function.LAST, "word", "at"),
    MergedColumn("users", Function.COUNT_DISTINCT, "user"),
    MergedColumn("words", Function.COUNT_DISTINCT, "word"),
    MergedColumn("median", Function.QUANTILES, "seconds", ranks=(0.5,)),
    MergedColumn("spread", Function.QUANTILES, "seconds", ranks=(0.0, 1.0)),
)
AGGREGATION = """
    SELECT song, count(*) AS plays, count(rating) AS rated, sum(seconds)::BIGINT AS seconds, sum(price)::DECIMAL(18, 2) AS price,
           avg(rating) AS rating, min(seconds) AS shortest, max(word) AS word, arg_min(word, "at") AS opening, arg_max(word, "at") AS latest,
           count(DISTINCT "user") AS users, count(DISTINCT word) AS words, quantile_disc(seconds, 0.5)::DOUBLE AS median,
           [min(seconds)::DOUBLE, max(seconds)::DOUBLE] AS spread
    FROM events GROUP BY song ORDER BY song
"""


def events_of(rows: int, seed: int = 1) -> pa.Table:
    """Events of some songs; times are distinct, fractions of ratings exact in any order."""
    random = seeded_generator(seed)
    words = [f"word {number}" for number in random.integers(0, 30, rows)]
    seconds = pa.array(random.integers(0, 400, rows), pa.int32(), mask=random.random(rows) < 0.1)
    rating = pa.array(random.integers(0, 40, rows) / 8, mask=random.random(rows) < 0.3)
    price = pa.array(random.integers(0, 99_999, rows)).cast(pa.decimal128(38, 0)).cast(pa.decimal128(8, 2))
    at = pa.array(random.permutation(rows) + seed * rows).cast(pa.timestamp("us"))
    song = pa.array([f"song {number}" for number in random.integers(0, 7, rows)]).dictionary_encode()
    user = pa.array(random.integers(0, 40, rows))
    return pa.table(
        {
            "song": song,
            "at": at,
            "user": user,
            "seconds": seconds,
            "rating": rating,
            "price": price,
            "word": words,
        }
    )


def aggregate(events: pa.Table) -> list[dict[str, object]]:
    with duckdb.connect() as connection:
        connection.register("events", events)
        rows: list[dict[str, object]] = connection.sql(AGGREGATION).to_arrow_table().to_pylist()
        return rows


def definition_of(rows: pa.Table) -> StoreDefinition:
    return define_store("plays", rows.schema, ["song"], partitions=2, behaviour=Behaviour(Merge(COLUMNS)))


def contents(changelog: Changelog, data: Path) -> list[dict[str, object]]:
    follower = Follower(changelog, data, FollowerOptions(poll_seconds=3600.0))
    follower.start()
    try:
        assert follower.wait_for(GroupName("plays"), changelog.newest_epoch(GroupName("plays")), 60)
        with closing(QueryService(follower)) as service:
            rows: list[dict[str, object]] = (
                service.execute("SELECT * FROM plays ORDER BY song").read_all().to_pylist()
            )
            return rows
    finally:
        follower.stop()


@pytest.mark.parametrize("cuts", [[], [1], [100, 101, 700], list(range(50, 1000, 50))])
def test_a_store_fed_with_partial_rows_equals_an_aggregation(tmp_path: Path, cuts: Sequence[int]) -> None:
    events = events_of(1000)
    changelog = Changelog.open(str(tmp_path / "changelog"))
    with open_appender(changelog, [definition_of(partial_rows(events, ["song"], COLUMNS))]) as appender:
        for start, stop in zip([0, *cuts], [*cuts, 1000], strict=True):
            appender.append({"plays": partial_rows(events.slice(start, stop - start), ["song"], COLUMNS)})
    assert contents(changelog, tmp_path / "data") == aggregate(events)


def test_no_events_make_no_rows() -> None:
    some, none = (
        partial_rows(events, ["song"], COLUMNS) for events in (events_of(10), events_of(10).slice(0, 0))
    )
    assert none.num_rows == 0
    assert none.schema == some.schema


def test_files_of_events_and_of_partial_rows_are_loaded(tmp_path: Path) -> None:
    events, more = events_of(300), events_of(200, seed=2)
    changelog = Changelog.open(str(tmp_path / "changelog"))
    with open_appender(changelog, [definition_of(partial_rows(events, ["song"], COLUMNS))]):
        pass
    pq.write_table(events, tmp_path / "events.parquet")
    pq.write_table(partial_rows(more, ["song"], COLUMNS), tmp_path / "partials.parquet")
    for name in ("events", "partials"):
        load_file(changelog, tmp_path / f"{name}.parquet", LoadOptions("plays", batch_rows=77))
    assert contents(changelog, tmp_path / "data") == aggregate(
        pa.concat_tables([events.unify_dictionaries(), more])
    )
    stored = changelog.definition(StoreName("plays"))
    assert stored is not None
    assert stored.behaviour == Behaviour(Merge(COLUMNS))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (MergedColumn("x", Function.SUM, "nothing"), "must have the column nothing once"),
        (MergedColumn("x", Function.SUM), "does not say which column"),
        (MergedColumn("x", Function.SUM, "word"), "word is VARCHAR, which has no sum"),
        (
            MergedColumn("x", Function.COUNT_DISTINCT, "rating"),
            "rating is DOUBLE, whose distinct values are not counted",
        ),
        (
            MergedColumn("x", Function.QUANTILES, "word", ranks=(0.5,)),
            "word is VARCHAR, which has no quantiles",
        ),
        (MergedColumn("x", Function.MIN, "tags"), r"tags is BIGINT\[\], which has no order for min"),
        (
            MergedColumn("x", Function.LAST, "word", "tags"),
            r"tags is BIGINT\[\], which has no order for last",
        ),
        (MergedColumn("x", Function.COUNT_DISTINCT, "tags"), "whose distinct values are not counted"),
    ],
)
def test_what_does_not_fit_is_refused(column: MergedColumn, message: str) -> None:
    events = events_of(20).append_column("tags", pa.array([[1]] * 20))
    with pytest.raises(InvalidInput, match=message):
        partial_rows(events, ["song"], [column])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ([], "a list of at least one column name"),
        ("song", "a list of at least one column name"),
        (["song", "rating"], "rating is DOUBLE, which cannot be a key"),
        (["tags"], r"tags is BIGINT\[\], which cannot be a key"),
    ],
)
def test_a_key_that_no_store_could_have_is_refused(key: Sequence[str], message: str) -> None:
    events = events_of(20).append_column("tags", pa.array([[1]] * 20))
    with pytest.raises(InvalidInput, match=message):
        partial_rows(events, key, [MergedColumn("plays", Function.COUNT)])


def test_a_null_key_is_refused() -> None:
    events = pa.table({"song": ["a", None], "seconds": [1, 2]})
    with pytest.raises(InvalidInput, match="song is null in 1 of 2 events"):
        partial_rows(events, ["song"], [MergedColumn("plays", Function.COUNT)])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            pa.array([1, 1001], pa.timestamp("ns")),
            r"column at of .* timestamp\[ns\] .* TIMESTAMP cannot hold",
        ),
        (pa.array([1, 2**62], pa.timestamp("s")), r"column at of .* timestamp\[s\] .* TIMESTAMP cannot hold"),
    ],
    ids=["too fine", "too far"],
)
def test_values_that_no_store_could_have_are_refused(times: pa.Array, message: str) -> None:
    events = pa.table({"song": ["a", "b"], "word": ["x", "y"], "at": times})
    latest = MergedColumn("latest", Function.LAST, "word", "at")
    with pytest.raises(InvalidInput, match=message):
        partial_rows(events, ["song"], [latest])


def test_columns_of_any_arrow_type_are_taken() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["x", "y"], pa.string_view()))
    moments = pa.array([1000, 0], pa.timestamp("ns"))
    events = pa.table({"song": ["a", "a"], "word": words, "at": moments})
    merged = (MergedColumn("latest", Function.LAST, "word", "at"), MergedColumn("word", Function.MAX, "word"))
    [row] = partial_rows(events, ["song"], merged).select(["latest", "word"]).to_pylist()
    assert row == {"latest": "y", "word": "y"}
