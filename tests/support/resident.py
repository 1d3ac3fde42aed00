"""Memory that another process has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RESET_PEAK = "5"


@contextmanager
def grows_by_at_most(process: int, mebibytes: int) -> Iterator[None]:
    """A process takes no more than so much in addition, at any time within the block.

    Args:
        process: Its number.
        mebibytes: How much.
    """
    Path(f"/proc/{process}/clear_refs").write_text(_RESET_PEAK)
    before = _mebibytes(process, "VmRSS")
    yield
    peak = _mebibytes(process, "VmHWM")
    assert peak - before <= mebibytes, f"the process grew from {before} to {peak} MiB"


def _mebibytes(process: int, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) >> 10
