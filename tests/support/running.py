"""Whether processes run."""

from __future__ import annotations

from pathlib import Path


def runs(process: int) -> bool:
    """Whether there is such a process, and it is no zombie: who adopts orphans may take its time."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
