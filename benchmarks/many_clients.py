"""Clients that all ask at once, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

from benchmarks.serve_processes import HostProcess, cpu_seconds
from benchmarks.timing import milliseconds, percentile

CLIENTS = (1, 8, 64)
ROUNDS = 3


@dataclass(frozen=True)
class Rate:
    """What a number of clients got.

    Attributes:
        clients: How many.
        calls: Answers a second, all clients together.
        note: How long calls took, and what they cost the host.
    """

    clients: int
    calls: float
    note: str


def rates(host: HostProcess, seconds: float, ask: Callable[[int], Sequence[float]]) -> Iterator[Rate]:
    """Ask with each number of clients: medians of rounds that take turns, so that what else the machine does
    meets all alike.

    Args:
        host: What they ask.
        seconds: How long `ask` goes on.
        ask: Asks as one client. It is given a number that no other client has, and returns the time of each
            call in seconds.

    Yields:
        A rate for each of `CLIENTS`.
    """
    found: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    times: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    cpu = dict.fromkeys(CLIENTS, 0.0)
    for turn in range(ROUNDS):
        for clients in CLIENTS:
            before = cpu_seconds(host.pid)
            with ThreadPoolExecutor(clients) as threads:
                taken = [
                    time
                    for client in threads.map(ask, range(turn * 1000, turn * 1000 + clients))
                    for time in client
                ]
            cpu[clients] += cpu_seconds(host.pid) - before
            found[clients].append(len(taken) / seconds)
            times[clients] += taken
    for clients in CLIENTS:
        p50, p99 = (milliseconds(percentile(times[clients], share)) for share in (0.5, 0.99))
        note = (
            f"p50 {p50:.2f} ms, p99 {p99:.1f} ms; {milliseconds(cpu[clients] / len(times[clients])):.2f} "
            "ms CPU of the host a call"
        )
        yield Rate(clients, median(found[clients]), note)
