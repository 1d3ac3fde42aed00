"""What a host has refused leaves nothing behind."""

from __future__ import annotations

import gc
import re
import types
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fuzz.calls import Caller
from tests.fuzz.statements import statement_call
from tests.support.seeds import seeded_random

_OURS = re.compile(r"/(?:engine|flight_server)/")
MARK = "what_nobody_keeps"
REFUSED = {
    "no column": f"SELECT {MARK} FROM songs",
    "no store": f"SELECT 1 FROM {MARK}",
    "syntax": f"SELECT '{MARK}' FROM FROM",
    "too long": f"SELECT '{MARK}', {'(a + ' * 500}",
    "fails while it runs": f"SELECT CAST(title || '{MARK}' AS INT) FROM songs",
    "fails in a worker": f"SELECT CAST(repeat('{MARK}', plays::INT) AS INT) FROM songs",
    "runs out of time": f"SELECT count(*), '{MARK}' FROM big a, big b, big c",
    "long and out of time": f"SELECT '{MARK}', {', '.join(f'a + {number}' for number in range(30_000))}",
}


@contextmanager
def garbage() -> Iterator[list[object]]:
    """Puts what is garbage by cycles at the end of the block into a list."""
    gc.collect()
    gc.disable()
    found: list[object] = []
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def holders(found: list[object]) -> set[str]:
    """The variables of functions that hold the errors among what is garbage."""
    kept = set()
    for error in found:
        if isinstance(error, BaseException):
            for holder in gc.get_referrers(error):
                if isinstance(holder, types.FrameType) and _OURS.search(holder.f_code.co_filename):
                    where = f"{holder.f_code.co_filename}:{holder.f_code.co_name}"
                    kept |= {f"{where} {name}" for name, value in holder.f_locals.items() if value is error}
    return kept


@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED)
def test_an_error_does_not_keep_its_statement(uri: str, sql: str) -> None:
    rpcs = set()
    with garbage() as found:
        caller = Caller(uri)
        for seed in range(40):
            call = statement_call("sql", seed, "", sql, seeded_random(f"refused {seed}"), 0.5)
            rpcs.add(call.rpc)
            caller.send(call, 20.0)
        caller.close()
        del caller, call
    assert len(rpcs) >= 3
    assert holders(found) == set()
