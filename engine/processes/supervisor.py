"""Child processes: started, watched and stopped, one or several together."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from engine.processes.children import python_environment
from engine.processes.watcher import Watcher

STOP_SECONDS = 15
_POLL_SECONDS = 0.05
_SHOWN_CHARACTERS = 300


@dataclass(frozen=True)
class ChildProcess:
    """One process that this one started. It ends with this one, too, however that does.

    Attributes:
        name: What it is, as a message calls it.
        process: The process.
        log: What it wrote to its outputs.
        watcher: Ends it when this process has ended without doing so.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    watcher: Watcher

    @staticmethod
    def start(
        name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> ChildProcess:
        """Start a process.

        Args:
            name: What it is, as a message calls it.
            command: Program and arguments.
            log: Where its outputs go, behind what is there.
            environment: Variables besides those of this process.

        Returns:
            The process.

        Raises:
            OSError: It cannot be started, or nothing that would end it with this one.
        """
        with log.open("ab") as out:
            # A group of its own keeps the terminal's Ctrl-C from it, as this process stops it in order, and
            # names what it starts.
            process = subprocess.Popen(  # noqa: S603  the callers make their commands, of programs that they know
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**python_environment(), **(environment or {})},
                start_new_session=True,
            )
        try:
            watcher = Watcher(process.pid, STOP_SECONDS)
        except BaseException:
            # Nobody else knows of it yet.
            _stop_group(process)
            raise
        return ChildProcess(name, process, log, watcher)

    def has_ended(self) -> bool:
        """Whether it runs no longer."""
        return self.process.poll() is not None

    def last_line(self) -> str:
        """The last that it said, in brackets behind a space, for a message; empty if it said nothing."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return f" ({lines[-1][:_SHOWN_CHARACTERS].rstrip('.')})" if lines else ""

    def failure(self) -> str | None:
        """How it ended, and where its log is, as a sentence; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        return (
            f"{self.name} ended unexpectedly with exit code {code}{self.last_line()}; all that it said is in "
            f"{self.log}."
        )

    def stop(self) -> None:
        """End it: first with SIGTERM, and if it does not listen, with SIGKILL; and then what it started and
        left behind, such as a JVM.
        """
        self.watcher.stop()
        _stop_group(self.process)


def _stop_group(process: subprocess.Popen[bytes]) -> None:
    """End a process, in order if it listens, and then what it started and left behind."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Supervisor:
    """Processes that belong together; leaving the context stops them, the last one first.

    Args:
        logs: Where their outputs go, one file for each.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[ChildProcess] = []

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> ChildProcess:
        """Start a process.

        Args:
            name: What it is, as a message calls it.
            command: Program and arguments.
            environment: Variables besides those of this process.

        Returns:
            The process.
        """
        log = self._logs / (re.sub(r"\W+", "-", name.lower().removeprefix("the ")) + ".log")
        child = ChildProcess.start(name, command, log, environment)
        self._running.append(child)
        return child

    def failure(self) -> str | None:
        """How the first of them that has ended did so, as a sentence that names it; None while all run."""
        return next(filter(None, (child.failure() for child in self._running)), None)

    def wait_for_exit(self, seconds: float) -> bool:
        """Wait until one of them has ended by itself.

        Args:
            seconds: How long to wait for that.

        Returns:
            Whether one has; False after the time-out.
        """
        deadline = time.monotonic() + seconds
        while not any(child.has_ended() for child in self._running):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def stop(self, child: ChildProcess) -> None:
        """End one process that is no longer needed."""
        self._running.remove(child)
        child.stop()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for child in reversed(self._running):
            child.stop()
