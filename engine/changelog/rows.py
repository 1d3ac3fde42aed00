"""Rows from outside: made to fit their store, and placed in its partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.changelog.amendments import StoreDrop
from engine.changelog.codec import RowsByPartition, schema_with_tombstones
from engine.errors import InvalidInput, LimitExceeded, NotFound
from engine.model.columns import cast_exactly
from engine.model.map_keys import repeats_map_key
from engine.model.migration import convert_rows
from engine.model.partitioning import partition_of
from engine.model.schema import GroupName, PartitionId, StoreDefinition, StoreName
from engine.model.sql_types import canonical_type, sql_type

MAX_VALUE_BYTES = (1 << 30) - (1 << 10)
"""Of two values of one key, the stored one and the new, both fit into one Arrow array."""


def partition_rows(
    definition: StoreDefinition,
    rows: pa.Table | pa.RecordBatch,
    *,
    tombstone_column: str | None = None,
    batch_name: str = "the batch",
) -> dict[PartitionId, pa.RecordBatch]:
    """Check rows against their store and place them.

    Columns are found by name, in any order. A type that is not the store's is cast where no value changes:
    other widths of integers, integers to floats and decimals, `large_string`, dictionaries, other units of
    time, an all-null column.

    Args:
        definition: The store.
        rows: The rows; of those with one key, the last wins.
        tombstone_column: Boolean column of `rows` beside the store's own that says which rows remove their
            key (null: does not); their other columns do not matter, but for the end of what a session store
            removes.
        batch_name: What messages call these rows, such as "batch 7".

    Returns:
        The rows of each partition that has any, in their order, in the store's schema, with
        `TOMBSTONE_COLUMN` behind where a row is a tombstone.

    Raises:
        InvalidInput: A column is missing, unknown, there twice, or of another type (the message shows both
            definitions), a key is null, a map has a key twice, or a value is damaged, such as text that is
            not UTF-8 (it names store, batch and column).
        LimitExceeded: A column of text or bytes is longer than 2 GiB, or a value than `MAX_VALUE_BYTES`.
    """
    names = _matching_names(definition, rows.schema, tombstone_column, batch_name)
    columns = [_canonical_column(definition, rows, name, batch_name) for name in names]
    for name in definition.key:
        _check_key(definition, name, columns[names.index(name)], batch_name)
    tombstones = _tombstones(definition, rows, tombstone_column, batch_name)
    return _partition_batches(definition, columns, tombstones)


def fitted_tables(
    group: GroupName,
    tables: RowsByPartition,
    shapes_of: Callable[[StoreName], Sequence[StoreDefinition]],
    drop_of: Callable[[StoreName], tuple[StoreDefinition, StoreDrop] | None],
) -> RowsByPartition:
    """Rows in the newest shapes of their stores; refuses those that readers could not take: the last line of
    defence before they are stored.

    Args:
        group: The store group that is written.
        tables: Rows by store and partition, each batch in any shape that its store has had: of several with
            its schema, in the newest.
        shapes_of: Gives all shapes of a store, oldest first; none if there is no such store.
        drop_of: Gives the end of a store that was dropped.

    Returns:
        The same rows, in the newest shapes.

    Raises:
        NotFound: There is no such store.
        InvalidInput: The store belongs to another group, or a batch is not in its schema, has a partition
            number beyond the last, or a null key.
    """
    fitted = {}
    for store, partitions in tables.items():
        shapes = shapes_of(store)
        if not shapes:
            dropped = drop_of(store)
            if dropped is not None:
                raise dropped_error(dropped[1])
            raise NotFound(f"There is no store {store} in the changelog: create it first.")
        if shapes[0].group != group:
            raise InvalidInput(
                f"Store {store} belongs to store group {shapes[0].group} and cannot be written in a commit "
                f"of {group}."
            )
        for partition in partitions:
            if not 0 <= partition < shapes[0].partitions:
                raise InvalidInput(
                    f"Store {store} has {shapes[0].partitions} partitions, and rows came for partition "
                    f"{partition}."
                )
        fitted[store] = {
            partition: _convert_to_newest_shape(shapes, batch) for partition, batch in partitions.items()
        }
    return fitted


def dropped_error(drop: StoreDrop) -> NotFound:
    """The error for rows of a store that was dropped."""
    return NotFound(
        f"Store {drop.store} {drop.describe()}: its rows are not taken any more. Stop the job, or start it "
        "again to have a new store of this name."
    )


def _convert_to_newest_shape(shapes: Sequence[StoreDefinition], batch: pa.RecordBatch) -> pa.RecordBatch:
    shape = next(
        (
            shape
            for shape in reversed(shapes)
            if batch.schema in (shape.row_schema, schema_with_tombstones(shape.row_schema))
        ),
        None,
    )
    if shape is None:
        raise _mismatch(shapes[-1], batch.schema, "the batch")
    for name in shape.key:
        _check_key(shape, name, batch.column(name), "the batch")
    return convert_rows(batch, shape, shapes[-1])


def _matching_names(
    definition: StoreDefinition, schema: pa.Schema, tombstone_column: str | None, batch_name: str
) -> list[str]:
    wanted = definition.row_schema.names
    expected = [*wanted, *([tombstone_column] if tombstone_column is not None else [])]
    if tombstone_column in wanted:
        raise InvalidInput(
            f"Store {definition.name}: the tombstone column {tombstone_column} is a column of the store; "
            "name another one."
        )
    if sorted(schema.names) != sorted(expected):
        raise _mismatch(definition, schema, batch_name)
    return list(wanted)


def _mismatch(definition: StoreDefinition, schema: pa.Schema, batch_name: str) -> InvalidInput:
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    missing = [name for name in definition.row_schema.names if name not in schema.names]
    causes = [
        f"the column {', '.join(twice)} is there twice" if twice else "",
        f"the column {', '.join(missing)} is missing" if missing else "",
    ]
    cause = " and ".join(text for text in causes if text) or "the columns differ"
    shown = ", ".join(f"{field.name} {_type_name(field.type)}" for field in schema)
    return InvalidInput(
        f"Store {definition.name}, {batch_name}: {cause}. The rows are ({shown}); the store is "
        f"{definition.describe()}."
    )


def _type_name(arrow_type: pa.DataType) -> str:
    try:
        return sql_type(canonical_type(arrow_type))
    except InvalidInput:
        return str(arrow_type)


def _has_larger_value(column: pa.Array, most_bytes: int) -> bool:
    """Whether a value takes more Arrow bytes; looked at closely only where a column could have such a one."""
    waiting = [column]
    while waiting:
        part = waiting.pop()
        if part.nbytes > most_bytes:
            if len(part) == 1:
                return True
            half = len(part) // 2
            waiting += [part[:half], part[half:]]
    return False


def _canonical_column(
    definition: StoreDefinition, rows: pa.Table | pa.RecordBatch, name: str, batch_name: str
) -> pa.Array:
    column = rows.column(name)
    target = definition.row_schema.field(name).type
    try:
        # Hosts take nothing else from the changelog: what is committed all the same stops them.
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"Store {definition.name}, {batch_name}: the column {name} holds what is no {sql_type(target)} "
            f"({str(error).splitlines()[0]}); text must be UTF-8, other bytes are a BLOB. Nothing of the "
            "batch was committed."
        ) from error
    if column.type != target:
        if not _casts(column.type, target):
            raise _mismatch(definition, rows.schema, batch_name)
        try:
            column = cast_exactly(column, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            source = _type_name(rows.column(name).type)
            if source == sql_type(target):
                source = f"of Arrow's type {rows.column(name).type}"
            raise InvalidInput(
                f"Store {definition.name}, {batch_name}: the column {name} is {source} and holds values "
                f"that {sql_type(target)} cannot hold exactly; convert them first. The store is "
                f"{definition.describe()}."
            ) from error
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(column, pa.ChunkedArray):
        raise LimitExceeded(
            f"Store {definition.name}, {batch_name}: the column {name} is longer than 2 GiB; append fewer "
            "rows at a time."
        )
    if _has_larger_value(column, MAX_VALUE_BYTES):
        raise LimitExceeded(
            f"Store {definition.name}, {batch_name}: the column {name} has a value of more than "
            f"{MAX_VALUE_BYTES:,} bytes; keep it elsewhere, and its address in the store. Nothing of the "
            "batch was committed."
        )
    if repeats_map_key(column):
        raise InvalidInput(
            f"Store {definition.name}, {batch_name}: the column {name} has a map with a key twice; keys of a "
            "map are unique. Nothing of the batch was committed."
        )
    return column


def _casts(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of a type may be cast if each of them stays what it is; the cast itself checks the
    values.
    """
    types = pa.types
    if types.is_null(source):
        return True
    if types.is_dictionary(source):
        return _casts(source.value_type, target)
    if types.is_integer(source) and (
        types.is_integer(target) or types.is_floating(target) or types.is_decimal(target)
    ):
        return True
    if types.is_floating(source) and types.is_floating(target):
        return bool(source.bit_width <= target.bit_width)
    if types.is_decimal(source) and types.is_decimal(target):
        return True
    if types.is_list(target) and (
        types.is_list(source) or types.is_large_list(source) or types.is_fixed_size_list(source)
    ):
        return _casts(source.value_type, target.value_type)
    if types.is_struct(target) and types.is_struct(source):
        return [f.name for f in source] == [f.name for f in target] and all(
            _casts(a.type, b.type) for a, b in zip(source, target, strict=True)
        )
    if types.is_map(target) and types.is_map(source):
        return _casts(source.key_type, target.key_type) and _casts(source.item_type, target.item_type)
    try:
        return bool(canonical_type(source) == target)
    except InvalidInput:
        return False


