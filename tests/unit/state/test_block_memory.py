"""Blocks that the cache keeps are in memory of Arrow's pool, which gives back what is freed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.state.formats import LEAST_COPIED_BYTES, decode_block, encode_block

VALUE_BYTES = 8


@pytest.mark.parametrize(
    ("nbytes", "is_copied"), [(4 * LEAST_COPIED_BYTES, True), (LEAST_COPIED_BYTES // 4, False)]
)
def test_large_blocks_are_in_the_pool(nbytes: int, is_copied: bool) -> None:
    column = pa.array(np.arange(nbytes // VALUE_BYTES))
    data = encode_block(column)
    stored = np.frombuffer(data, np.uint8)
    before = pa.total_allocated_bytes()
    found = decode_block(data, column.type, len(column))
    assert found.equals(column)
    grown = pa.total_allocated_bytes() - before
    address = found.buffers()[1].address
    begin = stored.ctypes.data
    assert (begin <= address < begin + len(stored)) is not is_copied
    assert (nbytes <= grown <= nbytes + 4096) if is_copied else grown == 0
