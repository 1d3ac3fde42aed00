"""Parameters of a statement: their numbers and the types that their places suggest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from engine.errors import InvalidInput, LimitExceeded
from engine.model.names import fold
from engine.model.result_width import MAX_RESULT_WIDTH, type_width
from engine.model.sql_types import parse_sql_type, sql_type
from engine.sql.engine_dialect import EngineDialect
from engine.sql.functions import function_name
from engine.sql.literals import MAX_PARAMETERS, too_many_parameters_error
from engine.sql.text import SourceText

if TYPE_CHECKING:
    from engine.sql.bind import StoreReference

MOST_QUERIES = 8
"""How many queries around each other a name is followed through."""


class _Absence(Enum):
    """Why a name has no type."""

    ABSENT = "there is no such column"
    UNSURE = "there may be one"


_ABSENT, _UNSURE = _Absence.ABSENT, _Absence.UNSURE

_TYPED_BY_VALUES = frozenset(
    {
        *("date_part", "datepart", "strptime", "try_strptime", "round", "trunc", "regexp_extract"),
        *("struct_extract", "struct_extract_at", "array_extract", "map_extract", "union_extract"),
        *("json_extract", "json_extract_path", "json_extract_string", "json_extract_path_text", "json_value"),
        *("json_transform", "json_transform_strict", "from_json", "from_json_strict"),
        *("list_aggregate", "list_aggr", "aggregate", "array_aggregate", "array_aggr"),
        *("quantile", "quantile_cont", "quantile_disc", "approx_quantile", "reservoir_quantile"),
    }
)
"""Functions whose type depends on the values of arguments, and not on their types alone."""
_INTEGER_ARGUMENTS: Mapping[str, Collection[int]] = {
    **dict.fromkeys(("binom", "to_base"), (0, 1, 2)),
    **dict.fromkeys(("chr", "factorial"), (0,)),
    **dict.fromkeys(("round", "round_even", "roundbankers", "trunc"), (1,)),
    **dict.fromkeys(("lpad", "rpad", "bitstring", "get_bit"), (1,)),
    "set_bit": (1, 2),
    **dict.fromkeys(("regexp_extract", "regexp_extract_all", "reservoir_quantile"), (2,)),
}
"""Which arguments of functions are INTEGER, and nothing wider, by their places."""
_WRAPPING = (exp.Paren, exp.Cast, exp.TryCast, exp.Array, exp.Tuple)

_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Mod,
)


def is_typed_by_values(tree: exp.Expr) -> bool:
    """Whether types of a statement's columns may hang on the values of its parameters, and not on their types
    alone.

    Args:
        tree: The statement.
    """
    return any(_decides_a_type(mark) for mark in tree.find_all(exp.Placeholder))


def _decides_a_type(mark: exp.Placeholder) -> bool:
    node = mark.parent
    while isinstance(node, _WRAPPING):
        node = node.parent
    if isinstance(node, exp.Bracket | exp.Columns | exp.JSONExtract | exp.JSONExtractScalar | exp.Extract):
        return True
    return isinstance(node, exp.Func) and function_name(node) in _TYPED_BY_VALUES


@dataclass(frozen=True)
class ParameterSlot:
    """One parameter.

    Attributes:
        name: `1`, `2`, … or the name behind the `$`.
        type: The type that its place suggests; None where no place suggests one.
        is_cast: The statement casts it, so that values of other types are welcome.
        takes_integer: The engine takes an INTEGER in its place, and nothing wider, as literals are. Drivers
            know of whole numbers alone, which are BIGINT.
    """

    name: str
    type: pa.DataType | None
    is_cast: bool = False
    takes_integer: bool = False


def bind_parameters(
    source: SourceText, tree: exp.Expr, references: Sequence[StoreReference]
) -> tuple[ParameterSlot, ...]:
    """Number the parameters of a statement densely, and find their types.

    Args:
        source: The text, for errors.
        tree: The statement; its parameter marks are renamed to the numbers 1, 2, ….
        references: Where it reads stores.

    Returns:
        The parameters in the order of their numbers.

    Raises:
        InvalidInput: Numbered and named parameters are mixed, or a number is left out.
        LimitExceeded: There are too many.
    """
    marks = _marks(tree)
    if not marks:
        return ()
    if len(marks) > MAX_PARAMETERS:
        raise too_many_parameters_error()
    names = list(dict.fromkeys(name for _, name in marks))
    numbered = [name for name in names if name.isdigit()]
    if numbered and len(numbered) != len(names):
        raise InvalidInput("A statement has either numbered (? or $1) or named ($name) parameters, not both.")
    if numbered:
        names.sort(key=int)
        if [int(name) for name in names] != list(range(1, len(names) + 1)):
            raise InvalidInput(
                "Parameters must be numbered from $1 without gaps; there are "
                f"{', '.join(f'${name}' for name in names)}."
            )
    types = _suggested_types(marks, references)
    cast = {name for mark, name in marks if isinstance(mark.parent, exp.Cast)}
    integers = {name for mark, name in marks if _takes_integer(mark, references)}
    numbers = {name: str(number) for number, name in enumerate(names, 1)}
    for mark, name in marks:
        if isinstance(mark, exp.Placeholder):
            mark.set("this", numbers[name])
        else:
            mark.replace(exp.Placeholder(this=numbers[name]))
    return tuple(ParameterSlot(name, types.get(name), name in cast, name in integers) for name in names)


def _suggested_types(
    marks: Sequence[tuple[exp.Expr, str]], references: Sequence[StoreReference]
) -> Mapping[str, pa.DataType]:
    """The types that the places of parameters suggest, by the names of these."""
    types: dict[str, pa.DataType] = {}
    width = 0
    for mark, name in marks:
        found = types.get(name) or _suggested_type(mark, references)
        if found is not None:
            types[name] = found
            # It is written out wherever its parameter stands.
            width += type_width(found)
        if width > MAX_RESULT_WIDTH:
            raise LimitExceeded(
                f"The types of the statement's parameters have more than {MAX_RESULT_WIDTH:,} fields: "
                "compare fields of structs instead of whole ones, or pass a list to = ANY(?)."
            )
    return types


def _marks(tree: exp.Expr) -> list[tuple[exp.Expr, str]]:
    marks: list[tuple[exp.Expr, str]] = []
    for node in tree.find_all(exp.Placeholder, exp.Parameter):
        if not node.name:
            raise InvalidInput("A parameter mark has neither a number nor a name.")
        marks.append((node, str(node.name)))
    return marks


def _suggested_type(mark: exp.Expr, references: Sequence[StoreReference]) -> pa.DataType | None:
    """The type that the place of a parameter asks for."""
    node, parent = _operand(mark)
    if isinstance(parent, exp.Cast):
        return _declared_type(parent.args["to"])
    if isinstance(parent, exp.Func) and _is_integer_argument(parent, node):
        return pa.int32()
    if isinstance(parent, exp.Limit | exp.Offset):
        return pa.int64()
    if isinstance(parent, exp.Like | exp.ILike | exp.StartsWith):
        return pa.string()
    if isinstance(parent, exp.Any) and isinstance(parent.parent, _COMPARISONS):
        return _list_of(_type_of(_other_side(parent.parent, parent), references))
    if isinstance(parent, _COMPARISONS):
        arrow_type = _type_of(_other_side(parent, node), references)
        # Days are added to a date, and no date.
        is_added_to_date = isinstance(parent, exp.Add) and arrow_type == pa.date32()
        return pa.int32() if is_added_to_date else arrow_type
    if isinstance(parent, exp.Between):
        return _type_of(parent.this, references)
    if isinstance(parent, exp.In):
        arrow_type = _type_of(parent.this, references)
        return _list_of(arrow_type) if parent.args.get("field") is node else arrow_type
    if isinstance(parent, exp.Tuple):
        return _tuple_member(parent, node, references)
    return None


def _operand(mark: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """A mark with the brackets and signs around it, and what that is part of."""
    node, parent = mark, mark.parent
    while isinstance(parent, exp.Paren | exp.Neg):
        node, parent = parent, parent.parent
    return node, parent


def _takes_integer(mark: exp.Expr, references: Sequence[StoreReference]) -> bool:
    """Whether the engine takes an INTEGER in the place of a parameter, and nothing wider: as an argument, and
    as days that are added to a date or taken from it.
    """
    node, parent = _operand(mark)
    if isinstance(parent, exp.Add | exp.Sub):
        return bool(_type_of(_other_side(parent, node), references) == pa.date32())
    return isinstance(parent, exp.Func) and _is_integer_argument(parent, node)


def _is_integer_argument(call: exp.Func, argument: exp.Expr) -> bool:
    places = _INTEGER_ARGUMENTS.get(function_name(call), ())
    return any(place in places for place, node in enumerate(call.iter_expressions()) if node is argument)


def _tuple_member(row: exp.Tuple, node: exp.Expr, references: Sequence[StoreReference]) -> pa.DataType | None:
    place = next(index for index, member in enumerate(row.expressions) if member is node)
    around = row.parent
    if isinstance(around, exp.Values):
        around = around.parent  # IN (VALUES …)
    against = (
        around.this
        if isinstance(around, exp.In)
        else _other_side(around, row)
        if isinstance(around, _COMPARISONS)
        else None
    )
    if isinstance(against, exp.Tuple) and against is not row and place < len(against.expressions):
        return _type_of(against.expressions[place], references)
    is_alone = isinstance(around, exp.In) and len(row.expressions) == 1
    return _type_of(against, references) if is_alone else None


def _other_side(parent: exp.Expr, side: exp.Expr) -> exp.Expr | None:
    found: exp.Expr | None = parent.args.get("expression") if parent.this is side else parent.this
    return found


def _type_of(node: exp.Expr | None, references: Sequence[StoreReference]) -> pa.DataType | None:
    if isinstance(node, exp.Paren):
        return _type_of(node.this, references)
    if isinstance(node, exp.Cast):
        return _declared_type(node.args["to"])
    if isinstance(node, exp.Count):
        return pa.int64()
    if isinstance(node, exp.CurrentDate):
        return pa.date32()
    if not isinstance(node, exp.Column):
        return None
    scans = {reference.scan: reference.definition.schema for reference in references}
    return _column_type(node, scans, MOST_QUERIES)


def _column_type(column: exp.Column, scans: Mapping[str, pa.Schema], depth: int) -> pa.DataType | None:
    """The type of the store's column that a name means at its place; None for anything else."""
    around: exp.Expr | None = column.find_ancestor(exp.Select, exp.SetOperation)
    if isinstance(around, exp.SetOperation) or (not column.table and _may_be_output(column)):
        return None
    while isinstance(around, exp.Select):
        sources = _sources(around)
        read = [node for alias, node in sources if not column.table or alias == fold(column.table)]
        found = [_type_in(node, fold(column.name), scans, depth) for node in read]
        types = {each for each in found if each is not _ABSENT and each is not _UNSURE}
        if types or _UNSURE in found:
            arrow_type = types.pop() if len(types) == 1 else None
            return arrow_type if isinstance(arrow_type, pa.DataType) else None
        around = around.find_ancestor(exp.Select)
    return None


