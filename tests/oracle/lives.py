"""The same queries of the same rows at every stage of a deployment's life: as epochs left them, compacted,
after a restart, rebuilt from the changelog, and after a migration and the one that takes it back. And keys of
streams.

`python -m tests.oracle.lives --datasets 20` asks; the answers are those of plain DuckDB at each stage.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import cast

from engine.changelog import Changelog
from engine.model.migration import Change, DropColumn, RenameColumn, parse_changes
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.state.state_options import StateOptions
from tests.oracle.datasets import Dataset, make_dataset, spread
from tests.oracle.keys import key_fault
from tests.oracle.queries import Generated
from tests.oracle.run import (
    LOOKED_AT,
    QUERIES_A_DATASET,
    Finding,
    QueryCounts,
    ask_in_other_ways,
    finding_of,
    lone_judge,
    query_of,
)
from tests.oracle.systems import (
    WAIT_SECONDS,
    epochs_of,
    large_ways_of,
    state_options_of,
    system_over,
    write_on,
)
from tests.oracle.verdicts import Judge, Outcome
from tests.support.local_cluster import SMALL, Cluster, following_cluster, host_names
from tests.support.statement_time import statement_clock

LAYOUTS = ((1, 5), (3, 5), (3, 1), (1, 64))
"""Hosts, and partitions of each store."""
AS_WRITTEN = FollowerOptions(poll_seconds=0.01, state=StateOptions(block_rows=8, fan_out=50))
COMPACTED = FollowerOptions(poll_seconds=0.01, state=StateOptions(block_rows=8, fan_out=2))
_ADDED = "added by a migration"
_RENAMED = "renamed by a migration"


@dataclass
class Lived:
    """What came of it.

    Attributes:
        asked: How many queries were asked at each stage, and how many of them were answered.
        segments: How many segments there were at each stage, over all hosts.
        related: What came of other ways to ask.
        findings: Differences, each with its stage.
        key_faults: What was wrong with answers of streams of keys, each with its stage.
    """

    asked: dict[str, tuple[int, int]] = field(default_factory=dict)
    related: QueryCounts = field(default_factory=QueryCounts)
    segments: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    key_faults: list[str] = field(default_factory=list)


def live(seed: int, queries: int, ways: int = 0) -> Lived:
    """Ask queries of one dataset at each stage.

    Args:
        seed: Of the dataset.
        queries: How many.
        ways: In how many other ways each is asked at each stage, others at each.
    """
    hosts, partitions = LAYOUTS[seed % len(LAYOUTS)]
    dataset = spread(make_dataset(seed), hosts, partitions)
    lived = Lived()
    with TemporaryDirectory() as name, lone_judge(dataset) as judge:
        directory = Path(name)
        changelog = Changelog.open(str(directory / "changelog"))
        epochs = epochs_of(dataset, changelog)
        newest = next(epochs)
        first = seed * QUERIES_A_DATASET
        asked = {number: query_of(judge, dataset, number) for number in range(first, first + queries)}
        ask = partial(_ask_all, dataset, judge, asked, ways, lived)
        with _hosts(changelog, directory / "data", dataset, AS_WRITTEN) as cluster:
            # One by one, so that each makes segments.
            cluster.wait_for(newest, WAIT_SECONDS)
            for newest in epochs:
                cluster.wait_for(newest, WAIT_SECONDS)
            ask("as written", cluster)
        with _hosts(changelog, directory / "data", dataset, COMPACTED) as cluster:
            cluster.wait_for(newest, WAIT_SECONDS)
            ask("restarted", cluster)
            cluster.wait_for(write_on(changelog, dataset, rewrites=True), WAIT_SECONDS)
            for follower in cluster.sources.values():
                cast("Follower", follower).wait_until_compact(WAIT_SECONDS)
            ask("compacted", cluster)
            _migrate_and_back(changelog, dataset, cluster)
            ask("migrated", cluster)
        with _hosts(changelog, directory / "other data", dataset, AS_WRITTEN) as cluster:
            cluster.wait_for(write_on(changelog, dataset), WAIT_SECONDS)
            ask("rebuilt", cluster)
    return lived


@contextmanager
def _hosts(
    changelog: Changelog, directory: Path, dataset: Dataset, follow: FollowerOptions
) -> Iterator[Cluster]:
    hosts, pages = host_names(dataset.hosts), state_options_of(dataset.seed)
    follow = replace(follow, state=replace(pages, fan_out=follow.state.fan_out))
    with (
        large_ways_of(dataset.seed),
        following_cluster(changelog, directory, hosts, follow, SMALL, clock=statement_clock) as cluster,
    ):
        yield cluster


def _migrate_and_back(changelog: Changelog, dataset: Dataset, cluster: Cluster) -> None:
    """Add a column to each store and rename another, and take both back."""
    renamed = {
        store.definition.name: Random(f"renamed {dataset.seed} {store.definition.name}").choice(
            store.definition.schema.names
        )
        for store in dataset.stores
    }
    there: dict[str, tuple[Change, ...]] = {
        name: (*parse_changes(add=[f"\"{_ADDED}\" VARCHAR DEFAULT 'x'"]), RenameColumn(column, _RENAMED))
        for name, column in renamed.items()
    }
    back: dict[str, tuple[Change, ...]] = {
        name: (RenameColumn(_RENAMED, column), DropColumn(_ADDED)) for name, column in renamed.items()
    }
    for changes in (there, back):
        for store in dataset.stores:
            changelog.migrate_store(store.definition.name, changes[store.definition.name])
        cluster.wait_for(write_on(changelog, dataset), WAIT_SECONDS)


def _ask_all(
    dataset: Dataset,
    judge: Judge,
    queries: Mapping[int, Generated],
    ways: int,
    lived: Lived,
    stage: str,
    cluster: Cluster,
) -> None:
    answered = 0
    with system_over(cluster) as system:
        here = replace(judge, system=system)
        for seed, query in queries.items():
            verdict = here.verdict(query, seed)
            answered += verdict.outcome is Outcome.SAME
            finding = finding_of(here, dataset, seed, query, verdict, stage)
            others = ask_in_other_ways(
                here, dataset, seed, ways, query, verdict, lived.related, drawn_by=f"{seed} {stage}"
            )
            lived.findings += [
                *([finding] if finding is not None else []),
                *(replace(each, relation=f"{stage}, {each.relation}") for each in others if each is not None),
            ]
    fault = key_fault(cluster, dataset, f"{dataset.seed} {stage}")
    if fault is not None:
        lived.key_faults.append(f"dataset {dataset.seed}, {stage}: {fault}")
    lived.asked[stage] = len(queries), answered
    lived.segments[stage] = sum(
        status.segments
        for follower in cluster.sources.values()
        for status in cast("Follower", follower).status()
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.lives", description=__doc__)
    parser.add_argument("--datasets", type=int, default=20)
    parser.add_argument("--queries", type=int, default=50, help="how many of each dataset")
    parser.add_argument("--first", type=int, help="the first dataset; by default one that no run had before")
    parser.add_argument(
        "--metamorphic", type=int, default=0, metavar="WAYS", help="other ways of each query at each stage"
    )
    options = parser.parse_args()
    first = options.first if options.first is not None else int(time.time())
    print(f"datasets from {first}", file=sys.stderr)
    differences, total, related = 0, 0, QueryCounts()
    for seed in range(first, first + options.datasets):
        lived = live(seed, options.queries, options.metamorphic)
        total += sum(asked for asked, _ in lived.asked.values())
        related.join(lived.related)
        differences += sum(finding.verdict.outcome not in LOOKED_AT for finding in lived.findings)
        differences += len(lived.key_faults)
        for fault in lived.key_faults:
            print(f"\n{fault}\n", flush=True)
        for finding in lived.findings:
            print("\n" + finding.describe() + "\n", flush=True)
    print(
        f"{total} queries at {len(lived.asked)} stages, {related.statements} other ways, "
        f"{differences} differences"
    )
    print("\n".join(related.lines_of_relations()))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
