"""The log of a process: one line an event, as text for people or as JSON for programs.

Both have the time (UTC, RFC 3339), the level, the host, the logger, the statement's id where the event is
about one, and the message. A record may carry more:

- `repeats`, a text: of records with the same text one a minute is written, and says how many others there
  were.
- `facts`, a mapping of what JSON knows: fields of its JSON object, beside the message that has them in words.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import IO, Any

from engine.telemetry.changes import Repeats
from engine.telemetry.statement_ids import statement_id

LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
OWN_LOGGERS = ("engine", "flight_server", "spark_pipeline")
"""Loggers that the level is for; of libraries, warnings are written."""
_NONE = "-"


def configure_logs(
    log_format: str = "text", level: str = "info", host: str = "", stream: IO[str] | None = None
) -> None:
    """Have this process write its log. Called again, it writes it in the new way alone.

    Args:
        log_format: One of `LOG_FORMATS`.
        level: One of `LOG_LEVELS`: what is below is not written.
        host: Name of the host that this process is; empty for none.
        stream: Where to; None: standard error.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.addFilter(RepeatFilter())
    handler.setFormatter(JsonLines(host) if log_format == "json" else TextLines(host))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in OWN_LOGGERS:
        logging.getLogger(name).setLevel(level.upper())


class RepeatFilter(logging.Filter):
    """Lets one record of those with the same `repeats` pass, and adds to it how many did not.

    Args:
        clock: A monotonic clock, seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._repeats = Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        """As `logging.Filter.filter`. The handler that has it lets one thread in at a time, or some events
        are counted twice at the worst.
        """
        kind = getattr(record, "repeats", None)
        if kind is None:
            return True
        silent = self._repeats.note(kind, self._clock())
        if silent:
            record.msg = f"{record.getMessage()} ({silent} more like it before.)"
            record.args = ()
        return silent is not None


class TextLines(logging.Formatter):
    """A line for people: `time level host logger statement message`, with `-` for what there is not.

    Lines of a traceback follow behind a tab, so that a line which begins with a digit is an event.

    Args:
        host: Name of the host; empty for none.
    """

    def __init__(self, host: str = "") -> None:
        super().__init__()
        self._host = host or _NONE

    def format(self, record: logging.LogRecord) -> str:
        """As `logging.Formatter.format`."""
        line = " ".join(
            (
                _time(record),
                f"{record.levelname:<7}",
                self._host,
                record.name,
                statement_id() or _NONE,
                _printable(record.getMessage()),
            )
        )
        if record.exc_info:
            traceback = self.formatException(record.exc_info)
            line = "\n\t".join((line, *map(_printable, traceback.splitlines())))
        return line


class JsonLines(logging.Formatter):
    """A JSON object a line, with the fields `time`, `level`, `host`, `logger`, `message`, where there is one
    `statement`, with an exception `traceback`, and the record's `facts`.

    Args:
        host: Name of the host; empty for none.
    """

    def __init__(self, host: str = "") -> None:
        super().__init__()
        self._host = host

    def format(self, record: logging.LogRecord) -> str:
        """As `logging.Formatter.format`."""
        line: dict[str, Any] = {
            **getattr(record, "facts", {}),
            "time": _time(record),
            "level": record.levelname,
            "host": self._host,
            "logger": record.name,
            "message": record.getMessage(),
        }
        statement = statement_id()
        if statement:
            line["statement"] = statement
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _printable(text: str) -> str:
    """A text without line ends and control characters: what callers send cannot look like an event."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
