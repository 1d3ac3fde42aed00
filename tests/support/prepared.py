"""Statements that were prepared, run as the server runs what a handle says of them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from engine.service import PreparedStatement, QueryResult, QueryService, Session


def execute_prepared(
    service: QueryService,
    prepared: PreparedStatement,
    parameters: pa.RecordBatch | None = None,
    session: Session | None = None,
) -> QueryResult:
    """Run a statement so that its columns are those that were told.

    Args:
        service: Runs it.
        prepared: What `QueryService.prepare` gave, maybe of another host.
        parameters: One row with a column a parameter; None for no parameters.
        session: The client's choices.
    """
    session = replace(session or Session(), dialect=prepared.dialect)
    return service.execute(prepared.sql, parameters, session, expected_shapes=prepared.shapes)
