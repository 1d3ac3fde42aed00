"""What operators decided of a changelog, and who: written there by the command line, heard of by hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Author:
    """Who decided something, and when. Versions before this one recorded neither for migrations and switches.

    Attributes:
        who: As `user@machine`, in the words of the machine where that was; empty where it is not known.
        at: Microseconds since 1970 UTC; 0 where it is not known.
    """

    who: str = ""
    at: int = 0

    def to_document(self) -> Mapping[str, Any]:
        """The fields of a stored document; none for nobody. Readers that do not know them pass them by."""
        return {"who": self.who, "at": self.at} if self.who else {}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> Author:
        """Read what `to_document` made.

        Args:
            document: With other fields; a document without an author has none.

        Raises:
            TypeError: A field is of the wrong type.
            ValueError: Likewise.
        """
        return Author(str(document.get("who", "")), int(document.get("at", 0)))


UNKNOWN_AUTHOR = Author()


class DecisionKind(StrEnum):
    """What was decided."""

    SKIP = "skip"
    DROP = "drop"
    MIGRATION = "migration"
    SWITCH = "switch"


@dataclass(frozen=True)
class Decision:
    """What an operator decided.

    Attributes:
        kind: What kind of thing.
        place: The store group; of a switch the name of which it says what it means.
        number: Its number among the amendments of the group, or the switches of the name.
        author: Who, and when.
        what: What of, in words: a store as it became, an epoch and the reason, what a name means.
    """

    kind: DecisionKind
    place: str
    number: int
    author: Author
    what: str
