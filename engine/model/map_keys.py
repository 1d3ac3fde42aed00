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
    pairs = np.stack([owners, numbers], axis=1)[owned]
    return (
        len(np.unique(pairs, axis=0)) < len(pairs)
        or repeats_map_key(items.filter(pa.array(owned)))
        or repeats_map_key(keys)
    )


def _numbers_of_equals(keys: pa.Array) -> npt.NDArray[np.int64]:
    """A number for each key, the same for those that are equal."""
    if pa.types.is_floating(keys.type):
        keys = pc.add(keys, pa.scalar(0.0, keys.type))  # makes 0.0 of -0.0
    if pa.types.is_nested(keys.type):
        known: dict[str, int] = {}
        found = [known.setdefault(repr(key), len(known)) for key in keys.to_pylist()]
        return np.array(found, np.int64)
    numbers: npt.NDArray[np.int64] = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    return numbers


def _is_list(shape: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(shape) or types.is_large_list(shape) or types.is_fixed_size_list(shape))
