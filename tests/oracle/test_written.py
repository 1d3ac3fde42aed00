"""Statements that people have written: three hosts answer as plain DuckDB does."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from random import Random

import pytest

from tests.oracle.plain_duckdb import OTHER_WAYS, PlainDuckDB
from tests.oracle.systems import cluster_system
from tests.oracle.verdicts import Judge, Outcome
from tests.oracle.written import DIRECTORY, written_dataset, written_statements

FILES = sorted(DIRECTORY.glob("*.sql"))
PARTS = 3
"""Of each file, for workers that run side by side."""
AGREED = frozenset({Outcome.SAME, Outcome.REFUSED, Outcome.FAILED, Outcome.ONLY_HERE, Outcome.UNDETERMINED})


def in_other_orders(seed: int) -> list[PlainDuckDB]:
    tables = written_dataset(seed).live
    shuffled = []
    for number in range(3):
        random = Random(number)
        shuffled.append(
            PlainDuckDB(
                {
                    name: rows.take(random.sample(range(rows.num_rows), rows.num_rows)) if len(rows) else rows
                    for name, rows in tables.items()
                }
            )
        )
    return shuffled


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_hosts_answer_what_people_have_written(file: Path, part: int) -> None:
    # The last of them has its partitions in RocksDB.
    dataset = written_dataset(part + 1)
    differences = []
    with cluster_system(dataset) as system:
        judge = Judge(
            PlainDuckDB(dataset.live),
            cache(partial(in_other_orders, part + 1)),
            cache(lambda: [PlainDuckDB(dataset.live, way) for way in OTHER_WAYS]),
            system,
        )
        for number, statement in enumerate(written_statements(file)):
            if number % PARTS == part:
                verdict = judge.judge(statement, (), None, (), (), number)
                if verdict.outcome not in AGREED:
                    differences.append(f"{statement}\n=> {verdict.outcome.value}: {verdict.detail}")
    assert not differences, "\n\n".join(differences)


def test_there_are_statements() -> None:
    assert sum(len(written_statements(file)) for file in FILES) > 1000
