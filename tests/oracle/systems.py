"""What is tested: statements split over hosts, and whole clusters in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Protocol
from unittest.mock import patch

import duckdb
import pyarrow as pa

from engine.changelog import Changelog, open_appender
from engine.cluster.fragments import FragmentRequest
from engine.duckdb.results import conversion, result_schema
from engine.errors import InvalidInput
from engine.exec import joined_keys
from engine.exec.fallbacks import PIECE_RULES
from engine.exec.query_result import QueryMetadata
from engine.model.schema import Epoch, GroupName, StoreDefinition
from engine.plan.split.rules import RULES
from engine.plan.split.selectivity import ColumnSize
from engine.plan.split.sizes import Sizes, StoreSize
from engine.replica.follower_options import FollowerOptions
from engine.service import DEFAULT_SESSION, QueryService, Session
from engine.state.state_options import StateOptions
from flight_server.wire.fragment_messages import FragmentTicket, parse_fragment
from tests.oracle.comparison import rows_of
from tests.oracle.datasets import Dataset, Store
from tests.oracle.plain_duckdb import put_literals
from tests.support.large_ways import QUERY_LIMITS, STATE_LIMITS, large_ways, state_options
from tests.support.local_cluster import FLOWING, SMALL, Cluster, following_cluster, host_names, memory_cluster
from tests.support.split_runner import SplitRunner
from tests.support.splitting import gather_plan, split_or_gather
from tests.support.statement_time import statement_clock

COORDINATOR_LOGS = ("engine.coordinator", "engine.exec.fallbacks")
POLL_SECONDS = 1.0
"""A dataset is whole before it is asked: hosts need not look for more."""
WAIT_SECONDS = 60.0
REMOVED = "removed"
EPOCHS = 3
"""How many epochs a dataset is written in."""
ROW_FAILURES = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)
"""Failures that are about some row."""


@dataclass(frozen=True)
class Answer:
    """What a system says.

    Attributes:
        table: The rows.
        rules: Names of the rules that planned it.
        unsplit_names: Gives the names that columns have on one host; None where the rows have no names of
            their own yet.
        metadata: What the answer says of itself; None where it says nothing.
    """

    table: pa.Table
    rules: tuple[str, ...]
    unsplit_names: Callable[[], Sequence[str]] | None = None
    metadata: QueryMetadata | None = None


class TelltaleError(Exception):
    """An answer or an error tells of what may not be seen: a finding, whatever the oracle says."""


class System(Protocol):
    """Answers queries over a dataset."""

    def answer(
        self, sql: str, literals: Sequence[str], parameters: pa.RecordBatch | None, seed: int
    ) -> Answer:
        """The answer of a query.

        Args:
            sql: The query.
            literals: Its parameters as literals.
            parameters: Its parameters as values.
            seed: Chooses among ways to ask that must not matter.
        """


_ROWS = (0, 10, 100_000, 1_000_000, 1_000_000_000)
"""What planning is told of stores, whatever is in them: no plan may be wrong."""


_DISTINCT = (None, 1, 100, 1_000_000)
_SHARES = (1.0, 0.25, 0.001)


def _random_columns(definition: StoreDefinition, random: Random) -> tuple[tuple[str, ColumnSize], ...]:
    return tuple(
        (name, ColumnSize(random.choice(_DISTINCT), 0.0, 100.0))
        for name in definition.schema.names
        if random.random() < 0.7
    )


class SplitSystem:
    """`engine.plan.split` alone: fragments and merges run in one DuckDB.

    Args:
        dataset: The stores.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._stores = {store.definition.name: (store.definition, store.live) for store in dataset.stores}
        self._runner = SplitRunner(self._stores, dataset.hosts)

    def answer(
        self, sql: str, literals: Sequence[str], parameters: pa.RecordBatch | None, seed: int
    ) -> Answer:
        """As `System.answer`."""
        random = Random(seed)
        sizes = Sizes(
            tuple(
                (name, StoreSize(rows, 20 * rows, _random_columns(definition, random)))
                for name, (definition, _) in sorted(self._stores.items())
                if (rows := random.choice(_ROWS))
            )
        )
        bound = self._runner.bind(put_literals(sql, literals))
        shares = tuple(
            (reference.scan, column, random.choice(_SHARES))
            for reference in bound.references
            for column in reference.columns
            if random.random() < 0.3
        )
        sizes = replace(sizes, shares=shares)
        rules = PIECE_RULES if random.random() < 0.1 else RULES  # as where plans by all rules are refused
        plan = split_or_gather(bound, sizes, rules)
        try:
            found = self._runner.run(plan, bound)
        except ROW_FAILURES:
            # As a coordinator does: an expression may meet rows before what would have left them out on one
            # host.
            plan = gather_plan(bound)
            found = self._runner.run(plan, bound)
        schema = result_schema(found.schema)
        convert = conversion(found.schema, schema)
        return Answer(
            pa.Table.from_batches([convert(batch) for batch in found.to_batches()], schema), plan.rules
        )


