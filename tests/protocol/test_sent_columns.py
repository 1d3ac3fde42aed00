"""What columns are like travels once, until it changes or the other host was started again."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from engine.cluster.reports import ColumnReport, GroupReport, HostName, HostReport, StoreReport
from engine.model.distinct_sketch import sketch_of
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName
from flight_server.peers import sent_columns
from flight_server.peers.failure_detector import FailureDetector
from flight_server.peers.sent_columns import SentColumns, without_columns
from flight_server.wire.report_messages import SentReport, parse_report

A, B = HostName("a"), HostName("b")
SONGS, PLAYS = StoreName("songs"), StoreName("plays")
COLUMNS = {
    "song": ColumnReport(0.0, 9.5, sketch_of(pa.array([1, 2]))),
    "tags": ColumnReport(None, None, None),
}


def report(**columns: dict[str, ColumnReport] | None) -> HostReport:
    stores = {
        StoreName(name): StoreReport((PartitionId(0),), columns=found) for name, found in columns.items()
    }
    return HostReport(A, {GroupName("songs"): GroupReport((), Epoch(1))}, stores)


def test_columns_survive_the_trip() -> None:
    sent = SentReport(report(songs=COLUMNS, plays=None), "id", 1, 0)
    found = parse_report(sent.to_bytes()).report.stores
    assert found[PLAYS].columns is None
    columns = found[SONGS].columns
    assert columns is not None
    assert list(columns) == ["song", "tags"]
    assert (columns["song"].low, columns["song"].high, columns["tags"].sketch) == (0.0, 9.5, None)
    sketch = columns["song"].sketch
    assert sketch is not None
    assert sketch.tolist() == sketch_of(pa.array([1, 2])).tolist()


def test_a_report_of_a_host_that_says_nothing_of_columns_is_read() -> None:
    document = json.loads(SentReport(report(songs=COLUMNS), "id", 1, 0).to_bytes())
    del document["stores"]["songs"]["columns"]
    assert parse_report(json.dumps(document).encode()).report.stores[SONGS].columns is None


def test_columns_are_sent_once() -> None:
    told = SentColumns()
    first = told.news(report(songs=COLUMNS))
    assert first.stores[SONGS].columns is COLUMNS
    assert told.news(report(songs=COLUMNS)).stores[SONGS].columns is COLUMNS, "nobody has it yet"
    told.note_answer(first, life=7)
    assert told.news(report(songs=COLUMNS)).stores[SONGS].columns is None
    changed = dict(COLUMNS)
    assert told.news(report(songs=changed)).stores[SONGS].columns is changed


def test_a_host_that_was_started_again_is_told_again() -> None:
    told = SentColumns()
    told.note_answer(told.news(report(songs=COLUMNS)), life=7)
    told.note_answer(told.news(report(songs=COLUMNS)), life=8)
    assert told.news(report(songs=COLUMNS)).stores[SONGS].columns is COLUMNS


def test_a_report_has_a_part_of_very_many_columns() -> None:
    told = SentColumns()
    many = {str(number): COLUMNS["tags"] for number in range(sent_columns.MOST_COLUMNS_SENT)}
    full = report(songs=many, plays=dict(many))
    news = told.news(full)
    assert [name for name, store in news.stores.items() if store.columns is not None] == [SONGS]
    told.note_answer(news, life=7)
    assert [name for name, store in told.news(full).stores.items() if store.columns is not None] == [PLAYS]


def test_what_was_said_of_columns_stays_known() -> None:
    detector = FailureDetector(B, [A], 3.0)
    later = SentReport(without_columns(report(songs=COLUMNS)), "id", 1, 5)
    overtaken = SentReport(report(songs=COLUMNS), "id", 1, 4)
    detector.note_report(later, 0.0, answered=True)
    assert detector.reports_of_alive(0.0)[A].stores[SONGS].columns is None
    detector.note_report(overtaken, 0.0, answered=False)
    assert detector.reports_of_alive(0.0)[A].stores[SONGS].columns is COLUMNS
    detector.note_report(replace(later, number=6), 0.0, answered=True)
    assert detector.reports_of_alive(0.0)[A].stores[SONGS].columns is COLUMNS