def _check_key(definition: StoreDefinition, name: str, column: pa.Array, batch_name: str) -> None:
    if column.null_count:
        first = pc.index(pc.is_null(column), True).as_py()
        raise InvalidInput(
            f"Store {definition.name}, {batch_name}: the key column {name} is null in {column.null_count} of "
            f"{len(column)} rows, "
            f"first in row {first}; a key must not be null. Nothing of the batch was committed."
        )


def _tombstones(
    definition: StoreDefinition, rows: pa.Table | pa.RecordBatch, name: str | None, batch_name: str
) -> npt.NDArray[np.bool_] | None:
    """Which rows are tombstones; None if none is."""
    if name is None:
        return None
    column = rows.column(name)
    if not pa.types.is_boolean(column.type):
        raise InvalidInput(
            f"Store {definition.name}, {batch_name}: the tombstone column {name} must be BOOLEAN, not "
            f"{_type_name(column.type)}."
        )
    flags: npt.NDArray[np.bool_] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return flags if flags.any() else None


def _partition_batches(
    definition: StoreDefinition, columns: list[pa.Array], tombstones: npt.NDArray[np.bool_] | None
) -> dict[PartitionId, pa.RecordBatch]:
    """One stable sort by partition, one take, then slices without copies."""
    batch = pa.RecordBatch.from_arrays(columns, schema=definition.row_schema)
    if batch.num_rows == 0:
        return {}
    if definition.partitions == 1:
        return {PartitionId(0): _add_tombstone_column(batch, tombstones)}
    numbers = partition_of([batch.column(name) for name in definition.partition_by], definition.partitions)
    # numpy sorts 8- and 16-bit integers by radix, in linear time.
    order = np.argsort(numbers.astype(np.uint8 if definition.partitions <= 256 else np.uint16), kind="stable")
    counts = np.bincount(numbers, minlength=definition.partitions)
    batch = batch.take(pa.array(order))
    flags = tombstones[order] if tombstones is not None else None
    placed: dict[PartitionId, pa.RecordBatch] = {}
    ends: list[int] = np.cumsum(counts).tolist()
    for partition, (count, end) in enumerate(zip(counts.tolist(), ends, strict=True)):
        if count:
            part = batch.slice(end - count, count)
            placed[PartitionId(partition)] = _add_tombstone_column(
                part, None if flags is None else flags[end - count : end]
            )
    return placed


def _add_tombstone_column(batch: pa.RecordBatch, tombstones: npt.NDArray[Any] | None) -> pa.RecordBatch:
    if tombstones is None or not tombstones.any():
        return batch
    return pa.RecordBatch.from_arrays(
        [*batch.columns, pa.array(tombstones, pa.bool_())], schema=schema_with_tombstones(batch.schema)
    )
