"""The verbs about pipelines: what they teach, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.errors import Unavailable
from flight_server.cli.main import main
from spark_pipeline.kafka_broker import KafkaBroker
from spark_pipeline.kafka_jars import (
    JARS_VARIABLE,
    connector_jars,
    fetch_jars,
    jars_directory,
    maven_coordinates,
)
from spark_pipeline.pipelines.catalogue import PIPELINES
from spark_pipeline.pipelines.running import session_settings


def livestate(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="livestate")


@pytest.mark.parametrize("verb", ["pipeline", "feed"])
def test_help_teaches_all_pipelines(verb: str) -> None:
    shown = livestate(verb, "--help")
    assert shown.exit_code == 0
    said = " ".join(shown.stdout.split())
    for pipeline in PIPELINES.values():
        assert f"{pipeline.name} {pipeline.summary}" in said
    assert "Examples:" in said


def test_help_teaches_all_sources() -> None:
    shown = livestate("pipeline", "--help").stdout
    for word in ("rate", "files", "kafka", "--serve", "--checkpoint", "--master", "--spark-conf"):
        assert word in shown


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["no_such_pipeline"], 2, "There is no pipeline 'no_such_pipeline'; there are music_charts, risk,"),
        (["risk", "--source", "queue"], 2, "'queue' is not one of"),
        (
            ["risk", "--directory", "/tmp"],
            1,
            "--source rate goes without --directory, for --source files alone",
        ),
        (["risk", "--source", "kafka", "--directory", "/tmp"], 1, "--source kafka goes without --directory"),
        (["risk", "--source", "files", "--bootstrap", "b:1"], 1, "--source files goes without --bootstrap"),
        (["risk", "--feed"], 1, "goes without --feed and --no-feed, for --source files or kafka alone"),
        (["risk", "--spark-conf", "memory=4g"], 2, "'memory=4g' is not like spark.executor.memory=4g."),
        (
            ["risk", "--source", "kafka", "--bootstrap", "127.0.0.1:1", "--no-feed"],
            1,
            "No Kafka broker answers at 127.0.0.1:1: start it, correct --bootstrap,",
        ),
        (
            ["risk", "--source", "kafka", "--bootstrap", "no.such.host.invalid:9092,127.0.0.1:1"],
            1,
            "No Kafka broker answers at no.such.host.invalid:9092,",
        ),
        (
            ["risk", "--source", "kafka", "--bootstrap", "broker"],
            1,
            "'broker' is no address; write it as host:port",
        ),
        (
            ["risk", "--source", "kafka", "--checkpoint", "/tmp/checkpoint"],
            1,
            "a broker of its own has new topics each time: name brokers with --bootstrap, or leave",
        ),
        (["risk", "--rate", "0"], 2, "0 is not in the range 1<=x<=1000000"),
    ],
)
def test_impossible_wishes_are_refused(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: str
) -> None:
    monkeypatch.setattr("spark_pipeline.pipelines.pipeline_process.Stop.listen", lambda stop: None)
    shown = livestate("pipeline", *arguments)
    assert (shown.exit_code, said in shown.stderr) == (code, True), shown.stderr


def test_events_go_to_one_place() -> None:
    for places in ([], ["--directory", "d", "--bootstrap", "b:1"]):
        shown = livestate("feed", "risk", *places)
        assert shown.exit_code == 2
        assert "either --directory or --bootstrap" in shown.stderr


def test_a_users_settings_win() -> None:
    local = session_settings("local[4]", {"spark.sql.shuffle.partitions": "8"})
    assert local["spark.sql.shuffle.partitions"] == "8"
    assert local["spark.driver.host"] == "127.0.0.1"
    # Executors of a cluster find the driver by the name that Spark chooses.
    far = session_settings("spark://spark:7077", {"spark.executor.memory": "4g"})
    assert "spark.driver.host" not in far
    assert far["spark.executor.memory"] == "4g"


def test_without_jars_it_says_where_they_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    assert jars_directory() is None
    with pytest.raises(Unavailable, match=r"`livestate kafka` fetches them with Maven"):
        connector_jars()
    shown = livestate("broker", "--data", str(tmp_path / "data"))
    assert shown.exit_code == 1
    assert "`livestate kafka` fetches them with Maven" in shown.stderr


def test_without_maven_it_says_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = livestate("kafka", "--directory", str(tmp_path / "jars"))
    assert shown.exit_code == 1
    assert "org.apache.kafka:kafka_2.13:" in shown.stderr
    assert not (tmp_path / "jars").exists()
    listed = livestate("kafka", "--coordinates").stdout.split()
    assert listed == maven_coordinates()
    assert any(each.startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:") for each in listed)


def test_what_maven_fetches_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program in Maven's place; `make kafka` runs Maven itself."""
    maven = tmp_path / "mvn"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    maven.write_text(
        '#!/bin/sh\nfor each in "$@"; do case $each in -DoutputDirectory=*) place=${each#*=};; esac; done\n'
        "case $place in /*) ;; *) exit 1;; esac  # Maven would take it as of its project\n"
        'mkdir -p "$place" && touch "$place/kafka_2.13.jar" "$place/kafka-clients.jar"\n'
    )
    maven.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert fetch_jars(Path("share/jars")) == 2
    maven.write_text('#!/bin/sh\nmkdir -p jars; echo "[ERROR] The repository does not answer."; exit 1\n')
    with pytest.raises(Unavailable, match=r"could not fetch the jars: \[ERROR\] The repository does not"):
        fetch_jars(tmp_path / "share" / "jars")
    assert sorted(file.name for file in (tmp_path / "share" / "jars").iterdir()) == [
        "kafka-clients.jar",
        "kafka_2.13.jar",
    ]
    assert [entry.name for entry in (tmp_path / "share").iterdir()] == ["jars"]


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    if jars_directory() is None:
        pytest.skip("the jars of Kafka are not on this machine: make kafka, which needs Maven")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("cluster.id=nobody\nversion=9\n")
    with pytest.raises(Unavailable, match=r"The Kafka broker ended when it was to start \(.*\)\."):
        KafkaBroker(tmp_path).start()
