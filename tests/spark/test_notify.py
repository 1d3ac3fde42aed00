"""Hosts are told of commits, and a host that is not there harms nothing."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight
from pyspark.sql import SparkSession

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.model.schema import Epoch, GroupName
from flight_server.client.client import Client
from flight_server.client.connection import Connection
from flight_server.client.connection_options import ConnectionOptions
from spark_pipeline import LiveStateSink, write_store
from spark_pipeline.notify import Notifier
from tests.spark.streams import FileStream, commits, drain
from tests.support.certificate import Certificate, make_certificate
from tests.support.guarded_host import guarded_host
from tests.support.waiting import wait_until_served

GROUP = GroupName("plays")
STORES = ("plays", "songs")
"""Each a group of its own."""


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
    notifier = Notifier(ConnectionOptions((host.location,)), GROUP)
    for epoch in (1, 2):
        notifier.notify(Epoch(epoch))
        assert notifier.wait(10)
    assert host.notifications == [("livestate.notify", "plays")] * 2


def test_commits_while_the_host_is_busy_become_one_call(host: _Host) -> None:
    notifier = Notifier(ConnectionOptions((host.location,)), GROUP)
    host.answers.clear()
    notifier.notify(Epoch(1))
    for epoch in range(2, 50):
        notifier.notify(Epoch(epoch))
    host.answers.set()
    assert notifier.wait(10)
    assert 1 <= len(host.notifications) <= 2


def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    location = _nobody()
    notifier = Notifier(ConnectionOptions((location,)), GROUP)
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
    failures = [RuntimeError("a defect")]

    def fail_once(options: ConnectionOptions) -> Connection:
        if failures:
            raise failures.pop()
        return Connection(options)

    monkeypatch.setattr("spark_pipeline.notify.Connection", fail_once)
    notifier = Notifier(ConnectionOptions((host.location,)), GROUP)
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


# ---- hosts that want a token and have a private certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def epochs_of(client: Client) -> dict[str, int]:
    shown = client.stores()
    return dict(zip(shown["store"].to_pylist(), shown["epoch"].to_pylist(), strict=True))


def test_the_sink_and_a_back_fill_tell_a_host_that_wants_a_token(
    spark: SparkSession, tmp_path: Path, certificate: Certificate
) -> None:
    changelog = tmp_path / "changelog"
    with guarded_host(changelog, tmp_path / "data", certificate) as told:
        stream = FileStream(spark, tmp_path / "plays", "song STRING")
        stream.add([{"song": "a"}])
        sink = LiveStateSink(changelog=changelog.as_uri(), store="plays", key=["song"], notify=told)
        drain(stream.frame(), sink, tmp_path / "checkpoint", "append")
        assert all(notifier.wait(10) for notifier in sink._notifiers)
        frame = spark.createDataFrame([("b",)], "song STRING")
        write_store(frame, changelog=changelog.as_uri(), store="songs", key=["song"], notify=told)
        newest = {
            group: Changelog.open(changelog.as_uri()).newest_epoch(GroupName(group)) for group in STORES
        }
        # The host polls once a minute: what it has, it was told of. It may not have looked yet.
        with Client(told) as client:
            wait_until_served(lambda: epochs_of(client) == newest)
            assert client.query("SELECT song FROM plays").read_all()["song"].to_pylist() == ["a"]


@pytest.mark.parametrize(("change", "words"), [({"token": None}, "token"), ({"tls_roots": b""}, "reached")])
def test_a_host_that_refuses_is_named_in_the_log(
    tmp_path: Path,
    certificate: Certificate,
    change: dict[str, Any],
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with guarded_host(tmp_path / "changelog", tmp_path / "data", certificate) as told:
        notifier = Notifier(replace(told, **change), GROUP)
        notifier.notify(Epoch(1))
        assert notifier.wait(10)
    (record,) = caplog.records
    assert "could not be told of epoch 1" in record.message
    assert words in record.message
    assert record.exc_info is None
    assert str(told.token) not in record.message


@pytest.mark.parametrize("notify", ["nonsense", ["grpc://127.0.0.1:1", "http://host"]])
def test_what_is_no_address_is_refused_at_once(tmp_path: Path, notify: str | list[str]) -> None:
    with pytest.raises(InvalidInput, match="is not the address of a host"):
        LiveStateSink(changelog=str(tmp_path), store="plays", key=["song"], notify=notify)
