"""How wide a result may be. Its schema has a node for each column and for each part of a nested type, which
takes five kilobytes on its way to a client. A short text can make millions of them: `SELECT *, *, *`, or
structs of structs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from engine.errors import LimitExceeded

MAX_RESULT_WIDTH = 10_000
"""Columns and parts of nested types."""
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_NOT_NESTED = re.compile(r"ENUM\([ ,]*\)|DECIMAL\(\d+, ?\d+\)")
_PART = re.compile(r"[,(\[]")
_MARK = re.compile(r"MAP\(|[(),\[]")


def type_width(arrow_type: pa.DataType) -> int:
    """How many nodes a type has: itself and all its parts.

    Args:
        arrow_type: Any type.
    """
    return 1 + sum(type_width(arrow_type.field(place).type) for place in range(arrow_type.num_fields))


def width_of_types(types: Iterable[str]) -> int:
    """How wide a result is.

    Args:
        types: The engine's names of the types of its columns.
    """
    width = 0
    for name in types:
        width += 1
        if "(" in name or "[" in name:
            width += len(_PART.findall(_NOT_NESTED.sub("", _QUOTED.sub("", name))))
    return width


def width_in_lists(types: Iterable[str]) -> int:
    """How many nodes of types are in lists, or in maps, which are lists of pairs; twice for those in two.

    Args:
        types: The engine's names of the types.
    """
    found = 0
    for name in types:
        # Of each type that is not ended: its nodes before this one, and whether it is a map.
        around: list[tuple[int, bool]] = []
        width = 1
        for mark in _MARK.findall(_NOT_NESTED.sub("", _QUOTED.sub("", name))):
            if mark.endswith("("):
                around.append((0, mark == "MAP("))
                width = 1
            elif mark == ",":
                before, is_map = around.pop()
                around.append((before + width, is_map))
                width = 1
            elif mark == ")":
                before, is_map = around.pop()
                found += before + width if is_map else 0
                width = 1 + before + width
            else:
                found += width
                width += 1
    return found


def check_width(width: int) -> None:
    """Refuse a query that is too wide.

    Args:
        width: How many columns and parts of nested types it has.

    Raises:
        LimitExceeded: They are more than `MAX_RESULT_WIDTH`.
    """
    if width > MAX_RESULT_WIDTH:
        raise LimitExceeded(
            f"A query has more than {MAX_RESULT_WIDTH:,} columns and fields of structs: name the columns "
            "that are needed, each once."
        )
