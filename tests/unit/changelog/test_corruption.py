"""Damaged bytes are an error that names the place: never other rows, never a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.changelog import Changelog, decode_file, open_appender
from engine.changelog.frames import NEWEST_FORMAT
from engine.errors import Corrupt
from engine.model.schema import Epoch
from tests.unit.changelog.conftest import PLAYS, flat, rows


@dataclass(frozen=True)
class Stored:
    """A changelog with a small epoch (inside its commit) and a big one (in a data file), and its
    six objects.
    """

    root: Path
    objects: tuple[Path, ...]


def all_rows(root: Path) -> list[list[tuple[object, ...]]]:
    changelog = Changelog.open(str(root))
    definitions = changelog.definitions()
    content = []
    for epoch in range(1, changelog.newest_epoch(PLAYS.group) + 1):
        commit = changelog.read_commit(PLAYS.group, Epoch(epoch))
        assert commit is not None
        content.append(flat(changelog.read_rows(commit, definitions)))
    return content


@pytest.fixture(scope="module")
def stored_changelog(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    root = tmp_path_factory.mktemp("stored")
    appender = open_appender(Changelog.open(str(root)), [PLAYS])
    appender.append({"plays": rows(1, 2, 3)})
    appender.append({"plays": rows(*range(8_000), title="a longer title, that fills the file")})
    objects = tuple(sorted(path for path in root.rglob("*") if path.is_file()))
    assert len(objects) == 6
    assert [len(found) for found in all_rows(root)] == [0, 3, 8_000]
    return Stored(root, objects)


@pytest.fixture
def repaired_changelog(stored_changelog: Stored) -> Iterator[Stored]:
    before = {path: path.read_bytes() for path in stored_changelog.objects}
    yield stored_changelog
    for path, data in before.items():
        path.write_bytes(data)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_anywhere_is_noticed(stored_changelog: Stored, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(stored_changelog.objects))
    original = path.read_bytes()
    place = data.draw(st.integers(0, min(len(original) - 1, 2_000)) | st.integers(0, len(original) - 1))
    how = data.draw(st.sampled_from(["flip", "truncate", "extend", "insert"]))
    noise = data.draw(st.binary(min_size=1, max_size=20))
    damaged = {
        "flip": original[:place] + bytes([original[place] ^ (noise[0] or 1)]) + original[place + 1 :],
        "truncate": original[:place],
        "extend": original + noise,
        "insert": original[:place] + noise + original[place:],
    }[how]
    try:
        path.write_bytes(damaged)
        with pytest.raises(Corrupt):
            all_rows(stored_changelog.root)
    finally:
        path.write_bytes(original)


@pytest.mark.parametrize(
    "suffix", ["1.commit", "2.commit", "3.commit", "definition.json", "FORMAT", ".arrow"]
)
def test_no_byte_of_the_headers_can_be_flipped(repaired_changelog: Stored, suffix: str) -> None:
    path = object_of(repaired_changelog, suffix)
    original = path.read_bytes()
    epoch = Epoch(int(suffix[0]) if suffix.endswith(".commit") else 3)
    with path.open("r+b", buffering=0) as file:
        for place in range(min(len(original), 64) if suffix == ".arrow" else len(original)):
            os.pwrite(file.fileno(), bytes([original[place] ^ 1]), place)
            with pytest.raises(Corrupt):
                changelog = Changelog.open(str(repaired_changelog.root))
                definitions = changelog.definitions()
                commit = changelog.read_commit(PLAYS.group, epoch)
                assert commit is not None
                changelog.read_rows(commit, definitions, lambda _, partition: epoch == 2 or partition == 0)
            os.pwrite(file.fileno(), original[place : place + 1], place)


def object_of(stored_changelog: Stored, suffix: str) -> Path:
    return next(path for path in reversed(stored_changelog.objects) if path.name.endswith(suffix))


@pytest.mark.parametrize(
    ("suffix", "place", "message"),
    [
        (
            "2.commit",
            8,
            (
                "The commit of epoch 2 of store group plays has format 7; this version reads up to "
                f"{NEWEST_FORMAT}: upgrade livestate"
            ),
        ),
        (
            ".arrow",
            8,
            (
                "A data file of epoch 3 of store group plays has format 7; this version reads up to "
                f"{NEWEST_FORMAT}: upgrade livestate"
            ),
        ),
        ("FORMAT", 13, "The changelog has format 7; this version reads format 1: upgrade livestate"),
    ],
)
def test_an_unknown_format_says_to_upgrade(
    repaired_changelog: Stored, suffix: str, place: int, message: str
) -> None:
    path = object_of(repaired_changelog, suffix)
    data = bytearray(path.read_bytes())
    assert data[place] in (1, ord("1"))
    data[place] += 6
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=message):
        all_rows(repaired_changelog.root)


def test_the_message_names_group_and_epoch(repaired_changelog: Stored) -> None:
    path = object_of(repaired_changelog, "2.commit")
    data = path.read_bytes()
    path.write_bytes(data[:40])
    with pytest.raises(Corrupt, match="commit of epoch 2 of store group plays is damaged"):
        all_rows(repaired_changelog.root)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(
        Corrupt, match=r"store plays, partition 3, in epoch 2 of store group plays are damaged"
    ):
        all_rows(repaired_changelog.root)


def test_a_data_file_that_is_gone_or_short(repaired_changelog: Stored) -> None:
    path = object_of(repaired_changelog, ".arrow")
    os.truncate(path, 100)
    with pytest.raises(
        Corrupt, match="data file of epoch 3 of store group plays is missing or has lost bytes"
    ):
        all_rows(repaired_changelog.root)
    path.unlink()
    with pytest.raises(
        Corrupt, match="data file of epoch 3 of store group plays is missing or has lost bytes"
    ):
        all_rows(repaired_changelog.root)


def test_a_commit_in_the_wrong_place(repaired_changelog: Stored) -> None:
    object_of(repaired_changelog, "2.commit").write_bytes(
        object_of(repaired_changelog, "3.commit").read_bytes()
    )
    with pytest.raises(
        Corrupt, match="commit of epoch 2 of store group plays is that of epoch 3 of store group plays"
    ):
        all_rows(repaired_changelog.root)


def test_a_definition_in_the_wrong_place(repaired_changelog: Stored) -> None:
    path = object_of(repaired_changelog, "definition.json")
    elsewhere = repaired_changelog.root / "stores" / "elsewhere" / "definition.json"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(path.read_bytes())
    try:
        with pytest.raises(Corrupt, match="lies where another one's should be"):
            all_rows(repaired_changelog.root)
    finally:
        elsewhere.unlink()
        elsewhere.parent.rmdir()


def test_a_definition_is_readable_json(stored_changelog: Stored) -> None:
    document = json.loads(object_of(stored_changelog, "definition.json").read_bytes())
    assert document["columns"][0] == {"name": "song", "type": "BIGINT"}


def test_a_truncated_object_on_every_storage(s3_options: dict[str, str]) -> None:
    for changelog in (Changelog.open("memory://"), Changelog.open("s3://bucket/short", s3_options)):
        commit = open_appender(changelog, [PLAYS]).append({"plays": rows(*range(30_000))})
        path = next(path for path in changelog.objects.list("groups") if path.endswith(".arrow"))
        for size in (0, 50, 1_000):
            changelog.objects.delete([path])
            changelog.objects.put(path, [b"x" * size])
            with pytest.raises(Corrupt, match="missing or has lost bytes"):
                changelog.read_rows(commit, {PLAYS.name: PLAYS}, lambda _, partition: partition == 3)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"epoch": 1, "name": "../x", "size": 64}', b"\xff"])
def test_a_damaged_name_of_a_staged_file(data: bytes) -> None:
    with pytest.raises(Corrupt, match="stage it again"):
        decode_file(data)
