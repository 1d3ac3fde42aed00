"""Every number of a format in the code has a file of that format among the golden ones, and what none of the
versions reads any more, or yet, is refused in a sentence.
"""

from __future__ import annotations

import ast
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

from engine.access.principal import EngineLimit, Limit
from engine.access.scope import Grant, Scope
from engine.access.security_file import parse_tokens, parse_users
from engine.changelog.checksummed_json import unseal
from engine.changelog.floors import Floors
from engine.changelog.frames import NEWEST_FORMAT
from engine.changelog.kept_catalog import KeptCatalog
from engine.changelog.layout import floor_path
from engine.changelog.objects import open_objects
from engine.changelog.snapshot_codec import decode_checksums, decode_part
from engine.cluster.deployment import parse_deployment
from engine.errors import Corrupt, InvalidInput
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, GroupName
from engine.replica.reached_epoch import read_reached_epoch
from engine.state.folds.distinct_sketch import is_distinct_sketch
from engine.state.folds.quantile_sketch import QuantileSketch
from engine.state.folds.sketches import distinct_counts
from flight_server.wire.diagnosis_messages import parse_diagnosis
from flight_server.wire.fragment_messages import FRAGMENT_MARK, parse_fragment
from flight_server.wire.key_messages import (
    KEY_STREAM_METADATA,
    KeyRequest,
    answer_metadata,
    parse_key_request,
    parse_key_schema,
)
from flight_server.wire.messages import parse
from flight_server.wire.report_messages import parse_report
from flight_server.wire.tickets import Statement
from tests.golden.write import GOLDEN, MUSIC

ROOT = Path(__file__).parents[2]
CODE = ("engine", "flight_server", "spark_pipeline")
_CONSTANT = re.compile(r"(?:^|_)(?:FORMAT|VERSION)(?:_|$)")
OLDER = {"fragments": (1, 2, 3), "reports": (1,)}
"""Formats of messages that hosts of this version refuse: all hosts run one version."""
NEWER = 99
Number = Callable[[Path], int]


def number_of_json(path: Path) -> int:
    found = re.search(rb'"(?:format|version)": ?(\d+)', path.read_bytes())
    assert found is not None, path
    return int(found[1])


def number_of_frame(path: Path) -> int:
    (number,) = struct.unpack_from("<I", path.read_bytes(), 8)
    return int(number)


def number_of_pairs(path: Path) -> int:
    pairs = pa.ipc.open_file(str(path)).read_all().to_pylist()
    return next(int(json.loads(pair["value"])["format"]) for pair in pairs if pair["key"] == b"M")


def number_of_fragment(path: Path) -> int:
    return int(parse("FragmentRequest", path.read_bytes()[len(FRAGMENT_MARK) :]).format)


def number_of_sketch(path: Path) -> int:
    return path.read_bytes()[1]


def number_of_toml(path: Path) -> int:
    found = re.search(r"^version = (\d+)", path.read_text())
    assert found is not None
    return int(found[1])


