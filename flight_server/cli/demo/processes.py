"""The processes that the demo starts: started, watched and stopped together."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from engine.errors import Unavailable
from engine.processes.children import python_environment
from engine.processes.watcher import Watcher

STOP_SECONDS = 15
OLDEST_JAVA = 17
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Child:
    """One process.

    Attributes:
        name: What it is, as a message calls it.
        process: The process.
        log: What it wrote to its outputs.
        watcher: Ends it when the demo has ended without doing so.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    watcher: Watcher

    def check(self) -> None:
        """Make sure that it runs.

        Raises:
            Unavailable: It has ended; the message says where its log is.
        """
        code = self.process.poll()
        if code is not None:
            last = _last_line(self.log)
            raise Unavailable(
                f"{self.name} ended unexpectedly with exit code {code}{last}; all that it said is in "
                f"{self.log}."
            )

    def stop(self) -> None:
        """End it: first with SIGTERM, and if it does not listen, with SIGKILL; and then what it started and
        left behind, such as a JVM.
        """
        self.watcher.stop()
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f" ({lines[-1][:300].rstrip('.')})" if lines else ""


class Children:
    """All processes of a demo; leaving the context stops them, the last one first. They end with this
    process, too, however that does.

    Args:
        logs: Where their outputs go, one file for each.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[Child] = []

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
        """Start a process.

        Args:
            name: What it is, as a message calls it.
            command: Program and arguments.
            environment: Variables besides those of this process.

        Returns:
            The process.
        """
        log = self._logs / (re.sub(r"\W+", "-", name.lower().removeprefix("the ")) + ".log")
        with log.open("wb") as out:
            # A group of its own keeps the terminal's Ctrl-C from the children, which the demo stops in order,
            # and names what they start.
            process = subprocess.Popen(  # noqa: S603  the command is made here, of this interpreter and its modules
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**python_environment(), **(environment or {})},
                start_new_session=True,
            )
        child = Child(name, process, log, Watcher(process.pid, STOP_SECONDS))
        self._running.append(child)
        return child

    def check(self) -> None:
        """Make sure that all run.

        Raises:
            Unavailable: One has ended; the message names it.
        """
        for child in self._running:
            child.check()

    def loses_one(self, seconds: float) -> bool:
        """Whether one of them has ended, or does so by itself soon.

        Args:
            seconds: How long to wait for that.
        """
        deadline = time.monotonic() + seconds
        while all(child.process.poll() is None for child in self._running):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def stop(self, child: Child) -> None:
        """End one process that is no longer needed."""
        self._running.remove(child)
        child.stop()

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for child in reversed(self._running):
            child.stop()


def check_spark() -> None:
    """Make sure that a Spark job can start here.

    Raises:
        Unavailable: PySpark, or Java 17 or newer, is missing.
    """
    if find_spec("pyspark") is None:
        raise Unavailable(
            "The demo runs a Spark job, and PySpark is not installed: pip install 'livestate[spark]'."
        )
    version = java_version()
    if version is None:
        raise Unavailable(
            f"The demo runs a Spark job, which needs Java {OLDEST_JAVA} or newer, and none was found: "
            "install a JDK or set JAVA_HOME."
        )
    if version < OLDEST_JAVA:
        raise Unavailable(
            f"The demo runs a Spark job, which needs Java {OLDEST_JAVA} or newer; Java {version} was found: "
            "set JAVA_HOME to a newer one."
        )


def check_kafka() -> None:
    """Make sure that Kafka's client for Python is there.

    Raises:
        Unavailable: It is missing.
    """
    if find_spec("confluent_kafka") is None:
        raise Unavailable(
            "The demo sends its plays to Kafka, and the client for it is not installed: pip install "
            "'livestate[kafka]'."
        )


def java_version() -> int | None:
    """The main version of the Java that Spark will use; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java") if home else "java")
    if java is None:
        return None
    try:
        said = subprocess.run(  # noqa: S603  the program is the Java that Spark would run
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else None
