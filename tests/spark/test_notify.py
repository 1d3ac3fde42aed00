"""Hosts are told of commits, and a host that is not there harms nothing."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import flight
from pyspark.sql import SparkSession

from engine.model.schema import Epoch, GroupName
from spark_pipeline import LiveStateSink
from spark_pipeline.notify import Notifier
from tests.spark.streams import FileStream, commits, drain

GROUP = GroupName("plays")


class _Host(flight.FlightServerBase):  # type: ignore[misc]
    """Keeps what it is told; can be made to answer late."""

    def __init__(self, location: str = "grpc://127.0.0.1:0") -> None:
        super().__init__(location)
        self.notifications: list[tuple[str, str]] = []
        self.answers = threading.Event()
        self.answers.set()

    @property
    def location(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        self.notifications.append((action.type, action.body.to_pybytes().decode()))
        self.answers.wait(10)
        return iter(())


@pytest.fixture
def host() -> Iterator[_Host]:
    with _Host() as host:
        yield host


def _nobody() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"grpc://127.0.0.1:{free.getsockname()[1]}"


def test_a_host_is_told_the_group(host: _Host) -> None:
    notifier = Notifier(host.location, GROUP)
    for epoch in (1, 2):
        notifier.notify(Epoch(epoch))
        assert notifier.wait(10)
    assert host.notifications == [("livestate.notify", "plays")] * 2


def test_commits_while_the_host_is_busy_become_one_call(host: _Host) -> None:
    notifier = Notifier(host.location, GROUP)
    host.answers.clear()
    notifier.notify(Epoch(1))
    for epoch in range(2, 50):
        notifier.notify(Epoch(epoch))
    host.answers.set()
    assert notifier.wait(10)
    assert 1 <= len(host.notifications) <= 2


def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    location = _nobody()
    notifier = Notifier(location, GROUP)
    with caplog.at_level(logging.INFO, "spark_pipeline"):
        for epoch in (1, 2, 3):
            notifier.notify(Epoch(epoch))
            assert notifier.wait(10)
        with _Host(location) as host:
            notifier.notify(Epoch(4))
            assert notifier.wait(10)
            assert len(host.notifications) == 1
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"]
    assert "could not be told of epoch 1 of plays" in caplog.text
    assert "from epoch 4" in caplog.text


def test_a_failure_that_nobody_expected_does_not_end_the_telling(
    host: _Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connect, failures = flight.connect, [RuntimeError("a defect")]

    def fail_once(location: str) -> flight.FlightClient:
        if failures:
            raise failures.pop()
        return connect(location)

    monkeypatch.setattr("spark_pipeline.notify.flight.connect", fail_once)
    notifier = Notifier(host.location, GROUP)
    for epoch in (1, 2):
        notifier.notify(Epoch(epoch))
        assert notifier.wait(10)
    assert host.notifications == [("livestate.notify", "plays")]
    (record,) = caplog.records
    assert record.exc_info is not None


def test_the_sink_tells_every_host_and_survives_those_that_are_gone(
    spark: SparkSession, tmp_path: Path, host: _Host
) -> None:
    uri = (tmp_path / "changelog").as_uri()
    stream = FileStream(spark, tmp_path / "plays", "song STRING")
    stream.add([{"song": "a"}])
    sink = LiveStateSink(changelog=uri, store="plays", key=["song"], notify=[_nobody(), host.location])
    drain(stream.frame(), sink, tmp_path / "checkpoint", "append")
    assert len(commits(uri, "plays")) == 1
    assert all(notifier.wait(10) for notifier in sink._notifiers)
    assert host.notifications == [("livestate.notify", "plays")]
