"""What the system's scheduler is told of this process's threads, and of the processes that it starts.

Linux gives a thread that wakes the processor of another one that asks for longer turns (Linux 6.12 and
later): "EEVDF Scheduler" in the kernel's documentation, and `sched_setattr(2)`. So threads whose work can
wait ask for long ones. Each still gets its share of the processors; only who goes first is another. A system
that knows nothing of it leaves everything as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
import threading

NICENESS = 10
"""Of threads and processes whose work can wait: a tenth of the processor that others get who want it, too."""
LONG_TURN_SECONDS = 0.005
"""The system's own choice is some 3 ms; at most it takes 100 ms."""
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(platform.machine())
"""The number of the system call, for which C libraries have no function."""


class _Attributes(ctypes.Structure):
    """`struct sched_attr` of `sched_setattr(2)`, in its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("niceness", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def take_long_turns(process: int | None = None) -> None:
    """Have a thread, and those that are started by it from then on, let others go first who wake.

    Args:
        process: The one thread of this process; None: this thread.
    """
    if sys.platform != "linux" or _SCHED_SETATTR is None:
        return
    # Where the system refuses it, or the process has ended, only the order is lost.
    with contextlib.suppress(OSError):
        thread, nanoseconds = _thread_of(process), int(LONG_TURN_SECONDS * 1e9)
        niceness, size = os.getpriority(os.PRIO_PROCESS, thread), ctypes.sizeof(_Attributes)
        # A thread of the policy for batches takes no processor away from another when it wakes.
        attributes = _Attributes(size, os.SCHED_BATCH, 0, niceness, 0, nanoseconds, 0, 0)
        ctypes.CDLL(None).syscall(_SCHED_SETATTR, thread, ctypes.byref(attributes), 0)


def lower_priority(process: int | None = None, niceness: int = NICENESS) -> None:
    """Have the processors prefer others, for good.

    Args:
        process: To the threads of this process, which has one as yet; None: to this thread.
        niceness: What they get, if they do not have a higher one.
    """
    if sys.platform == "linux":
        # On Linux a niceness is that of a thread, and of those that it starts from then on. Where the system
        # refuses it, or the process has ended, only the order is lost.
        thread = _thread_of(process)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))
    take_long_turns(process)


def _thread_of(process: int | None) -> int:
    return threading.get_native_id() if process is None else process
