"""A host beside a pipeline's job, and the pipeline's questions asked of it in SQL over Flight, as any client
would.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.errors import LivestateError, Unavailable
from engine.processes.supervisor import ChildProcess
from flight_server.client.connection import Connection
from flight_server.client.connection_options import ConnectionOptions
from spark_pipeline.addresses import LOOPBACK, answers
from spark_pipeline.pipelines.pipeline import Pipeline, Question

ASK_SECONDS = 5.0
_SHOWN_ROWS = 10
_PROBE_SECONDS = 1.0


class HostProcess:
    """A livestate host; a context that starts and stops it.

    Args:
        changelog: What it serves.
        directory: For its data and its log.
        port: Where it listens.
    """

    def __init__(self, changelog: str, directory: Path, port: int) -> None:
        # By name alone: the Spark side imports nothing of the server but its wire and its client.
        serve = [
            "-m",
            "flight_server.cli.main",
            "serve",
            "--changelog",
            changelog,
            "--data",
            str(directory / "data"),
        ]
        self._command = [sys.executable, *serve, "--address", LOOPBACK, "--port", str(port)]
        self._log = directory / "host.log"
        self._place = f"{LOOPBACK}:{port}"
        self.uri = f"grpc://{LOOPBACK}:{port}"

    def __enter__(self) -> HostProcess:
        """Start it.

        Raises:
            Unavailable: The port is taken: whoever has it would be asked in place of the host.
        """
        if answers(self._place, _PROBE_SECONDS):
            raise Unavailable(
                f"Something else serves {self._place} already: stop it, or choose another --port, or none."
            )
        self._process = ChildProcess.start("The host", self._command, self._log)
        return self

    def has_ended(self) -> bool:
        """Whether it runs no longer."""
        return self._process.has_ended()

    def failure(self) -> str | None:
        """How it ended by itself, as a sentence; None while it runs."""
        return self._process.failure()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.stop()


class Asker:
    """Asks a pipeline's questions now and then, and prints the answers.

    Args:
        pipeline: Whose questions.
        host: How the host is reached.
        console: Where to print.
        process: The host, where it is a process of the job's.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        host: ConnectionOptions,
        console: Console,
        process: HostProcess | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._host = host
        self._console = console
        self._process = process
        self._next = ASK_SECONDS

    def __call__(self, seconds: float) -> None:
        """Ask, if it is time.

        Args:
            seconds: Since the job started.
        """
        if seconds >= self._next:
            self._next = seconds + ASK_SECONDS
            self.ask(f"After {seconds:.0f} s")

    def ask(self, title: str) -> None:
        """Ask all questions now; those whose store is not there yet have no answer."""
        self._console.rule(title)
        failure = None if self._process is None else self._process.failure()
        if failure is not None:
            self._console.print(f"No answer: {failure}")
            return
        try:
            with Connection(self._host) as connection:
                for question in self._pipeline.questions:
                    self._print(question, connection.rows(question.sql.encode()).read_all())
        except LivestateError as error:
            self._console.print(f"No answer yet: {error.message}")

    def _print(self, question: Question, answer: pa.Table) -> None:
        table = Table(box=box.SIMPLE_HEAD)
        for column in answer.schema:
            table.add_column(
                Text(column.name), justify="left" if pa.types.is_string(column.type) else "right"
            )
        self._console.print(question.words, style="bold")
        for row in answer.slice(0, _SHOWN_ROWS).to_pylist():
            # Brackets and colons in a title are no markup.
            table.add_row(*[Text(_text(value)) for value in row.values()])
        self._console.print(table)
        if answer.num_rows > _SHOWN_ROWS:
            self._console.print(f"… and {answer.num_rows - _SHOWN_ROWS:,} more rows")


def _text(value: object) -> str:
    return f"{value:,.4f}" if isinstance(value, float) else str(value)
