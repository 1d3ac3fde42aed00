"""What every version has stored and sent is read by this one, and what newer ones might is refused in a
sentence.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, Commit, CommittedBatch, Skip, StoreDrop, open_appender
from engine.changelog.amendments import Void, decode_amendment, encode_amendment
from engine.changelog.backup import back_up, restore
from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.layout import FORMAT_PATH, mark_path
from engine.changelog.objects import open_objects
from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import GroupReport, HostName, HostReport, Progress, ReadableEpoch, StoreReport
from engine.errors import InvalidInput, LivestateError
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.follower import Follower
from engine.replica.group_setup import ASIDE
from engine.state.formats import (
    BESIDE_COLUMNS,
    KEY_COLUMN,
    LIVE_FLAGS,
    MANIFEST,
    SEGMENT_MARKS,
    STATE_FORMAT,
    SUM_MAGIC,
)
from engine.state.rocks import Rocks
from flight_server.wire.fragment_messages import FragmentTicket, parse_fragment
from flight_server.wire.messages import new
from flight_server.wire.report_messages import FORMAT as REPORT_FORMAT
from flight_server.wire.report_messages import SentReport, parse_report
from flight_server.wire.tickets import Parameters, Statement, parse_handle
from tests.golden.write import GOLDEN, MUSIC, OPTIONS, SALES, SONGS, host_rows
from tests.support.following import run_follower
from tests.support.waiting import wait_until

STORED = sorted(path.name for path in GOLDEN.glob("partitions_*"))
NEWEST = STORED[-1]
FURTHER = sorted(path.name for path in GOLDEN.glob("further_*"))
"""What large partitions have, and many, and kinds of stores that `STORED` has none of."""
SENT = sorted(path.name for path in GOLDEN.glob("wire_*"))
NEWER = 99


@dataclass(frozen=True)
class Version:
    """What a version has stored, in places of its own.

    Attributes:
        changelog: Where its changelog is.
        data: A data directory of a host that followed it.
        epochs: The newest epoch of each store group.
        rows: What the host answered.
    """

    changelog: Path
    data: Path
    epochs: dict[GroupName, Epoch]
    rows: dict[str, list[list[str]]]

    def open(self) -> Changelog:
        return Changelog.open(str(self.changelog))


def unpack(name: str, directory: Path) -> Version:
    """A copy of what a version has stored."""
    source = GOLDEN / name
    shutil.copytree(source / "changelog", directory / "changelog")
    data = directory / "data"
    data.mkdir()
    shutil.copy(source / "livestate.json", data)
    pairs = pa.ipc.open_file(str(source / "pairs.arrow")).read_all()
    for place in dict.fromkeys(pairs["partition"].to_pylist()):
        found = pairs.filter(pa.compute.equal(pairs["partition"], place))
        (data / place).parent.mkdir(parents=True, exist_ok=True)
        with closing(Rocks(data / place, OPTIONS.state)) as rocks:
            rocks.write_atomically(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))
    said = json.loads((source / "rows.json").read_text())
    return Version(directory / "changelog", data, said["epochs"], said["rows"])


def check_rows(version: Version, host: Follower) -> None:
    for group, epoch in version.epochs.items():
        assert host.wait_for(group, epoch, 60), [status.problem for status in host.status()]
    assert host_rows(host, sorted(map(StoreName, version.rows))) == version.rows


def test_the_newest_formats_are_kept() -> None:
    """A format that changes is kept: python -m tests.golden.write partitions_N, and a wire_N likewise."""
    assert [f"partitions_{number}" for number in range(1, STATE_FORMAT + 1)] == STORED
    assert f"further_{STATE_FORMAT}" in FURTHER


def test_each_kind_of_value_of_a_partition_is_kept() -> None:
    pairs = [
        pair
        for name in (NEWEST, f"further_{STATE_FORMAT}")
        for pair in pa.ipc.open_file(str(GOLDEN / name / "pairs.arrow")).read_all().to_pylist()
    ]
    own = [(pair["key"], pair["value"]) for pair in pairs if "/shared-" not in pair["partition"]]
    marks = {MANIFEST, *SEGMENT_MARKS}
    assert {key[:1] for key, _ in own} == marks
    assert {pair["key"][4:5] for pair in pairs if "/shared-" in pair["partition"]} >= {MANIFEST, b"s", b"b"}
    beside = {int.from_bytes(key[9:11], "big") for key, _ in own if key[:1] == b"b"}
    assert beside >= {KEY_COLUMN, *BESIDE_COLUMNS} - {LIVE_FLAGS}
    assert any(b'"sketches"' in value for key, value in own if key[:1] == b"s")
    assert any(SUM_MAGIC in value for key, value in own if key[:1] == b"b")
    assert any(json.loads(value)["cutoff"] for key, value in own if key == MANIFEST)


@pytest.mark.parametrize("name", FURTHER)
def test_what_is_rare_in_partitions_is_read(name: str, tmp_path: Path) -> None:
    """Nothing of it is built again."""
    version = unpack(name, tmp_path)
    with run_follower(version.open(), version.data, OPTIONS) as host:
        check_rows(version, host)
        assert {status.problem for status in host.status()} == {""}
        host.scrub()
        wait_until(lambda: not host.scrub_status.is_running)
        assert not (host.scrub_status.damaged or host.scrub_status.unread)
    assert not (version.data / ASIDE).exists()


@pytest.mark.parametrize("name", [*STORED, *FURTHER])
def test_a_changelog_of_each_version_is_read(name: str, tmp_path: Path) -> None:
    version = unpack(name, tmp_path)
    with run_follower(version.open(), tmp_path / "new", OPTIONS) as host:
        check_rows(version, host)


@pytest.mark.parametrize("name", STORED)
def test_partitions_of_each_version_go_on(name: str, tmp_path: Path) -> None:
    """Nothing of them is built again; they take the next epoch, and are of this version's format then."""
    version = unpack(name, tmp_path)
    changelog = version.open()
    with run_follower(changelog, version.data, OPTIONS) as host:
        check_rows(version, host)
        assert {status.problem for status in host.status()} == {""}
        assert not list(version.data.glob("**/*.aside"))
        definition = changelog.definition(SONGS.name)
        assert definition is not None
        row = dict.fromkeys(definition.row_schema.names) | {"id": 500}
        rows = pa.Table.from_pylist([row], schema=definition.row_schema)
        appender = open_appender(changelog, [definition], query_ids=["job"])
        assert host.wait_for(MUSIC, appender.append({"songs": rows}).epoch, 60)
        assert len(host_rows(host, [SONGS.name])["songs"]) == len(version.rows["songs"]) + 1
    with closing(Rocks(version.data / "music/songs/0", OPTIONS.state)) as rocks:
        assert json.loads(rocks.get(MANIFEST) or b"")["format"] == STATE_FORMAT


