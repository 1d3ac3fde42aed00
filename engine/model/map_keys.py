"""Whether the keys of maps are unique, as SQL has them. Arrow takes maps that have a key twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def has_map(shape: pa.DataType) -> bool:
    """Whether values of a type have maps in them, or are maps."""
    if pa.types.is_map(shape):
        return True
    if pa.types.is_struct(shape):
        return any(has_map(field.type) for field in shape)
    return _is_list(shape) and has_map(shape.value_type)


def repeats_map_key(values: pa.Array) -> bool:
    """Whether some map has a key twice: 0.0 and -0.0 are one, and so is every NaN.

    Args:
        values: Values of any type, with the maps in them.
    """
    shape = values.type
    if not has_map(shape):
        return False
    if pa.types.is_struct(shape):
        return any(repeats_map_key(child) for child in values.flatten())
    if _is_list(shape):
        return repeats_map_key(values.flatten())
    offsets = values.offsets.to_numpy()
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = values.keys.slice(start, length), values.items.slice(start, length)
    owners = np.repeat(np.arange(len(values)), np.diff(offsets))
    # What a null covers is nobody's.
    owned = values.is_valid().to_numpy(zero_copy_only=False)[owners]
    numbers = _numbers_of_equals(keys)
    # In numpy sorting is many times faster than looking for what is unique.
    pairs = np.sort((owners * (numbers.max(initial=0) + 2) + numbers + 1)[owned])
    return (
        bool((pairs[1:] == pairs[:-1]).any())
        or repeats_map_key(items.filter(pa.array(owned)))
        or repeats_map_key(keys.filter(pa.array(owned)))
    )


def _numbers_of_equals(values: pa.Array) -> npt.NDArray[np.int64]:
    """A number for each value, the same for those that are equal; -1 for nulls.

    Of a struct the numbers of its fields are compared, of a list those of its values: as bytes, all at once.
    """
    shape = values.type
    if pa.types.is_struct(shape):
        fields = np.stack([_numbers_of_equals(child) for child in values.flatten()], axis=1)
        width = fields.itemsize * fields.shape[1]
        return _numbers_of_runs(fields, np.arange(len(values) + 1) * width, values)
    if pa.types.is_map(shape) or _is_list(shape):
        if pa.types.is_fixed_size_list(shape):
            values = values.cast(pa.list_(shape.value_type))
        offsets = values.offsets.to_numpy().astype(np.int64)
        # A map's are structs of key and value.
        inner = _numbers_of_equals(values.values.slice(offsets[0], offsets[-1] - offsets[0]))
        return _numbers_of_runs(inner, (offsets - offsets[0]) * inner.itemsize, values)
    if pa.types.is_floating(shape):
        values = pc.add(values, pa.scalar(0.0, shape))  # makes 0.0 of -0.0
        # A NaN may be any of many bits.
        values = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), shape), values)
    return _numbers_of_plain(values)


def _numbers_of_runs(
    numbers: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], values: pa.Array
) -> npt.NDArray[np.int64]:
    """A number for each run of numbers between two offsets, in bytes; -1 where a value is null."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(numbers))]
    found = _numbers_of_plain(pa.Array.from_buffers(pa.large_binary(), len(values), buffers))
    found[values.is_null().to_numpy(zero_copy_only=False)] = -1
    return found


def _numbers_of_plain(values: pa.Array) -> npt.NDArray[np.int64]:
    """A number for each value that is not nested; -1 for nulls."""
    indices = values.dictionary_encode().indices.cast(pa.int64())
    return np.array(pc.fill_null(indices, -1).to_numpy())


def _is_list(shape: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(shape) or types.is_large_list(shape) or types.is_fixed_size_list(shape))
