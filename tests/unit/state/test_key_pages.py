"""Key columns in pages, and filters beside them: what they find is what whole columns would, and what is
damaged of them is never answered from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.model.schema import Epoch, PartitionId, StoreDefinition, define_store
from engine.state.cache import ColumnCache
from engine.state.damage import DamagedError
from engine.state.formats import (
    KEY_FILTER,
    PAGE_FENCES,
    SUM_MAGIC,
    SegmentId,
    block_key,
    sums_of_words,
)
from engine.state.key_filter import KeyFilter, decode_filter, pieces_of
from engine.state.key_pages import decode_pages, encode_pages
from engine.state.partition import PartitionStore
from engine.state.segment import Segment
from engine.state.segment_builder import LARGE_SEGMENT_ROWS
from engine.state.segment_keys import MOST_SOUGHT
from engine.state.state_options import KIB, MIB, StateOptions
from tests.support.partitions import view_of
from tests.support.seeds import seeded_generator

ROWS = 5000
PAGED = StateOptions(cache_bytes=4096, block_rows=512, paged_rows=1000, page_bytes=256)
WHOLE = StateOptions(block_rows=512, paged_rows=1000, page_bytes=256)
VALUE = pa.field("v", pa.int64())
STORES = {
    "numbers": define_store("t", pa.schema([("k", pa.int64()), VALUE]), ["k"], partitions=1),
    "text": define_store("t", pa.schema([("k", pa.string()), VALUE]), ["k"], partitions=1),
    "both": define_store(
        "t", pa.schema([("k", pa.string()), ("n", pa.int32()), VALUE]), ["k", "n"], partitions=1
    ),
}


def keys_of(definition: StoreDefinition, numbers: np.ndarray) -> list[pa.Array]:
    """Keys of numbers, in another order than these."""
    scattered = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    if definition.schema.field(0).type == pa.int64():
        return [pa.array(scattered)]
    texts = pa.array([f"{'x' * (number % 5)}{number:x}" for number in scattered.tolist()])
    return [texts] if len(definition.key) == 1 else [texts, pa.array(scattered.astype(np.int32))]


def rows(definition: StoreDefinition, numbers: np.ndarray, value: int) -> pa.RecordBatch:
    values = pa.array(np.full(len(numbers), value))
    return pa.RecordBatch.from_arrays([*keys_of(definition, numbers), values], schema=definition.row_schema)


def open_store(
    definition: StoreDefinition, directory: Path, options: StateOptions
) -> closing[PartitionStore]:
    cache = ColumnCache(options.cache_bytes)
    return closing(PartitionStore(definition, PartitionId(0), directory, cache, options))


def fill(definition: StoreDefinition, directory: Path, options: StateOptions = PAGED) -> None:
    with open_store(definition, directory, options) as store:
        store.apply(Epoch(1), rows(definition, np.arange(ROWS), 1))


def segment_of(store: PartitionStore) -> Segment:
    (entry,) = store.version.segments
    return entry.segment


@pytest.fixture(params=STORES)
def definition(request: pytest.FixtureRequest) -> Iterator[StoreDefinition]:
    yield STORES[request.param]


def test_pages_find_what_whole_columns_find(definition: StoreDefinition, tmp_path: Path) -> None:
    fill(definition, tmp_path)
    random = seeded_generator(3)
    with open_store(definition, tmp_path, PAGED) as paged, open_store_copy(definition, tmp_path) as whole:
        one, other = segment_of(paged), segment_of(whole)
        assert one.record.page_rows
        assert one.record.filter_checksum is not None
        codec = paged.context.codec
        for count in (1, 5, 300, 3000):
            numbers = random.integers(-ROWS, 2 * ROWS, count)
            needles = codec.encode(keys_of(definition, np.unique(numbers)))
            order = (
                np.argsort(needles) if isinstance(needles, np.ndarray) else pa.compute.sort_indices(needles)
            )
            needles = needles[order] if isinstance(needles, np.ndarray) else needles.take(order)
            for found, expected in zip(one.keys.find(needles), other.keys.find(needles), strict=True):
                assert found.tolist() == expected.tolist()
            for side in ("left", "right"):
                assert (
                    one.keys.position(needles, side).tolist() == other.keys.position(needles, side).tolist()
                )
            for needle in needles[:50]:
                assert one.keys.find_one(needle) == other.keys.find_one(needle)
        chosen = np.sort(random.choice(ROWS, 700, replace=False))
        assert list(one.keys.of_rows(chosen)) == list(other.keys.of_rows(chosen))
        assert list(one.keys.read_between(500, 1100)) == list(other.keys.read_between(500, 1100))
        assert paged.context.cache.nbytes <= PAGED.cache_bytes


def open_store_copy(definition: StoreDefinition, directory: Path) -> closing[PartitionStore]:
    """A partition with the same rows, whose keys are in memory as a whole."""
    other = directory / "whole"
    fill(definition, other, WHOLE)
    return open_store(definition, other, WHOLE)


def test_keys_sought_one_by_one_are_read_whole_once_that_pays(
    definition: StoreDefinition, tmp_path: Path
) -> None:
    fill(definition, tmp_path)
    for options, fits in ((PAGED, False), (WHOLE, True)):
        with open_store(definition, tmp_path, options) as store:
            segment = segment_of(store)
            sought = MOST_SOUGHT * segment.blocks
            needles = store.context.codec.encode(keys_of(definition, np.arange(sought)))
            rows_found = []
            for count, needle in enumerate(needles, 1):
                rows_found.append(segment.keys.find_one(needle))
                is_whole = segment.reader.cache.peek(segment.reader.whole_key) is not None
                assert is_whole is (fits and count == sought)
            assert None not in rows_found
            segment.reader.cache.drop([segment.reader.whole_key])
            assert segment.keys.find_one(needles[0]) == rows_found[0]
            assert segment.reader.cache.peek(segment.reader.whole_key) is None


def test_a_table_is_kept_though_its_keys_are_in_pages(tmp_path: Path) -> None:
    definition = STORES["numbers"]
    fill(definition, tmp_path)
    with open_store(definition, tmp_path, WHOLE) as store:
        segment = segment_of(store)
        asked = (0, 1), 2, definition.schema
        tables = [segment.reader.table(*asked) for _ in range(3)]
        assert segment.reader.cache.peek(segment.reader.whole_key) is None
        assert tables[1] is tables[2]
        segment.keys.find(segment.keys.read_between(0, segment.rows))
        assert segment.reader.cache.peek(segment.reader.whole_key) is not None
        assert segment.reader.table(*asked).table.equals(tables[0].table)


def test_epochs_onto_pages_equal_those_onto_whole_columns(
    definition: StoreDefinition, tmp_path: Path
) -> None:
    found = []
    for options in (PAGED, WHOLE):
        directory = tmp_path / str(options.cache_bytes)
        random = seeded_generator(8)
        with open_store(definition, directory, options) as store:
            for epoch in range(1, 12):
                numbers = random.choice(3 * ROWS, 1500, replace=False)
                store.apply(Epoch(epoch), rows(definition, numbers, epoch))
                if epoch % 4 == 0:
                    while store.compact():
                        pass
            store.compact_fully()
            scanned = view_of(store, definition).scan(definition.schema.names).to_table()
            found.append(scanned.sort_by([(name, "ascending") for name in definition.key]))
            assert store.version.live_rows == scanned.num_rows
    assert found[0].equals(found[1])


def test_keys_of_all_segments_decide_whether_they_are_kept(tmp_path: Path) -> None:
    definition = STORES["numbers"]
    cache = ColumnCache(8 * ROWS * 3)
    options = StateOptions(block_rows=512, paged_rows=1000)
    stores = [
        PartitionStore(definition, PartitionId(0), tmp_path / str(number), cache, options)
        for number in range(3)
    ]
    for store in stores[:2]:
        store.apply(Epoch(1), rows(definition, np.arange(ROWS), 1))
        assert segment_of(store).record.filter_checksum is None
    assert cache.keeps_keys()
    stores[2].apply(Epoch(1), rows(definition, np.arange(ROWS), 1))
    assert not cache.keeps_keys()
    for store in stores[1:]:
        store.close()
    assert cache.keeps_keys()
    stores[0].close()


def damage(directory: Path, column: int, block: int, change: bytes | None) -> None:
    """Write past the partition store."""
    with open_store(STORES["text"], directory, PAGED) as store:
        key = block_key(SegmentId(1), column, block)
        value = store.context.storage.get(key)
        assert value is not None
        store.context.storage.write_atomically(
            [] if change is None else [(key, value[: -len(change)] + change)], [(key, key + b"\0")]
        )


FIRST_KEY = 0
DAMAGES: dict[str, tuple[int, int, bytes | None]] = {
    "page lost": (FIRST_KEY, 3, None),
    "filter lost": (KEY_FILTER, 0, None),
    "filter changed": (KEY_FILTER, 0, b"\0" * 64),
    "fences lost": (PAGE_FENCES, 0, None),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_refused(name: str, tmp_path: Path) -> None:
    definition = STORES["text"]
    fill(definition, tmp_path)
    damage(tmp_path, *DAMAGES[name])
    with open_store(definition, tmp_path, PAGED) as store:
        with pytest.raises(DamagedError):
            store.apply(Epoch(2), rows(definition, np.arange(ROWS), 2))
        assert store.version.epoch == Epoch(1)
        with pytest.raises(DamagedError):
            for block in range(segment_of(store).blocks):
                segment_of(store).stored.check_block(block)


@pytest.mark.parametrize("cut", ["filter", "page", "page of text"])
def test_every_cut_is_found(cut: str) -> None:
    keys = pa.array([f"k{number:04}" for number in range(300)]) if "text" in cut else pa.array(range(300))
    if cut == "filter":
        made = KeyFilter.make_empty(300)
        made.add(np.arange(300))
        (data,) = made.encode()
        assert decode_filter([data], 300, made.checksum).may_hold(np.arange(300)).all()
        for length in range(len(data)):
            with pytest.raises(DamagedError):
                decode_filter([data[:length]], 300, made.checksum)
        for place in range(len(data)):
            flipped = bytes([*data[:place], data[place] ^ 1, *data[place + 1 :]])
            with pytest.raises(DamagedError):
                decode_filter([flipped], 300, made.checksum)
        return
    sealed = list(encode_pages(keys, 64))
    for number in (1, len(sealed) - 1):
        page = sealed[number]
        for place in range(len(page)):
            flipped = bytes([*page[:place], page[place] ^ 1, *page[place + 1 :]])
            with pytest.raises(DamagedError):
                decode_pages([*sealed[:number], flipped, *sealed[number + 1 :]], keys.type, 64, 300)
    assert decode_pages(sealed, keys.type, 64, 300).equals(keys)
    for number, page in enumerate(sealed):
        for length in range(len(page)):
            with pytest.raises(DamagedError):
                decode_pages([*sealed[:number], page[:length], *sealed[number + 1 :]], keys.type, 64, 300)
        with pytest.raises(DamagedError):
            decode_pages([*sealed[:number], *sealed[number + 1 :]], keys.type, 64, 300)
        with pytest.raises(DamagedError):
            decode_pages([*sealed[:number], page, *sealed[number:]], keys.type, 64, 300)


def test_a_sum_where_there_is_none_is_damage() -> None:
    """Of values whose length is no whole number of words."""
    keys = pa.array([1, 2], pa.int32())
    page = next(encode_pages(keys, 1))
    summed = page[:4] + SUM_MAGIC + bytes(8)
    with pytest.raises(DamagedError):
        decode_pages([summed, summed], keys.type, 1, 2)


def test_no_two_bits_of_a_page_change_unseen() -> None:
    """As each bit changes the sum by an amount of its own, whatever the others are."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    words = 2 * KIB // 4
    pages = np.zeros((words * 32, words), np.uint32)
    pages[np.arange(words * 32), np.arange(words * 32) // 32] = np.tile(bits, words)
    changes = sums_of_words(pages)
    either_way = np.concatenate([changes, -changes])
    assert len(np.unique(either_way)) == len(either_way)


@given(data=st.data())
def test_words_that_change_or_change_places_are_found(data: st.DataObject) -> None:
    keys = pa.array(data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=16, max_size=16)))
    sealed = list(encode_pages(keys, 8))
    (number, first), (other, second) = data.draw(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 7)), min_size=2, max_size=2, unique=True)
    )
    words = [np.frombuffer(page, "<u8").copy() for page in sealed]
    if data.draw(st.booleans()):
        words[number][first] ^= np.uint64(data.draw(st.integers(1, 2**64 - 1)))
    else:
        assume(words[number][first] != words[other][second])
        words[number][first], words[other][second] = words[other][second], words[number][first]
    with pytest.raises(DamagedError):
        decode_pages([each.tobytes() for each in words], keys.type, 8, 16)


