"""A statement that asks for a key and for something else is not answered as a lookup of the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from engine.model.schema import define_store
from tests.support.local_cluster import Cluster, host_names, memory_cluster

STORE = define_store(
    "things", pa.schema([("id", pa.int64()), ("n", pa.int32()), ("text", pa.string())]), ["id"], partitions=6
)
ROWS = pa.table({"id": [1, 2, 3], "n": pa.array([10, None, 30], pa.int32()), "text": ["a", "b", None]})
KEYS = (1, 2, 3, 4)
CONDITIONS = ("id = {}", "id IN ({})", "{} = id", "(id) = {}")
OTHERS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "": lambda row: True,
    " AND n IS NULL": lambda row: row["n"] is None,
    " AND n IS NOT NULL": lambda row: row["n"] is not None,
    " AND text IS NULL AND n IS NOT NULL": lambda row: row["text"] is None and row["n"] is not None,
    " AND n > id": lambda row: row["n"] is not None and row["n"] > row["id"],
    " OFFSET 1": lambda row: False,
    " LIMIT 0": lambda row: False,
    " LIMIT 1": lambda row: True,
    "\nlimit 7 ": lambda row: True,
    " LIMIT 1 + 0": lambda row: True,
    " LIMIT NULL": lambda row: True,
    " LIMIT 100%": lambda row: True,
    " AND n IS NULL LIMIT 1": lambda row: row["n"] is None,
    " AND n = 10 LIMIT 1": lambda row: row["n"] == 10,
    " ORDER BY id DESC LIMIT 1": lambda row: True,
    " LIMIT 1 OFFSET 0": lambda row: True,
    " ORDER BY id": lambda row: True,
    " ORDER BY id OFFSET 1": lambda row: False,
}


@pytest.fixture(scope="module", params=[1, 3])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with memory_cluster([STORE], {"things": ROWS}, host_names(request.param)) as found:
        yield found


@pytest.mark.parametrize("rest", OTHERS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_key_and_something_else(cluster: Cluster, condition: str, rest: str) -> None:
    rows = {row["id"]: row for row in ROWS.to_pylist()}
    for host, key in product(cluster.hosts, KEYS):
        expected = [row for row in [rows.get(key)] if row is not None and OTHERS[rest](row)]
        service = cluster.services[host]
        sql = f"SELECT * FROM things WHERE {condition}{rest}"
        asked = pa.record_batch([pa.array([key], pa.int64())], ["1"])
        for text, parameters in ((sql.format(key), None), (sql.format("?"), asked)):
            with service.execute(text, parameters) as result:
                assert result.read_all().to_pylist() == expected, (host, text, key)


@pytest.mark.parametrize(
    ("rest", "is_lookup"),
    [
        ("", True),
        (" LIMIT 1", True),
        (" LIMIT 25", True),
        (" LIMIT 0", False),
        (" LIMIT 1 OFFSET 1", False),
        (" OFFSET 0", False),
        (" AND n IS NULL LIMIT 1", False),
    ],
)
def test_a_limit_leaves_a_lookup_what_it_is(cluster: Cluster, rest: str, is_lookup: bool) -> None:
    """It takes a tenth of the time of other statements, once its like was asked."""
    service = cluster.services[cluster.hosts[0]]
    sql = f"SELECT text, id FROM things WHERE id = {{}}{rest}"
    asked = pa.record_batch([pa.array([1], pa.int64())], ["1"])
    for text, values in ((sql.format("?"), [2]), (sql.format(2), None)):
        service.execute(sql.format(1), None).close() if values is None else service.execute(
            text, asked
        ).close()
        found = service.row(text, values)
        assert (found is not None) == is_lookup
        if found is not None:
            assert found.read_all().to_pylist() == [{"text": "b", "id": 2}]
