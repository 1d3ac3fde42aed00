"""The process that is a host: signals and the interpreter's settings, which belong to a process and not to a
`Host`.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import cast

import pyarrow as pa

from engine.statements.deep_stack import ignore_lost_interrupts
from flight_server.host.arrow_pool import is_limited
from flight_server.host.free_memory import Heaps, return_free_memory
from flight_server.host.host import Host, HostOptions
from flight_server.host.stop_signals import KEPT_SIGNALS, block_stop_signals, is_stop

SWITCH_INTERVAL_SECONDS = 1e-4
"""How long a thread keeps the interpreter while others wait; Python's own choice is 5 ms.

One busy thread (an epoch being applied) took a host from 2,500 calls a second to 100 to 350; with 0.1 ms it
was 1,700.
"""
GRPC_EXPERIMENTS = "-event_engine_listener,-event_engine_client"
"""gRPC's "event engine" hands each call from a polling thread of its own to the one that answers it. Without,
the latter polls by itself: a call of a server that does nothing takes 0.40 ms in place of 0.47; 8 clients
together get 4 % fewer answers, 64 no fewer.
"""
SERVES = "livestate serves"
"""What the line begins with that a process prints when clients can connect."""

HEAPS_SECONDS = 1.0
"""How often a host looks whether its heaps have grown: to give back what is free in them takes some ms."""
POOL_DECAY_MILLISECONDS = 100
"""How long Arrow's pool keeps what was freed, in case that it is asked for again. By itself it is a second:
what comes and goes under statements that the cache does not hold is then some 50 MiB more. With none, such
scans take up to a fifth longer.
"""
_LOOK_SECONDS = 0.05

_log = logging.getLogger(__name__)


def serves_line(options: HostOptions, host: Host) -> str:
    """What a process prints when clients can connect.

    Args:
        options: What the host was told.
        host: The host, started.
    """
    http = f", and probes and metrics at {host.http_uri}" if host.http_uri else ""
    return f"{SERVES} {options.changelog} at {host.uri}{http}"


def prepare() -> None:
    """Set this process up for answering calls of Flight quickly. Before the first server or client of gRPC,
    which reads its settings once.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    os.environ.setdefault("GRPC_EXPERIMENTS", GRPC_EXPERIMENTS)
    ignore_lost_interrupts()


COLLECTION_THRESHOLDS = (5000, 10, 3)
"""How many more objects than were freed have garbage collection look at young objects, how many of these
collections have it look at older ones, and how many of those at all; Python's own are 700, 10 and 10.

A tree of the parser is a cycle. With 700, most trees are in use at some collection, and are old by the time
they are garbage, which only a full collection finds: under hostile statements, 27 a minute of 0.2 s each, in
which no other thread runs. Of 5,000 objects that die young a collection takes 2 to 8 ms. With 10 at the end,
full collections were rarer than with Python's own, and found so much that each took longer.
"""


def settle() -> None:
    """Take everything that is there by now out of garbage collection, as it stays for good: modules for the
    most part.

    A full collection looks at all objects while every thread waits: 25 ms for the 115,000 of a host that has
    just started, and twice that and more where others want the processors. Afterwards it takes 1 to 5 ms, for
    what statements and epochs have left. Before the interpreter ends, `gc.unfreeze` takes it back in: modules
    are cycles, and DuckDB's complains about all that it made and that outlives it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    if _give_way not in gc.callbacks:
        gc.callbacks.append(_give_way)


def _function_that_gives_way() -> Callable[[str, dict[str, int]], object]:
    """To be called before and after each collection of garbage: sqlglot is compiled, and has no step at which
    another thread could have the interpreter for the 100 ms that it takes to cut 100,000 tokens.

    A function of C, which lets go of the interpreter and ignores its arguments: one of Python would be such a
    step, too, but an error that is raised in the thread from outside (`engine.statements.deep_stack`) would
    come up in it, and be lost.
    """
    sched_yield = ctypes.CDLL(None).sched_yield
    sched_yield.argtypes = (ctypes.py_object, ctypes.py_object)
    return cast("Callable[[str, dict[str, int]], object]", sched_yield)


_give_way = _function_that_gives_way()


def stop_with_standard_input() -> None:
    """Have this process get SIGTERM when its standard input ends: when that is a pipe of its parent, it does
    not outlive the parent.
    """

    def wait() -> None:
        try:
            while os.read(sys.stdin.fileno(), 4096):
                pass
        finally:
            # An input that cannot be read says no more of the parent than one that has ended.
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def serve(options: HostOptions, started: Callable[[Host], None], *, supervised: bool = False) -> None:
    """Be a host until SIGTERM or SIGINT; a SIGINT that comes then ends the wait for what runs. For the main
    thread of a process that does nothing else, and has blocked these signals before its imports started
    threads (`flight_server.host.stop_signals`).

    Args:
        options: What the host is told.
        started: Called once, when clients can connect.
        supervised: The process ends with its standard input, too.

    Raises:
        LivestateError: The host could not start, by kind.
    """
    with block_stop_signals():
        _serve(options, started, supervised=supervised)


def _look_after_heaps() -> None:
    """Give back what is free in the heaps, now and then, for as long as the process lives."""
    heaps = Heaps()
    while True:
        time.sleep(HEAPS_SECONDS)
        heaps.trim_if_grown()


def _wait_until_idle(host: Host, seconds: float) -> None:
    """Wait until nothing runs on a host that drains, or somebody presses Ctrl-C.

    A second SIGTERM is no wish for haste: systemd sends one to each process of a unit, and so does a parent.
    """
    until = time.monotonic() + seconds
    while host.running_queries and (left := until - time.monotonic()) > 0:
        found = signal.sigtimedwait([signal.SIGINT], min(left, _LOOK_SECONDS))
        # It tells of signals that never came when the process was stopped meanwhile.
        if found is not None and found.si_signo == signal.SIGINT:
            break


def _choose_memory_pool() -> None:
    if "jemalloc" in pa.supported_memory_backends():
        # It gives back what compaction frees; with pyarrow's default a host of 10 M rows takes a third more.
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(POOL_DECAY_MILLISECONDS)
    elif is_limited():
        pa.set_memory_pool(pa.system_memory_pool())


def _serve(options: HostOptions, started: Callable[[Host], None], *, supervised: bool) -> None:
    if supervised:
        stop_with_standard_input()
    prepare()
    return_free_memory()
    _choose_memory_pool()
    host = Host(options)
    try:
        host.start()
        settle()
        # Not in this thread: it would need `sigtimedwait`, which tells of a signal that never came, in
        # Python 3.11, when the process was stopped for longer than it waits.
        threading.Thread(target=_look_after_heaps, name="heaps", daemon=True).start()
        started(host)
        while not is_stop(signal.sigwait(KEPT_SIGNALS), has_files=options.security is not None):
            host.reload_security()
        host.drain()
        _wait_until_idle(host, options.grace_seconds)
    finally:
        # What runs by now has had its time, or nobody could ask anything yet.
        stopped = host.stop(grace_seconds=0.0)
        # One that came once more, while the host was stopping, has been answered too.
        while signal.sigtimedwait(KEPT_SIGNALS, 0) is not None:
            pass
        gc.unfreeze()
    if not stopped:
        _log.warning(
            "A client neither reads its result nor goes away, keeps a stream of keys open, or does not "
            "answer any more; the host ends without it."
        )
        # Flight would wait for that client, without end or for long. All that has to last is closed by now.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