@pytest.mark.parametrize("name", STORED)
def test_a_changelog_of_each_version_is_backed_up(name: str, tmp_path: Path) -> None:
    version = unpack(name, tmp_path)
    backup = Changelog("memory://", {}, open_objects("memory://", {}))
    list(back_up(version.open(), backup, {}, 1))
    shutil.rmtree(version.changelog)
    list(restore(backup, version.open(), {}))
    with run_follower(version.open(), tmp_path / "new", OPTIONS) as host:
        check_rows(version, host)


# ---- newer formats


def newer_json(data: bytes) -> bytes:
    """A sealed document of a format to come."""
    document = json.loads(unseal(data, "it"))
    return seal(json.dumps({**document, "format": NEWER}, indent=1).encode())


def newer_frame(data: bytes) -> bytes:
    """A frame, or a data file, of a format to come."""
    return data[:8] + struct.pack("<I", NEWER) + data[12:]


def change_object(version: Version, pattern: str, change: Callable[[bytes], bytes]) -> None:
    """Have an object be of a newer version; snapshots do not stand in for it."""
    for snapshot in version.changelog.glob("groups/music/snapshots/*.snapshot"):
        snapshot.unlink()
    (path,) = version.changelog.glob(pattern)
    path.write_bytes(change(path.read_bytes()))


