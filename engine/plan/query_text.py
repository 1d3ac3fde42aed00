"""A query as SQL text that another host, or the merge, can run: names, parameters and the types of what it
reads made explicit.

A bound tree reads scans. What travels reads stores by name instead, and has only the parameters that it uses,
numbered anew. Tables of other fragments' rows come as Arrow, which some types do not survive; where they do
not, the text casts them back to what they were.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError, UnsupportedError

from engine.errors import InvalidInput, Unsupported
from engine.model.schema import StoreName
from engine.model.sql_types import quote_identifier, sql_type
from engine.sql.bind import StoreReference
from engine.sql.engine_dialect import EngineDialect
from engine.sql.parameters import fix_types

_LOSSY = re.compile(
    r'HUGEINT|TIMESTAMP_S|TIMESTAMP_MS|ENUM|UUID|JSON|UNION|BIGNUM|VARIANT|BIT|TUPLE|"NULL"|\[\d+\]',
    re.IGNORECASE,
)
"""Types of DuckDB that come back from Arrow as another one (`engine.duckdb.results`); where a name only looks
like one, a cast does no harm.
"""

_NULL = '"NULL"'
"""The type of a bare NULL."""


@dataclass(frozen=True)
class QueryText:
    """A query to run somewhere.

    Attributes:
        sql: One query in DuckDB's dialect; its parameters are `$1`, `$2`, ….
        parameter_indexes: For each of its parameters, the index of that parameter in the statement.
        tables: Names of the inputs and lists that it reads.
        stores: Names of the stores that it reads.
    """

    sql: str
    parameter_indexes: tuple[int, ...]
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


class StandIn(Enum):
    """What stands for a parameter where a query is bound before there are values: the ways to try, the surest
    first. Of some functions of a NULL the engine takes another type than of values that it does not know.
    """

    SUBQUERY = "subquery"
    """A value that the engine does not know. It does not bind `max` of a structure with one in it."""
    VOLATILE = "volatile"
    """Another such value, which the engine takes there, but not where it wants no volatile functions."""
    CONSTANT = "constant"
    """A NULL, which the engine takes wherever it wants a constant."""


def text_over_scans(
    tree: exp.Expr, types: Sequence[pa.DataType | None], stand_in: StandIn = StandIn.SUBQUERY
) -> str:
    """A query as it stands, by which its columns can be told.

    Args:
        tree: Reads scans, inputs and lists. It is not changed.
        types: Types of the statement's parameters; None for one that the engine finds.
        stand_in: What parameters become.

    Returns:
        Its text, which reads scans and has no parameters.

    Raises:
        Unsupported: It has something that cannot be written down for the engine.
        InvalidInput: It nests too deeply.
    """
    if not types:
        return engine_text(tree)
    copy = tree.copy()
    for mark in list(copy.find_all(exp.Placeholder)):
        arrow_type = types[int(mark.name) - 1]
        is_null = arrow_type is None or pa.types.is_null(arrow_type)
        mark.replace(exp.null() if is_null else _stand_in(arrow_type, stand_in))
    return engine_text(copy, copy=False)


def _stand_in(arrow_type: pa.DataType, stand_in: StandIn) -> exp.Expr:
    null = exp.Cast(this=exp.null(), to=exp.DataType.build(sql_type(arrow_type), dialect="duckdb"))
    match stand_in:
        case StandIn.SUBQUERY:
            return exp.Subquery(this=exp.select(null))
        case StandIn.VOLATILE:
            return exp.Paren(
                this=exp.case().when(exp.GT(this=exp.Rand(), expression=exp.Literal.number(1)), null)
            )
        case StandIn.CONSTANT:
            return null


def fragment_text(
    tree: exp.Query,
    over_scans: str,
    references: Sequence[StoreReference],
    tables: Mapping[str, Sequence[ReadColumn]],
    lists: Sequence[str],
) -> QueryText:
    """A query over stores, as text.

    Args:
        tree: Reads scans, inputs and lists. It is not changed.
        over_scans: Its `text_over_scans`.
        references: The references whose scans it may read.
        tables: Columns of each input that it may read.
        lists: Names of the lists that it may read.

    Returns:
        Its text. Parameters have no types in it: they come with their values.

    Raises:
        Unsupported: It has something that cannot be written down for the engine.
        InvalidInput: It nests too deeply.
    """
    sql, parameter_indexes, read = _text_with_types(tree, over_scans, tables, lists)
    stores = set()
    for reference in references:
        scan = quote_identifier(reference.scan)
        if scan in sql:
            stores.add(reference.definition.name)
            # With its schema a name is never that of a common table expression.
            sql = sql.replace(scan, ".".join(map(quote_identifier, reference.table)))
    return QueryText(sql, parameter_indexes, read, frozenset(stores))


def merge_text(
    tree: exp.Expr,
    plain: str,
    tables: Mapping[str, Sequence[ReadColumn]],
    lists: Sequence[str],
    types: Sequence[pa.DataType],
    outputs: Sequence[ReadColumn] | None,
) -> QueryText:
    """The coordinator's query over fragments' rows, as text.

    Args:
        tree: Reads fragments' tables and lists. It is not changed.
        plain: Its `text_over_scans`.
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
    sql, parameter_indexes, read = _text_with_types(fix_types(tree, types), plain, tables, lists)
    return QueryText(
        sql if outputs is None else _given_types(sql, outputs), parameter_indexes, read, frozenset()
    )


