"""Many calls to a host, while another client looks keys up, and what came of them."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from engine.duckdb.worker_pool import CRASH
from engine.errors import LimitExceeded
from tests.fuzz.access import GuardedHosts, difference, stranger_fault
from tests.fuzz.calls import Answer, Call, Caller, fault, outcome
from tests.fuzz.functions import function_text
from tests.fuzz.grammar import Texts
from tests.fuzz.host import MOST_MIB, MOST_OF_WORKER_MIB, MemoryWatch, Prober
from tests.fuzz.recording import Recorded, record
from tests.fuzz.statements import statement_call
from tests.fuzz.texts import mutated_text
from tests.fuzz.unfolding import unfolding_call
from tests.fuzz.wire import made_calls, wire_call
from tests.support.host_processes import HostProcess
from tests.support.hostile_arrow import hostile_rows
from tests.support.seeds import seeded_random

SHARES = {"wire": 77, "texts": 12, "sql": 6, "functions": 4, "unfolding": 1}
"""Of a hundred inputs, so many of a kind: the more, the less processor time one takes."""
KINDS = tuple(SHARES)
LONG_KINDS = frozenset({"sql", "functions"})
"""Inputs of these kinds can take a second. They have clients of their own, so that others need not wait until
every client has met one.
"""
PATIENCE_SECONDS = 60.0
"""For an answer; statements have `STATEMENT_SECONDS`."""
STATEMENT_SECONDS = 1.0
SENDER_NICENESS = 19
"""Of the threads that make and send inputs. They stand for other machines, and leave the processors of this
one to the host and to the client whose lookups are timed.
"""
SWELLING_STEP_MIB = 25
SLOWEST = 10
_MOST_OF_TWIN = 50
"""So often the host without the hidden rows is asked whether it ever says what the other does."""
_MOST_LIMITED = 4
"""Inputs that are kept for a crash that the host's log tells of a moment after its answer."""
_SUMMARY_SECONDS = 60.0
_LOG_CHARACTERS = 1_000_000
"""Of what the host said, the end: it has the traceback of an incident."""
SUMMARY = "summary.txt"
"""The summary as it is so far, among the inputs of findings."""


@dataclass(frozen=True)
class Plan:
    """What to send.

    Attributes:
        first: Seed of the first input.
        inputs: How many.
        kinds: Generators, of `KINDS`, each as often as `SHARES` says.
        longest: Characters of the longest text.
        threads: Clients at once.
        seconds: Stop after so many; None: when all are sent.
        most_findings: Stop after so many.
        late_seconds: What takes longer is a finding; None: nothing is, on a machine that others use.
        directory: For the inputs of findings; None: they are not written down.
        is_stranger: Present nothing to a host that wants to know who calls: every answer must say so.
    """

    first: int
    inputs: int
    kinds: Sequence[str] = KINDS
    longest: int = 17 << 20
    threads: int = 6
    seconds: float | None = None
    most_findings: int = 50
    late_seconds: float | None = None
    directory: Path | None = None
    is_stranger: bool = False


@dataclass(frozen=True)
class Finding:
    """Something that no input may do.

    Attributes:
        why: What it was.
        calls: What led to it: one, or those that were under way.
        file: Where the first of them is kept.
    """

    why: str
    calls: Sequence[Call]
    file: Path | None = None

    def describe(self) -> str:
        """A few lines."""
        lines = [
            f"==== {self.why}",
            *(
                f"  {call.kind} {call.seed}: {call.rpc}, {call.size:,} bytes: {call.about[:160]}"
                for call in self.calls
            ),
        ]
        if self.file is not None:
            lines.append(f"  replay: python -m tests.fuzz --replay {self.file}")
        return "\n".join(lines)


