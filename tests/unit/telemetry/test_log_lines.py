"""Lines of the log, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.telemetry.log_lines import JsonLines, TextLines, configure_logs
from engine.telemetry.statement_ids import (
    StatementScope,
    is_statement_id,
    new_statement_id,
    run_in_context,
    statement_id,
)


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, which gets back what it had."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    own = {name: logging.getLogger(name).level for name in ("engine", "flight_server", "spark_pipeline")}
    root.handlers[:] = []
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in own.items():
        logging.getLogger(name).setLevel(before)


def _record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    raised = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("engine.replica.group", logging.INFO, "", 0, message, None, raised)
    record.created = 1_795_421_233.4567
    return record


def test_a_line_of_text_has_time_level_host_logger_statement_and_message() -> None:
    lines = TextLines("a")
    assert lines.format(_record("all is well")) == (
        "2026-11-23T08:07:13.456Z INFO    a engine.replica.group - all is well"
    )
    with StatementScope("3f00aa11"):
        assert lines.format(_record("x")).endswith(" a engine.replica.group 3f00aa11 x")
    assert TextLines().format(_record("x")).split()[2] == "-"


def test_what_callers_send_cannot_look_like_an_event() -> None:
    forged = TextLines("a").format(_record("user 'x'\n2026-11-23T08:07:13.456Z INFO a \x1b[31m"))
    assert forged.endswith(r"user 'x'\n2026-11-23T08:07:13.456Z INFO a \x1b[31m")
    assert len(forged.splitlines()) == 1


def test_a_traceback_follows_behind_tabs() -> None:
    with pytest.raises(ValueError) as failed:
        int("one\ntwo")
    record = _record("failed", failed.value)
    first, *rest = TextLines("a").format(record).split("\n")
    assert first.endswith(" failed")
    assert rest and all(line.startswith("\t") for line in rest)
    (document,) = (json.loads(line) for line in JsonLines("a").format(record).splitlines())
    assert "ValueError: invalid literal" in document["traceback"]


def test_a_line_of_json_has_the_same_and_the_facts_of_the_record() -> None:
    record = _record("slow")
    record.facts = {"rows": 3, "message": "a fact never hides the message"}
    with StatementScope("3f00aa11"):
        document = json.loads(JsonLines("a").format(record))
    assert document == {
        "time": "2026-11-23T08:07:13.456Z",
        "level": "INFO",
        "host": "a",
        "logger": "engine.replica.group",
        "statement": "3f00aa11",
        "message": "slow",
        "rows": 3,
    }


def test_the_level_is_for_livestate_and_libraries_are_heard_when_they_warn(
    root_logger: logging.Logger,
) -> None:
    written = io.StringIO()
    configure_logs("json", "info", "a", written)
    logging.getLogger("engine.x").info("told")
    logging.getLogger("engine.x").debug("not told")
    logging.getLogger("library").info("not told")
    logging.getLogger("library").warning("told, too")
    configure_logs("text", "error", "a", written)
    logging.getLogger("flight_server.x").warning("not told")
    messages = [json.loads(line)["message"] for line in written.getvalue().splitlines()]
    assert messages == ["told", "told, too"]
    assert len(root_logger.handlers) == 1


def test_no_id_is_given_twice() -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: new_statement_id(), range(2_000)))
    assert len(set(found)) == len(found)
    assert all(len(each) == 16 and is_statement_id(each) for each in found)


def test_ids_are_told_from_what_could_break_a_line() -> None:
    assert is_statement_id(new_statement_id())
    for text in ("order-1.2_x", "a" * 64, "00000000-0000-4000-8000-000000000000"):
        assert is_statement_id(text)
    for text in ("", "short", "a" * 65, "with space", "line\nend12", ".hidden12", "größe1234", "12345678\n"):
        assert not is_statement_id(text), text


def test_another_thread_works_for_the_statement_when_it_is_given_the_context() -> None:
    with ThreadPoolExecutor(1) as pool:
        with StatementScope("3f00aa11"):
            plain, carried = pool.submit(statement_id), pool.submit(run_in_context(statement_id))
        assert (plain.result(), carried.result(), statement_id()) == ("", "3f00aa11", "")
        assert pool.submit(statement_id).result() == "", "nothing stays in a thread of a pool"


def test_lines_go_to_standard_error(root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    logging.getLogger("engine").warning("here")
    assert re.fullmatch(r"\S+Z WARNING - engine - here\n", capsys.readouterr().err)
    assert root_logger.level == logging.WARNING
    assert sys.stderr