def test_a_host_does_not_start_on_a_newer_changelog(tmp_path: Path) -> None:
    version = unpack(NEWEST, tmp_path)
    change_object(version, FORMAT_PATH, newer_json)
    with pytest.raises(LivestateError, match="upgrade livestate"):
        list(back_up(version.open(), Changelog.open("memory://"), {}, 1))
    with pytest.raises(LivestateError, match="upgrade livestate"):
        Follower(version.open(), tmp_path / "new", OPTIONS).start()


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("stores/songs/definition.json", {"songs", "latest", "rates"}),
        ("stores/charts/switches/0000000001.json", {"charts"}),
        ("groups/music/migrations/0000000001.json", {"songs", "latest", "rates"}),
    ],
)
def test_what_a_newer_version_says_of_a_store_keeps_that_alone(
    tmp_path: Path, pattern: str, names: set[str]
) -> None:
    version = unpack(NEWEST, tmp_path)
    change_object(version, pattern, newer_json)
    with pytest.raises(LivestateError, match="upgrade livestate"):
        list(back_up(version.open(), Changelog.open("memory://"), {}, 1))
    with run_follower(version.open(), tmp_path / "new", OPTIONS) as host:
        assert host.wait_for(SALES, version.epochs[SALES], 60)
        wait_until(
            lambda: names == {row.store for row in host.status() if "upgrade livestate" in row.problem}
        )
        assert StoreName("charts") not in host.tables()
        assert host_rows(host, [StoreName("sales")])["sales"] == version.rows["sales"]


@pytest.mark.parametrize("pattern", ["groups/music/*10.commit", "groups/music/*05/task-*.arrow"])
def test_an_epoch_of_a_newer_version_stops_its_group(tmp_path: Path, pattern: str) -> None:
    version = unpack(NEWEST, tmp_path)
    change_object(version, pattern, newer_frame)
    with pytest.raises(LivestateError, match="upgrade livestate"):
        list(back_up(version.open(), Changelog.open("memory://"), {}, 1))
    with run_follower(version.open(), tmp_path / "new", OPTIONS) as host:
        wait_until(lambda: any("upgrade livestate" in status.problem for status in host.status()))
        assert {row.group for row in host.status() if "upgrade livestate" in row.problem} == {MUSIC}
        assert host.wait_for(SALES, version.epochs[SALES], 60)


def test_a_snapshot_of_a_newer_version_is_not_taken(tmp_path: Path) -> None:
    """Older ones and the epochs behind them stand in for it."""
    version = unpack(NEWEST, tmp_path)
    for path in version.changelog.glob("groups/music/snapshots/*.snapshot"):
        path.write_bytes(newer_frame(path.read_bytes()))
    assert version.open().snapshots(MUSIC).newest_snapshot() is None
    with run_follower(version.open(), tmp_path / "new", OPTIONS) as host:
        check_rows(version, host)


def test_a_partition_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    version = unpack(NEWEST, tmp_path)
    place = version.data / "sales/sales/0"
    with closing(Rocks(place, OPTIONS.state)) as rocks:
        manifest = json.loads(rocks.get(MANIFEST) or b"")
        changed = json.dumps({**manifest, "format": NEWER}).encode()
        rocks.write_atomically([(MANIFEST, changed)])
    with run_follower(version.open(), version.data, OPTIONS) as host:
        wait_until(lambda: any("upgrade livestate" in status.problem for status in host.status()))
        assert {status.group for status in host.status() if status.problem} == {SALES}
    with closing(Rocks(place, OPTIONS.state)) as rocks:
        assert rocks.get(MANIFEST) == changed


def test_a_data_directory_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    version = unpack(NEWEST, tmp_path)
    marker = version.data / "livestate.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "format": NEWER}))
    host = Follower(version.open(), version.data, OPTIONS)
    with pytest.raises(LivestateError, match="upgrade livestate"):
        host.start()


def test_a_backup_of_a_newer_version_is_not_restored(tmp_path: Path) -> None:
    version = unpack(NEWEST, tmp_path)
    backup = Changelog.open(str(tmp_path / "backup"))
    list(back_up(version.open(), backup, {}, 1))
    path = tmp_path / "backup" / mark_path(2)
    path.write_bytes(newer_json(path.read_bytes()))
    with pytest.raises(LivestateError, match="upgrade livestate"):
        list(restore(backup, Changelog.open(str(tmp_path / "place")), {}))


# ---- amendments that are no migrations

