"""Modules that a process does without, though they are installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_PANDAS = "pandas"


class _PandasRefusal(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _PANDAS:
            raise ModuleNotFoundError("A process of livestate has no use for pandas.", name=fullname)
        return None


def hide_pandas() -> None:
    """Have this process find no pandas, whether it is installed or not.

    Arrow looks for it when it makes the first value of Python's, only to tell that the value is none of
    pandas': a quarter of a second and 36 MB of memory for nothing, in every host.
    """
    sys.meta_path.insert(0, _PandasRefusal())


def show_pandas() -> None:
    """Have this process find pandas again, if it is installed. For one that has hidden it, as all verbs do,
    and turns out to be the driver of Spark, which asks for it.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _PandasRefusal)]
