"""Keys of streams: random ones, of rows that are there, of rows that were, and of none."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from engine.model.read_point import NEWEST, ReadPoint
from engine.scan import FOUND_COLUMN
from tests.oracle.comparison import difference
from tests.oracle.datasets import Dataset, Store
from tests.oracle.kinds import Trust
from tests.support.local_cluster import Cluster

MESSAGES = 4
_MOST_KEYS = (1, 2, 10, 60, 400)
_PLACE = "place"


def key_fault(cluster: Cluster, dataset: Dataset, seed: object, read_point: ReadPoint = NEWEST) -> str | None:
    """Ask streams of keys of any host, some messages each; what is wrong with an answer, None if nothing is.

    Args:
        cluster: The hosts.
        dataset: What they have.
        seed: Says which keys and columns.
        read_point: Which epochs are asked for.
    """
    random = Random(f"keys {seed}")
    for store in dataset.stores:
        if not store.live.num_rows + store.dead.num_rows:
            continue
        host, names = random.choice(cluster.hosts), store.definition.schema.names
        columns = random.sample(names, random.randint(1, len(names)))
        stream = cluster.services[host].key_stream(store.definition.name, columns, read_point)
        for _ in range(MESSAGES):
            keys = _some_keys(store, random)
            rows = pa.Table.from_batches([stream.answer(keys, None).rows])
            fault = _difference(store, keys, rows, columns)
            if fault is not None:
                return f"{keys.num_rows} keys of {store.definition.name} on host {host}: {fault}"
    return None


def _some_keys(store: Store, random: Random) -> pa.RecordBatch:
    """Keys that may repeat. Values of several keys beside each other mostly are the key of no row."""
    names = list(store.definition.key)
    known = pa.concat_tables([store.live.select(names), store.dead.select(names)]).combine_chunks()
    count = random.randint(1, random.choice(_MOST_KEYS))
    places = [random.randrange(known.num_rows) for _ in range(count)]
    columns = []
    for field in store.definition.key_schema:
        if random.random() < 0.2:
            random.shuffle(places)
        columns.append(known.column(field.name).take(pa.array(places, pa.int64())).combine_chunks())
    return pa.RecordBatch.from_arrays(columns, names=names)


def _difference(store: Store, keys: pa.RecordBatch, found: pa.Table, columns: list[str]) -> str | None:
    names = list(store.definition.key)
    rows = {key: place for place, key in enumerate(_plain_keys(store.live.select(names)))}
    places = [rows.get(key) for key in _plain_keys(pa.Table.from_batches([keys]))]
    expected = store.live.select(columns).take(pa.array(places, pa.int64()))
    numbers = pa.array(range(len(places)), pa.int64())
    is_found = pa.array([place is not None for place in places], pa.bool_())
    whole = pa.Table.from_arrays(
        [numbers, is_found, *expected.columns], names=[_PLACE, FOUND_COLUMN, *columns]
    )
    if found.num_rows != len(places):
        return f"{found.num_rows} rows"
    numbered = pa.Table.from_arrays([numbers, *found.columns], names=[_PLACE, *found.schema.names])
    return difference(whole, numbered, [Trust.EXACT] * len(whole.schema), ())


def _plain_keys(table: pa.Table) -> list[tuple[Any, ...]]:
    """Each row as values that Python has, of moments beyond its own as well."""
    columns = []
    for column in table.columns:
        if pa.types.is_date32(column.type):
            columns.append(column.cast(pa.int32()).to_pylist())
        elif pa.types.is_timestamp(column.type):
            columns.append(column.cast(pa.int64()).to_pylist())
        else:
            columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))