def _text_with_types(
    tree: exp.Expr, plain: str, tables: Mapping[str, Sequence[ReadColumn]], lists: Sequence[str]
) -> tuple[str, tuple[int, ...], frozenset[str]]:
    """A query that reads tables with the types of their origin; the old indexes of its parameters; and which
    of the tables it reads.
    """
    known = {*tables, *lists}
    read = {table.name for table in tree.find_all(exp.Table) if not table.db and table.name in known}
    if (
        all(column.survives for name in read for column in tables.get(name, ()))
        and tree.find(exp.Placeholder) is None
    ):
        return plain, (), frozenset(read)
    copy = tree.copy()
    _restore_types(copy, tables)
    return *_renumbered_text(copy), frozenset(read)


def _given_types(sql: str, outputs: Sequence[ReadColumn]) -> str:
    """A query whose columns get other types, by their places, since names may repeat. A projection keeps the
    order of rows.
    """
    columns = ", ".join(
        f"{cast_text(quote_identifier(f'c{index}'), column.type)} AS {quote_identifier(column.name)}"
        for index, column in enumerate(outputs)
    )
    return (
        f"SELECT {columns} FROM ({sql}) AS "
        f"merged({', '.join(quote_identifier(f'c{index}') for index in range(len(outputs)))})"
    )


def _restore_types(tree: exp.Expr, tables: Mapping[str, Sequence[ReadColumn]]) -> None:
    """Make a query read its tables with the types that their columns had."""
    for table in [each for each in tree.find_all(exp.Table) if not each.db and each.name in tables]:
        columns = tables[table.name]
        if all(column.survives for column in columns):
            continue
        try:
            cast: exp.Expr = exp.maybe_parse(_with_types_restored(table.name, columns), dialect=EngineDialect)
        except SqlglotError as error:
            types = ", ".join(column.type for column in columns if not column.survives)
            raise Unsupported(f"The types {types} cannot be written down for a merge.") from error
        alias = table.args.get("alias") or exp.TableAlias()
        if not alias.this:
            alias.set("this", exp.to_identifier(table.name, quoted=True))
        others = {
            name: value
            for name, value in table.args.items()
            if value and name in {"joins", "pivots", "sample"}
        }
        table.replace(exp.Subquery(this=cast, alias=alias, **others))


def _with_types_restored(name: str, columns: Sequence[ReadColumn]) -> str:
    outputs = ", ".join(
        quote_identifier(column.name)
        if column.survives
        else f"{cast_text(quote_identifier(column.name), column.type)} AS {quote_identifier(column.name)}"
        for column in columns
    )
    return f"SELECT {outputs} FROM {quote_identifier(name)}"


def cast_text(expression: str, type_name: str) -> str:
    """An expression as a value of a type that the engine named."""
    return "NULL" if type_name == _NULL else f"CAST({expression} AS {type_name})"


def _renumbered_text(tree: exp.Expr) -> tuple[str, tuple[int, ...]]:
    """The text of a query with its parameters numbered from 1, which are changed in the tree, and the old
    index of each.
    """
    marks = list(tree.find_all(exp.Placeholder))
    parameter_indexes = sorted({int(mark.name) - 1 for mark in marks})
    for mark in marks:
        mark.set("this", str(parameter_indexes.index(int(mark.name) - 1) + 1))
    return engine_text(tree, copy=False), tuple(parameter_indexes)


def engine_text(tree: exp.Expr, *, copy: bool = True) -> str:
    """A tree as the engine reads it.

    Args:
        tree: A query.
        copy: The tree stays as it is.

    Raises:
        Unsupported: It has something that the engine lacks.
        InvalidInput: It nests too deeply, or is no SQL in another way.
    """
    try:
        return str(tree.sql(dialect=EngineDialect, unsupported_level=ErrorLevel.RAISE, copy=copy))
    except (UnsupportedError, ValueError) as error:
        # The latter for a kind of expression that sqlglot reads and does not write.
        raise Unsupported(f"The statement has something that the engine lacks: {error}") from error
    except RecursionError as error:
        raise InvalidInput(
            "The statement nests too deeply: write inner queries as WITH, or ask in parts."
        ) from error
    except Exception as error:
        # As the parser takes functions without their arguments, the writer fails on them in many ways.
        raise InvalidInput(
            "The statement cannot be written for the engine: a function in it lacks arguments, or has others "
            "than it takes."
        ) from error