MIGRATIONS = ("partitions_*/changelog/groups/*/migrations/*.json", number_of_json)
SKETCHES = ("sketches/*.kll", number_of_sketch)
GOLDEN_FILES: Mapping[str, tuple[str, Number]] = {
    "engine.access.security_file._CREDENTIALS_VERSION": ("credentials/*.toml", number_of_toml),
    "engine.changelog.amendments.AMENDMENT_FORMAT": ("amendments_*/*.json", number_of_json),
    "engine.changelog.backup.MARK_FORMAT": ("backups/*.json", number_of_json),
    "engine.changelog.epochs.DROPPED_FORMAT": ("drops/*.json", number_of_json),
    "engine.changelog.floors.FLOOR_FORMAT": ("floors/*.json", number_of_json),
    "engine.changelog.kept_catalog.CATALOG_FORMAT": ("catalogs/*.json", number_of_json),
    "engine.replica.reached_epoch.REACHED_FORMAT": ("reached/*.json", number_of_json),
    "engine.changelog.frames.NEWEST_FORMAT": ("partitions_*/changelog/groups/*/*.commit", number_of_frame),
    "engine.changelog.layout.LAYOUT_FORMAT": ("partitions_*/changelog/FORMAT", number_of_json),
    "engine.changelog.switches.SWITCH_FORMAT": (
        "partitions_*/changelog/stores/*/switches/*.json",
        number_of_json,
    ),
    "engine.cluster.deployment.DEPLOYMENT_VERSION": ("deployments/*.toml", number_of_toml),
    "engine.model.schema.DEFINITION_FORMAT": (
        "partitions_*/changelog/stores/*/definition.json",
        number_of_json,
    ),
    "engine.model.schema.MIGRATED_FORMAT": MIGRATIONS,
    "engine.replica.data_directory.DIRECTORY_FORMAT": ("partitions_*/livestate.json", number_of_json),
    "engine.state.folds.distinct_sketch._VERSION": ("sketches/*.hll", number_of_sketch),
    "engine.state.folds.quantile_sketch._VERSION": SKETCHES,
    "engine.state.folds.quantile_sketch._VERSION_OF_SINGLE": SKETCHES,
    "engine.state.formats.STATE_FORMAT": ("partitions_*/pairs.arrow", number_of_pairs),
    "engine.state.formats._NAMED_FORMAT": ("partitions_*/pairs.arrow", number_of_pairs),
    "flight_server.wire.diagnosis_messages.FORMAT": ("diagnoses/*.json", number_of_json),
    "flight_server.wire.fragment_messages.FORMAT": ("wire_*/fragment.bin", number_of_fragment),
    "flight_server.wire.fragment_messages.SCOPED_FORMAT": ("fragments/*.bin", number_of_fragment),
    "flight_server.wire.fragment_messages.LIMITED_FORMAT": ("fragments/*.bin", number_of_fragment),
    "flight_server.wire.key_messages.VERSION": ("key_streams/*.request.json", number_of_json),
    "flight_server.wire.report_messages.FORMAT": ("wire_*/report.json", number_of_json),
}
"""Where the golden files of each number are, and what they say that it is."""


