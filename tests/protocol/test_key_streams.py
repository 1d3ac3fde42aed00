"""Streams of keys: lookups by key over an open exchange."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import flight

from engine.changelog import Changelog, append_table
from engine.errors import (
    DeadlineExceeded,
    InvalidInput,
    LimitExceeded,
    LivestateError,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from engine.model.migration import parse_changes
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, StoreName, define_store
from engine.service import QueryOptions
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import Host, HostOptions
from flight_server.server.limits import ServerLimits
from tests.protocol.conftest import BIG_ROWS, SONGS
from tests.support.many_hosts import three_hosts
from tests.support.plays import ROWS
from tests.support.started_host import start_host
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PAIRS = pa.table(
    {
        "day": pa.array([1, 1, 2], pa.int32()),
        "city": ["Ærø", "Bonn", "Bonn"],
        "seen": pa.array([None, 2, 3], pa.int64()),
    }
)
DAY = dt.date(2024, 1, 1)
MIDNIGHT = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
NOON = dt.datetime(2024, 1, 1, 12)  # noqa: DTZ001 - likewise


@pytest.fixture
def client(uri: str) -> Iterator[Client]:
    with Client(uri) as client:
        yield client


def test_a_key_has_a_row_or_none(client: Client) -> None:
    with client.keys("songs") as keys:
        assert keys.get(2) == {"song_id": 2, "title": "two", "plays": 20}
        assert keys.get(99) is None
        assert keys.get(1) == {"song_id": 1, "title": "one", "plays": 10}
        assert list(keys.metadata["epochs"].values()) == [2]
        assert keys.metadata["age_seconds"] >= 0


def test_columns_come_as_they_are_named(client: Client) -> None:
    with client.keys("SONGS", ["plays", "Title"]) as keys:
        assert keys.columns == ("plays", "title")
        assert keys.get(3) == {"plays": 30, "title": "three"}


@pytest.mark.parametrize("columns", [["plays"], ["title", "song_id"], None])
def test_many_keys_have_a_row_each_in_their_order(client: Client, columns: list[str] | None) -> None:
    with client.keys("songs", columns) as keys:
        found = keys.get_many([3, 99, 1, 3, 2])
        by_key = {row["song_id"]: row for row in SONGS.to_pylist()}
        for key, row in zip([3, 99, 1, 3, 2], found.to_pylist(), strict=True):
            assert row.pop("__found") == (key in by_key)
            assert row == {name: by_key.get(key, {}).get(name) for name in keys.columns}


def test_more_keys_than_a_message_takes_travel_in_several(client: Client) -> None:
    wanted = [*range(0, BIG_ROWS, 7), -1]
    with client.keys("big", ["twin"]) as keys:
        found = keys.get_many(wanted)
        assert found["twin"].to_pylist() == [*wanted[:-1], None]
        assert keys.get_many(pa.array(wanted)).equals(found)
        assert keys.get_many([]).num_rows == 0
        assert keys.get(7) == {"twin": 7}


@pytest.mark.parametrize("sizes", [[1] * 30, [999, 1, 1, 1000, 2000, 3], [100] * 5, [1]])
def test_small_batches_travel_together_and_each_has_its_answer(client: Client, sizes: list[int]) -> None:
    batches, start = [], 0
    for size in sizes:
        batches.append(_keys(*range(start, start + size), name="id"))
        start += size
    with client.keys("big", ["twin"]) as keys:
        found = list(keys.answers(batches))
        assert [answer.column("twin").to_pylist() for answer in found] == [
            batch.column(0).to_pylist() for batch in batches
        ]
        assert keys.metadata["age_seconds"] >= 0
        with pytest.raises(InvalidInput, match="does not fit"):
            list(keys.answers([_keys(1, name="id"), _keys(1, name="id", arrow_type=pa.int32())]))


def test_a_key_of_several_columns_is_a_tuple(tmp_path: Path) -> None:
    changelog = tmp_path / "changelog"
    append_table(
        Changelog.open(str(changelog)),
        define_store("pairs", PAIRS.schema, ["city", "day"], partitions=4),
        PAIRS,
    )
    with (
        start_host(HostOptions(changelog=str(changelog), data=tmp_path / "data", port=0)) as host,
        Client(host.uri) as client,
        client.keys("pairs", ["seen", "day"]) as keys,
    ):
        assert keys.get(("Bonn", 2)) == {"seen": 3, "day": 2}
        assert keys.get(("Ærø", 1)) == {"seen": None, "day": 1}
        assert keys.get(("Ærø", 2)) is None
        found = keys.get_many([("Bonn", 1), ("Ærø", 2), ("Ærø", 1), ("Bonn", 1)])
        assert found.to_pydict() == {
            "__found": [True, False, True, True],
            "seen": [2, None, None, 2],
            "day": [1, None, 1, 1],
        }
        with pytest.raises(InvalidInput, match="does not fit"):
            keys.get("Bonn")


@pytest.mark.parametrize(
    ("of_store", "has_row", "has_none"),
    [
        (
            pa.array([1, 2], pa.int64()),
            [1.0, Decimal(1), np.int32(1), np.float64(1)],
            [1.5, np.float32(1.5), Decimal("1.5")],
        ),
        (pa.array([1, 2], pa.uint8()), [1, 1.0], [1.9]),
        (
            pa.array([DAY], pa.date32()),
            [DAY, MIDNIGHT, pd.Timestamp(MIDNIGHT)],
            [NOON, pd.Timestamp(NOON), 19_723.5],
        ),
        (pa.array([NOON]), [NOON, pd.Timestamp(NOON)], [pd.Timestamp(NOON) + pd.Timedelta(1, "ns"), 1.5]),
    ],
)
def test_a_key_is_not_taken_for_another_one(
    of_store: pa.Array, has_row: list[object], has_none: list[object], tmp_path: Path
) -> None:
    changelog = tmp_path / "changelog"
    rows = pa.table({"k": of_store, "row": pa.array(range(len(of_store)), pa.int64())})
    append_table(Changelog.open(str(changelog)), define_store("s", rows.schema, ["k"], partitions=1), rows)
    with (
        start_host(HostOptions(changelog=str(changelog), data=tmp_path / "data", port=0)) as host,
        Client(host.uri) as client,
        client.keys("s", ["row"]) as keys,
    ):
        assert [keys.get(key) for key in has_row] == [{"row": 0}] * len(has_row)
        for key in has_none:
            with pytest.raises(InvalidInput, match="does not fit the key"):
                keys.get(key)
            with pytest.raises(InvalidInput, match="does not fit the key"):
                keys.get_many([key])
        if pa.types.is_date(of_store.type):
            assert keys.get_many(pa.array([MIDNIGHT])).num_rows == 1
            with pytest.raises(InvalidInput, match="does not fit the key"):
                keys.get_many(pa.array([MIDNIGHT, NOON]))


def test_a_stream_that_is_refused_says_nothing_beside_its_error(uri: str) -> None:
    program = (
        "from flight_server.client.client import Client\n"
        f"with Client({uri!r}) as client:\n"
        "    try:\n"
        "        client.keys('nothing')\n"
        "    except Exception as error:\n"
        "        print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("There is no store 'nothing'.\n", "")


def test_what_cannot_be_opened_says_why(client: Client) -> None:
    with pytest.raises(NotFound, match="no store 'nothing'"):
        client.keys("nothing")
    with pytest.raises(NotFound, match="no column 'nothing'; it has song_id, title, plays"):
        client.keys("songs", ["title", "nothing"])
    with pytest.raises(InvalidInput, match="each of them once"):
        client.keys("songs", ["title", "TITLE"])
    with pytest.raises(InvalidInput, match="at least one column"):
        client.keys("songs", [])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"version": 2, "store": "songs"}, "this host speaks 1,"),
        ({"store": "songs"}, "must name the version"),
        ({"version": 1}, "lacks its store"),
        ({"version": 1, "store": "songs", "columns": "title"}, "list of names"),
        ({"version": 1, "store": "songs", "limit": 3}, "a field 'limit'"),
        ({"version": 1, "store": "songs", "timeout": -1}, "above 0"),
        ([1], "must be an object"),
    ],
)
def test_descriptors_that_make_no_sense_are_refused(
    plain: flight.FlightClient, document: object, message: str
) -> None:
    command = json.dumps(document)
    _, reader = plain.do_exchange(
        flight.FlightDescriptor.for_command(command if command.startswith("{") else f"{{{command}")
    )
    expected = message if isinstance(document, dict) else "is not JSON"
    with pytest.raises((flight.FlightError, pa.ArrowException), match=expected):
        reader.read_chunk()


def _exchange(
    plain: flight.FlightClient, schema: pa.Schema, messages: list[pa.RecordBatch | None]
) -> list[pa.RecordBatch]:
    """All answers of a stream of the store `songs`."""
    descriptor = flight.FlightDescriptor.for_command(json.dumps({"version": 1, "store": "songs"}))
    writer, reader = plain.do_exchange(descriptor)
    writer.begin(schema)
    for message in messages:
        if message is None:
            writer.write_metadata(b"nothing")
        else:
            writer.write_batch(message)
    writer.done_writing()
    found = []
    while True:
        try:
            found.append(reader.read_chunk().data)
        except StopIteration:
            return found


def _keys(
    *values: int | None, arrow_type: pa.DataType | None = None, name: str = "song_id"
) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, arrow_type or pa.int64())], [name])


def test_a_client_of_any_kind_sends_its_keys_at_once(plain: flight.FlightClient) -> None:
    found = _exchange(plain, _keys(1).schema, [_keys(1), _keys(2, 9), _keys(3)])
    assert [batch.num_rows for batch in found] == [1, 2, 1]
    assert found[1].to_pylist() == [
        {"__found": True, "song_id": 2, "title": "two", "plays": 20},
        {"__found": False, "song_id": None, "title": None, "plays": None},
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_keys(1, None), "is NULL"),
        (_keys(), "send at least one"),
        (None, "send at least one"),
        (_keys(*range(10_001)), "at most 10,000"),
    ],
)
def test_a_wrong_message_ends_the_stream_with_a_sentence(
    plain: flight.FlightClient, host: Host, wrong: pa.RecordBatch | None, message: str
) -> None:
    with pytest.raises((flight.FlightError, pa.ArrowException), match=message):
        _exchange(plain, _keys(1).schema, [_keys(1), wrong, _keys(2)])
    wait_until(lambda: host.open_key_streams == 0)


@pytest.mark.parametrize(
    "keys",
    [
        _keys(1, arrow_type=pa.int32()),
        _keys(1, name="id"),
        pa.record_batch({"song_id": ["1"]}),
        pa.record_batch({"song_id": pa.array([1]).dictionary_encode()}),
        pa.record_batch({"song_id": [1], "title": ["one"]}),
    ],
)
def test_keys_have_the_columns_of_the_key(plain: flight.FlightClient, keys: pa.RecordBatch) -> None:
    with pytest.raises((flight.FlightError, pa.ArrowException), match=r"the columns \(song_id int64\)"):
        _exchange(plain, keys.schema, [keys])


def test_a_client_that_goes_away_frees_its_thread(uri: str, host: Host) -> None:
    with Client(uri) as client:
        keys = client.keys("big")
        assert keys.get(1) is not None
        assert host.open_key_streams == 1
        # Many answers are on their way, and nobody reads them.
        answers = keys.answers(_keys(*range(5000), name="id") for _ in range(20))
        next(answers)
        answers.close()  # type: ignore[attr-defined] # it is a generator
    wait_until(lambda: host.open_key_streams == 0)
    with pytest.raises(Unavailable, match="open another one"):
        keys.get(1)


def test_a_stream_follows_new_epochs_and_ends_with_its_columns(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path / "changelog"))
    store = define_store("songs", SONGS.schema, ["song_id"], partitions=4)
    append_table(changelog, store, SONGS)
    options = HostOptions(changelog=str(tmp_path / "changelog"), data=tmp_path / "data", port=0)
    with start_host(options) as host, Client(host.uri) as client, client.keys("songs", ["plays"]) as keys:
        assert keys.get(1) == {"plays": 10}
        append_table(changelog, store, SONGS.set_column(2, "plays", pa.array([11, 12, 13])))
        client.notify()
        wait_until(lambda: keys.get(1) == {"plays": 11})
        before = keys.metadata["epochs"]["songs"]
        # A new column is none of its own; what it has stays as it was told.
        changelog.migrate_store(StoreName("songs"), parse_changes(add=["year INTEGER"]))
        append_table(changelog, store, SONGS)
        client.notify()
        wait_until(lambda: keys.get(1) == {"plays": 10})
        assert keys.metadata["epochs"]["songs"] > before
        changelog.migrate_store(StoreName("songs"), parse_changes(rename=["plays=listens"]))
        append_table(changelog, store, SONGS)
        client.notify()
        with pytest.raises(InvalidInput, match=r"migrated or switched.*open another stream"):
            wait_until(lambda: keys.get(1) != {"plays": 10})
        with client.keys("songs", ["listens"]) as after:
            assert after.get(1) == {"listens": 10}


def test_read_points_hold_for_streams(client: Client, uri: str) -> None:
    with Client(uri, read_point=ReadPoint(min_epoch=Epoch(2))) as patient, patient.keys("songs") as keys:
        assert keys.get(2) == {"song_id": 2, "title": "two", "plays": 20}
        assert keys.get_many([2, 9])["__found"].to_pylist() == [True, False]
    with (
        Client(uri, read_point=ReadPoint(min_epoch=Epoch(99)), timeout_seconds=0.2) as early,
        early.keys("songs") as keys,
        pytest.raises(LivestateError, match="99"),
    ):
        keys.get(2)


def test_a_message_that_waits_holds_up_no_other_and_not_for_ever(tmp_path: Path) -> None:
    changelog = tmp_path / "changelog"
    append_table(Changelog.open(str(changelog)), define_store("songs", SONGS.schema, ["song_id"]), SONGS)
    options = HostOptions(
        changelog=str(changelog),
        data=tmp_path / "data",
        port=0,
        queries=QueryOptions(statement_timeout_seconds=2.0),
        limits=ServerLimits(max_statements=1, max_wait_seconds=1.0),
    )
    with (
        start_host(options) as host,
        Client(host.uri) as client,
        Client(host.uri, read_point=ReadPoint(min_epoch=Epoch(99)), timeout_seconds=3600.0) as early,
        early.keys("songs") as waiting,
        client.keys("songs") as keys,
        ThreadPoolExecutor(1) as pool,
    ):
        late = pool.submit(waiting.get, 2)
        wait_until(lambda: host.running_queries == 1)
        assert keys.get(1) == {"song_id": 1, "title": "one", "plays": 10}
        with pytest.raises(Unavailable, match="epoch 99 is wanted"):
            late.result(PATIENCE_SECONDS)


def test_a_host_has_so_many_streams_and_no_more(tmp_path: Path) -> None:
    changelog = tmp_path / "changelog"
    append_table(Changelog.open(str(changelog)), define_store("songs", SONGS.schema, ["song_id"]), SONGS)
    options = HostOptions(
        changelog=str(changelog),
        data=tmp_path / "data",
        port=0,
        token="secret",
        limits=ServerLimits(max_key_streams=1),
    )
    with start_host(options) as host, Client(ConnectionOptions((host.uri,), token="secret")) as client:
        with pytest.raises(Unauthenticated), Client(host.uri) as stranger:
            stranger.keys("songs")
        with client.keys("songs") as keys:
            with pytest.raises(LimitExceeded, match=r"1 streams of keys are open.*max_key_streams"):
                client.keys("songs")
            assert keys.get(2) is not None
            # Statements are not held up by streams.
            assert client.query("SELECT count(*) AS n FROM songs").read_all()["n"].to_pylist() == [3]
        wait_until(lambda: host.open_key_streams == 0)
        with client.keys("songs") as keys:
            assert keys.get(2) is not None


def test_an_idle_stream_gives_way(tmp_path: Path) -> None:
    changelog = tmp_path / "changelog"
    append_table(Changelog.open(str(changelog)), define_store("songs", SONGS.schema, ["song_id"]), SONGS)
    options = HostOptions(
        changelog=str(changelog),
        data=tmp_path / "data",
        port=0,
        limits=ServerLimits(max_key_streams=1, max_idle_seconds=0.0),
    )
    with start_host(options) as host, Client(host.uri) as client, client.keys("songs") as first:
        assert first.get(1) is not None
        with client.keys("songs") as second:
            assert second.get(1) is not None
            with pytest.raises(DeadlineExceeded, match="idle for more than 0 s"):
                first.get(1)
            assert second.get(2) is not None


def test_a_stop_ends_streams_between_two_messages(tmp_path: Path) -> None:
    changelog = tmp_path / "changelog"
    append_table(Changelog.open(str(changelog)), define_store("songs", SONGS.schema, ["song_id"]), SONGS)
    options = HostOptions(changelog=str(changelog), data=tmp_path / "data", port=0, grace_seconds=0.1)
    host = Host(options)
    host.start()
    host.wait_until_ready(60)
    answered = threading.Event()

    def ask() -> None:
        with Client(host.uri) as client, client.keys("songs") as keys:
            while True:
                keys.get(1)
                answered.set()

    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(ask)
        assert answered.wait(60)
        assert host.stop()
        with pytest.raises(Unavailable, match="host is stopping"):
            asking.result()


def test_any_host_of_a_deployment_has_all_keys(tmp_path: Path) -> None:
    with three_hosts(tmp_path) as hosts:
        for host in hosts.values():
            with Client(host.uri) as client, client.keys("plays", ["genre", "song"]) as keys:
                assert [keys.get(song) for song in range(5)] == [
                    {"genre": song % 10, "song": song} for song in range(5)
                ]
                assert keys.get(ROWS) is None
                found = keys.get_many([*range(0, ROWS, 11), ROWS])
                assert found["song"].to_pylist() == [*range(0, ROWS, 11), None]
                assert found["__found"].to_pylist()[-2:] == [True, False]
                assert keys.metadata["epochs"] == {"plays": 2}
