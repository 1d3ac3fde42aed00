"""Statements to run, made of what clients send, and bound again where stores are something else than they
were bound with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter

import pyarrow as pa

from engine.deadline import Deadline
from engine.duckdb.engine import Outputs
from engine.errors import InvalidInput
from engine.exec.argument_maker import ArgumentMaker
from engine.exec.fallbacks import REFUSALS
from engine.exec.local_executor import LocalExecutor
from engine.model.schema import GroupName
from engine.model.table_shapes import ExpectedShapes
from engine.plan.arguments import Given, parameter_values
from engine.plan.values import Arguments
from engine.sql.parsed_statement import StatementClass
from engine.statements.request import Request
from engine.statements.session import Session
from engine.statements.statement_cache import ReadyText
from engine.statements.texts import Texts, refuse_outdated, switched_names
from engine.telemetry.spans import span

LONG_SECONDS = 0.005
"""What takes longer may have outlived its caller, who is asked then: Flight takes 0.1 ms to answer."""


class OtherTypesError(InvalidInput):
    """Values were taken out of a text for columns of other types than these have at the epochs that are read:
    the text says what it means there as it is written.
    """


class Requests:
    """Makes requests. Safe for threads.

    Args:
        texts: Makes their texts ready.
        local: Tells their columns.
        arguments: Makes what they are used with.
    """

    def __init__(self, texts: Texts, local: LocalExecutor, arguments: ArgumentMaker) -> None:
        self._texts = texts
        self._local = local
        self._arguments = arguments

    def make(
        self,
        text: str,
        parameters: Given,
        session: Session,
        deadline: Deadline,
        expected_shapes: ExpectedShapes | None,
        written: str | None = None,
        started: float | None = None,
    ) -> Request:
        """A statement to run.

        Args:
            text: The text.
            parameters: The values of its parameters.
            session: What the client chose.
            deadline: When it must end.
            expected_shapes: What its names meant when the client was told its columns; None where it was not.
            written: What the client wrote, where values were taken out of it; None where that is the text.
            started: When it came, by `time.perf_counter`; None for now.

        Returns:
            The statement: with what its names mean now, or where its columns are others so, with what they
            meant then.

        Raises:
            LivestateError: It is not valid, as kind and message say.
        """
        begun = perf_counter()
        with span("parse"):
            ready, resolved = self._texts.ready_text(
                text, session.dialect, session.read_point, deadline, session.user
            )
        if perf_counter() - begun > LONG_SECONDS:
            deadline.check()
        arguments, misfit = self.fit_arguments(ready, parameters, deadline)
        request = Request(
            session.dialect,
            ready,
            arguments,
            deadline,
            begun if started is None else started,
            resolved,
            given=parameters,
            has_expected_shapes=expected_shapes is not None,
            written=written,
            misfit=misfit,
        )
        if expected_shapes is not None:
            request = self.keep_expected_shapes(request, expected_shapes)
        if request.misfit is not None and not request.asks_for_epochs:
            raise InvalidInput(request.misfit)
        return request

    def keep_expected_shapes(self, request: Request, expected_shapes: ExpectedShapes) -> Request:
        """A request whose columns are those that were told.

        Args:
            request: A statement with what its names mean now.
            expected_shapes: What they meant when its columns were told.

        Returns:
            The same, if what has changed since does not matter to its columns, nor to what may be given for
            its parameters; else the statement with what its names meant then.

        Raises:
            InvalidInput: A name means another store now, and the columns are others, or epochs were chosen
                for the one before.
        """
        statement = request.statement
        if request.read_point.pinned and switched_names(expected_shapes, statement.bound):
            # The columns may be the same, and the rows are others than those of the epochs that were told.
            raise refuse_outdated(expected_shapes, statement.bound)
        if (
            expected_shapes == statement.bound.shapes
            or statement.bound.statement_class is not StatementClass.QUERY
            or not statement.has_fixed_columns
        ):
            return request
        ready = self._texts.rebind_as_expected(
            request.ready, request.dialect, expected_shapes, request.deadline
        )
        if ready is None:
            raise refuse_outdated(expected_shapes, statement.bound)
        before = self._replace_text(request, ready)
        if request.misfit is None and self._columns(before) == self._columns(request):
            return request
        if ready.statement.bound.stores != statement.bound.stores:
            raise refuse_outdated(expected_shapes, statement.bound)
        return before

    def has_same_columns(self, other: Request, request: Request) -> bool:
        """Whether a request that was bound again has the columns of the request that it was made of, as far
        as they can be told without its rows.

        Args:
            other: The request bound again.
            request: The request.

        Raises:
            LivestateError: One of them is not valid, as kind and message say.
        """
        outputs = self._local.bind(other).outputs
        return outputs is None or outputs == self._local.bind(request).outputs

    def _columns(self, request: Request) -> Outputs | None:
        """The columns of a request; None where it is not valid, which the engine tells of all of it."""
        try:
            return self._local.bind_on_engine(request).outputs
        except REFUSALS:
            return None

    def rebind(self, request: Request, generations: Mapping[GroupName, int]) -> Request | None:
        """A request with what its stores are where other numbers of amendments are in effect.

        Args:
            request: The request.
            generations: How many amendments of each store group are in effect at the epochs that it would
                read.

        Returns:
            The request; None if it means nothing there.

        Raises:
            OtherTypesError: Values were taken out of its text, which means something else there.
            LivestateError: It asks for just these epochs and means nothing there, or it is not known what the
                stores are there.
        """
        try:
            found = self._replace_text(
                request, self._texts.rebind_at(request.ready, request.dialect, generations, request.deadline)
            )
            self._local.bind_on_engine(found)
        except OtherTypesError:
            raise
        except REFUSALS:
            if any(request.read_point.group_as_of(group) is not None for group in generations):
                raise
            return None
        return found

    def _replace_text(self, request: Request, ready: ReadyText) -> Request:
        """A request whose text was bound again; its time stays the same."""
        statement, wanted = ready.statement, request.statement.bound.statement_class
        if statement.bound.statement_class is not wanted:
            bound = replace(statement.bound, statement_class=wanted)
            ready = replace(ready, statement=replace(statement, bound=bound))
        if request.given is None:
            arguments = self.arguments_without_values(ready, request.deadline, request.time)
        else:
            if request.written is not None and _parameter_types(ready) != _parameter_types(request.ready):
                raise OtherTypesError("Values of the text are for columns of other types.")
            values = parameter_values(statement.bound.parameters, request.given)
            arguments = self._arguments.make(
                ready.statement, values, ready.lists, request.deadline, request.time
            )
        return replace(request, ready=ready, arguments=arguments, misfit=None)

    def fit_arguments(
        self, ready: ReadyText, parameters: Given, deadline: Deadline
    ) -> tuple[Arguments, str | None]:
        """What a text is used with, and why values are not those of its parameters; None where they are.

        Args:
            ready: The text.
            parameters: The values of its parameters.
            deadline: When it must end.
        """
        try:
            values = parameter_values(ready.statement.bound.parameters, parameters)
        except InvalidInput as error:
            return self.arguments_without_values(ready, deadline), error.message
        return self._arguments.make(ready.statement, values, ready.lists, deadline), None

    def arguments_without_values(
        self, ready: ReadyText, deadline: Deadline, time: pa.Scalar | None = None
    ) -> Arguments:
        """What a text is used with where a client gives no values: nothing, if it has parameters, so that
        only its columns can be told.

        Args:
            ready: The text.
            deadline: When it must end.
            time: The statement's time; None for now.
        """
        if ready.statement.bound.parameters:
            return Arguments(lists=ready.lists)
        return self._arguments.make(ready.statement, (), ready.lists, deadline, time)


def _parameter_types(ready: ReadyText) -> list[pa.DataType | None]:
    return [slot.type for slot in ready.statement.bound.parameters]
