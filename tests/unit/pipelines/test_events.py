"""Events are pure functions of their numbers, and JSON rows say what their columns say."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import Unavailable
from spark_pipeline.pipelines.catalogue import PIPELINES
from spark_pipeline.pipelines.draws import Draws
from spark_pipeline.pipelines.feeding import EventWriter, Feeder, FileFeed
from spark_pipeline.pipelines.json_rows import json_rows
from spark_pipeline.pipelines.music_charts import HIT_PLAYS
from spark_pipeline.pipelines.pipeline import EVENT_TIME, Topic
from spark_pipeline.pipelines.songs import GENRES, make_songs
from tests.support.waiting import wait_until

TOPICS = [topic for pipeline in PIPELINES.values() for topic in pipeline.topics]


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_an_event_depends_on_its_number_and_the_seed_alone(topic: Topic) -> None:
    events = topic.events(0, 500)
    assert topic.events(321, 100).equals(events.slice(321, 100))
    assert pa.concat_tables([topic.events(0, 7), topic.events(7, 493)]).equals(events)
    assert not topic.events(0, 500, seed=2).equals(events)
    # Columns as the topic says, in its order, since files and messages are read by these names.
    assert events.column_names == [column.strip().split()[0] for column in topic.columns.split(",")]


def test_names_of_topics_and_stores_are_used_once() -> None:
    stores = [
        output.store
        for pipeline in PIPELINES.values()
        for output in [*pipeline.stores, *(each.output for each in pipeline.references)]
    ]
    assert len(set(stores)) == len(stores)
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)


def test_draws_are_spread_evenly() -> None:
    draws = Draws(np.arange(100_000, dtype=np.int64))
    counts = np.bincount(draws.integers("thing", 10), minlength=10)
    # Five standard deviations.
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(9_000)
    together = np.corrcoef(draws.uniform("one"), draws.uniform("two"))[0, 1]
    following = np.corrcoef(draws.uniform("one")[1:], draws.uniform("one")[:-1])[0, 1]
    assert max(abs(together), abs(following)) < 0.02


def test_late_events_are_as_late_as_was_said() -> None:
    draws = Draws(np.arange(10_000, dtype=np.int64))
    order = draws.times(100.0).cast(pa.int64()).to_numpy()
    late = order - draws.times(100.0, late_share=0.1, late_seconds=3).cast(pa.int64()).to_numpy()
    assert 0.08 < (late > 0).mean() < 0.12
    assert late.min() == 0
    assert 2_900_000 < late.max() < 3_000_000


def test_json_rows_say_what_the_columns_say() -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    table = pa.table(
        {
            "text": ['a "b" \\ \n ü 🎵', None, ""],
            "number": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
            "share": [0.1, None, 1e300],
            "money": pa.array(
                [decimal.Decimal("12.30"), None, decimal.Decimal("-0.01")], pa.decimal128(12, 2)
            ),
            "flag": [True, False, None],
            'odd "name"': pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
        }
    )
    rows = [json.loads(row) for row in json_rows(table).to_pylist()]
    expected = table.to_pylist()
    for row in expected:
        money, time = row["money"], row['odd "name"']
        row["money"] = None if money is None else float(money)
        row['odd "name"'] = None if time is None else time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert rows == expected
    assert json_rows(table.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_name_of_a_file_is_used_once(tmp_path: Path, form: str) -> None:
    """A job that has read a file of some name reads no other one of it."""
    topic, names = TOPICS[0], list[str]()
    feeds = [FileFeed(tmp_path, form), FileFeed(tmp_path, form)]
    for feed in [*feeds, *feeds, FileFeed(tmp_path, form)]:
        feed.write(topic, topic.events(len(names) * 5, 5))
        (file,) = (tmp_path / topic.name).iterdir()
        if form == "parquet":
            assert pq.read_table(file).equals(topic.events(len(names) * 5, 5))
        names.append(file.name)
        # As who cleans up does.
        file.unlink()
    assert len(set(names)) == len(names)
    assert names == sorted(names)
    assert all(name.endswith(f".{form}") for name in names)


class _Feed:
    def __init__(self) -> None:
        self.written: list[pa.Table] = []
        self.broken = False

    def write(self, topic: Topic, events: pa.Table) -> None:
        if self.broken:
            raise Unavailable("It is broken.")
        self.written.append(events)


def test_a_feeder_makes_the_events_in_their_order_and_says_why_it_ended() -> None:
    feed, failures = _Feed(), list[Unavailable]()
    topic = TOPICS[0]
    writer = EventWriter(feed, [topic], 2_000, 1)
    with Feeder(writer, failures.append):
        wait_until(lambda: len(feed.written) >= 2)
        feed.broken = True
        wait_until(lambda: bool(failures))
    made = pa.concat_tables(feed.written)
    assert made.equals(topic.events(0, made.num_rows))
    assert writer.made == {topic.name: made.num_rows}
    assert [str(failure) for failure in failures] == ["It is broken."]


def test_live_events_are_the_same_and_say_when_they_were_made() -> None:
    feed, failures = _Feed(), list[Unavailable]()
    topic = TOPICS[0]
    before = time.time()
    with Feeder(EventWriter(feed, [topic], 2_000, 1, is_live=True), failures.append):
        wait_until(lambda: len(feed.written) >= 3)
    after = time.time()
    made = pa.concat_tables(feed.written)
    plain = topic.events(0, made.num_rows)
    assert made.schema.equals(plain.schema)
    assert made.drop_columns(EVENT_TIME).equals(plain.drop_columns(EVENT_TIME))
    times = made[EVENT_TIME].cast(pa.int64()).to_numpy() / 1e6
    assert before <= times[0]
    assert times[-1] <= after
    # No two have one time: those of a piece begin behind the last of the piece before.
    assert (np.diff(times) > 0).all()
    assert not failures


def test_zipf_draws_fall_as_its_law_says() -> None:
    numbers = Draws(np.arange(200_000, dtype=np.int64)).zipf("song", 1_000, 0.9)
    counts = np.bincount(numbers, minlength=1_000)
    shares = np.arange(1, 1_001) ** -0.9
    expected = 200_000 * shares / shares.sum()
    # Six standard deviations.
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()


def test_songs_are_the_same_for_the_same_seed() -> None:
    songs = make_songs(3, 1000)
    assert songs.equals(make_songs(3, 1000))
    assert not songs.equals(make_songs(4, 1000))
    assert songs["song_id"].to_pylist() == list(range(1, 1001))
    assert set(songs["genre"].to_pylist()) == set(GENRES)
    artists = songs.group_by("artist").aggregate([("genre", "count_distinct")])
    assert set(artists["genre_count_distinct"].to_pylist()) == {1}


def test_some_songs_are_played_most_and_hits_come_and_go() -> None:
    plays = PIPELINES["music_charts"].topics[0].events(0, 3 * HIT_PLAYS)["song_id"].to_numpy()
    counts = np.sort(np.bincount(plays))[::-1]
    assert 0.04 < counts[0] / len(plays) < 0.09
    assert 0.3 < counts[:100].sum() / len(plays) < 0.55
    hits = [
        set(np.bincount(plays[start : start + HIT_PLAYS]).argsort()[-8:])
        for start in range(0, len(plays), HIT_PLAYS)
    ]
    assert all(one != other for one, other in itertools.combinations(hits, 2))
