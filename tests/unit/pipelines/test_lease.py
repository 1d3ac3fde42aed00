"""Epochs that a reader needs are held for as long as it reads, whatever goes wrong on the way."""

from __future__ import annotations

import pytest

from engine.errors import LivestateError
from spark_pipeline import lease
from spark_pipeline.host_calls import ReadPlan
from spark_pipeline.reader_options import ReaderOptions
from tests.support.waiting import wait_until


def test_a_failure_that_nobody_expected_does_not_end_a_lease(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    renewals: list[ReadPlan] = []

    def take(plan: ReadPlan, options: ReaderOptions) -> tuple[ReadPlan, LivestateError | None]:
        renewals.append(plan)
        if len(renewals) == 1:
            raise RuntimeError("a defect")
        return plan, None

    monkeypatch.setattr(lease, "take_lease", take)
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.01)
    with lease.keep_renewing(None, None):  # type: ignore[arg-type] # nothing of them is looked at
        wait_until(lambda: len(renewals) >= 3)
    (record,) = caplog.records
    assert record.exc_info is not None
