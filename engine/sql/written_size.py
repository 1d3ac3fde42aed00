"""How long a statement becomes when it is written for the engine.

sqlglot writes what the engine has no function for with others, and some arguments several times. Where such
calls stand in each other, that is a text of twice the size with each level: thirty levels are no text that
any memory holds. Its generator is compiled and cannot be stopped, so the size is found before.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from engine.errors import InvalidInput, LimitExceeded

MAX_COPIED_CHARACTERS = 1 << 19
"""What may be written for a second time: about a second of writing."""
MOST_COPIES = 8
"""Nor does it matter how long a statement is that is written so often: one long string has no levels."""
_NODE_CHARACTERS = 8

_BY_COPIES: Mapping[int, str] = {
    2: """
        ArrayAgg ArrayAny ArrayAppend ArrayConcat ArrayConcatAgg ArrayPrepend ArrayRemove ArrayToString
        ArrayUniqueAgg BitmapConstructAgg Corr DecodeCase Distinct Greatest Hex Least Left Levenshtein Normal
        ParseJSON Posexplode Rand RegexpCount Right SafeDivide StripNullValue Stuff Substring TimestampTrunc
        ToArray Unicode Uniform Xor
    """,
    3: """
        ArrayContains ArrayOverlaps BitmapBitPosition BitmapBucketNumber Ceil CheckJson Floor Length MapCat
        Split StrtokToArray
    """,
    4: "AddMonths ArrayDistinct ArrayExcept ArrayIntersect MonthsBetween",
    5: "ArraysZip Initcap RegexpInstr ToBoolean",
    6: "SplitPart StrPosition Strtok",
    7: "NextDay PreviousDay",
    8: "ArraySlice",
}
COPIES: Mapping[type[exp.Expr], int] = {
    getattr(exp, name): copies for copies, names in _BY_COPIES.items() for name in names.split()
}
"""How often a node may write one of its parts, in any dialect; the others write each once."""


def copies_of_parts(node: exp.Expr) -> int:
    """How often a node may write each of its parts.

    Args:
        node: Any.
    """
    if isinstance(node, exp.Between):
        return 2 if node.args.get("symmetric") else 1
    if isinstance(node, exp.TryCast):
        # Snowflake's is NULL where a text is longer than its type, of which the engine's knows nothing.
        target = node.args.get("to")
        return 1 if isinstance(target, exp.DataType) and not target.expressions else 2
    if isinstance(node, exp.In):
        return 5 if node.args.get("unnest") else 1
    if isinstance(node, exp.Like | exp.ILike) and isinstance(node.expression, exp.Any | exp.All):
        # One comparison for each pattern.
        return max(1, len(node.expression.this.expressions))
    if isinstance(node, exp.Select):
        # SELECT AS STRUCT is written, and then once more in another form.
        return 2 if node.args.get("kind") else 1
    return COPIES.get(type(node), 1)


def own_size(node: exp.Expr) -> int:
    """About how many characters a node has without its parts."""
    own = node.args.get("this")
    return _NODE_CHARACTERS + (len(own) if isinstance(own, str) else 0)


def check_written_size(tree: exp.Expr) -> None:
    """Refuse what becomes very long when it is written, or copied: a copy of a cast has its type twice, and
    all that is in it.
    """
    once, copied = 0, 0
    stack = [(tree, 1)]
    while stack:
        node, copies = stack.pop()
        if isinstance(node, exp.Cast) and isinstance(node.parent, exp.DataType | exp.ColumnDef):
            raise InvalidInput("A type has an expression in it: types have types and numbers alone.")
        size = own_size(node)
        once += size
        copied += (copies - 1) * size
        copies *= copies_of_parts(node)
        stack += [(child, copies) for child in node.iter_expressions()]
    if copied > MAX_COPIED_CHARACTERS + MOST_COPIES * once:
        raise LimitExceeded(
            "The statement calls functions within each other that the engine does not have, and that "
            "become very long in its own: nest them less, or work out inner ones in a subquery."
        )
