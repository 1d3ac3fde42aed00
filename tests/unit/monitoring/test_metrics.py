"""The metrics of a host: what is counted, and how many series there are at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from engine.changelog import Snapshot
from engine.changelog.commit import DataFile
from engine.changelog.snapshot import SnapshotPart
from engine.cluster.reports import GroupReport, Progress, ReadableEpoch, StoreReport
from engine.errors import LimitExceeded, NotFound
from engine.exec.query_result import QueryMetadata
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName, define_store
from engine.replica.figures import GroupFigures, GroupWork, MergeWork, ReplicaFigures
from flight_server.monitoring import metrics
from flight_server.monitoring.host_figures import HostFigures
from flight_server.monitoring.metrics import MOST_NAMED, OTHERS, MetricsPage
from flight_server.monitoring.scheduling_lag import SchedulingLag
from flight_server.server.server_figures import ServerFigures, SlotFigures
from flight_server.server.statement_meter import AnswerClass, StatementMeter, statement_class
from tests.support.waiting import wait_until

PARTITIONS = (PartitionId(0), PartitionId(1))


class _Host:
    def __init__(self, figures: HostFigures) -> None:
        self._figures = figures
        self.looks = 0

    def show(self, figures: HostFigures) -> None:
        self._figures = figures

    def figures(self) -> HostFigures:
        self.looks += 1
        return self._figures


def samples(figures: HostFigures) -> Mapping[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All values, by name and labels."""
    text = MetricsPage(_Host(figures), SchedulingLag()).page().body.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def server_figures(meter: StatementMeter) -> ServerFigures:
    slots = SlotFigures(64, 2, 1)
    return ServerFigures(
        meter.totals(),
        3,
        4,
        5,
        statements=slots,
        fragments=slots,
        endpoints=slots,
        input_bytes=6,
        is_draining=True,
    )


def test_a_host_that_starts_has_metrics() -> None:
    found = samples(HostFigures("a"))
    assert found["livestate_ready", ()] == 0
    assert found["livestate_stores", ()] == 0
    assert any(name == "livestate_build_info" and ("host", "a") in labels for name, labels in found)


def test_stores_and_groups_beyond_a_number_share_their_series() -> None:
    count = MOST_NAMED + 3
    names = [f"store{number:04}" for number in range(count)]
    stores = {
        StoreName(name): StoreReport(PARTITIONS, 10, 200, 3, 12, rebuilding=PARTITIONS[:1]) for name in names
    }
    group = GroupReport((ReadableEpoch(Epoch(7), 1),), Epoch(9), 1, 1, None, "late")
    well = GroupReport((ReadableEpoch(Epoch(7), 1),), Epoch(7), None, 1)
    groups = {GroupName(name): group if name == names[-1] else well for name in names}
    found = samples(HostFigures(stores=stores, groups=groups))
    rows = {labels: value for (name, labels), value in found.items() if name == "livestate_store_rows"}
    assert len(rows) == MOST_NAMED + 1
    assert rows[("group", OTHERS), ("store", OTHERS)] == 30
    assert found["livestate_stores", ()] == count
    assert found["livestate_group_problem", (("group", OTHERS),)] == 1
    assert found["livestate_group_problem", (("group", names[0]),)] == 0
    assert found["livestate_group_lag_epochs", (("group", OTHERS),)] == 2
    assert ("livestate_group_epoch", (("group", OTHERS),)) not in found


def _own_series(text: str) -> list[str]:
    return [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]


@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", OTHERS, "z"]), st.integers(1, 9)), max_size=8)
)
def test_counters_grow_by_what_was_counted_whatever_groups_come_and_go(
    looks: list[dict[str, int]],
) -> None:
    """Each look has groups, and how many epochs each has applied since the look before."""
    host, counted = _Host(HostFigures()), Counter[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "MOST_NAMED", 2)
        patch.setattr(metrics, "KEPT_SECONDS", -1.0)
        page = MetricsPage(host, SchedulingLag())
        others = 0
        for look in looks:
            counted = Counter({name: counted[name] + more for name, more in look.items()})
            host.show(_host_with(counted))
            text = page.page().body.decode()
            assert len(_own_series(text)) == len(set(_own_series(text)))
            now = {
                sample.labels["group"]: sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
                if sample.name == "livestate_group_epochs_applied_total"
            }
            own = sorted(counted.keys() - {OTHERS})[:2]
            others += sum(more for name, more in look.items() if name not in own)
            shared = {OTHERS: others} if counted.keys() > set(own) else {}
            assert now == {name: counted[name] for name in own} | shared


def _host_with(epochs: Mapping[str, int]) -> HostFigures:
    """A host of groups with a store each, that have applied so many epochs."""
    groups = {
        GroupName(name): GroupFigures(GroupWork(count, 0.5), MergeWork(), None, None)
        for name, count in epochs.items()
    }
    return HostFigures(
        groups={name: GroupReport((), Epoch(0)) for name in groups},
        stores={StoreName(name): StoreReport(PARTITIONS, 1) for name in groups},
        definitions={
            StoreName(name): define_store(name, pa.schema([("k", pa.int64())]), ["k"], partitions=2)
            for name in groups
        },
        replica=ReplicaFigures(groups),
    )


def _snapshot(group: GroupName, nbytes: int) -> Snapshot:
    part = SnapshotPart("a", {}, frozenset(), (DataFile(Epoch(1), "file", nbytes, ()),))
    return Snapshot(group, Epoch(1), 1, 0, {}, (part,))


