"""Which version of livestate this is."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def own_version() -> str:
    """The version that is installed; `0` where it is run from a source tree that is not."""
    try:
        return version("livestate")
    except PackageNotFoundError:
        return "0"
