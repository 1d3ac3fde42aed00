"""When two names are one to SQL."""

from __future__ import annotations

import string

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    """A name as it is compared: DuckDB tells names apart by all letters but A to Z, whose case does not
    matter. So `É` and `é` are two names to it. The length stays as it is.
    """
    return name.lower() if name.isascii() else name.translate(_LOWER)
