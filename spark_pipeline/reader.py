"""`spark.read.format("livestate")`: a store, or the result of a query, as a frame.

The driver has one host plan the read: which epoch of each store group, and for each partition a ticket and
the hosts that can answer it. Every task reads one partition as Arrow batches from a host that holds it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from engine.errors import InvalidInput, LivestateError, Unavailable, Unsupported
from engine.model.sql_types import quote_identifier
from flight_server.client.connection import HostLostError
from spark_pipeline import lease, python_workers
from spark_pipeline.host_calls import HOST_SECONDS, ReaderConnection, ReadPlan
from spark_pipeline.reader_options import ReaderOptions, parse_options
from spark_pipeline.settings import PUSHDOWN_SETTING
from spark_pipeline.type_mapping import spark_schema

_PAUSES_SECONDS = (0.05, 0.2, 1.0, 2.0)
"""Before a read is planned anew, because a host went away meanwhile or had let go of the epoch: hosts plan by
reports, which are a moment old.
"""


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("livestate")` known to a session. Where livestate is installed, Spark finds it
    by itself, too (`pyspark_livestate`).

    ```python
    spark_pipeline.register(spark)
    plays = spark.read.format("livestate").option("uri", "grpc://host:8815").option("store", "plays").load()
    ```

    Args:
        spark: The session. Its setting `spark.sql.python.filterPushdown.enabled` is turned on: with it frames
            that have conditions are planned anew for each use, so that each batch of a stream reads the
            newest epoch.
    """
    spark.conf.set(PUSHDOWN_SETTING, "true")
    spark.dataSource.register(LiveStateSource)


