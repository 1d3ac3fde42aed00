"""Random stores with random rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from engine.model.kinds import Behaviour
from engine.model.schema import StoreDefinition, define_store
from engine.model.sql_types import sql_type
from tests.oracle.kinds import Expression, Family, family_of, quote_name
from tests.oracle.values import INTEGERS, literal, tame_value, wild_value

PARTITION_COUNTS = (1, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16, 64)
STORE_NAMES = ("plays", "users", "Orders", "my store", "sensor", "t", "ünits")
COLUMN_NAMES = ("a", "b", "c", "d", "e", "v", "w", "order", "Total", "my col", 'q"t', "größe", "plays", "n")
KEY_NAMES = ("k", "id", "Key", "day", "k2", "k3")
MAX_ROWS = 90
SAMPLES = 6

KEY_KINDS: tuple[pa.DataType, ...] = (
    pa.int64(),
    pa.int64(),
    pa.int32(),
    pa.string(),
    pa.string(),
    pa.int16(),
    pa.uint64(),
    pa.uint8(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.decimal128(10, 2),
    pa.decimal128(30, 4),
    pa.binary(),
    pa.bool_(),
)
VALUE_KINDS: tuple[pa.DataType, ...] = (
    *INTEGERS,
    pa.int64(),
    pa.int32(),
    pa.float64(),
    pa.float64(),
    pa.float32(),
    pa.string(),
    pa.string(),
    pa.string(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.binary(),
    pa.decimal128(8, 2),
    pa.decimal128(18, 4),
    pa.decimal128(38, 10),
    pa.list_(pa.int64()),
    pa.list_(pa.string()),
    pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string())]),
    pa.map_(pa.string(), pa.int32()),
)


@dataclass(frozen=True)
class Store:
    """A store and its rows.

    Attributes:
        definition: The store.
        live: Its rows.
        dead: Rows that were superseded or removed.
        columns: Its columns as expressions, unqualified.
    """

    definition: StoreDefinition
    live: pa.Table
    dead: pa.Table
    columns: tuple[Expression, ...]

    @property
    def key_columns(self) -> tuple[Expression, ...]:
        """The columns of its key."""
        return tuple(column for column in self.columns if column.name in self.definition.key)


@dataclass(frozen=True)
class Dataset:
    """Stores with rows, and the hosts that they are spread over.

    Attributes:
        seed: What it is made from.
        stores: The stores.
        hosts: How many hosts.
    """

    seed: int
    stores: tuple[Store, ...]
    hosts: int

    @property
    def live(self) -> Mapping[str, pa.Table]:
        """Live rows by store."""
        return {store.definition.name: store.live for store in self.stores}

    @property
    def dead(self) -> Mapping[str, pa.Table]:
        """Dead rows by store."""
        return {store.definition.name: store.dead for store in self.stores}

    def describe(self) -> str:
        """The stores in words, a line each."""
        lines = [f"{store.definition.describe()}  -- {store.live.num_rows} rows" for store in self.stores]
        return "\n".join([f"dataset {self.seed}, {self.hosts} hosts", *lines])


def make_dataset(seed: int, hosts: int | None = None) -> Dataset:
    """The dataset of a seed.

    Args:
        seed: Any number.
        hosts: How many hosts; None for what the seed says.
    """
    random = Random(f"dataset {seed}")
    names = random.sample(STORE_NAMES, random.choice((1, 2, 2, 3, 3)))
    shared_key = random.choice(KEY_KINDS)
    shared_name = random.choice(KEY_NAMES[:4])
    common = random.choice(PARTITION_COUNTS)
    stores = []
    for place, name in enumerate(names):
        group = "one" if random.random() < 0.6 else f"group {place % 2}"
        partitions = common if random.random() < 0.75 else random.choice(PARTITION_COUNTS)
        is_global = Random(f"everywhere {seed} {place}").random() < 0.15
        stores.append(_store(random, name, group, partitions, (shared_name, shared_key), is_global=is_global))
    chosen = random.choice((1, 2, 2, 3, 3, 3, 4))
    return Dataset(seed, tuple(stores), hosts or chosen)


def spread(dataset: Dataset, hosts: int, partitions: int) -> Dataset:
    """The same rows on so many hosts, each store in so many partitions."""
    stores = tuple(
        replace(store, definition=replace(store.definition, partitions=partitions))
        for store in dataset.stores
    )
    return Dataset(dataset.seed, stores, hosts)


def _store(
    random: Random,
    name: str,
    group: str,
    partitions: int,
    shared: tuple[str, pa.DataType],
    *,
    is_global: bool,
) -> Store:
    first = shared if random.random() < 0.8 else (random.choice(KEY_NAMES[:4]), random.choice(KEY_KINDS))
    if random.random() < 0.2:
        first = (random.choice(KEY_NAMES[:4]), first[1])
    key = [
        first,
        *(
            (other, random.choice(KEY_KINDS))
            for other in random.sample(KEY_NAMES[4:], random.choice((0, 0, 0, 1, 1, 2)))
        ),
    ]
    values = [
        (column, random.choice(VALUE_KINDS)) for column in random.sample(COLUMN_NAMES, random.randrange(2, 9))
    ]
    columns = key + values
    if random.random() < 0.3:
        random.shuffle(columns)
    key_names = [column for column, _ in key]
    definition = define_store(
        name,
        pa.schema(columns),
        key_names,
        partition_by=key_names[: random.randrange(1, len(key) + 1)],
        partitions=partitions,
        group=group,
        behaviour=Behaviour(is_global=is_global),
    )
    return _fill(random, definition)


def _fill(random: Random, definition: StoreDefinition) -> Store:
    makers = {
        field.name: _maker(random, field.type, is_key=field.name in definition.key)
        for field in definition.schema
    }
    some = random.randrange(10, MAX_ROWS)
    count = random.choice((0, random.choice((1, 3)), some, some, some, some, some, MAX_ROWS, MAX_ROWS))
    live = table_of(definition, _rows(random, definition, makers, count))
    dead = table_of(definition, _rows(random, definition, makers, random.choice((0, 0, 5, count // 2))))
    return Store(
        definition,
        live,
        dead,
        tuple(_column(random, field, makers[field.name], live) for field in definition.schema),
    )


@dataclass(frozen=True)
class _Maker:
    """How values of a column are made.

    Attributes:
        kind: Their type.
        make: Makes one.
        nulls: Share of NULLs.
        favourite: A value that half of the rows have; None for no skew.
    """

    kind: pa.DataType
    make: Callable[[pa.DataType, Random], Any]
    nulls: float
    favourite: Any = None

    def value(self, random: Random) -> Any:
        if random.random() < self.nulls:
            return None
        if self.favourite is not None and random.random() < 0.5:
            return self.favourite
        return self.make(self.kind, random)


def _maker(random: Random, kind: pa.DataType, *, is_key: bool) -> _Maker:
    make = tame_value if random.random() < 0.75 else wild_value
    nulls = 0.0 if is_key else random.choice((0.0, 0.1, 0.3, 0.3, 0.7, 1.0 if random.random() < 0.3 else 0.2))
    favourite = make(kind, random) if random.random() < 0.2 else None
    if is_key and make is tame_value and pa.types.is_integer(kind) and random.random() < 0.5:
        return _Maker(kind, lambda _, source: source.randrange(120), nulls, favourite)
    return _Maker(kind, make, nulls, favourite)


def _rows(
    random: Random, definition: StoreDefinition, makers: Mapping[str, _Maker], count: int
) -> list[tuple[Any, ...]]:
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for _ in range(count):
        row = {name: maker.value(random) for name, maker in makers.items()}
        rows[tuple(row[name] for name in definition.key)] = tuple(row.values())
    return list(rows.values())


def table_of(definition: StoreDefinition, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows as a table of a store."""
    columns = list(zip(*rows, strict=True)) or [()] * len(definition.schema)
    arrays = [
        pa.array(list(values), field.type) for values, field in zip(columns, definition.schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=definition.schema)


def _column(random: Random, field: pa.Field, maker: _Maker, live: pa.Table) -> Expression:
    name = sql_type(field.type)
    family = family_of(field.type, name)
    column = live.column(field.name)
    raw = (
        column.cast(pa.int32())
        if family is Family.DATE
        else column.cast(pa.int64())
        if pa.types.is_timestamp(field.type)
        else column
    )
    present = [value for value in raw.to_pylist() if value is not None]
    chosen = random.sample(present, min(SAMPLES, len(present)))
    chosen += [maker.make(field.type, random) for _ in range(2)]
    samples = tuple(literal(value, field.type) for value in chosen)
    tame = maker.make is tame_value or not (
        pa.types.is_primitive(field.type) or pa.types.is_decimal(field.type)
    )
    return Expression(quote_name(field.name), family, name, is_tame=tame, samples=samples, name=field.name)
