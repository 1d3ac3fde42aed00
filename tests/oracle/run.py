"""Many queries, one after the other, and what came of them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from multiprocessing import get_context
from random import Random

from tests.oracle.comparison import rows_of
from tests.oracle.datasets import Dataset, make_dataset, spread
from tests.oracle.layouts import Layouts
from tests.oracle.metamorphic import relations_of
from tests.oracle.metamorphic.relation import Relation, Subject
from tests.oracle.plain_duckdb import OTHER_WAYS, PlainDuckDB, put_literals, reorder
from tests.oracle.queries import Generated, make_query
from tests.oracle.shrink import shrunk
from tests.oracle.systems import SplitSystem, System
from tests.oracle.verdicts import Judge, Outcome, Verdict

QUERIES_A_DATASET = 100
ROWS_SHOWN = 12
ATTEMPTS = 4
LOOKED_AT = (Outcome.CONTRADICTED, Outcome.LIMITED)
"""What is reported for a person to look at, and does not fail a run."""

SystemOf = Callable[[Dataset], AbstractContextManager[System]]


@dataclass(frozen=True)
class Finding:
    """A difference.

    Attributes:
        seed: Of the query.
        dataset: Its stores.
        query: The query as it was generated.
        smaller: The smallest query found that differs, with its parameters in place.
        verdict: What came of it.
        relation: How it was asked otherwise; empty for the query of the seed itself.
        other: What it had to agree with, then.
    """

    seed: int
    dataset: Dataset
    query: Generated
    smaller: str
    verdict: Verdict
    relation: str = ""
    other: str = ""

    def describe(self) -> str:
        """All that a person needs, in some lines."""
        whole = put_literals(self.query.sql, self.query.parameters)
        lines = [
            (
                f"==== {self.verdict.outcome.value}: seed {self.seed} (python -m tests.oracle --replay "
                f"{self.seed} --hosts {self.dataset.hosts}{' --metamorphic' if self.relation else ''})"
            ),
            *([f"relation: {self.relation}"] if self.relation else []),
            *([f"other:    {self.other}"] if self.other else []),
            self.dataset.describe(),
            f"query:    {self.query.sql}",
            *([f"literals: {whole}"] if self.query.parameters else []),
            *([f"smaller:  {self.smaller}"] if self.smaller not in (whole, self.query.sql) else []),
            f"rules:    {', '.join(self.verdict.rules) or '-'}",
            f"because:  {self.verdict.detail}",
        ]
        for name, table in (("expected", self.verdict.expected), ("found", self.verdict.found)):
            if table is not None:
                lines.append(
                    f"{name}: {table.num_rows} rows of "
                    f"{', '.join(f'{each.name} {each.type}' for each in table.schema)}"
                )
                lines += [f"    {row}" for row in rows_of(table.slice(0, ROWS_SHOWN))]
        return "\n".join(lines)


@dataclass
class QueryCounts:
    """What came of the queries so far."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    related: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    empty: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def differences(self) -> list[Finding]:
        """The findings that are about livestate or the generator, not about DuckDB or a limit."""
        return [each for each in self.findings if each.verdict.outcome not in LOOKED_AT]

    @property
    def queries(self) -> int:
        """How many queries were asked."""
        return sum(self.outcomes.values())

    @property
    def statements(self) -> int:
        """How many statements were asked: queries, each in all its ways and layouts."""
        return self.queries + sum(self.related.values())

    def join(self, other: QueryCounts) -> None:
        """Count what another run counted."""
        self.outcomes += other.outcomes
        self.features += other.features
        self.rules += other.rules
        self.tried += other.tried
        self.related += other.related
        self.empty += other.empty
        self.findings += other.findings

    def add(self, query: Generated, verdict: Verdict) -> None:
        """Count a query."""
        self.outcomes[verdict.outcome] += 1
        self.features.update(query.features)
        self.rules.update(set(verdict.rules))
        self.empty += verdict.expected is not None and not verdict.expected.num_rows

    def summary(self) -> str:
        """The counts in some lines."""
        lines = [
            f"{self.queries} queries, {self.empty} of them with empty answers; {self.statements} statements"
        ]
        lines += [f"  {count:7} {outcome.value}" for outcome, count in self.outcomes.most_common()]
        for title, counts in (("features", self.features), ("rules", self.rules)):
            lines.append(f"{title}:")
            lines += [f"  {count:7} {name}" for name, count in counts.most_common()]
        return "\n".join([*lines, *self.lines_of_relations()])

    def lines_of_relations(self) -> list[str]:
        """What came of other ways to ask."""
        lines = []
        if self.tried:
            lines.append("relations: how often asked, of how many statements that it was tried with")
        for name, tried in sorted(self.tried.items()):
            outcomes = {kind: self.related[name, kind] for kind in Outcome if self.related[name, kind]}
            others = [f"{count} {kind.value}" for kind, count in outcomes.items() if kind is not Outcome.SAME]
            lines.append(
                f"  {sum(outcomes.values()):7} of {tried:7} {name}{': ' if others else ''}{', '.join(others)}"
            )
        return lines


