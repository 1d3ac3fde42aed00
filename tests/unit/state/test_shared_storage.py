"""Partitions that share a RocksDB: each has a storage of its own, as far as it can see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Unavailable
from engine.model.schema import PartitionId
from engine.state.memory_storage import MemoryStorage
from engine.state.rocks import Rocks, shared_options
from engine.state.shared_storage import SharedStorages, StoragePart, partitions_within
from engine.state.state_options import StateOptions
from engine.state.storage import Storage, key_behind

OPTIONS = StateOptions()
SHARED = shared_options(OPTIONS)
NUMBERS = [PartitionId(number) for number in (0, 1, 255, 256, 4095)]
KEYS = st.binary(min_size=1, max_size=3).map(lambda key: key.replace(b"\x01", b"\xff"))
RANGES = st.lists(st.tuples(KEYS, KEYS).filter(lambda pair: pair[0] < pair[1]), max_size=2)
WRITES = st.lists(
    st.tuples(st.sampled_from(NUMBERS), st.dictionaries(KEYS, st.binary(max_size=2), max_size=3), RANGES),
    max_size=8,
)


@pytest.fixture
def storages() -> SharedStorages:
    return SharedStorages()


def open_parts(storages: SharedStorages, path: Path) -> Sequence[StoragePart]:
    return [storages.open_part(path, number, OPTIONS, SHARED) for number in NUMBERS]


def contents(storage: Storage) -> object:
    """All that a storage says of what it has."""
    pairs = list(storage.pairs(b""))
    keys = [key for key, _ in pairs]
    assert storage.get_all(keys) == [value for _, value in pairs]
    lengths = [storage.beginnings(length) for length in range(1, 4)]
    within = storage.beginnings(1, (b"\x02", b"\xff"))
    return pairs, lengths, within, list(storage.pairs(b"\xff")), storage.get(b"\x02")


@settings(max_examples=20, deadline=None)
@given(WRITES)
def test_each_part_is_as_a_storage_alone(
    writes: list[tuple[PartitionId, dict[bytes, bytes], list[tuple[bytes, bytes]]]],
) -> None:
    alone = {number: MemoryStorage() for number in NUMBERS}
    with TemporaryDirectory() as directory:
        for is_again in (False, True):
            parts = dict(zip(NUMBERS, open_parts(SharedStorages(), Path(directory, "shared")), strict=True))
            for number, pairs, removed in () if is_again else writes:
                alone[number].write_atomically(pairs.items(), removed)
                parts[number].write_atomically(pairs.items(), removed)
            for number in NUMBERS:
                assert contents(parts[number]) == contents(alone[number])
            for part in parts.values():
                part.close()
        with closing(Rocks(Path(directory, "shared"), OPTIONS)) as rocks:
            there = [number for number in NUMBERS if list(alone[number].pairs(b""))]
            assert partitions_within(rocks) == there


@given(st.binary(max_size=3), st.integers(0, 3))
def test_the_key_behind(key: bytes, length: int) -> None:
    key = key[:length]
    others = [*(bytes([first]) for first in range(256)), b"", b"\xff\xff", b"\xff\xff\xff\xff", key + b"\0"]
    behind = key_behind(key, length)
    passed = [other for other in others if other <= key or (len(key) == length and other.startswith(key))]
    assert [other for other in others if behind is None or other < behind] == passed


def test_a_part_that_is_closed_refuses_and_the_others_go_on(storages: SharedStorages, tmp_path: Path) -> None:
    first, second, *rest = open_parts(storages, tmp_path)
    first.write([(b"a", b"1")])
    second.write([(b"a", b"2")], logged=False)
    second.flush()
    first.close()
    first.close()
    with pytest.raises(Unavailable, match="closed"):
        first.get(b"a")
    assert second.get(b"a") == b"2"
    again = storages.open_part(tmp_path, NUMBERS[0], OPTIONS, SHARED)
    assert again.get(b"a") == b"1"
    for part in (again, second, *rest):
        part.close()
    with closing(Rocks(tmp_path, OPTIONS)) as rocks:  # nobody has it open any more
        assert partitions_within(rocks) == NUMBERS[:2]


def test_what_goes_of_a_part_is_given_back_and_all_is_told_once(
    storages: SharedStorages, tmp_path: Path
) -> None:
    first, second, *rest = open_parts(storages, tmp_path)
    for part in (first, second):
        part.write(((bytes([number]), bytes(1 << 20)) for number in range(16)), logged=False)
        part.flush()
    first.write_atomically([], [(b"\x00", b"\xff")])
    first.reclaim(is_whole=True)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert 16 << 20 <= size < 20 << 20
    assert len(list(second.pairs(b""))) == 16
    assert [bool(part.figures()) for part in (first, second)] == [True, False]
    first.close()
    assert second.figures()["total-blob-file-size"] >= 16 << 20
    for part in (second, *rest):
        part.close()


@pytest.fixture(autouse=True)
def _nothing_is_left_open(storages: SharedStorages) -> Iterator[None]:
    yield
    assert not storages._open