def test_of_groups_that_share_a_series_the_one_whose_changelog_grows_is_seen() -> None:
    names = [f"group{number:04}" for number in range(MOST_NAMED + 3)]
    sizes = dict(zip(names[-3:], ((1000, 200), (900, 10), (50, 0)), strict=True))
    figures = {
        GroupName(name): GroupFigures(GroupWork(), MergeWork(), unsaved, _snapshot(GroupName(name), saved))
        for name, (unsaved, saved) in sizes.items()
    }
    found = samples(
        HostFigures(
            groups={GroupName(name): GroupReport((), Epoch(0)) for name in names},
            replica=ReplicaFigures(figures),
        )
    )
    assert found["livestate_group_changelog_bytes", (("group", OTHERS),)] == 900
    assert found["livestate_group_snapshot_bytes", (("group", OTHERS),)] == 10


def test_groups_that_are_built_say_how_far_they_are() -> None:
    group = GroupReport((), Epoch(10), None, 0, Progress(Epoch(5), Epoch(10)))
    found = samples(HostFigures(groups={GroupName("g"): group}))
    assert found["livestate_group_building", (("group", "g"),)] == 1
    assert found["livestate_group_building_ratio", (("group", "g"),)] == 0.5
    assert ("livestate_group_look_age_seconds", (("group", "g"),)) not in found


def metadata(plan: str, **changes: Any) -> QueryMetadata:
    return replace(QueryMetadata(plan), **changes)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (metadata("engine", kept=True), AnswerClass.KEPT),
        (metadata("lookup"), AnswerClass.LOOKUP),
        (metadata("lookup", rules=("one host",)), AnswerClass.LOOKUP),
        (metadata("rows"), AnswerClass.ROWS),
        (metadata("summary", rules=("one host",)), AnswerClass.FORWARDED),
        (metadata("distributed", rules=("two phases",)), AnswerClass.SPLIT),
        (metadata("distributed", fallbacks={"gather all": 1}), AnswerClass.GATHERED),
        (metadata("distributed", fallbacks={"split": 1}), AnswerClass.SPLIT),
        (metadata("what others call it"), AnswerClass.ENGINE),
    ],
)
def test_statements_have_a_class(found: QueryMetadata, expected: AnswerClass) -> None:
    assert statement_class(found) is expected


def test_what_was_counted_is_shown() -> None:
    meter = StatementMeter()
    meter.note(
        "statement",
        metadata(
            "distributed",
            partitions=16,
            partitions_read=4,
            rows_read=100,
            bytes_moved=800,
            fallbacks={"gather all": 1},
        ),
        0.02,
        7,
        56,
    )
    meter.note("statement", metadata("distributed", kept=True, partitions=16, rows_read=100), 0.0001, 7, 56)
    meter.note("keys", None, 0.0001, 1, 8)
    meter.note("statement", None, 1.0, 1, 8)
    meter.note_failure(NotFound("There is none."))
    meter.note_failure(LimitExceeded("Too many."))
    meter.note_failure(RuntimeError("secret"))
    found = samples(HostFigures(server=server_figures(meter)))
    gathered, kept = (("class", "gathered"),), (("class", "kept"),)
    assert found["livestate_statement_seconds_count", gathered] == 1
    assert found["livestate_statement_seconds_sum", gathered] == 0.02
    assert found["livestate_statement_seconds_bucket", (*gathered, ("le", "0.01"))] == 0
    assert found["livestate_statement_seconds_bucket", (*gathered, ("le", "0.025"))] == 1
    assert found["livestate_statement_seconds_bucket", (*gathered, ("le", "+Inf"))] == 1
    assert found["livestate_statement_pruned_partitions_total", gathered] == 12
    assert found["livestate_statement_moved_bytes_total", gathered] == 800
    # What was read for an answer was counted when it was read.
    assert found["livestate_statement_read_rows_total", kept] == 0
    assert found["livestate_statement_rows_total", kept] == 7
    assert found["livestate_statement_seconds_count", (("class", "keys"),)] == 1
    assert (
        sum(value for (name, _), value in found.items() if name == "livestate_statement_seconds_count") == 3
    )
    assert found["livestate_fallbacks_total", (("fallback", "gather all"),)] == 1
    for kind in ("NotFound", "LimitExceeded", "Defect"):
        assert found["livestate_failures_total", (("kind", kind),)] == 1
    assert found["livestate_slots_waiting", (("kind", "fragments"),)] == 1
    assert found["livestate_draining", ()] == 1
    assert found["livestate_memory_bytes", (("account", "inputs"),)] == 6


def test_who_asks_all_the_time_gets_the_same_page(monkeypatch: pytest.MonkeyPatch) -> None:
    host = _Host(HostFigures())
    page = MetricsPage(host, SchedulingLag())
    monkeypatch.setattr(metrics, "KEPT_SECONDS", 3600.0)
    assert page.page() == page.page()
    assert host.looks == 1
    monkeypatch.setattr(metrics, "KEPT_SECONDS", 0.0)
    page.page()
    assert host.looks == 2


def test_lags_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flight_server.monitoring.scheduling_lag.SECONDS_BETWEEN_LOOKS", 0.001)
    lag = SchedulingLag()
    lag.start()
    wait_until(lambda: sum(lag.lags().counts) > 2)
    lag.stop()
    assert lag.lags().total >= 0
