"""Many queries, one after the other, and what came of them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import get_context

from tests.oracle.comparison import rows_of
from tests.oracle.datasets import Dataset, make_dataset
from tests.oracle.plain_duckdb import PlainDuckDB, reordered, with_literals
from tests.oracle.queries import Generated, make_query
from tests.oracle.shrink import shrunk
from tests.oracle.systems import System
from tests.oracle.verdicts import Judge, Outcome, Verdict

QUERIES_A_DATASET = 100
ROWS_SHOWN = 12
ATTEMPTS = 4

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
    """

    seed: int
    dataset: Dataset
    query: Generated
    smaller: str
    verdict: Verdict

    def describe(self) -> str:
        """All that a person needs, in some lines."""
        whole = with_literals(self.query.sql, self.query.parameters)
        lines = [
            (
                f"==== {self.verdict.outcome.value}: seed {self.seed} (python -m tests.oracle --replay "
                f"{self.seed} --hosts {self.dataset.hosts})"
            ),
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
    empty: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def differences(self) -> list[Finding]:
        """The findings that are about livestate or the generator, not about DuckDB."""
        return [finding for finding in self.findings if finding.verdict.outcome is not Outcome.CONTRADICTED]

    @property
    def queries(self) -> int:
        """How many queries were asked."""
        return sum(self.outcomes.values())

    def join(self, other: QueryCounts) -> None:
        """Count what another run counted."""
        self.outcomes += other.outcomes
        self.features += other.features
        self.rules += other.rules
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
        lines = [f"{self.queries} queries, {self.empty} of them with empty answers"]
        lines += [f"  {count:7} {outcome.value}" for outcome, count in self.outcomes.most_common()]
        for title, counts in (("features", self.features), ("rules", self.rules)):
            lines.append(f"{title}:")
            lines += [f"  {count:7} {name}" for name, count in counts.most_common()]
        return "\n".join(lines)


def dataset_of(seed: int, hosts: int | None) -> Dataset:
    """The dataset that a query's seed goes with."""
    return make_dataset(seed // QUERIES_A_DATASET, hosts)


@contextmanager
def judging(dataset: Dataset, system_of: SystemOf) -> Iterator[Judge]:
    """An oracle and a system over a dataset."""
    oracle = PlainDuckDB(dataset.live)
    others = cache(lambda: [PlainDuckDB(tables) for tables in reordered(dataset.live)])
    literal = cache(lambda: PlainDuckDB(dataset.live, optimizes=False))
    try:
        with system_of(dataset) as system:
            yield Judge(oracle, others, literal, system)
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
    query = _query(judge, dataset, seed)
    verdict = judge.verdict(query, seed)
    if verdict.outcome not in (Outcome.DIFFERENT, Outcome.UNDETERMINED, Outcome.CONTRADICTED):
        return query, verdict, None
    text = with_literals(query.sql, query.parameters)
    if shrink and verdict.outcome is Outcome.DIFFERENT:
        same_kind = verdict.found is None
        text = shrunk(
            text,
            lambda smaller: _differs_alike(
                judge.judged(smaller, (), None, (), (), seed), is_failure=same_kind
            ),
        )
    return query, verdict, Finding(seed, dataset, query, text, verdict)


def _query(judge: Judge, dataset: Dataset, seed: int) -> Generated:
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
    """

    first: int
    queries: int
    hosts: int | None = None
    seconds: float | None = None
    most_findings: int = 20
    shrink: bool = True
    processes: int = 1


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
        for part in _in_parts(plan, system_of, resources):
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


def _in_parts(plan: Plan, system_of: SystemOf, resources: ExitStack) -> Iterator[QueryCounts]:
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
    dataset = dataset_of(seeds[0], plan.hosts)
    with judging(dataset, system_of) as judge:
        for seed in seeds:
            query, verdict, finding = ask(judge, dataset, seed, shrink=plan.shrink)
            counts.add(query, verdict)
            if finding is not None:
                counts.findings.append(finding)
                if len(counts.differences) >= plan.most_findings:
                    break
    return counts


def print_progress(counts: QueryCounts, seconds: float) -> None:
    """One line that is written anew."""
    rate = counts.queries / seconds
    print(
        f"\r{counts.queries} queries, {len(counts.differences)} differences, {rate:.0f} a second ",
        end="",
        file=sys.stderr,
        flush=True,
    )
