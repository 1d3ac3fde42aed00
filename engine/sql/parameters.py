"""Parameters of a statement: their numbers and the types that their places suggest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from engine.errors import InvalidInput, LimitExceeded
from engine.model.sql_types import parse_sql_type, sql_type
from engine.sql.text import SourceText

if TYPE_CHECKING:
    from engine.sql.bind import StoreReference

MAX_PARAMETERS = 1000

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


@dataclass(frozen=True)
class ParameterSlot:
    """One parameter.

    Attributes:
        name: `1`, `2`, … or the name behind the `$`.
        type: The type that its place suggests; None where no place suggests one.
        is_cast: The statement casts it, so that values of other types are welcome.
    """

    name: str
    type: pa.DataType | None
    is_cast: bool = False


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
        raise LimitExceeded(
            f"The statement has more than {MAX_PARAMETERS} parameters: pass a list to = ANY(?) instead."
        )
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
    types: dict[str, pa.DataType] = {}
    for mark, name in marks:
        found = types.get(name) or _suggested_type(mark, references)
        if found is not None:
            types[name] = found
    cast = {name for mark, name in marks if isinstance(mark.parent, exp.Cast)}
    numbers = {name: str(number) for number, name in enumerate(names, 1)}
    for mark, name in marks:
        if isinstance(mark, exp.Placeholder):
            mark.set("this", numbers[name])
        else:
            mark.replace(exp.Placeholder(this=numbers[name]))
    return tuple(ParameterSlot(name, types.get(name), name in cast) for name in names)


def _marks(tree: exp.Expr) -> list[tuple[exp.Expr, str]]:
    marks: list[tuple[exp.Expr, str]] = []
    for node in tree.find_all(exp.Placeholder, exp.Parameter):
        if not node.name:
            raise InvalidInput("A parameter mark has neither a number nor a name.")
        marks.append((node, str(node.name)))
    return marks


def _suggested_type(mark: exp.Expr, references: Sequence[StoreReference]) -> pa.DataType | None:
    """The type that the place of a parameter asks for."""
    node, parent = mark, mark.parent
    while isinstance(parent, exp.Paren | exp.Neg):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Cast):
        return _declared_type(parent.args["to"])
    if isinstance(parent, exp.Limit | exp.Offset):
        return pa.int64()
    if isinstance(parent, exp.Like | exp.ILike | exp.StartsWith):
        return pa.string()
    if isinstance(parent, exp.Any) and isinstance(parent.parent, _COMPARISONS):
        return _list_of(_type_of(_other_side(parent.parent, parent), references))
    if isinstance(parent, _COMPARISONS):
        return _type_of(_other_side(parent, node), references)
    if isinstance(parent, exp.Between):
        return _type_of(parent.this, references)
    if isinstance(parent, exp.In):
        arrow_type = _type_of(parent.this, references)
        return _list_of(arrow_type) if parent.args.get("field") is node else arrow_type
    if isinstance(parent, exp.Tuple):
        return _tuple_member(parent, node, references)
    return None


def _tuple_member(row: exp.Tuple, node: exp.Expr, references: Sequence[StoreReference]) -> pa.DataType | None:
    place = next(index for index, member in enumerate(row.expressions) if member is node)
    around = row.parent
    against = (
        around.this
        if isinstance(around, exp.In)
        else _other_side(around, row)
        if isinstance(around, _COMPARISONS)
        else None
    )
    if isinstance(against, exp.Tuple) and against is not row and place < len(against.expressions):
        return _type_of(against.expressions[place], references)
    return None


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
    if not isinstance(node, exp.Column):
        return None
    types = {
        field.type
        for reference in references
        if not node.table or node.table.lower() == reference.alias.lower()
        for field in reference.definition.schema
        if field.name.lower() == node.name.lower()
    }
    return types.pop() if len(types) == 1 else None


def _declared_type(kind: exp.Expr) -> pa.DataType | None:
    text = kind.sql(dialect="duckdb")
    try:
        return parse_sql_type(
            "TIMESTAMP WITH TIME ZONE"
            if text == "TIMESTAMPTZ"
            else {"TEXT": "VARCHAR", "INT": "INTEGER"}.get(text, text)
        )
    except InvalidInput:
        return None


def _list_of(arrow_type: pa.DataType | None) -> pa.DataType | None:
    return None if arrow_type is None else pa.list_(pa.field("item", arrow_type))


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
            mark.replace(
                exp.Cast(this=mark.copy(), to=exp.DataType.build(sql_type(arrow_type), dialect="duckdb"))
            )
    return typed
