"""The same queries at every epoch that can be read, one after the other on the same hosts: no answer has
anything of another epoch, whatever hosts have kept of that.

`python -m tests.oracle.past_epochs --datasets 20` asks, and with `--migrated` when stores have other columns
by now; the answers are those of plain DuckDB over the rows that there were.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa

from engine.changelog import Changelog
from engine.model.columns import widens
from engine.model.migration import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from engine.model.read_point import AsOfEpoch, ReadPoint
from engine.model.schema import Epoch, GroupName
from engine.replica.follower_options import FollowerOptions
from engine.service import Session
from tests.oracle.datasets import Dataset, make_dataset, spread
from tests.oracle.keys import key_fault
from tests.oracle.lives import LAYOUTS
from tests.oracle.run import LOOKED_AT, QUERIES_A_DATASET, Finding, finding_of, lone_judge, query_of
from tests.oracle.systems import (
    WAIT_SECONDS,
    epochs_of,
    large_ways_of,
    rows_at_epochs,
    state_options_of,
    system_over,
    write_on,
)
from tests.oracle.verdicts import Judge, Outcome
from tests.support.local_cluster import SMALL, following_cluster, host_names
from tests.support.statement_time import statement_clock

ASKED = 6
"""How often each query is asked."""
_TYPES = (
    pa.int16(),
    pa.int64(),
    pa.float64(),
    pa.decimal128(20, 0),
    pa.decimal128(38, 9),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
)
"""What columns become."""
_FAN_OUTS = (2, 50)
"""Where segments are merged meanwhile, and where not."""


@dataclass
class PastAnswers:
    """What came of it.

    Attributes:
        asked: How many queries were asked, each time counted.
        answered: How many of them were answered.
        findings: Differences.
        key_faults: What was wrong with answers of streams of keys.
    """

    asked: int = 0
    answered: int = 0
    findings: list[Finding] = field(default_factory=list)
    key_faults: list[str] = field(default_factory=list)


def ask_past_epochs(seed: int, queries: int, *, shrink: bool = True, migrates: bool = False) -> PastAnswers:
    """Ask queries of one dataset at its epochs, each group at one of its own.

    Args:
        seed: Of the dataset.
        queries: How many.
        shrink: Look for smaller queries that differ.
        migrates: Whether names have become those of other columns when it is asked, and columns have other
            types; keys are not looked up then, as streams of them name columns of now.
    """
    hosts, partitions = LAYOUTS[seed % len(LAYOUTS)]
    dataset = spread(make_dataset(seed), hosts, partitions)
    state = replace(state_options_of(seed), fan_out=_FAN_OUTS[seed // len(LAYOUTS) % 2])
    follow = FollowerOptions(poll_seconds=0.01, retention_seconds=3600.0, state=state)
    found = PastAnswers()
    with ExitStack() as resources:
        resources.enter_context(large_ways_of(seed))
        directory = Path(resources.enter_context(TemporaryDirectory()))
        changelog = Changelog.open(str(directory / "changelog"))
        epochs = epochs_of(dataset, changelog)
        marks = [next(epochs)]
        cluster = resources.enter_context(
            following_cluster(
                changelog,
                directory / "data",
                host_names(hosts),
                follow,
                SMALL,
                clock=statement_clock,
            )
        )
        cluster.wait_for(marks[0], WAIT_SECONDS)
        for newest in epochs:
            cluster.wait_for(newest, WAIT_SECONDS)
            marks.append(newest)
        marks.append(write_on(changelog, dataset, rewrites=True))
        cluster.wait_for(marks[-1], WAIT_SECONDS)
        if migrates:
            _migrate(changelog, dataset)
            cluster.wait_for(write_on(changelog, dataset), WAIT_SECONDS)
        system = resources.enter_context(system_over(cluster))
        rows = [*rows_at_epochs(dataset), dataset.live]
        judges: dict[tuple[int, ...], tuple[Dataset, Judge]] = {}
        first = seed * QUERIES_A_DATASET
        for number in range(first, first + queries):
            random, query = Random(f"past {number}"), None
            for _ in range(ASKED):
                places = tuple(random.randrange(len(marks)) for _ in marks[0])
                if places not in judges:
                    past = _dataset_at(dataset, dict(zip(marks[0], places, strict=True)), rows)
                    judges[places] = past, resources.enter_context(lone_judge(past))
                past, judge = judges[places]
                query = query or query_of(judge, dataset, number)
                asked = {group: marks[place][group] for group, place in zip(marks[0], places, strict=True)}
                session = _session_at(asked)
                here = replace(judge, system=system.within(session))
                verdict = here.verdict(query, number)
                found.asked += 1
                found.answered += verdict.outcome is Outcome.SAME
                where = f"at epochs {asked}"
                finding = finding_of(here, past, number, query, verdict, where, shrink=shrink)
                found.findings += [] if finding is None else [finding]
            fault = None if migrates else key_fault(cluster, past, number, session.read_point)
            found.key_faults += [] if fault is None else [f"dataset {seed} {where}: {fault}"]
    return found


def _migrate(changelog: Changelog, dataset: Dataset) -> None:
    """Rename, widen and replace columns, so that a statement means something else at the newest epoch, or
    nothing.
    """
    for store in dataset.stores:
        definition = store.definition
        random = Random(f"migrated {dataset.seed} {definition.name}")
        changes: list[Change] = []
        for column in definition.row_schema:
            free = [each for each in _TYPES if widens(column.type, each)]
            if column.name in definition.key:
                changes += [RenameColumn(column.name, f"{column.name} was")] if random.random() < 0.2 else []
            elif free and random.random() < 0.5:
                changes.append(WidenColumn(column.name, random.choice(free)))
            elif random.random() < 0.3:
                changes.append(RenameColumn(column.name, f"{column.name} was"))
            elif random.random() < 0.5:
                others = [each for each in _TYPES if each != column.type]
                changes += [DropColumn(column.name), AddColumn(column.name, random.choice(others))]
        if changes:
            changelog.migrate_store(definition.name, changes)


def _session_at(epochs: Mapping[GroupName, Epoch]) -> Session:
    as_of = {group: AsOfEpoch(epoch) for group, epoch in epochs.items()}
    return Session(read_point=ReadPoint(as_of=as_of))


def _dataset_at(
    dataset: Dataset, places: Mapping[GroupName, int], rows: Sequence[Mapping[str, pa.Table]]
) -> Dataset:
    """A dataset as it was, each group after some of its epochs."""
    stores = (
        replace(store, live=rows[places[GroupName(store.definition.group)]][store.definition.name])
        for store in dataset.stores
    )
    return replace(dataset, stores=tuple(stores))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.past_epochs", description=__doc__)
    parser.add_argument("--datasets", type=int, default=20)
    parser.add_argument("--queries", type=int, default=50, help="how many of each dataset")
    parser.add_argument("--first", type=int, help="the first dataset; by default one that no run had before")
    parser.add_argument(
        "--migrated", action="store_true", help="ask when columns have other names and types by now"
    )
    options = parser.parse_args()
    first = options.first if options.first is not None else int(time.time())
    print(f"datasets from {first}", file=sys.stderr)
    differences = asked = answered = 0
    for seed in range(first, first + options.datasets):
        found = ask_past_epochs(seed, options.queries, migrates=options.migrated)
        asked, answered = asked + found.asked, answered + found.answered
        differences += sum(finding.verdict.outcome not in LOOKED_AT for finding in found.findings)
        differences += len(found.key_faults)
        for fault in found.key_faults:
            print(f"\n{fault}\n", flush=True)
        for finding in found.findings:
            print("\n" + finding.describe() + "\n", flush=True)
    print(f"{asked} statements at past epochs, {answered} answered, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