def numbered_formats() -> Iterator[tuple[str, int]]:
    """The constants of the code that are numbers of formats."""
    for path in sorted(file for room in CODE for file in (ROOT / room).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for statement in ast.parse(path.read_text()).body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
            for name in filter(_CONSTANT.search, names):
                value = getattr(import_module(module), name)
                if isinstance(value, int) and not isinstance(value, bool):
                    yield f"{module}.{name}", value


def test_every_number_of_a_format_has_a_golden_file() -> None:
    """A new one needs an entry in `GOLDEN_FILES`, and a file of what is stored or sent."""
    formats = dict(numbered_formats())
    assert set(formats) == set(GOLDEN_FILES)
    for name, number in formats.items():
        pattern, number_of = GOLDEN_FILES[name]
        found = {number_of(path) for path in GOLDEN.glob(pattern)}
        assert number in found, f"{name} is {number}, and {pattern} has {sorted(found)}"


# ---- what hosts say of snapshots


def test_parts_and_checksums_of_a_newer_version_are_refused() -> None:
    """So a host writes again what a newer one has written, and takes it for one that says nothing."""
    (part,) = GOLDEN.glob("partitions_4/changelog/groups/music/snapshots/*05/*.part")
    (checksums,) = GOLDEN.glob("checksums/*.checksums")
    refusal = f"has format {NEWER}; this version reads up to {NEWEST_FORMAT}: upgrade livestate"
    epoch = Epoch(5)
    for decode, path in ((decode_part, part), (decode_checksums, checksums)):
        data = path.read_bytes()
        assert decode(MUSIC, epoch, pa.py_buffer(data))
        newer = data[:8] + struct.pack("<I", NEWER) + data[12:]
        with pytest.raises(Corrupt, match=refusal):
            decode(MUSIC, epoch, pa.py_buffer(newer))


def test_the_checksums_of_a_host_are_read() -> None:
    (path,) = GOLDEN.glob("checksums/*.checksums")
    claim = decode_checksums(MUSIC, Epoch(5), pa.py_buffer(path.read_bytes()))
    assert {store for store, _ in claim.checksums} == {"songs", "latest", "rates"}
    assert sum(checksum.rows for checksum in claim.checksums.values()) == ROWS_OF_CHECKSUMS


ROWS_OF_CHECKSUMS = 65
"""60 songs, three latest values, two rates."""


def test_what_says_that_epochs_were_dropped_is_whole() -> None:
    for path in GOLDEN.glob("drops/*.json"):
        assert json.loads(unseal(path.read_bytes(), "It"))["format"] == int(path.stem)


def test_what_a_host_notes_beside_its_state_is_read() -> None:
    kept = KeptCatalog.from_bytes((GOLDEN / "catalogs" / "1.json").read_bytes())
    assert (kept.identity[:4], sorted(kept.objects)) == ("87af", ["FORMAT", "stores/plays/definition.json"])
    for number, boot, fingerprint in ((1, "", None), (2, "c0ffee", 0xFEDCBA9876543210)):
        reached = read_reached_epoch(GOLDEN / "reached" / f"{number}.json")
        assert reached is not None
        assert (reached.epoch, reached.boot, reached.fingerprint) == (7, boot, fingerprint)


def test_a_floor_is_read() -> None:
    floors = Floors(open_objects("memory://", {}), MUSIC)
    data = (GOLDEN / "floors" / "1.json").read_bytes()
    objects = open_objects("memory://", {})
    objects.create(floor_path(MUSIC, 1), [pa.py_buffer(data)])
    assert (floors.newest(), Floors(objects, MUSIC).newest()) == (0, 7)


# ---- messages


def test_what_a_host_says_of_itself_is_read_as_far_as_it_is_known() -> None:
    document = json.loads((GOLDEN / "diagnoses" / "1.json").read_text())
    said = parse_diagnosis(json.dumps({**document, "of_a_newer_version": 1}).encode())
    assert (said.host, said.data.mode, said.versions["pyarrow"]) == ("a", "700", "26.0.1")
    assert (said.peers["b"].problem, said.peers["c"].seconds) == ("", 0.0)
    assert parse_diagnosis(said.to_bytes()) == said
    fewer = {name: value for name, value in document.items() if name not in ("data", "memory_bytes")}
    assert parse_diagnosis(json.dumps(fewer).encode()).memory_bytes == 0
    for damaged in (b"", b"{}", b"[]", json.dumps({**document, "format": NEWER}).encode()):
        with pytest.raises(InvalidInput, match="What the host says of itself"):
            parse_diagnosis(damaged)


@pytest.mark.parametrize("number", OLDER["fragments"])
def test_fragments_of_older_versions_are_refused(number: int) -> None:
    path = GOLDEN / "fragments" / f"{number}.bin"
    assert number_of_fragment(path) == number
    with pytest.raises(InvalidInput, match=f"has format {number}, .* run one version of livestate"):
        parse_fragment(path.read_bytes())


@pytest.mark.parametrize("number", OLDER["reports"])
def test_reports_of_older_versions_are_refused(number: int) -> None:
    path = GOLDEN / "reports" / f"{number}.json"
    assert number_of_json(path) == number
    with pytest.raises(InvalidInput, match=f"has format {number}, .* run one version of livestate"):
        parse_report(path.read_bytes())


def test_fragments_of_a_part_of_the_stores_are_read() -> None:
    ticket = parse_fragment((GOLDEN / "fragments" / "5.bin").read_bytes())
    grant = Grant(("trades", "positions_*"), ("*",), "desk = claim('desk')")
    assert ticket.request.scope == Scope((grant,), (("desk", "fx"),))


def test_fragments_with_a_limit_of_the_engine_are_read() -> None:
    ticket = parse_fragment((GOLDEN / "fragments" / "6.bin").read_bytes())
    grant = Grant(("trades", "positions_*"), ("*",), "desk = claim('desk')")
    assert ticket.request.scope == Scope((grant,), (("desk", "fx"),))
    assert ticket.request.engine_limit == EngineLimit("ann", Limit(1 << 28, "desk"))


def test_messages_of_key_streams_are_read() -> None:
    defaults = Statement("")
    data = (GOLDEN / "key_streams" / "1.request.json").read_bytes()
    request = KeyRequest("plays", ("title", "plays"), ReadPoint(min_epoch=Epoch(3)), 2.5)
    assert parse_key_request(data, defaults) == request
    assert json.loads(request.to_bytes()) == json.loads(data)
    with pytest.raises(InvalidInput, match="this host speaks 1"):
        parse_key_request(data.replace(b'"version": 1', b'"version": 99'), defaults)
    schema = pa.ipc.read_schema(pa.py_buffer((GOLDEN / "key_streams" / "1.schema").read_bytes()))
    assert parse_key_schema(schema) == pa.schema([("song", pa.int64()), ("at", pa.string())])
    facts = json.loads(schema.metadata[KEY_STREAM_METADATA])
    assert facts == {"version": 1, "key": ["song", "at"], "max_keys": 10_000}
    plays = GroupName("plays")
    said = json.loads(answer_metadata({plays: Epoch(12)}, 0.4, None, {plays: "3f"}))
    first = json.loads((GOLDEN / "key_streams" / "1.answer.json").read_bytes())
    assert {name: said[name] for name in first} == first


# ---- what people and others write


def test_deployment_files_are_read() -> None:
    text = (GOLDEN / "deployments" / "1.toml").read_text()
    deployment = parse_deployment(text)
    assert [(host.name, host.data) for host in deployment.hosts] == [("a", "/var/lib/livestate"), ("b", None)]
    assert (deployment.changelog, deployment.replication) == ("s3://bucket/deployment", 2)
    with pytest.raises(InvalidInput, match="has format 99"):
        parse_deployment(text.replace("version = 1", "version = 99"))


def test_files_of_credentials_are_read() -> None:
    (token,) = parse_tokens((GOLDEN / "credentials" / "1.tokens.toml").read_text())
    (user,) = parse_users((GOLDEN / "credentials" / "1.users.toml").read_text())
    assert (token.name, token.claims) == ("report", {"desk": "fx"})
    assert (user.name, user.roles) == ("ann", frozenset({"reader", "operator"}))


@pytest.mark.parametrize(("form", "count"), [("list", 5), ("set", 100), ("table", 2991)])
def test_distinct_sketches_of_datasketches_are_read(form: str, count: int) -> None:
    data = (GOLDEN / "sketches" / f"1.{form}.hll").read_bytes()
    assert is_distinct_sketch(data)
    assert distinct_counts(pa.array([data])).to_pylist() == [count]
    newer = data[:1] + bytes([99]) + data[2:]
    assert not is_distinct_sketch(newer)


def test_quantile_sketches_of_datasketches_are_read_and_written() -> None:
    single, many = ((GOLDEN / "sketches" / f"{number}.kll").read_bytes() for number in (2, 1))
    one, hundred = QuantileSketch.from_bytes(single), QuantileSketch.from_bytes(many)
    assert one is not None
    assert hundred is not None
    assert (one.seen, one.smallest, one.largest) == (1, 1.5, 1.5)
    assert (hundred.seen, hundred.smallest, hundred.largest) == (100, 0.0, 49.5)
    for sketch in (one, hundred):
        again = QuantileSketch.from_bytes(sketch.to_bytes())
        assert again is not None
        assert (again.seen, again.smallest, again.largest) == (sketch.seen, sketch.smallest, sketch.largest)
