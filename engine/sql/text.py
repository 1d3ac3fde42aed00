"""Places in an SQL text, and errors that show them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from engine.errors import InvalidInput, NotFound, Position
from engine.model.names import fold

SNIPPET_WIDTH = 100


@dataclass(frozen=True)
class Segment:
    """A stretch of a rewritten text that stands for another stretch of the user's text.

    Attributes:
        start: First character in the rewritten text.
        end: Character behind the last one there.
        original_start: First character in the user's text.
        original_end: Character behind the last one there.
    """

    start: int
    end: int
    original_start: int
    original_end: int


@dataclass(frozen=True)
class SourceText:
    """The text that is parsed, and how its places map back to what the user wrote.

    Attributes:
        original: What the user wrote.
        text: What is parsed.
        segments: Replaced stretches in the order of the text; between them both texts agree.
    """

    original: str
    text: str
    segments: tuple[Segment, ...] = ()

    def position(self, offset: int) -> Position:
        """The user's place of a place in the parsed text.

        Args:
            offset: Characters before the place in `text`.

        Returns:
            The place in `original`; the start of a replaced stretch for a place inside it.
        """
        shift = 0
        for segment in self.segments:
            if offset < segment.start:
                break
            if offset < segment.end:
                return position_of(self.original, segment.original_start)
            shift = segment.original_end - segment.end
        return position_of(self.original, offset + shift)

    def error(self, message: str, offset: int | None) -> InvalidInput:
        """An error that names and draws its place.

        Args:
            message: One sentence on what is wrong.
            offset: Place in `text`; None when it is not known.

        Returns:
            The error to raise.
        """
        if offset is None:
            return InvalidInput(message)
        place = self.position(offset)
        return InvalidInput(self._message_with_snippet(message, place), place)

    def not_found_error(self, message: str, offset: int | None) -> NotFound:
        """Like `error`, for a name that does not exist."""
        if offset is None:
            return NotFound(message)
        place = self.position(offset)
        return NotFound(self._message_with_snippet(message, place), place)

    def _message_with_snippet(self, message: str, place: Position) -> str:
        return f"{message}\nLine {place.line}, column {place.column}:\n{_snippet(self.original, place)}"


def position_of(text: str, offset: int) -> Position:
    """Line and column of a place.

    Args:
        text: Any text.
        offset: Characters before the place; clipped to the text.

    Returns:
        The place; lines end at a line feed.
    """
    offset = max(0, min(offset, len(text)))
    return Position(offset, text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def _snippet(text: str, place: Position) -> str:
    start = place.offset - (place.column - 1)
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)]
    left = max(0, place.column - 1 - SNIPPET_WIDTH // 2)
    shown = line[left : left + SNIPPET_WIDTH].replace("\t", " ").rstrip("\r")
    return f"{shown}\n{' ' * (place.column - 1 - left)}^"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names what resembles a wrong name.

    Args:
        name: What the user wrote.
        known: What could have been meant.

    Returns:
        A sentence with a leading space, or nothing when no known name is near.
    """
    by_lower = {fold(candidate): candidate for candidate in known}
    near = difflib.get_close_matches(fold(name), list(by_lower), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(by_lower[match] for match in near)}?" if near else ""


def offset_of(node: exp.Expr) -> int | None:
    """Where a node starts in its text.

    Args:
        node: Any node of a parsed tree.

    Returns:
        Characters before it; None when neither it nor a part of it knows.
    """
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts) if starts else None
