"""Where the engine puts what its memory does not hold, and merges rows that memory does not hold."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InvalidInput

_PRIVATE = 0o700


@dataclass(frozen=True)
class SpillPlace:
    """Where one database of the engine puts its files, and no other one: a database can reach what is there.

    Attributes:
        path: A directory, which the database makes when it needs it, and removes when it is closed.
        limit_bytes: What the files may take.
    """

    path: Path
    limit_bytes: int


class SpillDirectory:
    """A private directory for temporary files: below it one of the engine's, under a name that nobody can
    guess, and one of gathered rows, under another. Made empty, and removed at the end.

    Args:
        parent: Directory that nothing else uses; made if it is not there. What earlier processes left in it
            is deleted.
        limit_bytes: What the files of each of the two may take.

    Attributes:
        path: The engine's.

    Raises:
        InvalidInput: The directory cannot be used.
    """

    def __init__(self, parent: Path, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._parent = parent.absolute()
        self.path = self._parent / secrets.token_hex(16)
        self._rows_path = self._parent / secrets.token_hex(16)
        try:
            if self._parent.exists():
                shutil.rmtree(self._parent)
            self.path.mkdir(mode=_PRIVATE, parents=True)
            self._parent.chmod(_PRIVATE)
        except OSError as error:
            raise InvalidInput(
                f"The engine's spill directory cannot be used: {error.strerror or error.args[0]}."
            ) from error

    def place(self, part: float = 1.0) -> SpillPlace:
        """A place for the files of one database of the engine, another one with each call.

        Args:
            part: Which part of what may be here they may take.
        """
        return SpillPlace(self.path / secrets.token_hex(16), int(self.limit_bytes * part))

    def rows_file(self) -> Path:
        """Where a file of gathered rows may be, which is not there yet.

        Raises:
            OSError: There can be none.
        """
        self._rows_path.mkdir(mode=_PRIVATE, exist_ok=True)
        return self._rows_path / secrets.token_hex(16)

    def close(self) -> None:
        """Remove the directory. May be called again."""
        shutil.rmtree(self._parent, ignore_errors=True)
