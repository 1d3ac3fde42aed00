"""Runs fragments over this host's partitions, for whichever host asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from engine.cluster.fragments import FragmentRequest
from engine.deadline import Deadline
from engine.duckdb.engine_errors import BindingError
from engine.errors import Corrupt, InvalidInput, LimitExceeded, Unavailable
from engine.exec.argument_maker import ArgumentMaker
from engine.exec.fragment_cache import FragmentCache
from engine.exec.local_executor import LocalExecutor
from engine.exec.query_result import QueryResult
from engine.exec.read_metadata import stale_seconds
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreName
from engine.scan import StoreSource
from engine.statements.pin import MigratedError, Pin
from engine.statements.request import Request
from engine.statements.shapes import Shapes
from engine.statements.statement_cache import ReadyText


class FragmentExecutor:
    """Runs fragments. Safe for threads.

    Args:
        source: The stores that are here.
        fragments: Makes fragments ready.
        shapes: Knows what stores are at which epochs.
        local: Answers from the stores that are here.
        arguments: Makes what fragments are used with.
    """

    def __init__(
        self,
        source: StoreSource,
        fragments: FragmentCache,
        shapes: Shapes,
        local: LocalExecutor,
        arguments: ArgumentMaker,
    ) -> None:
        self._source = source
        self._fragments = fragments
        self._shapes = shapes
        self._local = local
        self._arguments = arguments

    def execute(self, request: FragmentRequest, cancelled: Callable[[], bool] | None = None) -> QueryResult:
        """Run a fragment. It asks no other host for anything.

        Args:
            request: The fragment.
            cancelled: Tells, from any thread, whether nobody waits for it any more.

        Returns:
            The result; close it, or read it to its end.

        Raises:
            InvalidInput: It is not valid here.
            Unavailable: A partition or an epoch of it cannot be read here.
            LivestateError: It cannot be answered, as its kind and message say.
        """
        started = time.perf_counter()
        values = (
            () if request.parameters is None else tuple(column[0] for column in request.parameters.columns)
        )
        inputs = {name: _one_batch(table) for name, table in request.inputs.items()}
        deadline = Deadline(request.timeout_seconds, cancelled, engine_limit=request.engine_limit)
        try:
            bound = self._fragments.bind(
                request.sql,
                self._stores_of(request),
                {name: batch.schema for name, batch in inputs.items()},
                tuple(value.type for value in values),
                deadline,
            )
        except BindingError as error:
            raise InvalidInput(f"The engine refuses a fragment: {error}") from error
        if bound.statement.bound.catalog_tables:
            raise InvalidInput(
                "A fragment reads stores and its inputs alone: ask for information_schema, or for "
                "current_user, in a statement."
            )
        pin = Pin(request.epochs, request.partitions, request.digests)
        lookup = bound.statement.key_lookup
        try:
            if lookup is not None and lookup.is_key(key := values[0].as_py()):
                return self._local.row(lookup, key, pin, started, request.complete_until)
            ready = ReadyText(request.sql, bound.statement, inputs)
            arguments = self._arguments.make(bound.statement, values, inputs, deadline)
            result = self._local.answer(Request("duckdb", ready, arguments, deadline, started, pin=pin))
        except MigratedError as error:
            raise Unavailable(error.message) from error
        result.metadata = replace(result.metadata, stale_seconds=stale_seconds(request.complete_until))
        return result

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """Keep epochs readable here for fragments that are still to come, as `StoreSource.hold`."""
        self._source.hold(epochs, seconds)

    def _stores_of(self, request: FragmentRequest) -> Mapping[StoreName, StoreDefinition]:
        """What stores are to a fragment.

        Raises:
            InvalidInput: The changelog has no such migrations of them.
            Unavailable: It cannot be reached; or one was dropped and made anew since.
        """
        stores, generations = self._source.definitions(), request.generations
        read = {name: stores[name] for name in request.partitions if name in stores}
        for name, definition in read.items():
            if request.partitions[name] and definition.group not in request.epochs:
                raise Unavailable(
                    f"Store {name} was made anew in store group {definition.group} after the statement was "
                    "planned: try again."
                )
        try:
            # Nearly always they are what they are here now.
            if self._shapes.fit(read, generations):
                return stores
            found = self._source.definitions_of(
                {each.group: generations.get(each.group, 0) for each in read.values()}
            )
        except Corrupt as error:
            # A changelog that has lost something says so everywhere; a ticket may be one of another changelog
            # at this address, or made up.
            raise InvalidInput(
                "The changelog does not say what the stores of the fragment were when it was planned: plan "
                "the statement again."
            ) from error
        for name in read.keys() & found.keys():
            if found[name].since > generations.get(found[name].group, 0):
                # Another one of its name was planned with, whose columns this one may not have.
                raise Unavailable(f"Store {name} was dropped and made anew just now: try again.")
        return found


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise LimitExceeded(
            "An input of a fragment has a column of more than 2 GiB: ask for fewer rows or columns."
        )
    return (
        batches[0]
        if batches
        else pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in table.schema], schema=table.schema
        )
    )
