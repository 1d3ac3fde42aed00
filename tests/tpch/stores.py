"""The tables of TPC-H as stores of one group, from the Parquet files of `tpchgen-cli`.

Specification: https://www.tpc.org/tpch. `lineitem` and `orders` are partitioned by order key, `part` and
`partsupp` by part key, with the same number of partitions, so that they can be joined on those keys without
moving rows.
"""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.changelog import Changelog, open_appender
from engine.model.schema import Epoch, GroupName, StoreDefinition, define_store

GROUP = GroupName("tpch")
PARTITIONS = 16
"""Of each store that grows with the scale factor by more than some thousand rows."""
QUERIES = Path(__file__).parent / "queries"


@dataclass(frozen=True)
class Layout:
    """How the rows of a table are placed.

    Attributes:
        key: Its primary key.
        partition_by: Leading part of the key.
        partitions: How many partitions.
    """

    key: Sequence[str]
    partition_by: Sequence[str]
    partitions: int = PARTITIONS


LAYOUTS: Mapping[str, Layout] = {
    "region": Layout(["r_regionkey"], ["r_regionkey"], 1),
    "nation": Layout(["n_nationkey"], ["n_nationkey"], 1),
    "supplier": Layout(["s_suppkey"], ["s_suppkey"], 1),
    "customer": Layout(["c_custkey"], ["c_custkey"]),
    "part": Layout(["p_partkey"], ["p_partkey"]),
    "partsupp": Layout(["ps_partkey", "ps_suppkey"], ["ps_partkey"]),
    "orders": Layout(["o_orderkey"], ["o_orderkey"]),
    "lineitem": Layout(["l_orderkey", "l_linenumber"], ["l_orderkey"]),
}


def queries() -> Mapping[str, str]:
    """The text of each query: `q01` to `q22`."""
    return {file.stem: file.read_text() for file in sorted(QUERIES.glob("q*.sql"))}


def generate(directory: Path, scale_factor: float) -> None:
    """Make the tables as Parquet files, the same ones each time.

    Args:
        directory: Where to.
        scale_factor: 1 is 8.7 million rows.
    """
    command = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run(
        [command, "--scale-factor", f"{scale_factor:g}", "--format", "parquet", "--output-dir", directory],
        check=True,
    )


def table_file(directory: Path, name: str) -> Path:
    """Where `generate` puts a table."""
    return directory / f"{name}.parquet"


def definitions(directory: Path) -> Sequence[StoreDefinition]:
    """The stores.

    Args:
        directory: Where the tables are; columns have the types that they have there.
    """
    return [
        define_store(
            name,
            pq.read_schema(table_file(directory, name)),
            layout.key,
            partition_by=layout.partition_by,
            partitions=layout.partitions,
            group=GROUP,
        )
        for name, layout in LAYOUTS.items()
    ]


def load(changelog: Changelog, directory: Path, epochs: int) -> Epoch:
    """Append the tables to a changelog, a part of every table in each epoch.

    Args:
        changelog: An empty one.
        directory: Where the tables are.
        epochs: In how many epochs.

    Returns:
        The last epoch.
    """
    appender = open_appender(changelog, definitions(directory))
    for parts in zip_longest(*(_parts(table_file(directory, name), epochs) for name in LAYOUTS)):
        appender.append({name: part for name, part in zip(LAYOUTS, parts, strict=True) if part is not None})
    return appender.epoch


def _parts(file: Path, count: int) -> Iterator[pa.Table]:
    """The rows of a file in so many parts, or fewer if there are not as many rows."""
    with pq.ParquetFile(file) as reader:
        rows = -(-reader.metadata.num_rows // count)
        held: list[pa.RecordBatch] = []
        for batch in reader.iter_batches(rows):
            held.append(batch)
            if sum(piece.num_rows for piece in held) >= rows:
                yield pa.Table.from_batches(held)
                held = []
        if held:
            yield pa.Table.from_batches(held)
