"""When two names are one to SQL."""

from __future__ import annotations

import string
from collections.abc import Collection
from typing import TypeVar

_Name = TypeVar("_Name", bound=str)
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    """A name as it is compared: DuckDB tells names apart by all letters but A to Z, whose case does not
    matter. So `É` and `é` are two names to it. The length stays as it is.
    """
    return name.lower() if name.isascii() else name.translate(_LOWER)


def find_name(text: str, names: Collection[_Name]) -> _Name | None:
    """The name that a text means: the one that is written alike, or else the only one that differs in upper
    and lower case alone.
    """
    for name in names:
        if name == text:
            return name
    alike = [name for name in names if fold(name) == fold(text)]
    return alike[0] if len(alike) == 1 else None
