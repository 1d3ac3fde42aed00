"""Statements over values that are nested deeply, run one by one with a small stack until one ends the
process: `python -m tests.unit.exec.deep_values 0` prints the number of each before it runs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import duckdb

from engine.duckdb.growth import needs_worker
from engine.sql.functions import is_refused
from tests.unit.exec.test_growth import samples

DEPTH = 50_000
STACK_BYTES = 512 << 10
"""What a thread of the engine has in a host is 16 times as much, and values there 40 times as deep."""
LISTS, OBJECTS = "s", "o"
"""Columns with JSON: `[[[]]]` and `{"a":{"a":1}}`."""
TYPES = (
    *("BIGNUM", "BIT", "BLOB", "BOOLEAN", "DATE", "DECIMAL(10, 2)", "DOUBLE", "ENUM('a')", "GEOMETRY"),
    *("HUGEINT", "INT", "INT[]", "INT[3]", "INTERVAL", "JSON", "JSON[]", "MAP(VARCHAR, JSON)"),
    *("STRUCT(a JSON)", "STRUCT(a STRUCT(a JSON))", "TIME", "TIMESTAMP", "UNION(a JSON, b INT)", "UUID"),
    *("VARCHAR", "VARCHAR[]", "VARIANT"),
)
LONG_FOR_LONG_TEXTS = {
    *("make_timestamptz", "regexp_extract", "regexp_extract_all", "regexp_matches", "regexp_split_to_table"),
    *("time_bucket", "timezone"),
}
"""What takes a second and more, and follows no JSON."""
OTHERS = (
    "{}::JSON->'$.a'",
    "{}::JSON->>'$[0]'",
    "{}::JSON['a']",
    "{}::JSON = {}::JSON",
    "'a' ~ {}",
    "{} LIKE {}",
    "{} SIMILAR TO {}",
    "{} GLOB {}",
    "(SELECT count(*) FROM json_each({}))",
    "(SELECT {}::JSON AS j ORDER BY j)",
    "(SELECT DISTINCT {}::JSON)",
)


def statements() -> list[str]:
    """All statements, of which none needs a worker: functions of text and JSON, casts and operators."""
    with duckdb.connect() as connection:
        found = connection.execute("""
            SELECT DISTINCT function_name, parameter_types, varargs FROM duckdb_functions()
            WHERE function_type IN ('scalar', 'macro', 'aggregate') AND internal ORDER BY ALL
        """).fetchall()
    expressions = [
        f"{column}::{kind}" for kind in TYPES for column in (f"{LISTS}::JSON", f"{OBJECTS}::JSON", LISTS)
    ]
    expressions += [form.replace("{}", column) for form in OTHERS for column in (LISTS, OBJECTS)]
    for name, types, more in found:
        if name in LONG_FOR_LONG_TEXTS or is_refused(name):
            continue
        kinds = [*(types or ()), *([more] * 2 if more else ())]
        expressions += [f'"{name}"({", ".join(arguments)})' for arguments in _argument_lists(kinds)]
    made = (f"SELECT {expression} AS v FROM t" for expression in dict.fromkeys(expressions))
    return [sql for sql in made if not needs_worker(sql)]


def _argument_lists(kinds: Sequence[str | None]) -> Iterator[list[str]]:
    """Arguments with a deep value in one place, and with one in each."""
    for column in (LISTS, OBJECTS):
        deep = [f"{column}::{'VARCHAR' if kind == 'VARCHAR' else 'JSON'}" for kind in kinds]
        takes_any = [_takes_text(kind) for kind in kinds]
        for small in (0, -1):
            few = [
                next(each for each in samples(kind)[small:] if "lambda" not in each or _is_lambda(kind))
                for kind in kinds
            ]
            yield [a if takes else b for a, b, takes in zip(deep, few, takes_any, strict=True)]
            for place, takes in enumerate(takes_any):
                if takes:
                    yield [*few[:place], deep[place], *few[place + 1 :]]


def _takes_text(kind: str | None) -> bool:
    return kind is None or kind in {"ANY", "JSON", "VARCHAR", "VARIANT", "T", "K", "V"}


def _is_lambda(kind: str | None) -> bool:
    return kind is not None and kind.startswith("LAMBDA")


def _run(begin: int) -> None:
    with duckdb.connect(config={"memory_limit": "800MB", "threads": "1"}) as connection:
        connection.execute(f"""
            CREATE TABLE t AS SELECT repeat('[', {DEPTH}) || repeat(']', {DEPTH}) AS {LISTS},
            repeat('{{"a":', {DEPTH}) || '1' || repeat('}}', {DEPTH}) AS {OBJECTS}
        """)
        for number, sql in enumerate(statements()[begin:], begin):
            print(number, flush=True)
            with suppress(duckdb.Error):
                connection.execute(f"SELECT count(v) FROM ({sql})").fetchall()


if __name__ == "__main__":
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=_run, args=(int(sys.argv[1]),))
    thread.start()
    thread.join()