def _may_be_output(column: exp.Column) -> bool:
    """Whether a name may be that of an output, which only WHERE and ON know after the columns they read."""
    clause = column.find_ancestor(exp.Where, exp.Join, exp.Select)
    return isinstance(clause, exp.Select) and any(
        isinstance(output, exp.Alias) and fold(output.alias) == fold(column.name)
        for output in clause.expressions
    )


def _sources(select: exp.Select) -> list[tuple[str, exp.Expr]]:
    """What a FROM clause reads, with the names."""
    found, stack = [], [select.args.get("from_"), *_join_nodes(select)]
    while stack:
        node = stack.pop()
        if node is None:
            continue
        is_bracket = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias
        if is_bracket or isinstance(node, exp.From | exp.Join | exp.Paren):
            stack += [node.this, *_join_nodes(node.this)]
        else:
            found.append((fold(node.alias_or_name), node))
    return found


def _join_nodes(node: exp.Expr) -> list[exp.Expr]:
    return [*(node.args.get("joins") or ()), *(node.args.get("laterals") or ())]


def _type_in(
    source: exp.Expr, name: str, scans: Mapping[str, pa.Schema], depth: int
) -> pa.DataType | _Absence | None:
    """The type of a column of what a FROM clause reads; None for a column that is computed."""
    alias = source.args.get("alias")
    if source.args.get("pivots") or depth == 0 or (isinstance(alias, exp.TableAlias) and alias.columns):
        return _UNSURE
    if isinstance(source, exp.Table) and source.name in scans:
        return next((field.type for field in scans[source.name] if fold(field.name) == name), _ABSENT)
    query = source.this if isinstance(source, exp.Subquery) else _named_query(source)
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return _UNSURE
    for output in query.expressions:
        if isinstance(output, exp.Star):
            found = [_type_in(each, name, scans, depth - 1) for _, each in _sources(query)]
            types = {each for each in found if each is not _ABSENT}
            if types:
                return types.pop() if len(types) == 1 and not any(output.args.values()) else _UNSURE
        elif output.is_star or isinstance(output, exp.Columns):
            return _UNSURE
        elif fold(output.alias_or_name) == name:
            column = output.unalias()
            return _column_type(column, scans, depth - 1) if isinstance(column, exp.Column) else None
    return _ABSENT


