"""How verbs fail: one message, and one exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from engine.errors import LivestateError


class Failure(click.ClickException):
    """An error of livestate, as the command line shows it: no traceback, exit code 1."""

    exit_code = 1

    def __init__(self, error: LivestateError) -> None:
        super().__init__(error.message)
        self._error = error

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message, and what may help.

        Args:
            file: Where; standard error by default.
        """
        from flight_server.cli.render import error_lines  # noqa: PLC0415  rendering imports pyarrow

        for line in error_lines(self._error):
            click.echo(line, file=file, err=file is None)


@contextmanager
def show_failures() -> Iterator[None]:
    """Show what livestate raises on purpose as one message, and say that Ctrl-C has ended the command; a
    reader of our output that has gone away is no failure.
    """
    try:
        yield
    except LivestateError as error:
        raise Failure(error) from error
    except (KeyboardInterrupt, click.Abort) as interrupt:
        # A question that is not answered with yes aborts, too; click makes the same of Ctrl-C there.
        if isinstance(interrupt, click.Abort) and not isinstance(interrupt.__context__, KeyboardInterrupt):
            raise
        click.echo("Interrupted.", err=True)
        raise SystemExit(128 + 2) from None
    except BrokenPipeError:
        # What is still buffered would fail again when Python flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