STAND_IN = Commit(
    group=MUSIC,
    epoch=Epoch(7),
    token=3,
    writer="job",
    nonce="",
    query_id=None,
    batch_id=None,
    committed_at=1_789_000_000_000_000,
    batches={"job": CommittedBatch(4, Epoch(6))},
    cutoffs={SONGS.name: 1_788_000_000_000_000},
    written=12_345,
    generation=1,
    before="0f" * 16,
)
AMENDMENTS: Mapping[str, Skip | StoreDrop | Void] = {
    "skip": Skip(2, "lost", "ann@ops", 1_789_000_000_000_001, "a0" * 16, "b1" * 16, STAND_IN),
    "drop": StoreDrop(3, SONGS.name, 1, 2, "ann@ops", 1_789_000_000_000_002),
    "void": Void(4),
}


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("amendments_*")))
@pytest.mark.parametrize("kind", AMENDMENTS)
def test_amendments_of_each_version_are_read(name: str, kind: str) -> None:
    amendment = AMENDMENTS[kind]
    data = unseal((GOLDEN / name / f"{kind}.json").read_bytes(), "it")
    found = decode_amendment(MUSIC, amendment.number, data)
    assert found == amendment
    if isinstance(found, Skip):
        assert (found.stand_in.digest, found.mark) == ("a0" * 16, "17812031bab133c0a11404f36bc06cef")
    with pytest.raises(LivestateError, match="upgrade livestate"):
        decode_amendment(MUSIC, amendment.number, unseal(newer_json(seal(data)), "it"))
    with pytest.raises(LivestateError, match="upgrade livestate"):
        StoreDefinition.from_json(data)


def test_a_stand_in_keeps_when_batches_were_planned() -> None:
    skip = AMENDMENTS["skip"]
    assert isinstance(skip, Skip)
    planned = replace(STAND_IN, batches={"job": CommittedBatch(4, Epoch(6), 5)})
    found = decode_amendment(MUSIC, 2, encode_amendment(MUSIC, replace(skip, stand_in=planned)))
    assert isinstance(found, Skip)
    assert found.stand_in.batches == planned.batches


# ---- messages


ROW = pa.record_batch({"a": pa.array([7], pa.int64()), "b": ["x"]})
PLAYS, PLAYS_STORE = GroupName("plays"), StoreName("plays")
REQUEST = FragmentRequest(
    sql="SELECT k, ? FROM plays WHERE k = ?",
    epochs={PLAYS: Epoch(42)},
    partitions={PLAYS_STORE: (PartitionId(0), PartitionId(3))},
    parameters=ROW,
    timeout_seconds=2.5,
    generations={PLAYS: 1},
)
REPORT = HostReport(
    HostName("a"),
    {
        PLAYS: GroupReport(
            (
                ReadableEpoch(Epoch(41), 1_789_000_000_000_000, 0, "3f"),
                ReadableEpoch(Epoch(42), 1_789_000_000_100_000, 1, "a0"),
            ),
            Epoch(43),
            1_789_000_000_200_000,
            1_789_000_000_300_000,
            Progress(Epoch(40), Epoch(43)),
            "late",
        )
    },
    {
        PLAYS_STORE: StoreReport(
            (PartitionId(0), PartitionId(3), PartitionId(4)), 10, 200, 3, 12, Epoch(1), (PartitionId(3),)
        )
    },
)


@pytest.mark.parametrize("name", SENT)
def test_messages_of_each_version_are_read(name: str) -> None:
    fragment = parse_fragment((GOLDEN / name / "fragment.bin").read_bytes())
    assert fragment == FragmentTicket(REQUEST, ("side",), b"call")
    sent = parse_report((GOLDEN / name / "report.json").read_bytes())
    assert sent == SentReport(REPORT, "6f0c", 1_789_000_000_000_000, 17)
    statement = parse_handle((GOLDEN / name / "statement.bin").read_bytes())
    assert statement == Statement(
        "SELECT ?", "spark", 2.5, Parameters.from_batch(ROW), b"call", ReadPoint(min_epoch=Epoch(3))
    )


def test_messages_of_a_newer_version_are_refused() -> None:
    data = (GOLDEN / SENT[-1] / "report.json").read_bytes()
    assert f'"format":{REPORT_FORMAT}'.encode() in data
    with pytest.raises(InvalidInput, match="run one version of livestate on all hosts"):
        parse_report(data.replace(f'"format":{REPORT_FORMAT}'.encode(), b'"format":99'))
    message = new("FragmentRequest", format=NEWER, sql="SELECT 1")
    with pytest.raises(InvalidInput, match="run one version of livestate on all hosts"):
        parse_fragment(b"\x00F" + message.SerializeToString())
