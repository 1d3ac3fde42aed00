"""What a pipeline prints of the answers to its questions."""

from __future__ import annotations

import io
import socket
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from engine.changelog import Changelog, append_table
from engine.errors import Unavailable
from engine.model.schema import define_store
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import HostOptions
from spark_pipeline.addresses import LOOPBACK, free_port
from spark_pipeline.pipelines.asking import Asker, HostProcess
from spark_pipeline.pipelines.catalogue import PIPELINES
from spark_pipeline.pipelines.pipeline import Question
from tests.support.started_host import start_host
from tests.support.waiting import wait_until


def test_values_are_shown_as_they_are(tmp_path: Path) -> None:
    question = Question("What is it?", "SELECT '[/b]x:smile:' AS \"[link=e]\", '[red]y' AS \"n:smile:\"")
    pipeline = replace(next(iter(PIPELINES.values())), questions=(question,))
    text = io.StringIO()
    rows = pa.table({"k": [1]})
    changelog = Changelog.open(str(tmp_path / "changelog"))
    append_table(changelog, define_store("t", rows.schema, ["k"], partitions=1), rows)
    options = HostOptions(changelog=str(tmp_path / "changelog"), data=tmp_path / "data", port=0)
    with start_host(options) as host:
        console = Console(width=200, file=text, color_system=None)
        Asker(pipeline, ConnectionOptions.read(host.uri), console).ask("After 5 s")
    words = (question.words, "After 5 s", "[/b]x:smile:", "[link=e]", "[red]y", "n:smile:")
    assert [word for word in words if word not in text.getvalue()] == []


def test_whoever_has_the_port_is_not_asked(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        with (
            pytest.raises(Unavailable, match=f"Something else serves 127.0.0.1:{port} already"),
            HostProcess(str(tmp_path / "changelog"), tmp_path, port),
        ):
            pass


def test_a_host_that_has_ended_is_not_asked(tmp_path: Path) -> None:
    pipeline, text = next(iter(PIPELINES.values())), io.StringIO()
    (tmp_path / "file").touch()
    with HostProcess(str(tmp_path / "file"), tmp_path, free_port()) as host:
        wait_until(host.has_ended)
        console = Console(width=500, file=text, color_system=None)
        Asker(pipeline, ConnectionOptions.read(host.uri), console, host).ask("After 5 s")
    assert "No answer: The host ended unexpectedly with exit code" in text.getvalue()
    assert pipeline.questions[0].words not in text.getvalue()
