"""Room for long texts: parsers and planners recurse on the native stack, which must not run out.

sqlglot's compiled parser takes up to 650 bytes of stack for each token that nests the next one (measured on
all productions that were found to do so). What is known to nest is limited (`engine.sql.tokens`); the room is
for what is not known.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from engine.model.schema import StoreDefinition, StoreName
from engine.plan.statement import ReadyStatement, make_ready
from engine.sql.literals import LiftedText
from engine.sql.tokens import MAX_TOKENS
from engine.sql.versions import NO_MOMENTS, Moments

SHORT_TEXT = 2000
"""Characters of a text that any thread has stack enough for."""
STACK_BYTES = MAX_TOKENS * 2600
"""Address space; memory is only what is used of it."""
_starting = threading.Lock()


def ready_statement(
    lifted: LiftedText,
    dialect: str,
    tables: Mapping[StoreName, StoreDefinition],
    *,
    all_columns: bool = False,
    moments: Moments = NO_MOMENTS,
) -> ReadyStatement:
    """Make a statement ready, on a thread with a stack of its own if its text is long.

    Args:
        lifted: As for `engine.plan.statement.make_ready`, and so are all others.
        dialect: Dialect of the text.
        tables: The store that each name means.
        all_columns: Read all columns of every store.
        moments: For which moments versioned stores are to be read.

    Returns:
        The statement.

    Raises:
        LivestateError: As `make_ready`.
    """
    if len(lifted.source.text) <= SHORT_TEXT:
        return make_ready(lifted, dialect, tables, all_columns=all_columns, moments=moments)
    made: Future[ReadyStatement] = Future()
    work = partial(_fulfil, made, lifted, dialect, tables, all_columns, moments)
    with _starting:
        # The size holds for all threads that start meanwhile, too.
        threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=work, name="livestate-long-text", daemon=True).start()
        finally:
            threading.stack_size(0)
    return made.result()


def _fulfil(
    made: Future[ReadyStatement],
    lifted: LiftedText,
    dialect: str,
    tables: Mapping[StoreName, StoreDefinition],
    all_columns: bool,
    moments: Moments,
) -> None:
    try:
        made.set_result(make_ready(lifted, dialect, tables, all_columns=all_columns, moments=moments))
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
        made.set_exception(error)
