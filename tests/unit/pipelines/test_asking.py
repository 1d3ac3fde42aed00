"""What a pipeline prints of the answers to its questions."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import HostOptions
from spark_pipeline.pipelines.asking import Asker
from spark_pipeline.pipelines.catalogue import PIPELINES
from spark_pipeline.pipelines.pipeline import Question
from tests.support.started_host import start_host


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