@dataclass
class Results:
    """What came of the inputs so far. Shared by threads, each of which adds under the lock.

    Attributes:
        outcomes: How often what came of inputs of a kind.
        findings: What no input may do.
        slowest: Seconds and the calls that took them, the longest first.
        sizes: Bytes sent, by kind.
        seconds: How long it took.
        peak_mib: Memory of the host and its workers, at its most.
        peak_of_host_mib: Likewise, of the host alone.
        peak_of_worker_mib: Likewise, of the largest worker.
        idle_mib: Before the first input, and after the last.
        lookups: Of the other client, before the first input and during them.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    slowest: list[tuple[float, Call]] = field(default_factory=list)
    sizes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    peak_mib: int = 0
    peak_of_host_mib: int = 0
    peak_of_worker_mib: int = 0
    idle_mib: tuple[int, int] = (0, 0)
    lookups: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})

    @property
    def inputs(self) -> int:
        """How many were sent."""
        return self.outcomes.total()

    def look(
        self, seconds: float, memory: MemoryWatch, lookups: tuple[Mapping[str, Any], Mapping[str, Any]]
    ) -> None:
        """Take note of what others have measured so far.

        Args:
            seconds: Since the first input.
            memory: Of the host.
            lookups: As the attribute.
        """
        self.seconds, self.lookups = seconds, lookups
        self.peak_mib, self.peak_of_host_mib = memory.peak, memory.peak_of_host
        self.peak_of_worker_mib = memory.peak_of_worker

    def summary(self) -> str:
        """All of it in some lines."""
        lines = []
        for kind in sorted({kind for kind, _ in self.outcomes}):
            counts = Counter({what: count for (each, what), count in self.outcomes.items() if each == kind})
            lines.append(
                f"{kind}: {counts.total():,} inputs, {self.sizes[kind] >> 20:,} MiB: "
                + ", ".join(f"{what} {count:,}" for what, count in counts.most_common())
            )
        rate = self.inputs / max(self.seconds, 0.001)
        hours = 1e6 / max(rate, 0.001) / 3600
        crashes = sum(finding.why.startswith("the host ended with") for finding in self.findings)
        lines += [
            f"{self.inputs:,} inputs in {self.seconds:,.0f} s, {rate:,.1f} a second",
            f"a million would take {hours:,.1f} h",
            f"the host ended {crashes} times",
            f"memory: host {self.peak_of_host_mib} MiB at the most ({MOST_MIB} allowed)",
            f"        its largest worker {self.peak_of_worker_mib} MiB ({MOST_OF_WORKER_MIB} allowed)",
            f"        all together {self.peak_mib} MiB",
            f"        idle {self.idle_mib[0]} MiB before, {self.idle_mib[1]} after",
            f"lookups before: {_report_line(self.lookups[0])}",
            f"lookups meanwhile: {_report_line(self.lookups[1])}",
            "slowest: "
            + "; ".join(
                f"{seconds:.1f} s {call.kind} {call.seed} ({call.about[:70]})"
                for seconds, call in self.slowest
            ),
            f"findings: {len(self.findings)}",
        ]
        return "\n".join(lines)


def _report_line(report: Mapping[str, Any]) -> str:
    failures = report.get("failures", [])
    return (
        f"{report.get('lookups', 0):,}, p50 {report.get('p50')} ms, p99 {report.get('p99')} ms, "
        f"p99.9 {report.get('p999')} ms, worst {report.get('worst')} ms; "
        f"{len(failures)} failed {failures[:3]}"
    )


def chosen_kind(number: int, kinds: Sequence[str]) -> str:
    """Which generator makes an input.

    Args:
        number: Of the input, from 0.
        kinds: Generators, of `KINDS`.
    """
    shares = [SHARES[kind] for kind in kinds]
    # Steps that visit each place of the round once, so that kinds do not come in rows.
    place = number * 61 % sum(shares)
    return next(kind for kind, end in zip(kinds, itertools.accumulate(shares), strict=True) if place < end)


def make_call(kind: str, seed: int, longest: int, recorded: Sequence[Recorded]) -> Call:
    """The input of a seed.

    Args:
        kind: Of `KINDS`.
        seed: Any number.
        longest: Characters of the longest text.
        recorded: Real messages, for `wire`.
    """
    random = seeded_random(f"{kind} {seed}")
    if kind == "wire":
        return wire_call(kind, seed, recorded, random)
    if kind == "unfolding":
        return unfolding_call(kind, seed, random)
    if kind == "texts":
        text, about = mutated_text(random)
    elif kind == "sql":
        text, about = Texts(random, longest).text(random.choice(("duckdb", "spark")))
    else:
        text, about = function_text(random)
    return statement_call(kind, seed, about, text, random, STATEMENT_SECONDS)


class _Run:
    """One run, shared by its threads."""

    def __init__(
        self,
        plan: Plan,
        host: HostProcess,
        memory: MemoryWatch,
        recorded: Sequence[Recorded],
        guarded: GuardedHosts | None,
    ) -> None:
        self._plan = plan
        self._token = "" if guarded is None or plan.is_stranger else guarded.token
        self._permitted = None if guarded is None or plan.is_stranger else guarded.permitted
        self._host = host
        self._memory = memory
        self._recorded = recorded
        self._lock = threading.Lock()
        self._restarting = threading.Lock()
        self._under_way: dict[int, Call] = {}
        self._limited: deque[Call] = deque(maxlen=_MOST_LIMITED)
        self._crashes = 0
        self._host_bound, self._worker_bound = MOST_MIB, MOST_OF_WORKER_MIB
        self._ends_at = None if plan.seconds is None else time.monotonic() + plan.seconds
        self._long = self._numbers(LONG_KINDS)
        self._others = self._numbers(frozenset(KINDS) - LONG_KINDS)
        self.results = Results()

    def _numbers(self, kinds: Set[str]) -> Iterator[tuple[int, str]]:
        """Numbers and kinds of the inputs of some kinds."""
        for number in range(self._plan.inputs):
            kind = chosen_kind(number, self._plan.kinds)
            if kind in kinds:
                yield number, kind

    def work(self, place: int) -> None:
        """Send inputs until there are enough.

        Args:
            place: Of the thread, among all.
        """
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), SENDER_NICENESS)
        caller = Caller(self._host.uri, self._token)
        twin = None if self._permitted is None else Caller(self._permitted.uri, self._token)
        numbers = (self._others, self._long) if place % 2 else (self._long, self._others)
        try:
            while not self._is_over():
                with self._lock:
                    chosen = next(itertools.chain(*numbers), None)
                if chosen is None:
                    return
                number, kind = chosen
                call = make_call(kind, self._plan.first + number, self._plan.longest, self._recorded)
                caller = self._send(call, caller, twin)
        finally:
            caller.close()
            if twin is not None:
                twin.close()

    def _is_over(self) -> bool:
        return len(self.results.findings) >= self._plan.most_findings or (
            self._ends_at is not None and time.monotonic() > self._ends_at
        )

    def _send(self, call: Call, caller: Caller, twin: Caller | None) -> Caller:
        """Send an input; the connection for the next."""
        me, process = threading.get_ident(), self._host.pid
        with self._lock:
            self._under_way[me] = call
        begun = time.monotonic()
        answer = caller.send(call, PATIENCE_SECONDS)
        seconds = time.monotonic() - begun
        wrong = stranger_fault(call, answer) if self._plan.is_stranger else fault(call, answer)
        if wrong is None and twin is not None:
            permitted = [twin.send(call, PATIENCE_SECONDS)]
            wrong = difference(answer, permitted)
            while wrong is not None and len(permitted) < _MOST_OF_TWIN:
                permitted.append(twin.send(call, PATIENCE_SECONDS))
                wrong = difference(answer, permitted)
        if wrong is None and self._plan.late_seconds is not None and seconds > self._plan.late_seconds:
            wrong = f"answered after {seconds:.1f} s"
        if wrong == "lost":
            caller.close()
            wrong = self._end_of(process, call, answer)
            caller = Caller(self._host.uri, self._token)
        with self._lock:
            del self._under_way[me]
            self._note(call, answer, seconds)
            if wrong is not None:
                self._add(wrong, [call])
            self._look_at_memory(call)
            if outcome(answer) == LimitExceeded.__name__:
                self._limited.append(call)
                self.look_for_crashes()
        return caller

    def _look_at_memory(self, call: Call) -> None:
        host, worker = self._memory.peak_of_host, self._memory.peak_of_worker
        if host > self._host_bound:
            self._host_bound = host + SWELLING_STEP_MIB
            self._add(f"the host took {host} MiB", [call, *self._under_way.values()])
        if worker > self._worker_bound:
            self._worker_bound = worker + SWELLING_STEP_MIB
            self._add(f"a worker took {worker} MiB", [call, *self._under_way.values()])

    def look_for_crashes(self) -> None:
        """Add what the host has said of processes of statements that crashed, with the inputs that were told
        of a limit lately: so is whoever's process has crashed.
        """
        lines = [
            line
            for line in self._host.said.splitlines()
            if " ERROR " in line and CRASH.partition("%")[0] in line
        ]
        for line in lines[self._crashes :]:
            self._add(line, [*self._limited, *self._under_way.values()])
        self._crashes = len(lines)

    def _note(self, call: Call, answer: Answer, seconds: float) -> None:
        found = self.results
        found.outcomes[call.kind, outcome(answer)] += 1
        found.sizes[call.kind] += call.size
        if len(found.slowest) < SLOWEST or seconds > found.slowest[-1][0]:
            found.slowest = sorted([*found.slowest, (seconds, call)], key=lambda each: -each[0])[:SLOWEST]

    def _add(self, why: str, calls: Sequence[Call]) -> None:
        file = None
        if self._plan.directory is not None:
            self._plan.directory.mkdir(parents=True, exist_ok=True)
            number = len(self.results.findings)
            for place, call in enumerate(calls):
                written = self._plan.directory / f"{call.kind}-{call.seed}-{number}.json"
                call.write(written, why)
                file = written if place == 0 else file
            (self._plan.directory / "host.log").write_text(self._host.said[-_LOG_CHARACTERS:])
        self.results.findings.append(Finding(why, calls, file))

    def _end_of(self, process: int, call: Call, answer: Answer) -> str | None:
        """What it means that the connection is gone: why the host has ended; whoever sees it first starts it
        again. The same process means that the call alone was broken off.
        """
        with self._restarting:
            if self._host.pid != process:
                return "the host ended meanwhile"
            deadline = time.monotonic() + 2.0
            while self._host.exit_status is None and time.monotonic() < deadline:
                time.sleep(0.05)
            status = self._host.exit_status
            if status is None:
                return None if call.kind == "wire" else f"broke the call off: {answer.details}"
            said = self._host.said[-3000:]
            self._host.start()
            self._host.wait()
            return f"the host ended with {status}: {said}"


def run(
    plan: Plan,
    host: HostProcess,
    progress: Callable[[Results, int], None] = lambda *_: None,
    guarded: GuardedHosts | None = None,
) -> Results:
    """Send inputs to a host.

    Args:
        plan: What to send.
        host: The host.
        progress: Called now and then with the results so far, and the memory of the host.
        guarded: What the host is one of, where it wants to know who calls; None: it does not.
    """
    token = "" if guarded is None else guarded.token
    recorded: Sequence[Recorded] = ()
    if "wire" in plan.kinds:
        recorded = record(host.uri, token)
        # Once, and not by each thread.
        hostile_rows()
        made_calls()
    with _long_lived_objects(), MemoryWatch(host) as memory, Prober(host.uri, token) as prober:
        _settle(memory)
        prober.report()
        time.sleep(min(2.0, 0.1 + plan.inputs / 10_000))
        before, idle = prober.report(), memory.now
        work = _Run(plan, host, memory, recorded, guarded)
        found, begun = work.results, time.monotonic()
        looks_at = begun + _SUMMARY_SECONDS
        with _threads(plan.threads, work.work) as alive:
            while alive():
                if time.monotonic() > looks_at:
                    found.look(time.monotonic() - begun, memory, (before, prober.report(so_far=True)))
                    _write_summary(found, plan.directory)
                    looks_at += _SUMMARY_SECONDS
                progress(found, memory.now)
        seconds, meanwhile = time.monotonic() - begun, prober.report()
        work.look_for_crashes()
        _settle(memory)
        found.look(seconds, memory, (before, meanwhile))
        found.idle_mib = (idle, memory.now)
        _write_summary(found, plan.directory)
    return found


def _write_summary(results: Results, directory: Path | None) -> None:
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / SUMMARY).write_text(f"{results.summary()}\n", encoding="utf-8")


@contextmanager
def _long_lived_objects() -> Iterator[None]:
    """Collections pass over what is there by now: messages are many small objects."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def _settle(memory: MemoryWatch) -> None:
    """Wait until the memory was looked at."""
    memory.now = 0
    deadline = time.monotonic() + 10.0
    while not memory.now and time.monotonic() < deadline:
        time.sleep(0.05)


@contextmanager
def _threads(count: int, work: Callable[[int], None]) -> Iterator[Callable[[], bool]]:
    failures: list[BaseException] = []
    threads = [
        threading.Thread(target=_attempt, args=(partial(work, place), failures)) for place in range(count)
    ]
    for thread in threads:
        thread.start()

    def alive() -> bool:
        for thread in threads:
            if thread.is_alive():
                thread.join(0.5)
                return True
        return False

    yield alive
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _attempt(work: Callable[[], None], failures: list[BaseException]) -> None:
    try:
        work()
    except BaseException as error:  # noqa: BLE001  it is raised where the threads are waited for
        failures.append(error)


def print_progress(results: Results, mebibytes: int, every: float = 30.0) -> None:
    """Print a line now and then."""
    now = time.monotonic()
    last = getattr(print_progress, "last", 0.0)
    if now - last >= every:
        print_progress.last = now  # type: ignore[attr-defined]
        print(
            f"{results.inputs:,} inputs, {len(results.findings)} findings, {mebibytes} MiB", file=sys.stderr
        )
