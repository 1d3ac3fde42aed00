"""An object store whose lists do not show yet what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.changelog import Changelog
from engine.changelog.local_objects import LocalObjects


def _hide_nothing(_: str) -> bool:
    return False


@dataclass(frozen=True)
class LaggingObjects(LocalObjects):
    """Objects of a directory, of which lists do not show all.

    Attributes:
        hides: Whether a path is not shown.
    """

    hides: Callable[[str], bool] = _hide_nothing

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        """See `Objects.list`."""
        return (path for path in super().list(directory, behind) if not self.hides(path.lstrip("/")))


def lagging_changelog(root: Path, hides: Callable[[str], bool]) -> Changelog:
    """The changelog of a directory, over such a store."""
    return Changelog(str(root), {}, LaggingObjects(root, hides))
