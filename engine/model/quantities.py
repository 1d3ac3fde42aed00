"""Numbers as people read them."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def human_bytes(count: float) -> str:
    """A number of bytes in the unit that suits its size, such as `1.5 MiB`."""
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"


def quantity(count: int, noun: str) -> str:
    """A number of things, such as `1 epoch` or `1,200 epochs`.

    Args:
        count: How many.
        noun: What one of them is called, whose plural ends with s.
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
