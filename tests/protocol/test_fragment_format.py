"""Fragments and reports as bytes: what goes in comes out, and damaged bytes are refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.access.principal import EngineLimit, Limit
from engine.access.scope import Grant, Scope
from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import GroupReport, HostName, HostReport, Progress, ReadableEpoch, StoreReport
from engine.errors import InvalidInput, LimitExceeded
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName
from flight_server.wire.fragment_messages import (
    FORMAT,
    FRAGMENT_MARK,
    LIMITED_FORMAT,
    UPLOAD_SCHEMA,
    FragmentTicket,
    InputSpace,
    Upload,
    parse_fragment,
    upload_pieces,
)
from flight_server.wire.messages import new, parse
from flight_server.wire.report_messages import SentReport, parse_report

REQUEST = FragmentRequest(
    sql='SELECT sum("n") FROM "plays", "__part_0"',
    epochs={GroupName("music"): Epoch(2**40), GroupName("other"): Epoch(0)},
    partitions={
        StoreName("plays"): (PartitionId(0), PartitionId(7), PartitionId(4095)),
        StoreName("none"): (),
    },
    parameters=pa.record_batch({"1": [5], "2": ["x"]}),
    timeout_seconds=2.5,
    generations={GroupName("music"): 3},
    digests={GroupName("music"): "3f", GroupName("other"): "a0"},
)
REPORT = SentReport(
    HostReport(
        HostName("a"),
        {
            GroupName("music"): GroupReport(
                (ReadableEpoch(Epoch(41), 10), ReadableEpoch(Epoch(42), 20, 2)), Epoch(43), 30, 40
            ),
            GroupName("new"): GroupReport((), Epoch(0)),
        },
        {
            StoreName("plays"): StoreReport(
                (PartitionId(0), PartitionId(3)), 10, 200, 3, 12, Epoch(5), (PartitionId(1),)
            )
        },
    ),
    changelog="id",
    started=5,
    number=7,
)


def test_a_request_survives_the_trip() -> None:
    assert parse_fragment(FragmentTicket.from_request(REQUEST).to_bytes()) == FragmentTicket(REQUEST)
    without_digests = replace(REQUEST, digests={})
    assert parse_fragment(FragmentTicket(without_digests).to_bytes()) == FragmentTicket(without_digests)
    bare = FragmentRequest("SELECT 1", {}, {})
    assert parse_fragment(FragmentTicket(bare, ("__part_0",), b"12345678").to_bytes()) == FragmentTicket(
        bare, ("__part_0",), b"12345678"
    )


@pytest.mark.parametrize("scope", [None, Scope((Grant(("plays",)),), (("desk", "fx"),))])
def test_a_limit_of_the_engine_survives_the_trip(scope: Scope | None) -> None:
    limited = replace(REQUEST, scope=scope, engine_limit=EngineLimit("ann", Limit(2**40, "desk")))
    data = FragmentTicket.from_request(limited).to_bytes()
    assert parse_fragment(data) == FragmentTicket(limited)
    assert parse("FragmentRequest", data[len(FRAGMENT_MARK) :]).format == LIMITED_FORMAT


def _forge(**fields: Any) -> bytes:
    return FRAGMENT_MARK + bytes(
        new("FragmentRequest", **{"format": FORMAT, "sql": "SELECT 1", **fields}).SerializeToString()
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "neither a fragment"),
        (b"SELECT 1", "neither a fragment"),
        (FRAGMENT_MARK + b"\xff\xff", "damaged"),
        (FRAGMENT_MARK, "format 0"),
        (_forge(format=1), "format 1"),
        (_forge(format=LIMITED_FORMAT), "what the engine may take"),
        (_forge(format=LIMITED_FORMAT, engine_limit=new("EngineLimit", bytes=9)), "what the engine may take"),
        (
            _forge(format=LIMITED_FORMAT, engine_limit=new("EngineLimit", owner="ann", bytes=-1)),
            "what the engine may take",
        ),
        (_forge(generations={"g": 0}), "generation 0"),
        (_forge(timeout=-1.0), "timeout"),
        (_forge(timeout=float("nan")), "timeout"),
        (_forge(epochs={"g": -1}), "epoch -1"),
        (_forge(partitions={"s": new("PartitionList", partitions=[2, 1])}), "ascending"),
        (_forge(partitions={"s": new("PartitionList", partitions=[1, 1])}), "ascending"),
        (_forge(partitions={"s": new("PartitionList", partitions=[-1])}), "from 0"),
        (_forge(partitions={"s": new("PartitionList", partitions=[4096])}), "to 4095"),
        (_forge(inputs=["a", "a"]), "names"),
        (_forge(inputs=[""]), "names"),
        (_forge(parameter_schema=b"x", parameter_row=b"y"), "damaged"),
    ],
)
def test_a_request_that_cannot_be_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        parse_fragment(data)


@given(st.data())
def test_a_damaged_request_is_refused_or_another_request(data: st.DataObject) -> None:
    whole = FragmentTicket.from_request(REQUEST).to_bytes()
    place = data.draw(st.integers(2, len(whole) - 1))
    damaged = whole[:place] + data.draw(
        st.sampled_from([b"", b"\x00", b"\xff", whole[place + 1 :], b"\x7f" + whole[place + 1 :]])
    )
    try:
        parsed = parse_fragment(damaged)
    except InvalidInput as error:
        assert "Traceback" not in error.message
    else:
        assert isinstance(parsed.request, FragmentRequest)


INPUTS = {
    "__part_0": pa.table({"a": pa.array([1, None, 3], pa.int64()), "b": ["x", "", None]}),
    "__part_1": pa.table({"n": pa.array([], pa.decimal128(38, 0))}),
    "__part_2": pa.table({"d": ["u", "v", "u"], "l": [[1], None, []]}),
}


@dataclass(frozen=True)
class _Chunk:
    app_metadata: pa.Buffer
    data: pa.RecordBatch | None = None


class _Reader:
    """Pieces as Flight hands them on."""

    def __init__(self, *pieces: pa.Buffer, schema: pa.Schema = UPLOAD_SCHEMA) -> None:
        self.schema = schema
        self._chunks = [_Chunk(piece) for piece in pieces]

    def __iter__(self) -> Iterator[_Chunk]:
        return iter(self._chunks)


def _upload(
    names: list[str], pieces: Iterable[pa.Buffer], limit: int = 1 << 30
) -> tuple[dict[str, pa.Table], InputSpace]:
    space = InputSpace(limit)
    with Upload(names, space) as upload:
        found = dict(upload.read(_Reader(*pieces), lambda: None))
        assert space.taken > 0
    return found, space


def _piece(number: int, stream: bytes) -> pa.Buffer:
    return pa.py_buffer(number.to_bytes(8, "little", signed=True) + stream)


def test_inputs_survive_the_trip() -> None:
    found, space = _upload(list(INPUTS), upload_pieces(INPUTS))
    assert list(found) == list(INPUTS)
    assert all(found[name].equals(INPUTS[name], check_metadata=True) for name in INPUTS)
    assert space.taken == 0


def test_a_large_input_comes_in_pieces() -> None:
    table = pa.table({"n": np.arange(3_000_000), "text": ["abcdefgh"] * 3_000_000})
    pieces = list(upload_pieces({"big": table.slice(7)}))
    assert len(pieces) > 5
    assert max(piece.size for piece in pieces) < 6 << 20
    found, _ = _upload(["big"], pieces)
    assert found["big"].equals(table.slice(7))


def test_uploads_that_cannot_be_are_refused() -> None:
    pieces = list(upload_pieces(INPUTS))
    for names, sent in (
        (["__part_0"], pieces),
        ([*INPUTS, "more"], pieces),
        (["__part_0"], [pa.py_buffer(b"")]),
        (["__part_0"], [pa.py_buffer(b"1234567")]),
        (["__part_0"], [_piece(-1, pieces[0].to_pybytes()[8:])]),
        (["__part_0"], [_piece(0, b"no stream")]),
        (["a"], [pieces[0], _piece(0, pieces[1].to_pybytes()[8:])]),
    ):
        with pytest.raises(InvalidInput, match="input"):
            _upload(names, sent)
    with Upload(["__part_0"], InputSpace(1 << 30)) as upload, pytest.raises(InvalidInput, match="input"):
        upload.read(_Reader(pieces[0], schema=pa.schema([("n", pa.int64())])), lambda: None)


def test_uploads_have_a_limit_for_all_together() -> None:
    pieces = list(upload_pieces({"a": INPUTS["__part_0"]}))
    space = InputSpace(pieces[0].size + 1)
    with Upload(["a"], space) as upload:
        upload.read(_Reader(pieces[0]), lambda: None)
        with Upload(["a"], space) as other, pytest.raises(LimitExceeded, match="max_input_bytes"):
            other.read(_Reader(pieces[0]), lambda: None)
    with Upload(["a"], space) as again:
        again.read(_Reader(pieces[0]), lambda: None)
    assert space.taken == 0


def test_a_report_survives_the_trip() -> None:
    parsed = parse_report(REPORT.to_bytes())
    assert parsed == REPORT
    draining = replace(REPORT, report=replace(REPORT.report, is_draining=True))
    assert parse_report(draining.to_bytes()) == draining
    assert b"draining" not in REPORT.to_bytes()
    assert parsed.report.groups[GroupName("music")].looked_at == 40
    music = parsed.report.groups[GroupName("music")]
    known = Progress(Epoch(4), Epoch(9), None, 2000, 600, 40.5)
    unknown = Progress(Epoch(4), Epoch(9), Epoch(7))
    for building, catching_up in ((known, unknown), (unknown, known), (None, known), (unknown, None)):
        past = (ReadableEpoch(Epoch(3), 5, 1, "3f"), ReadableEpoch(Epoch(4), 6, 1))
        told = replace(music, building=building, catching_up=catching_up, past=past)
        report = replace(REPORT.report, groups={GroupName("music"): told})
        found = parse_report(replace(REPORT, report=report).to_bytes()).report.groups[GroupName("music")]
        assert (found.building, found.catching_up, found.past) == (building, catching_up, past)


def _change(*path: str, value: object) -> bytes:
    document = json.loads(REPORT.to_bytes())
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not the JSON"),
        (b"\xff", "not the JSON"),
        (b"[" * 100_000, "not the JSON"),
        (b"[]", "not the JSON"),
        (b"{}", "not the JSON"),
        (_change("format", value=1), "format 1"),
        (_change("host", value=1), "wrong type"),
        (_change("groups", value=[]), "wrong type"),
        (_change("groups", "music", value={}), "lacks"),
        (_change("groups", "music", "readable", value=[[2, 0, 0], [1, 0, 0]]), "wrong type"),
        (_change("groups", "music", "readable", value=[[1, 0, 1], [2, 0, 0]]), "wrong type"),
        (_change("groups", "music", "readable", value=[[1, 0, -1]]), "wrong type"),
        (_change("groups", "music", "readable", value=[[2]]), "wrong type"),
        (_change("groups", "music", "digests", value=["a"]), "wrong type"),
        (_change("groups", "music", "digests", value=[1, 2]), "wrong type"),
        (_change("groups", "music", "digests", value=["3f", '"}']), "wrong type"),
        (_change("groups", "music", "catching_up", value=[1]), "wrong type"),
        (_change("groups", "music", "past", value=[[2, 0, 0, ""], [1, 0, 0, ""]]), "wrong type"),
        (_change("groups", "music", "past", value=[[2, 0, 0]]), "wrong type"),
        (_change("groups", "music", "catching_up", value=[1, 2, None, -1, 0, 0]), "wrong type"),
        (_change("groups", "music", "catching_up", value=[1, 2, None, 1, 0, "fast"]), "wrong type"),
        (_change("groups", "music", "newest_known", value=True), "wrong type"),
        (_change("groups", "music", "unread_since", value="soon"), "wrong type"),
        (_change("stores", "plays", "partitions", value=[3, 3]), "wrong type"),
        (_change("stores", "plays", "partitions", value=[-1]), "wrong type"),
        (_change("stores", "plays", "rows", value=1.5), "wrong type"),
        (_change("stores", "plays", "rebuilding", value=3), "wrong type"),
        (_change("number", value=None), "wrong type"),
    ],
)
def test_a_report_that_cannot_be_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        parse_report(data)