@given(data=st.data(), page_rows=st.sampled_from([1, 4, 16]))
def test_any_column_comes_back_from_its_pages(data: st.DataObject, page_rows: int) -> None:
    arrow_type, values = data.draw(
        st.sampled_from(
            [
                (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
                (pa.uint16(), st.integers(0, 2**16 - 1)),
                (pa.date32(), st.dates()),
                (pa.string(), st.text(max_size=5)),
                (pa.binary(), st.binary(max_size=5)),
            ]
        )
    )
    column = pa.array(data.draw(st.lists(values, min_size=1, max_size=60)), arrow_type)
    column = column[data.draw(st.integers(0, len(column) - 1)) :]
    pages = list(encode_pages(column, page_rows))
    assert decode_pages(pages, arrow_type, page_rows, len(column)).equals(column)


@given(keys=st.lists(st.binary(max_size=6), min_size=1, unique=True), rows=st.integers(1, 300))
def test_a_filter_has_all_its_keys(keys: list[bytes], rows: int) -> None:
    made = KeyFilter.make_empty(rows)
    made.add(pa.array(keys, pa.binary()))
    assert made.may_hold(pa.array(keys, pa.binary())).all()
    for key in keys:
        assert made.may_hold(pa.array([key], pa.binary())).all()


def test_few_other_keys_pass_a_filter() -> None:
    for keys in (np.arange(20_000), pa.array([f"user {n}".encode() for n in range(20_000)], pa.binary())):
        made = KeyFilter.make_empty(10_000)
        made.add(keys[:10_000])
        assert made.may_hold(keys[10_000:]).mean() < 0.06
    assert pieces_of(1) == 1
    assert pieces_of(8 << 20) == 17


def test_pages_of_large_segments_are_smaller(tmp_path: Path) -> None:
    definition = STORES["numbers"]
    numbers = np.arange(LARGE_SEGMENT_ROWS)
    batch = rows(definition, numbers, 1)
    for count, page_rows in ((LARGE_SEGMENT_ROWS - 1, 256), (LARGE_SEGMENT_ROWS, 64)):
        with open_store(definition, tmp_path / str(count), StateOptions(cache_bytes=MIB)) as store:
            store.apply(Epoch(1), batch[:count])
            segment = segment_of(store)
            assert segment.record.page_rows == page_rows
            places, found = segment.keys.find(segment.keys.of_rows(np.arange(5, count, 997)))
            assert found.tolist() == list(range(5, count, 997))
            assert places.tolist() == list(range(len(found)))
