"""SET and RESET: statements that change an option of a session.

Hosts read them, and livestate's own client does, which keeps the options of its session itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.errors import InvalidInput
from engine.sql.lexer import blanks_end

_FIRST_WORD = re.compile(r"(?:re)?set\b", re.IGNORECASE)
_VALUE = r"""'(?P<string>(?:[^']|'')*+)'|"(?P<quoted>[^"]*+)"|(?P<plain>[-+.@:\w]+)"""
_SETTING = re.compile(
    rf"RESET\s+(?P<reset>\w+)|SET\s+(?:SESSION\s+)?(?P<name>\w+)\s*(?:=|\bTO\b)\s*(?:{_VALUE})",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Setting:
    """A change of an option.

    Attributes:
        name: The option.
        value: Its new value as text; None to take it back.
    """

    name: str
    value: str | None


def setting_of(text: str) -> Setting | None:
    """The change that a statement asks for.

    Args:
        text: Any statement.

    Returns:
        The change; None for any other statement.

    Raises:
        InvalidInput: It begins as such a statement, and goes on in another way.
    """
    begin = 0 if text[:1].isalpha() else blanks_end(text, 0)
    if _FIRST_WORD.match(text, begin) is None:
        return None
    found = _SETTING.match(text, begin)
    if found is None or not _is_end(text, found.end()):
        raise InvalidInput("Write SET name = value, or RESET name, with an option of the session.")
    if found["reset"] is not None:
        return Setting(found["reset"].lower(), None)
    string, quoted = found["string"], found["quoted"]
    value = string.replace("''", "'") if string is not None else quoted
    return Setting(found["name"].lower(), found["plain"] if value is None else value)


def _is_end(text: str, place: int) -> bool:
    """Whether nothing but blanks, comments and one semicolon follow."""
    end = blanks_end(text, place)
    return blanks_end(text, end + 1 if text.startswith(";", end) else end) == len(text)
