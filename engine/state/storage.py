"""What a partition store needs of the place where its bytes are: keys in order, and writes that are applied
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

Pair = tuple[bytes, bytes]
"""A key and its value."""
Range = tuple[bytes, bytes]
"""All keys from the first, up to and without the second."""


class Storage(Protocol):
    """Bytes by key. `get` and `get_all` may be called by any thread at any time; writes may come from several
    threads, too.

    Attributes:
        damage: What of it somebody has found damaged, in a word or two; empty where nobody has.
    """

    damage: str

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None where there is none."""

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """For each key its value, None where there is none: `get` for many at once."""

    def write(self, pairs: Iterable[Pair], *, logged: bool = True) -> None:
        """Write many pairs in their order; a crash leaves a leading part of them.

        Args:
            pairs: What to write.
            logged: Whether a crash of the process leaves them. Without it, `flush` makes the pairs durable.
        """

    def write_atomically(self, pairs: Iterable[Pair], removed: Sequence[Range] = ()) -> None:
        """Write pairs and remove ranges, all or nothing."""

    def flush(self) -> None:
        """Bring all that was written to where a crash leaves it."""

    def reclaim(self, *, is_whole: bool = False, within: Range | None = None) -> None:
        """Give back the space of what was removed, as far as it is not given back already. Takes a while;
        readers and writers go on.

        Args:
            is_whole: Whether to write anew what is left, where it shares files with what was removed.
            within: The keys to look at; None for all.
        """

    def pairs(self, prefix: bytes) -> Iterator[Pair]:
        """All pairs whose key starts with a prefix, in key order."""

    def beginnings(self, length: int, within: Range | None = None) -> Sequence[bytes]:
        """The first bytes of all keys, each once and in order; what is shorter, as a whole. Keys that begin
        alike are passed over, however many they are.

        Args:
            length: How many bytes.
            within: The keys to look at; None for all.
        """

    def figures(self) -> Mapping[str, int]:
        """What it says of itself, by name; nothing where there is nothing to say."""

    def close(self) -> None:
        """Release it."""


def key_behind(key: bytes, length: int) -> bytes | None:
    """The smallest key behind a shorter one, or behind all that begin with so many bytes of it.

    Args:
        key: At most so many bytes.
        length: How many.

    Returns:
        The key; None where there is none.
    """
    if len(key) < length:
        return key + b"\0"
    kept = key.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
