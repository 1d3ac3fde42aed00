"""What a streaming query's output mode says of its rows, against what its stores make of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from engine.errors import InvalidInput
from engine.model.kinds import Function, Merge, Session
from spark_pipeline.outputs import OutputMode, StoreOutput

_LOG = logging.getLogger(__name__)
_ADDING = (Function.SUM, Function.COUNT, Function.AVG, Function.QUANTILES)
"""Functions for which it matters how often a value comes."""


def check_output_mode(outputs: Sequence[StoreOutput], output_mode: str, *, is_aggregated: bool) -> None:
    """See that stores which take a batch as it is are right with the output mode of the query. What a `query`
    of theirs makes of a batch is not known.

    Args:
        outputs: The stores.
        output_mode: The query's, named as Spark names it.
        is_aggregated: Whether rows of the query are aggregates that change with later events.

    Raises:
        InvalidInput: Rows would be lost, or counted again in each batch.
    """
    mode = OutputMode(output_mode.lower())
    for output in outputs:
        if output.query is not None:
            continue
        if mode is not OutputMode.APPEND and is_aggregated and _adds_up(output):
            raise InvalidInput(
                f"Store {output.store} adds up what comes, and in output mode {mode} the query gives the "
                "total of a key again whenever it changes: give the store the events, without groupBy, or "
                "leave its kind out."
            )
        if mode is OutputMode.UPDATE and is_aggregated and output.mode == OutputMode.COMPLETE:
            raise InvalidInput(
                f'Store {output.store} has the rows of the newest batch alone with mode="complete", and in '
                "output mode update that batch has only the rows that changed: use the output mode complete, "
                "or leave mode out."
            )
        if mode is OutputMode.COMPLETE and output.mode != OutputMode.COMPLETE and not output.tombstones:
            _LOG.warning(
                "The query gives its whole result in each batch (output mode complete), and store %s keeps "
                'rows that are not in it any more: with mode="complete" they go.',
                output.store,
            )


def _adds_up(output: StoreOutput) -> bool:
    """Whether a row that comes again counts again."""
    columns = output.kind.columns if isinstance(output.kind, Merge | Session) else ()
    return output.mode != OutputMode.COMPLETE and any(column.function in _ADDING for column in columns)
