"""The commands: what they teach, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import Unavailable
from spark_pipeline import kafka_broker
from spark_pipeline.kafka_broker import JARS_VARIABLE, KafkaBroker, connector_jars, jars_directory
from spark_pipeline.pipelines import __main__ as command
from spark_pipeline.pipelines.catalogue import PIPELINES


def test_help_teaches_all_pipelines_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    for pipeline in PIPELINES.values():
        assert pipeline.name in said
        assert pipeline.summary in said
    for word in ("rate", "files", "kafka", "--serve", "--checkpoint", "examples:"):
        assert word in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such_pipeline"], "invalid choice"),
        (["risk", "--source", "queue"], "invalid choice"),
        (
            ["risk", "--source", "kafka", "--bootstrap", "127.0.0.1:1", "--no-feed"],
            "No Kafka broker answers at 127.0.0.1:1: start it, correct --bootstrap,",
        ),
        (
            ["risk", "--source", "kafka", "--bootstrap", "no.such.host.invalid:9092,127.0.0.1:1"],
            "No Kafka broker answers at no.such.host.invalid:9092,",
        ),
        (
            ["risk", "--source", "kafka", "--bootstrap", "broker"],
            "'broker' is no address; write it as host:port",
        ),
        (["risk", "--rate", "0"], "The rate must be at least one event a second."),
    ],
)
def test_impossible_wishes_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    try:
        code: object = command.main(arguments)
    except SystemExit as ended:
        code = ended.code
    assert code in {1, 2}
    assert said in capsys.readouterr().err


def test_without_jars_it_says_where_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    assert jars_directory() is None
    with pytest.raises(Unavailable, match=r"run make kafka, which needs Maven"):
        connector_jars()
    assert kafka_broker.main(["--data", str(tmp_path / "data")]) == 1
    assert "run make kafka" in capsys.readouterr().err


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    if jars_directory() is None:
        pytest.skip("the jars of Kafka are not on this machine: make kafka, which needs Maven")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("cluster.id=nobody\nversion=9\n")
    with pytest.raises(Unavailable, match=r"The Kafka broker ended when it was to start \(.*\)\."):
        KafkaBroker(tmp_path).start()
