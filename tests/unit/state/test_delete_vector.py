"""Delete vectors: equal a set of row numbers, share memory, and are stored as what is new in them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.state import delete_vector as module
from engine.state.damage import DamagedError
from engine.state.delete_vector import DeadRun, DeleteVector, delete_vector
from engine.state.formats import SegmentId, dead_run_key, decode_bits, decode_rows, encode_bits, encode_rows
from engine.state.memory_storage import MemoryStorage
from engine.state.segment_store import encode_dead_rows
from tests.support.seeds import seeded_generator

ROWS = 1 << 20
SEGMENT = SegmentId(3)


def empty(rows: int) -> DeleteVector:
    return DeleteVector(rows, None, (), 0)


def check(vector: DeleteVector, dead: set[int]) -> None:
    rows = np.arange(vector.rows)
    expected = np.isin(rows, list(dead))
    assert vector.dead_rows == len(dead)
    assert vector.are_dead(rows).tolist() == expected.tolist()
    assert [vector.is_dead(row) for row in range(vector.rows)] == expected.tolist()
    for start, stop in ((0, vector.rows), (3, 9), (vector.rows // 2, vector.rows), (5, 5)):
        assert vector.live_flags(start, stop).tolist() == (~expected[start:stop]).astype(int).tolist()
        assert vector.live_rows(start, stop).tolist() == [*(np.flatnonzero(~expected[start:stop]) + start)]
        assert vector.has_dead(start, stop) == bool(expected[start:stop].any())


@given(data=st.data(), rows=st.integers(9, 200), bits_only=st.booleans())
def test_any_deaths_equal_a_set(data: st.DataObject, rows: int, bits_only: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BITS_ONLY_ROWS", rows if bits_only else 0)
        patch.setattr(module, "ROWS_PER_DEAD", data.draw(st.sampled_from([1, 4, 32])))
        vector, dead = empty(rows), set[int]()
        known = [(vector, set(dead))]
        for _ in range(data.draw(st.integers(1, 12))):
            left = sorted(set(range(rows)) - dead)
            if not left:
                break
            died = data.draw(st.lists(st.sampled_from(left), min_size=1, max_size=30, unique=True))
            vector, dead = vector.add(np.array(died)), dead.union(died)
            known.append((vector, dead))
        for before, dead_before in known:
            check(before, dead_before)
            assert vector.dead_since(before).tolist() == sorted(dead - dead_before)
        assert vector.dead_since(None).tolist() == sorted(dead)


@given(data=st.data(), rows=st.integers(9, 200))
def test_what_is_stored_piece_by_piece_is_the_vector(data: st.DataObject, rows: int) -> None:
    """Vectors of which some are never stored, as those of an epoch's pieces are not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BITS_ONLY_ROWS", 0)
        patch.setattr(module, "ROWS_PER_DEAD", data.draw(st.sampled_from([1, 4, 8])))
        storage = MemoryStorage()
        stored: DeleteVector | None = None
        vector = empty(rows)
        order = data.draw(st.permutations(range(rows)))
        for start in range(0, rows, 5):
            vector = vector.add(np.array(order[start : start + 5]))
            if data.draw(st.booleans()):
                storage.write_atomically(*encode_dead_rows(SEGMENT, stored, vector))
                stored = read(storage, rows)
                assert stored is not None
                check(stored, set(order[: start + 5]))
                if data.draw(st.booleans()):
                    vector = stored  # the partition was opened again
                else:
                    stored = vector


def read(storage: MemoryStorage, rows: int) -> DeleteVector | None:
    bits = storage.get(b"D" + SEGMENT.to_bytes(8, "big"))
    runs = [
        DeadRun(int.from_bytes(key[9:], "big"), decode_rows(value, rows))
        for key, value in storage.pairs(b"d" + SEGMENT.to_bytes(8, "big"))
    ]
    return delete_vector(rows, None if bits is None else decode_bits(bits, rows), runs)


def test_many_epochs_of_a_large_segment_share_their_memory() -> None:
    order = seeded_generator(4).permutation(ROWS)
    epochs, died = 128, 200
    vectors = [empty(ROWS)]
    for epoch in range(epochs):
        vectors.append(vectors[-1].add(order[epoch * died : (epoch + 1) * died]))
    arrays = {id(array): array.nbytes for vector in vectors for array in vector.arrays}
    assert sum(arrays.values()) < 6 * 4 * epochs * died
    assert max(len(vector.runs) for vector in vectors) <= 12
    for epoch in (0, 1, 77, epochs):
        dead = np.sort(order[: epoch * died])
        assert vectors[epoch].dead_since(None).tolist() == dead.tolist()
    for start in range(epochs * died, ROWS, ROWS // 16):
        vectors.append(vectors[-1].add(order[start : start + ROWS // 16]))
    assert vectors[-1].dead_rows == ROWS
    assert sum(len(run.rows) for run in vectors[-1].runs) * module.ROWS_PER_DEAD <= ROWS


def test_rows_of_two_entries_are_damage() -> None:
    run = DeadRun(1, np.array([3, 5], np.uint32))
    assert delete_vector(100, None, [run]) is not None
    with pytest.raises(DamagedError):
        delete_vector(100, None, [run, DeadRun(2, np.array([5], np.uint32))])
    with pytest.raises(DamagedError):
        delete_vector(100, decode_bits(encode_bits(np.full(12, 255, np.uint8)) + b"\x0f", 100), [run])


@pytest.mark.parametrize("data", [b"\xff" * 12, b"\xff" * 14, b"\xff" * 13])
def test_bits_of_other_rows_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedError):
        decode_bits(data, 100)


def test_entries_of_older_versions_are_taken_up() -> None:
    """They numbered the entries by epoch; those of now never have such a number."""
    storage = MemoryStorage()
    for epoch in (7, 9):
        storage.write([(dead_run_key(SEGMENT, epoch), encode_rows(np.array([epoch], np.uint32)))])
    vector = read(storage, ROWS)
    assert vector is not None
    numbers = [run.number for run in vector.add(np.array([1])).runs]
    assert numbers[:-1] == [7, 9]
    assert numbers[-1] >= 1 << 63
