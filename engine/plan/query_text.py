"""A query as SQL text that another host, or the merge, can run: names, parameters and the types of what it reads made explicit.

A bound tree reads scans. What travels reads stores by name instead, and has only the parameters that it uses, numbered anew. Tables of other
fragments' rows come as Arrow, which some types do not survive; where they do not, the text casts them back to what they were.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from engine.errors import InvalidInput, Unsupported
from engine.schema import StoreName
from engine.sql.bind import SCHEMA, StoreReference
from engine.sql.parameters import with_types

_LOSSY = re.compile(r'HUGEINT|TIMESTAMP_S|TIMESTAMP_MS|ENUM|UUID|JSON|UNION|BIGNUM|VARIANT|BIT|"NULL"|\[\d+\]', re.IGNORECASE)
"""Types of DuckDB that come back from Arrow as another one (`engine.exec.results`); where a name only looks like one, a cast does no harm."""

_NULL = '"NULL"'
"""The type of a bare NULL."""


@dataclass(frozen=True)
class QueryText:
    """A query to run somewhere.

    Attributes:
        sql: One query in DuckDB's dialect; its parameters are `$1`, `$2`, ….
        places: For each of its parameters, the place of that parameter in the statement.
        tables: Names of the inputs and lists that it reads.
        stores: Names of the stores that it reads.
    """

    sql: str
    places: tuple[int, ...]
    tables: frozenset[str]
    stores: frozenset[StoreName]


@dataclass(frozen=True)
class ReadColumn:
    """A column of a table of rows.

    Attributes:
        name: Its name.
        type: The engine's name of the type that it had where the rows were made.
    """

    name: str
    type: str

    @property
    def survives(self) -> bool:
        """Whether Arrow keeps the type."""
        return _LOSSY.search(self.type) is None


def fragment_text(
    tree: exp.Query, references: Sequence[StoreReference], tables: Mapping[str, Sequence[ReadColumn]], lists: Sequence[str]
) -> QueryText:
    """A query over stores, as text.

    Args:
        tree: Reads scans, inputs and lists. It is not changed.
        references: The references whose scans it reads.
        tables: Columns of each input that it may read.
        lists: Names of the lists that it may read.

    Returns:
        Its text. Parameters have no types in it: they come with their values.

    Raises:
        Unsupported: It has something that cannot be written down for the engine.
        InvalidInput: It nests too deeply.
    """
    copy = tree.copy()
    scans = {reference.scan: reference.definition.name for reference in references}
    stores = set()
    for table in [each for each in copy.find_all(exp.Table) if each.name in scans]:
        name = scans[table.name]
        stores.add(name)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        # With its schema a name is never that of a common table expression.
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("db", exp.to_identifier(SCHEMA, quoted=True))
    read = _with_types_of_origin(copy, tables, lists)
    return QueryText(*_renumbered(copy), read, frozenset(stores))


def merge_text(
    tree: exp.Expr,
    tables: Mapping[str, Sequence[ReadColumn]],
    lists: Sequence[str],
    types: Sequence[pa.DataType],
    outputs: Sequence[ReadColumn] | None,
) -> QueryText:
    """The coordinator's query over fragments' rows, as text.

    Args:
        tree: Reads fragments' tables and lists. It is not changed.
        tables: Columns of each fragment's table.
        lists: Names of the lists that it may read.
        types: Types of the statement's parameters.
        outputs: Names and types that its columns shall have; None for those it has by itself.

    Returns:
        Its text; parameters are cast to their types.

    Raises:
        Unsupported: It has something that cannot be written down for the engine.
        InvalidInput: It nests too deeply.
    """
    typed = with_types(tree, types) if types else tree.copy()
    read = _with_types_of_origin(typed, tables, lists)
    sql, places = _renumbered(typed)
    return QueryText(sql if outputs is None else _given_types(sql, outputs), places, read, frozenset())


def _given_types(sql: str, outputs: Sequence[ReadColumn]) -> str:
    """A query whose columns get other types, by their places, since names may repeat. A projection keeps the order of rows."""
    columns = ", ".join(f"{_typed(_quoted(f'c{place}'), column.type)} AS {_quoted(column.name)}" for place, column in enumerate(outputs))
    return f"SELECT {columns} FROM ({sql}) AS merged({', '.join(_quoted(f'c{place}') for place in range(len(outputs)))})"


def _with_types_of_origin(tree: exp.Expr, tables: Mapping[str, Sequence[ReadColumn]], lists: Sequence[str]) -> frozenset[str]:
    """Make a query read its tables with the types that their columns had; tells which tables it reads."""
    known = {*tables, *lists}
    read = set()
    for table in [each for each in tree.find_all(exp.Table) if not each.db and each.name in known]:
        read.add(table.name)
        columns = tables.get(table.name, ())
        if all(column.survives for column in columns):
            continue
        cast: exp.Expr = exp.maybe_parse(_restored(table.name, columns), dialect="duckdb")
        alias = table.args.get("alias") or exp.TableAlias()
        if not alias.this:
            alias.set("this", exp.to_identifier(table.name, quoted=True))
        others = {name: value for name, value in table.args.items() if value and name in {"joins", "pivots", "sample"}}
        table.replace(exp.Subquery(this=cast, alias=alias, **others))
    return frozenset(read)


def _restored(name: str, columns: Sequence[ReadColumn]) -> str:
    outputs = ", ".join(
        _quoted(column.name) if column.survives else f"{_typed(_quoted(column.name), column.type)} AS {_quoted(column.name)}" for column in columns
    )
    return f"SELECT {outputs} FROM {_quoted(name)}"


def _typed(expression: str, kind: str) -> str:
    return "NULL" if kind == _NULL else f"CAST({expression} AS {kind})"


def _renumbered(tree: exp.Expr) -> tuple[str, tuple[int, ...]]:
    """The text of a query with its parameters numbered from 1, and the old place of each."""
    marks = list(tree.find_all(exp.Placeholder))
    places = sorted({int(mark.name) - 1 for mark in marks})
    for mark in marks:
        mark.set("this", str(places.index(int(mark.name) - 1) + 1))
    try:
        return str(tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)), tuple(places)
    except UnsupportedError as error:
        raise Unsupported(f"The statement has something that the engine lacks: {error}") from error
    except RecursionError as error:
        raise InvalidInput("The statement nests too deeply.") from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