def _named_query(table: exp.Expr) -> exp.Expr | None:
    """The query of a common table expression that a table means."""
    around = table.parent if isinstance(table, exp.Table) else None
    while around is not None:
        with_clause = around.args.get("with_")
        for each in with_clause.expressions if with_clause is not None else ():
            if fold(each.alias) == fold(table.name):
                return None if each.args["alias"].columns else each.this
        around = around.parent
    return None


def _declared_type(node: exp.Expr) -> pa.DataType | None:
    try:
        return parse_sql_type(node.sql(dialect=EngineDialect))
    except InvalidInput:
        return None


def _list_of(arrow_type: pa.DataType | None) -> pa.DataType | None:
    return None if arrow_type is None else pa.list_(pa.field("item", arrow_type))


_NULL_TYPE = '"NULL"'
"""DuckDB's name of the type of a bare NULL, which becomes whatever its place suggests."""


def fix_types(tree: exp.Expr, types: Sequence[pa.DataType | None]) -> exp.Expr:
    """A statement whose parameters have fixed types.

    Args:
        tree: A bound statement; it is not changed.
        types: Canonical type of each parameter in the order of the numbers; None for one that stays as it is.

    Returns:
        A copy in which `$n` reads `CAST($n AS type)`.
    """
    if not types:
        return tree
    typed = tree.copy()
    for mark in list(typed.find_all(exp.Placeholder)):
        arrow_type = types[int(mark.name) - 1]
        if arrow_type is not None:
            to = _NULL_TYPE if pa.types.is_null(arrow_type) else sql_type(arrow_type)
            mark.replace(exp.Cast(this=mark.copy(), to=exp.DataType.build(to, dialect="duckdb", udt=True)))
    return typed