def dataset_of(seed: int, hosts: int | None, partitions: int | None = None) -> Dataset:
    """The dataset that a query's seed goes with."""
    dataset = make_dataset(seed // QUERIES_A_DATASET, hosts)
    return dataset if partitions is None else spread(dataset, dataset.hosts, partitions)


@contextmanager
def dataset_judge(dataset: Dataset, system_of: SystemOf) -> Iterator[Judge]:
    """An oracle and a system over a dataset."""
    with lone_judge(dataset) as judge, system_of(dataset) as system:
        yield replace(judge, system=system)


@contextmanager
def lone_judge(dataset: Dataset) -> Iterator[Judge]:
    """An oracle over a dataset, of which one system after another is asked."""
    oracle = PlainDuckDB(dataset.live)
    others = cache(lambda: [PlainDuckDB(tables) for tables in reorder(dataset.live)])
    otherwise = cache(lambda: [PlainDuckDB(dataset.live, settings) for settings in OTHER_WAYS])
    try:
        yield Judge(oracle, others, otherwise, SplitSystem(dataset))
    finally:
        oracle.close()


def ask(
    judge: Judge, dataset: Dataset, seed: int, *, shrink: bool = True
) -> tuple[Generated, Verdict, Finding | None]:
    """Ask the query of a seed.

    Args:
        judge: The oracle and the system.
        dataset: The stores.
        seed: The seed.
        shrink: Look for a smaller query that differs.

    Returns:
        The query, the verdict, and the finding if there is one.
    """
    query = query_of(judge, dataset, seed)
    verdict = judge.verdict(query, seed)
    return query, verdict, finding_of(judge, dataset, seed, query, verdict, shrink=shrink)


def finding_of(
    judge: Judge,
    dataset: Dataset,
    seed: int,
    query: Generated,
    verdict: Verdict,
    relation: str = "",
    other: Generated | None = None,
    *,
    shrink: bool = True,
) -> Finding | None:
    """What is to be said of a verdict.

    Args:
        judge: The oracle and the system.
        dataset: The stores.
        seed: The seed.
        query: The query.
        verdict: What came of it.
        relation: How it was asked otherwise, or where.
        other: What it had to agree with, if that is another query.
        shrink: Look for a smaller query that differs.

    Returns:
        The finding; None if there is nothing to be said.
    """
    if verdict.outcome not in (Outcome.DIFFERENT, Outcome.UNDETERMINED, *LOOKED_AT):
        return None
    text = _smaller(judge, query, verdict, seed) if shrink else put_literals(query.sql, query.parameters)
    said = put_literals(other.sql, other.parameters) if other is not None else ""
    return Finding(seed, dataset, query, text, verdict, relation, said)


def ask_otherwise(
    judge: Judge,
    dataset: Dataset,
    seed: int,
    relation: Relation,
    query: Generated,
    verdict: Verdict,
    *,
    shrink: bool = True,
) -> tuple[Verdict | None, Finding | None]:
    """Ask the query of a seed in another way.

    Args:
        judge: The oracle and the system.
        dataset: The stores.
        seed: The seed.
        relation: The other way.
        query: The query.
        verdict: What came of it.
        shrink: Look for a smaller query that differs.

    Returns:
        What came of the other way, None if there is none, and the finding if there is one.
    """
    if verdict.outcome is not Outcome.SAME or verdict.found is None or query.source is None:
        return None, None
    random = Random(f"{relation.name} {seed}")
    pair = relation.pair(Subject(query, query.source, dataset, random))
    if pair is None:
        return None, None
    found = judge.agreement(pair, query, verdict.found, seed)
    finding = finding_of(
        judge, dataset, seed, pair.variant, found, relation.name, pair.base or query, shrink=shrink
    )
    return found, finding


def _smaller(judge: Judge, query: Generated, verdict: Verdict, seed: int) -> str:
    """The smallest query found that differs as this one does."""
    text = put_literals(query.sql, query.parameters)
    if verdict.outcome is not Outcome.DIFFERENT or text.startswith("EXPLAIN"):
        return text
    is_failure = verdict.found is None
    return shrunk(
        text,
        lambda smaller: _differs_alike(judge.judge(smaller, (), None, (), (), seed), is_failure=is_failure),
    )


def query_of(judge: Judge, dataset: Dataset, seed: int) -> Generated:
    """The query of a seed: for two of three seeds one that has rows, if there soon is one."""
    for attempt in range(ATTEMPTS):
        query = make_query(dataset, seed, attempt)
        if not seed % 3 or not judge.is_empty(query):
            break
    return query


def _differs_alike(verdict: Verdict, *, is_failure: bool) -> bool:
    return verdict.outcome is Outcome.DIFFERENT and (verdict.found is None) == is_failure


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
        first: Seed of the first query.
        queries: How many.
        hosts: How many hosts; None for what each dataset says.
        seconds: When to stop at the latest; None for never.
        most_findings: When to stop because enough was found.
        shrink: Look for smaller queries that differ.
        processes: How many processes share the work; what comes of it is the same for any number.
        relations: In how many other ways to ask each query, at most.
        related: Only one of so many queries is asked in other ways.
        partitions: How many partitions each store has; None for what each dataset says.
        layouts: Ask each query of other numbers of hosts and partitions, too.
    """

    first: int
    queries: int
    hosts: int | None = None
    seconds: float | None = None
    most_findings: int = 20
    shrink: bool = True
    processes: int = 1
    relations: int = 0
    related: int = 1
    partitions: int | None = None
    layouts: bool = False


def run(
    plan: Plan,
    system_of: SystemOf,
    report: Callable[[Finding], None],
    progress: Callable[[QueryCounts, float], None] | None = None,
) -> QueryCounts:
    """Ask many queries.

    Args:
        plan: Which.
        system_of: Makes the system under test over a dataset.
        report: Is told of each finding.
        progress: Is told how far it is, after each dataset; None for nobody.

    Returns:
        What came of them.
    """
    counts = QueryCounts()
    started = time.monotonic()
    with ExitStack() as resources:
        for part in _run_parts(plan, system_of, resources):
            counts.join(part)
            for finding in part.findings:
                report(finding)
            seconds = time.monotonic() - started
            if progress is not None:
                progress(counts, seconds)
            if len(counts.differences) >= plan.most_findings or (
                plan.seconds is not None and seconds > plan.seconds
            ):
                break
    return counts


def _run_parts(plan: Plan, system_of: SystemOf, resources: ExitStack) -> Iterator[QueryCounts]:
    """A tally for each dataset, in the order of the seeds."""
    last = plan.first + plan.queries
    starts = [
        plan.first,
        *range((plan.first // QUERIES_A_DATASET + 1) * QUERIES_A_DATASET, last, QUERIES_A_DATASET),
    ]
    parts = [
        range(first, min(last, (first // QUERIES_A_DATASET + 1) * QUERIES_A_DATASET)) for first in starts
    ]
    if plan.processes == 1:
        return (ask_of_one_dataset(plan, system_of, seeds) for seeds in parts)
    workers = resources.enter_context(ProcessPoolExecutor(plan.processes, get_context("spawn")))
    resources.callback(workers.shutdown, wait=False, cancel_futures=True)
    return workers.map(partial(ask_of_one_dataset, plan, system_of), parts)


def ask_of_one_dataset(plan: Plan, system_of: SystemOf, seeds: range) -> QueryCounts:
    """Ask the queries of some seeds, which go with one dataset."""
    counts = QueryCounts()
    dataset = dataset_of(seeds[0], plan.hosts, plan.partitions)
    with dataset_judge(dataset, system_of) as judge, Layouts(dataset, system_of) as layouts:
        for seed in seeds:
            query, verdict, finding = ask(judge, dataset, seed, shrink=plan.shrink)
            counts.add(query, verdict)
            found = [finding]
            if seed % plan.related == plan.related // 2:
                ways, shrink = plan.relations, plan.shrink
                found += ask_in_other_ways(judge, dataset, seed, ways, query, verdict, counts, shrink=shrink)
            if plan.layouts and verdict.outcome is Outcome.SAME:
                found.append(_ask_elsewhere(judge, layouts, seed, plan, query, counts))
            counts.findings += [each for each in found if each is not None]
            if len(counts.differences) >= plan.most_findings:
                break
    return counts


def ask_in_other_ways(
    judge: Judge,
    dataset: Dataset,
    seed: int,
    ways: int,
    query: Generated,
    verdict: Verdict,
    counts: QueryCounts,
    *,
    shrink: bool = True,
    drawn_by: str = "",
) -> list[Finding | None]:
    """Ask a query in so many other ways, if so many apply.

    Args:
        judge: The oracle and the system.
        dataset: The stores.
        seed: The seed of the query.
        ways: How many.
        query: The query.
        verdict: What came of it.
        counts: Counts what came of each way.
        shrink: Look for a smaller query that differs.
        drawn_by: What the ways are drawn by; empty for the seed alone.

    Returns:
        What there is to be said of each way.
    """
    found: list[Finding | None] = []
    for relation in relations_of(drawn_by or str(seed)):
        if len(found) == ways or verdict.outcome is not Outcome.SAME:
            break
        counts.tried[relation.name] += 1
        related, finding = ask_otherwise(judge, dataset, seed, relation, query, verdict, shrink=shrink)
        if related is not None:
            counts.related[relation.name, related.outcome] += 1
            found.append(finding)
    return found


def _ask_elsewhere(
    judge: Judge, layouts: Layouts, seed: int, plan: Plan, query: Generated, counts: QueryCounts
) -> Finding | None:
    """Ask a query of the same rows on other hosts, in other partitions."""
    dataset, system = layouts.any(seed)
    name = f"on {dataset.hosts} hosts, {dataset.stores[0].definition.partitions} partitions"
    elsewhere = replace(judge, system=system)
    verdict = elsewhere.verdict(query, seed)
    counts.tried[name] += 1
    counts.related[name, verdict.outcome] += 1
    return finding_of(elsewhere, dataset, seed, query, verdict, name, shrink=plan.shrink)


def print_progress(counts: QueryCounts, seconds: float) -> None:
    """One line that is written anew."""
    rate = counts.statements / seconds
    print(
        f"\r{counts.queries} queries, {counts.statements} statements, {len(counts.differences)} differences, "
        f"{rate:.0f} a second ",
        end="",
        file=sys.stderr,
        flush=True,
    )
