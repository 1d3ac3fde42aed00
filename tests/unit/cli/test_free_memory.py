"""A host gives back what its heaps have free."""

from __future__ import annotations

import subprocess
import sys

THREADS = 8
_PROGRAM = f"""
import re, sys, threading
from flight_server.host.free_memory import Heaps, return_free_memory

def resident():
    with open("/proc/self/status") as file:
        return int(re.search(r"VmRSS:\\s+(\\d+) kB", file.read())[1]) >> 10

def work():
    pieces = [b"x" * 100_000 for _ in range(400)]
    together.wait()
    together.wait()
    # What is kept is at the end of the heap.
    del pieces[: -1 if sys.argv[1] == "trims" else None]
    together.wait()
    together.wait()

if sys.argv[1] != "keeps":
    return_free_memory()
# glibc lets heaps keep twice as much as the largest piece that was freed.
piece = b"x" * (30 << 20)
del piece
before, together = resident(), threading.Barrier({THREADS} + 1)
for _ in range({THREADS}):
    threading.Thread(target=work).start()
together.wait()
most = resident()
together.wait()
together.wait()
after, heaps = resident(), Heaps()
heaps.trim_if_grown()
trimmed = resident()
# What has not grown is let be.
heaps.trim_if_grown()
together.wait()
print(before, most, after, trimmed)
"""


def resident_mebibytes(choice: str) -> tuple[int, ...]:
    """Before each of some threads took 40 MB in small pieces, then, when it was free again, and when the
    heaps were looked after.
    """
    program = [sys.executable, "-c", _PROGRAM, choice]
    said = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    return tuple(map(int, said.split()))


def test_heaps_give_back_what_is_free() -> None:
    before, most, after, _ = resident_mebibytes("returns")
    assert most > before + THREADS * 30
    assert after - before < THREADS * 20
    # glibc's own choice, without which this would show nothing.
    before, _, after, _ = resident_mebibytes("keeps")
    assert after - before > THREADS * 30


def test_what_is_free_amid_what_is_in_use_goes_back_now_and_then() -> None:
    before, _, after, trimmed = resident_mebibytes("trims")
    assert after - before > THREADS * 30
    assert trimmed - before < THREADS * 20
