"""Several hosts on one machine: a parent process that starts them, passes on what they say, and starts one
again that dies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from engine.cluster.deployment import Deployment, HostEntry
from engine.errors import InvalidInput, Unavailable
from engine.processes.children import python_environment
from flight_server.host.host import GRACE_SECONDS
from flight_server.host.process import SERVES
from flight_server.host.serving import (
    DEPLOYMENT_FILE,
    ServeArguments,
    deployment_text,
    http_address_of,
    local_deployment,
)

STOP_SECONDS = 15.0
"""How long processes may take to stop before they are killed, beside the time of running statements."""
LEAST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
HEALTHY_SECONDS = 60.0
"""A process that ran for so long is started again without a growing pause."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

Say = Callable[[str], None]


@dataclass
class _Child:
    """One host process, and those before it that died.

    Attributes:
        entry: The host.
        command: What starts it.
        process: The process; None before the first.
        served: Whether one of them could be connected to.
        started: When the process was started, by the monotonic clock.
        pause: Seconds to wait before the next start.
        start_at: When to start it again; None while it runs.
        speaker: The thread that passes on what the process says.
    """

    entry: HostEntry
    command: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    served: threading.Event = field(default_factory=threading.Event)
    started: float = 0.0
    pause: float = LEAST_PAUSE_SECONDS
    start_at: float | None = 0.0
    speaker: threading.Thread | None = None