class _Warnings(logging.Handler):
    """Keeps what coordinators warn of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.messages.append(record.getMessage())


class ClusterSystem:
    """A cluster in this process. That a coordinator must fall back to gathering is a finding, although its
    answers are right, unless a row failed.

    Args:
        cluster: Its hosts.
        warnings: What coordinators warn of.
        session: What statements are asked with.
    """

    def __init__(self, cluster: Cluster, warnings: _Warnings, session: Session = DEFAULT_SESSION) -> None:
        self._cluster = cluster
        self._warnings = warnings
        self._session = session

    def within(self, session: Session) -> ClusterSystem:
        """The same hosts, asked within another session."""
        return ClusterSystem(self._cluster, self._warnings, session)

    def answer(
        self, sql: str, literals: Sequence[str], parameters: pa.RecordBatch | None, seed: int
    ) -> Answer:
        """As `System.answer`. Any host is asked, one time in ten by a prepared statement, whose schema must
        be that of the result; or what they have side by side is read from each of them.
        """
        random = Random(seed)
        service = self._cluster.services[random.choice(self._cluster.hosts)]
        if random.random() < 0.3:
            answer = self._answer_in_parts(service, sql, as_any_client(parameters, random), random)
            if answer is not None:
                return answer
        # A parameter next to a derived column is taken for VARCHAR when it is prepared, which not every
        # operator takes.
        prepared = (
            service.prepare(sql, self._session) if parameters is None and random.random() < 0.1 else None
        )
        if prepared is None and random.random() < 0.1:
            # A text with a comment is read as it is written, without a template for its values.
            sql = f"{sql}\n--"
        self._warnings.messages.clear()
        shapes = None if prepared is None else prepared.shapes
        values = as_any_client(parameters, random)
        with service.execute(sql, values, self._session, expected_shapes=shapes) as result:
            table = result.read_all()
        if self._warnings.messages:
            raise AssertionError(self._warnings.messages[0])
        if prepared is not None and prepared.schema != table.schema:
            raise AssertionError(
                f"The prepared statement's schema is {prepared.schema}, the result's is {table.schema}."
            )
        return Answer(
            table,
            result.metadata.rules or (result.metadata.plan,),
            unsplit_names=lambda: tuple(service.prepare(sql, self._session).schema.names),
            metadata=result.metadata,
        )

    def _answer_in_parts(
        self, service: QueryService, sql: str, parameters: pa.RecordBatch | None, random: Random
    ) -> Answer | None:
        """The answer as a client puts it together that reads from each host by itself, or partition by
        partition; None where it has to be asked for as a whole.
        """
        try:
            if random.random() < 0.5:
                division = service.divide(sql, parameters, self._session)
                schema, pieces = division.schema, division.pieces
                asked = [(random.choice(piece.hosts), piece.request) for piece in pieces or ()]
            else:
                endpoints, pieces = service.endpoints(sql, parameters, self._session), None
                given = None if parameters is None else lambda: parameters
                schema = service.prepare(sql, self._session, given=given).schema
                asked = list((endpoints or {}).items())
            if schema is None or (pieces is None and not asked):
                return None
            tables = [
                self._cluster.services[host].execute_fragment(_as_ticket(request)).read_all()
                for host, request in asked
            ]
        except InvalidInput:
            return None  # a row fails that another one host would have left out, or it is refused as a whole
        assert all(table.schema.equals(schema) for table in tables), "a part has other columns"
        return Answer(pa.concat_tables(tables) if tables else schema.empty_table(), ("in parts",))


def as_any_client(parameters: pa.RecordBatch | None, random: Random) -> pa.RecordBatch | None:
    """The same values in types of Arrow that other clients send."""
    if parameters is None or random.random() < 0.5:
        return parameters
    columns = [_under_other_type(column, random) for column in parameters.columns]
    return pa.RecordBatch.from_arrays(columns, names=parameters.schema.names)


def _under_other_type(column: pa.Array, random: Random) -> pa.Array:
    kind = column.type
    others: list[pa.DataType] = []
    if pa.types.is_string(kind):
        others = [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
    elif pa.types.is_binary(kind):
        others = [pa.large_binary()]
    elif pa.types.is_date32(kind):
        others = [pa.date64()]
    elif pa.types.is_timestamp(kind):
        others = [pa.timestamp(unit, kind.tz) for unit in ("s", "ms")]
    elif pa.types.is_list(kind):
        others = [pa.large_list(kind.value_type)]
    if not others:
        return column
    try:
        return column.cast(random.choice(others))
    except pa.ArrowInvalid:
        return column  # a moment between two seconds


def _as_ticket(request: FragmentRequest) -> FragmentRequest:
    """A request as it comes back from a client."""
    return parse_fragment(FragmentTicket.from_request(request, b"").to_bytes()).request


@contextmanager
def split_system(dataset: Dataset) -> Iterator[System]:
    """`SplitSystem` over a dataset."""
    yield SplitSystem(dataset)


@contextmanager
def cluster_system(dataset: Dataset) -> Iterator[System]:
    """`ClusterSystem` over a dataset."""
    with cluster_in(dataset) as cluster, system_over(cluster) as system:
        yield system


def large_ways_of(seed: int) -> AbstractContextManager[None]:
    """As `large_ways`: as the seed of a dataset says."""
    return large_ways(Random(f"large ways {seed}"), {**QUERY_LIMITS, **STATE_LIMITS})


def state_options_of(seed: int) -> StateOptions:
    """As `state_options`, likewise."""
    return state_options(Random(f"state {seed}"))


@contextmanager
def cluster_in(dataset: Dataset) -> Iterator[Cluster]:
    """Hosts with a dataset: in memory, or for one dataset in four with partitions in RocksDB, written in
    several epochs. In every second one merges read rows as they come.
    """
    hosts = host_names(dataset.hosts)
    definitions = [store.definition for store in dataset.stores]
    options = FLOWING if dataset.seed % 2 else SMALL
    with ExitStack() as resources:
        resources.enter_context(large_ways_of(dataset.seed))
        if dataset.seed % 4 == 3:
            follow = FollowerOptions(poll_seconds=POLL_SECONDS, state=state_options_of(dataset.seed))
            directory = Path(resources.enter_context(TemporaryDirectory()))
            changelog, newest = write_epochs(dataset, directory / "changelog")
            cluster = resources.enter_context(
                following_cluster(
                    changelog, directory / "data", hosts, follow, options, clock=statement_clock
                )
            )
            cluster.wait_for(newest, WAIT_SECONDS)
        else:
            cluster = resources.enter_context(
                memory_cluster(definitions, dataset.live, hosts, dataset.dead, options, statement_clock)
            )
        yield cluster


@contextmanager
def system_over(cluster: Cluster) -> Iterator[ClusterSystem]:
    """A cluster as what is tested."""
    warnings = _Warnings()
    with ExitStack() as resources:
        # Stores of a few rows have their joined keys looked up, too.
        for limit in ("LEAST_ROWS", "LEAST_ROWS_A_KEY"):
            resources.enter_context(patch.object(joined_keys, limit, 1))
        for name in COORDINATOR_LOGS:
            logger = logging.getLogger(name)
            logger.addHandler(warnings)
            resources.callback(logger.removeHandler, warnings)
        yield ClusterSystem(cluster, warnings)


def write_epochs(dataset: Dataset, directory: Path) -> tuple[Changelog, Mapping[GroupName, Epoch]]:
    """A dataset in a changelog, all its epochs."""
    changelog = Changelog.open(str(directory))
    *_, newest = epochs_of(dataset, changelog)
    return changelog, newest


def epochs_of(dataset: Dataset, changelog: Changelog) -> Iterator[Mapping[GroupName, Epoch]]:
    """Write a dataset: the dead rows first, then half of the live ones, then the others and tombstones for
    what is dead and gone.

    Yields:
        The newest epoch of each group, each time all groups have one more.
    """
    written = []
    for group in sorted({store.definition.group for store in dataset.stores}):
        stores = [store for store in dataset.stores if store.definition.group == group]
        appender = open_appender(changelog, [store.definition for store in stores])
        written.append((appender, stores, [_epochs(store) for store in stores]))
    for place in range(EPOCHS):
        newest = {}
        for appender, stores, tables in written:
            rows: dict[str, pa.Table] = {
                store.definition.name: each[place] for store, each in zip(stores, tables, strict=True)
            }
            appender.append(rows, tombstone_column=REMOVED)
            newest[GroupName(stores[0].definition.group)] = appender.epoch
        yield newest


def write_on(changelog: Changelog, dataset: Dataset, *, rewrites: bool = False) -> Mapping[GroupName, Epoch]:
    """One more epoch in each group, after which the rows are the same: without any, as a migration needs one
    to take effect, or with all of them once more, so that there is something to compact.
    """
    newest = {}
    known = changelog.definitions()
    for group in sorted({store.definition.group for store in dataset.stores}):
        stores = [store for store in dataset.stores if store.definition.group == group]
        appender = open_appender(changelog, [known[store.definition.name] for store in stores])
        rows: dict[str, pa.Table] = {store.definition.name: store.live for store in stores}
        appender.append(rows if rewrites else {})
        newest[GroupName(group)] = appender.epoch
    return newest


def _epochs(store: Store) -> tuple[pa.Table, pa.Table, pa.Table]:
    half = store.live.num_rows // 2
    key = list(store.definition.key)
    keys = set(rows_of(store.live.select(key)))
    gone = pa.array([row not in keys for row in rows_of(store.dead.select(key))], pa.bool_())
    last = pa.concat_tables(
        [_mark(store.live.slice(half), removed=False), _mark(store.dead.filter(gone), removed=True)]
    )
    return _mark(store.dead, removed=False), _mark(store.live.slice(0, half), removed=False), last


def rows_at_epochs(dataset: Dataset) -> list[Mapping[str, pa.Table]]:
    """The rows of each store after each of the epochs that `epochs_of` writes."""
    found: list[dict[str, pa.Table]] = [{} for _ in range(EPOCHS)]
    for store in dataset.stores:
        written = pa.concat_tables(_epochs(store))
        ends = accumulate(table.num_rows for table in _epochs(store))
        keys = [tuple(row.values()) for row in written.select(list(store.definition.key)).to_pylist()]
        removed = written[REMOVED].to_pylist()
        for place, end in enumerate(ends):
            newest = {key: row for row, key in enumerate(keys[:end])}
            live = sorted(row for row in newest.values() if not removed[row])
            rows = written.take(pa.array(live, pa.int64())).select(store.definition.schema.names)
            found[place][store.definition.name] = rows
    return [*found]


def _mark(rows: pa.Table, *, removed: bool) -> pa.Table:
    return rows.append_column(REMOVED, pa.array([removed] * rows.num_rows, pa.bool_()))