class LiveStateSource(DataSource):
    """Reads stores and queries of livestate hosts. Spark makes one for each `load`."""

    _names: Sequence[str] = ()
    """The statement's columns, once a host has said them."""

    @classmethod
    def name(cls) -> str:
        """What `format` is told."""
        return "livestate"

    def schema(self) -> StructType:
        """The columns; a host is asked for them.

        Raises:
            LivestateError: Options, statement or host are not as they should be, as kind and message say.
        """
        try:
            options = parse_options(self.options)
            schema = spark_schema(_fetch_plan(options, _command(options, options.sql)).schema)
        except LivestateError as error:
            _refuse(error)
        self._names = schema.names
        python_workers.keep_modules()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the rows.

        Args:
            schema: The columns to read: all, or those that the user gave to `spark.read.schema`.
        """
        try:
            options = parse_options(self.options)
        except LivestateError as error:
            _refuse(error)
        return LiveStateReader(options, schema, is_whole=schema.names == self._names)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse to write: a store is its key as well, which a frame does not say."""
        _refuse(
            Unsupported(
                "The data source livestate only reads: write a frame with spark_pipeline.write_store, and a "
                "stream with foreachBatch(LiveStateSink(…))."
            )
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802  as PySpark calls it
        """Refuse to write a stream, as `writer`."""
        self.writer(schema, overwrite)


@dataclass
class StorePartition(InputPartition):
    """Rows that one task reads.

    Attributes:
        plan: All of the read.
        number: Which of its shares.
    """

    plan: ReadPlan
    number: int


class LiveStateReader(DataSourceReader):
    """Plans a read on the driver, and does it in tasks.

    It leaves all conditions to Spark (`pushFilters` stays as it is): Spark 4.3 keeps one plan for all uses of
    a frame, so that rows left out for one use would be missing in the others.

    Args:
        options: What is read, and where.
        schema: The columns.
        is_whole: They are all that the statement gives.
    """

    def __init__(self, options: ReaderOptions, schema: StructType, is_whole: bool) -> None:
        self._options = options
        self._schema = schema
        self._is_whole = is_whole

    def partitions(self) -> Sequence[InputPartition]:
        """One partition for each of the store's that can have rows.

        Raises:
            LivestateError: The statement cannot be read, as kind and message say.
        """
        try:
            plan = self._plan()
        except LivestateError as error:
            _refuse(error)
        python_workers.keep_modules()
        # Spark makes a partition of its own where there is none.
        return [StorePartition(plan, number) for number in range(max(1, len(plan.shares)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, from the first of its hosts that answers.

        Raises:
            LivestateError: None of them can give it, as kind and message say.
        """
        assert isinstance(partition, StorePartition)
        if not partition.plan.shares:
            return
        expected = to_arrow_schema(self._schema, timezone="UTC")
        places = self._places(partition.plan.schema)
        try:
            with lease.Lease(partition.plan, self._options) as task_lease:
                for batch in _rows(partition, self._options, task_lease):
                    yield _fit_types(batch, expected, places)
        except LivestateError as error:
            _refuse(error)
        python_workers.keep_modules()

    def _plan(self) -> ReadPlan:
        command = {**_command(self._options, self._sql()), "endpoints": "partitions"}
        for pause in (*_PAUSES_SECONDS, None):
            plan = _fetch_plan(self._options, command)
            if self._asks_for_all and plan.schema.names != self._schema.names:
                named = f"{', '.join(plan.schema.names)} now, and not {', '.join(self._schema.names)}"
                raise InvalidInput(f"The query gives the columns {named}: load the frame anew.")
            _check_columns([plan.schema.field(place) for place in self._places(plan.schema)], self._schema)
            plan, refusal = lease.take_lease(plan, self._options)
            if all(share.uris for share in plan.shares):
                return plan
            if pause is None:
                break
            time.sleep(pause)
        assert refusal is not None
        raise refusal

    @property
    def _asks_for_all(self) -> bool:
        """Whether the columns are not named. Those of a store are: it may have others by the time that the
        frame is used.
        """
        return self._is_whole and not self._options.store

    def _sql(self) -> str:
        """The statement that gives the columns. A query stays as it is: it need not be one that stands in
        parentheses, and its columns are chosen from the answer.
        """
        if not self._options.store:
            return self._options.sql
        columns = ", ".join(quote_identifier(name) for name in self._schema.names)
        return f"SELECT {columns} FROM {quote_identifier(self._options.store)}"

    def _places(self, found: pa.Schema) -> Sequence[int]:
        """Where the columns are in the answer.

        Raises:
            InvalidInput: A query does not give one of them, or gives it twice.
        """
        if self._is_whole or self._options.store:
            return range(len(found))
        return [_place(found.names, name) for name in self._schema.names]


def _command(options: ReaderOptions, sql: str) -> dict[str, object]:
    timeout = {} if options.timeout_seconds is None else {"timeout": options.timeout_seconds}
    return {"sql": sql, **options.read_point, **timeout}


def _fetch_plan(options: ReaderOptions, command: dict[str, object]) -> ReadPlan:
    """What the first host says that answers, and takes statements: one that drains does not."""
    refusal: Unavailable | None = None
    deadline = time.monotonic() + (options.timeout_seconds or HOST_SECONDS)
    for each in options.connection.hosts:
        try:
            with ReaderConnection(each, options.timeout_seconds) as host:
                host.hold({}, lease.LEASE_SECONDS)
                return host.plan(command)
        except Unavailable as error:
            # What a host says tells more than that another one is gone.
            if refusal is None or isinstance(refusal, HostLostError):
                refusal = error
            if not isinstance(error, HostLostError) and time.monotonic() >= deadline:
                # It has waited for all that time for what others lack as well.
                break
    assert refusal is not None
    raise refusal


def _rows(
    partition: StorePartition, options: ReaderOptions, task_lease: lease.Lease
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, from the first host that gives any."""
    refusal: Unavailable | None = None
    plan = partition.plan
    share = plan.shares[partition.number]
    for uri in share.uris:
        begun = False
        try:
            with ReaderConnection(options.connection.with_uri(uri), options.timeout_seconds) as host:
                # Says in no time whether the host is there and has the epochs, and that they are still
                # needed.
                host.hold(plan.epochs, lease.LEASE_SECONDS)
                for batch in task_lease.rows_of(uri, host.rows(share.ticket)):
                    begun = True
                    yield batch
        except Unavailable as error:
            if begun:
                raise Unavailable(
                    f"{error.message} A part of its rows was read; Spark may try the task again."
                ) from None
            refusal = error
        else:
            return
    assert refusal is not None
    if isinstance(refusal, HostLostError):
        raise refusal
    raise Unavailable(
        f"{refusal.message} Hosts keep the epoch of a frame that is used at least once a minute, unless they "
        "restart: load it anew."
    )


def _place(names: Sequence[str], wanted: str) -> int:
    """Where a column is; SQL does not tell upper from lower case."""
    places = [place for place, name in enumerate(names) if name.lower() == wanted.lower()]
    if len(places) != 1:
        raise InvalidInput(
            f"The query must give the column {wanted} once; it gives {', '.join(names)}: load the frame with "
            "a schema of these."
        )
    return places[0]


def _check_columns(found: Sequence[pa.Field], wanted: StructType) -> None:
    """Whether rows of a statement are what Spark was told, as a schema of the user's or a changed store may
    not be.
    """
    given = spark_schema(pa.schema(found))
    for there, asked in zip(given.fields, wanted.fields, strict=True):
        if there.dataType != asked.dataType:
            raise InvalidInput(
                f"Column {asked.name} is of type {there.dataType.simpleString()}, not "
                f"{asked.dataType.simpleString()}: load the frame with that type."
            )


def _fit_types(batch: pa.RecordBatch, expected: pa.Schema, places: Sequence[int]) -> pa.RecordBatch:
    """The columns of a batch at some places, with exactly the types that Spark expects: wider integers, and
    other names inside of lists.
    """
    chosen = [batch.column(place) for place in places]
    columns = [
        column if column.type.equals(field.type, check_metadata=True) else column.cast(field.type)
        for column, field in zip(chosen, expected, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=expected)


def _refuse(error: LivestateError) -> NoReturn:
    """Raise an error anew, so that Spark shows its sentence, and not the lines that it passed on its way,
    which help no user.

    A process of Spark's that this variable is set in tells the error alone
    (`pyspark.util.handle_worker_exception`), and then ends.
    """
    if python_workers.runs_here():
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    raise error.with_traceback(None) from None
