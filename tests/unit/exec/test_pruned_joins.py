"""A condition on a key leaves out partitions of every store whose rows must have that key, however the
statement says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from engine.model.schema import define_store
from engine.service import QueryService
from tests.support.local_cluster import Cluster, host_names, memory_cluster

PARTITIONS = 8
KEYS = 64
ACCOUNTS = define_store(
    "accounts", pa.schema([("id", pa.int64()), ("owner", pa.string())]), ["id"], partitions=PARTITIONS
)
ORDERS = define_store(
    "orders",
    pa.schema([("id", pa.int64()), ("line", pa.int64()), ("price", pa.int64())]),
    ["id", "line"],
    partition_by=["id"],
    partitions=PARTITIONS,
)
TAGS = define_store(
    "tags", pa.schema([("price", pa.int64()), ("tag", pa.string())]), ["price"], partitions=PARTITIONS - 3
)
ROWS = {
    "tags": pa.table({"price": list(range(5000)), "tag": [f"tag {price}" for price in range(5000)]}),
    "accounts": pa.table({"id": list(range(KEYS)), "owner": [f"owner {key}" for key in range(KEYS)]}),
    "orders": pa.table(
        {
            "id": [place % KEYS for place in range(3 * KEYS)],
            "line": [place // KEYS for place in range(3 * KEYS)],
            "price": list(range(3 * KEYS)),
        }
    ),
}
BOTH = 2
"""Partitions that are read: one of each store."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with memory_cluster([ACCOUNTS, ORDERS, TAGS], ROWS, host_names(3)) as found:
        yield found


@pytest.fixture(params=[0, 1], ids=["through one host", "through another"])
def service(cluster: Cluster, request: pytest.FixtureRequest) -> QueryService:
    return cluster.services[cluster.hosts[request.param]]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT o.line FROM accounts a JOIN orders o ON o.id = a.id WHERE a.id = 5", 3),
        ("SELECT o.line FROM accounts a, orders o WHERE o.id = a.id AND 5 = a.id", 3),
        ("SELECT line FROM accounts JOIN orders USING (id) WHERE id = 5", 3),
        ("SELECT o.line FROM accounts a LEFT JOIN orders o ON o.id = a.id WHERE a.id = 5", 3),
        ("SELECT a.owner FROM accounts a SEMI JOIN orders o ON o.id = a.id WHERE a.id = 5", 1),
        ("SELECT a.owner FROM accounts a ANTI JOIN orders o ON o.id = a.id AND o.line > 7 WHERE a.id = 5", 1),
        ("SELECT o.line FROM accounts a JOIN orders o ON o.id = a.id AND a.id = 5", 3),
        ("SELECT a.owner FROM accounts a WHERE a.id = 5 AND EXISTS (FROM orders o WHERE o.id = a.id)", 1),
        ("SELECT a.owner FROM accounts a WHERE a.id = 5 AND a.id IN (SELECT o.id FROM orders o)", 1),
        ("SELECT (SELECT max(o.price) FROM orders o WHERE o.id = a.id) FROM accounts a WHERE a.id = 5", 1),
        (
            (
                "WITH o AS (SELECT id, sum(price) AS price FROM orders GROUP BY id) SELECT o.price FROM o "
                "JOIN accounts a ON a.id = o.id WHERE o.id = 5"
            ),
            1,
        ),
        (
            "SELECT * FROM (SELECT id FROM accounts UNION ALL SELECT id FROM orders) WHERE id = 5",
            4,
        ),
        (
            (
                "SELECT n FROM (SELECT id, count(*) AS n FROM (SELECT a.id FROM accounts a JOIN orders o "
                "ON o.id = a.id) GROUP BY id) WHERE id BETWEEN 5 AND 5"
            ),
            1,
        ),
    ],
)
def test_one_key_reads_one_partition_of_each_store(service: QueryService, sql: str, rows: int) -> None:
    with service.execute(sql) as result:
        assert result.read_all().num_rows == rows
    assert (result.metadata.partitions_read, result.metadata.partitions) == (BOTH, 2 * PARTITIONS)


def test_a_parameter_does_too(service: QueryService) -> None:
    sql = "SELECT o.line FROM accounts a JOIN orders o ON o.id = a.id WHERE a.id = ?"
    with service.execute(sql, pa.record_batch([pa.array([5])], ["1"])) as result:
        assert result.read_all().num_rows == 3
    assert result.metadata.partitions_read == BOTH


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.line FROM accounts a FULL JOIN orders o ON o.id = a.id AND a.id = 5",
        "SELECT * FROM (SELECT id, row_number() OVER (ORDER BY line) AS r FROM orders) WHERE id = 5",
        "WITH o AS (SELECT id, line FROM orders) SELECT x.id FROM o AS x, o AS y WHERE x.id = 5",
        "SELECT * FROM (SELECT id FROM orders LIMIT 10) WHERE id = 5",
        "SELECT a.owner FROM accounts a WHERE a.id = 5 OR a.id IN (SELECT o.id FROM orders o)",
    ],
)
def test_all_partitions_are_read_where_rows_of_other_keys_can_matter(service: QueryService, sql: str) -> None:
    with service.execute(sql) as result:
        result.read_all()
    assert result.metadata.partitions_read == result.metadata.partitions


def test_keys_of_a_small_side_are_looked_up_in_the_large_one(service: QueryService) -> None:
    """The rows of one side travel to the hosts of the other, which read no more than these keys."""
    sql = "SELECT t.tag FROM orders o JOIN tags t ON t.price = o.price WHERE o.id = 5"
    with service.execute(sql) as result:
        assert sorted(row["tag"] for row in result.read_all().to_pylist()) == ["tag 133", "tag 5", "tag 69"]
    assert result.metadata.rows_read == 2 * 3
