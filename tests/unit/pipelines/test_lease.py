"""Epochs that a reader needs are held for as long as it reads, whatever goes wrong on the way."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping

import pyarrow as pa
import pytest

from engine.errors import LivestateError
from flight_server.client.connection import HostLostError
from spark_pipeline import lease
from spark_pipeline.host_calls import ReadPlan, Share
from spark_pipeline.lease import Lease
from spark_pipeline.reader_options import ReaderOptions, parse_options
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ROW = pa.RecordBatch.from_pydict({"n": [1]})
NOWHERE = "grpc://127.0.0.1:1"
"""Nothing listens there."""
OPTIONS = parse_options({"uri": NOWHERE, "store": "plays"})


def plan_of(*uris: str) -> ReadPlan:
    return ReadPlan(ROW.schema, {"plays": 1}, (Share(b"", uris),))


def test_a_failure_that_nobody_expected_does_not_end_a_lease(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    renewals: list[ReadPlan] = []

    def refuse(plan: ReadPlan, options: ReaderOptions) -> Mapping[str, LivestateError]:
        renewals.append(plan)
        if len(renewals) == 1:
            raise RuntimeError("a defect")
        return {}

    monkeypatch.setattr(lease, "_refusals", refuse)
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.01)
    with Lease(plan_of(NOWHERE), OPTIONS):
        wait_until(lambda: len(renewals) >= 3)
    (record,) = caplog.records
    assert record.exc_info is not None


def test_rows_of_a_host_that_does_not_answer_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.01)
    comes, ended = threading.Event(), threading.Event()

    def rows() -> Generator[pa.RecordBatch, None, None]:
        try:
            yield ROW
            assert comes.wait(PATIENCE_SECONDS)
            yield ROW
        finally:
            ended.set()

    with Lease(plan_of(NOWHERE), OPTIONS) as task_lease:
        coming = task_lease.rows_of(NOWHERE, rows())
        assert next(coming) == ROW
        with pytest.raises(HostLostError, match=f"The host at {NOWHERE} does not answer any more"):
            next(coming)
    comes.set()
    assert ended.wait(PATIENCE_SECONDS)


def test_rows_that_nobody_wants_any_more_are_closed() -> None:
    ended = threading.Event()

    def rows() -> Generator[pa.RecordBatch, None, None]:
        try:
            while True:
                yield ROW
        finally:
            ended.set()

    with Lease(plan_of(), OPTIONS) as task_lease:
        coming = task_lease.rows_of(NOWHERE, rows())
        assert next(coming) == ROW
        coming.close()
    assert ended.wait(PATIENCE_SECONDS)


def test_a_failure_of_reading_is_that_of_its_rows() -> None:
    def rows() -> Generator[pa.RecordBatch, None, None]:
        yield ROW
        raise HostLostError("gone")

    with Lease(plan_of(), OPTIONS) as task_lease, pytest.raises(HostLostError, match="gone"):
        list(task_lease.rows_of(NOWHERE, rows()))