class Launcher:
    """Hosts of a deployment as processes of this machine. For the main thread of a process that does nothing
    else.

    Args:
        deployment: The hosts, each with a data directory.
        command: Gives the command that is a host.
        environment: Variables of the processes.
        say: Prints a line.
        grace_seconds: How long running statements may go on at a stop.
    """

    def __init__(
        self,
        deployment: Deployment,
        command: Callable[[HostEntry], Sequence[str]],
        environment: Mapping[str, str],
        say: Say,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._stop_seconds = grace_seconds + STOP_SECONDS
        self._deployment = deployment
        self._environment = environment
        self._say = say
        self._children = [_Child(entry, command(entry)) for entry in deployment.hosts]
        self._all_served = False

    def run(self) -> None:
        """Start the hosts, and keep them running until SIGTERM or SIGINT.

        Raises:
            Unavailable: A host could not start.
        """
        # Blocked, a signal waits until it is asked for; the processes block those that end them by
        # themselves.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            while True:
                wait = self._start_due()
                self._announce()
                received = signal.sigtimedwait(_SIGNALS, wait)
                if received is not None and received.si_signo != signal.SIGCHLD:
                    return
                self._reap_children()
        finally:
            self._stop()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _start_due(self) -> float:
        """Start the processes whose time has come; seconds until there is something to do again."""
        now = time.monotonic()
        for child in self._children:
            if child.start_at is not None and child.start_at <= now:
                self._start(child)
        waiting = [child.start_at - now for child in self._children if child.start_at is not None]
        starting = [] if self._all_served else [0.05]
        return max(0.0, min([*waiting, *starting, 3600.0]))

    def _start(self, child: _Child) -> None:
        # A session of its own keeps the terminal's Ctrl-C from the processes, which are stopped together
        # here.
        child.process = subprocess.Popen(  # noqa: S603 - the command is made here, of this interpreter and its modules
            child.command,
            stdin=subprocess.PIPE,  # its end tells the process that this one is gone
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )
        child.started, child.start_at = time.monotonic(), None
        assert child.process.stdout is not None
        child.speaker = threading.Thread(
            target=self._pass_on,
            args=(child, child.process.stdout),
            name=f"output-{child.entry.name}",
            daemon=True,
        )
        child.speaker.start()

    def _pass_on(self, child: _Child, output: IO[bytes]) -> None:
        with output:
            for line in output:
                text = line.decode(errors="replace").rstrip("\n")
                if text.startswith(SERVES):
                    child.served.set()
                # A log in JSON says its host, and is for programs, which read lines as they are.
                is_json = text.startswith("{")
                self._tell(text if is_json else f"host {child.entry.name} | {text}")

    def _tell(self, line: str) -> None:
        """Print a line, if somebody takes it: a log on a full disk, or a reader that has gone, ends no host.
        A process whose output nobody takes any more would stand still in the middle of a line.
        """
        with suppress(OSError, ValueError):
            self._say(line)

    def _announce(self) -> None:
        if not self._all_served and all(child.served.is_set() for child in self._children):
            self._all_served = True
            self._tell(
                f"{SERVES} {self._deployment.changelog} with {len(self._children)} hosts at "
                f"{', '.join(e.uri for e in self._deployment.hosts)}"
            )

    def _reap_children(self) -> None:
        """See who died, and when to start it again."""
        for child in self._children:
            code = None if child.process is None or child.start_at is not None else child.process.poll()
            if code is None:
                continue
            assert child.speaker is not None
            child.speaker.join(STOP_SECONDS)
            if not child.served.is_set():
                raise Unavailable(f"Host {child.entry.name} could not start; what it said is above.")
            if time.monotonic() - child.started > HEALTHY_SECONDS:
                child.pause = LEAST_PAUSE_SECONDS
            self._tell(
                f"Host {child.entry.name} ended unexpectedly with {_exit_in_words(code)}; it is started "
                f"again in {child.pause:g} s."
            )
            child.start_at = time.monotonic() + child.pause
            child.pause = min(2 * child.pause, LONGEST_PAUSE_SECONDS)

    def _stop(self) -> None:
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            process.terminate()
            assert process.stdin is not None
            process.stdin.close()
        deadline = time.monotonic() + self._stop_seconds
        while any(process.poll() is None for process in running):
            received = signal.sigtimedwait(_SIGNALS, max(0.0, deadline - time.monotonic()))
            if received is None:
                break
            if received.si_signo == signal.SIGINT:
                # Whoever presses Ctrl-C once more does not want to wait for what runs.
                for process in running:
                    process.send_signal(signal.SIGINT)
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
        for child in self._children:
            if child.speaker is not None:
                child.speaker.join(STOP_SECONDS)


def _exit_in_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def launch(given: ServeArguments, say: Say) -> None:
    """Be the parent of several hosts until SIGTERM or SIGINT.

    Args:
        given: The command line, with `processes`.
        say: Prints a line.

    Raises:
        InvalidInput: Something is missing or contradicts the rest.
        Unavailable: A host could not start.
    """
    deployment = local_deployment(given)
    assert given.data is not None
    file = given.data / DEPLOYMENT_FILE
    try:
        given.data.mkdir(parents=True, exist_ok=True)
        file.write_text(deployment_text(deployment), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"The data directory cannot be used: {error.strerror}.") from error
    environment = dict(python_environment()) | (
        {} if given.token is None else {"LIVESTATE_TOKEN": given.token}
    )
    grace_seconds = GRACE_SECONDS if given.grace is None else given.grace
    Launcher(
        deployment, lambda entry: host_command(file, entry, given), environment, say, grace_seconds
    ).run()


def host_command(file: Path, entry: HostEntry, given: ServeArguments) -> Sequence[str]:
    """The command that is one of the hosts.

    Args:
        file: The deployment file.
        entry: The host.
        given: The command line of all.

    Returns:
        Program and arguments; the token goes by the environment, which other users cannot see.
    """
    command = [
        sys.executable,
        "-m",
        "flight_server.cli.main",
        "serve",
        "--deployment",
        str(file),
        "--host",
        entry.name,
        "--supervised",
    ]
    threads = given.threads or max(1, (os.cpu_count() or 1) // (given.processes or 1))
    options = {
        "--address": given.address,
        "--poll-interval": given.poll_interval,
        "--memory": given.memory,
        "--spill": given.spill,
        "--answers": given.answers,
        "--cache": given.cache,
        "--threads": threads,
        "--apply-threads": given.apply_threads or max(2, threads),
        "--compaction-threads": given.compaction_threads or max(2, threads),
        "--max-statements": given.max_statements,
        "--max-lag": given.max_lag,
        "--grace": given.grace,
        "--http-address": http_address_of(given, entry),
        "--snapshot-after": given.snapshot_after,
        "--snapshots-kept": given.snapshots_kept,
        "--snapshot-tail": given.snapshot_tail,
        "--scrub-every": given.scrub_every,
        "--scrub-rate": given.scrub_rate,
        "--tls-certificate": given.tls_certificate,
        "--tls-key": given.tls_key,
        "--tls-roots": given.tls_roots,
        "--audit-log": None if given.audit_log is None else f"{given.audit_log}.{entry.name}",
        "--log-format": given.log_format,
        "--log-level": given.log_level,
        "--slow-statement": given.slow_statement,
        "--security": None if given.security is None else given.security.absolute(),
    }
    for option, value in options.items():
        if value is not None:
            command += [option, str(value)]
    flags = {
        "--audit-digests": given.audit_digests,
        "--open-to-all": given.open_to_all,
        "--insecure": given.insecure,
    }
    return [*command, *(flag for flag, is_given in flags.items() if is_given)]
