"""When each alert fires, and when not: Prometheus's own tests of rules, over values that hosts have had."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

ALERTS = Path(__file__).parents[3] / "deploy" / "prometheus" / "alerts.yaml"
MINUTES = 120
"""A value comes each minute."""
FIRES: Mapping[str, Mapping[str, str]] = {
    "LivestateHostDown": {'up{job="livestate"}': "0"},
    "LivestateHostsMissing": {"livestate_hosts_alive": "2", "livestate_hosts": "3"},
    "LivestateHostNotReady": {"livestate_ready": "0", "livestate_draining": "0"},
    "LivestateHostDrained": {"livestate_draining": "1"},
    "LivestateHostRestarts": {"livestate_start_time_seconds": "0+600"},
    "LivestateGroupProblem": {'livestate_group_problem{group="g"}': "1"},
    "LivestateStoresUnreadable": {"livestate_stores_unreadable": "1"},
    "LivestateGroupBehind": {
        'livestate_group_lag_seconds{group="g"}': "90",
        'livestate_group_epoch{group="g"}': "7",
    },
    "LivestateChangelogAway": {
        'livestate_group_look_age_seconds{group="g"}': "0+60",
        'livestate_group_lag_epochs{group="g"}': "0",
        'livestate_group_problem{group="g"}': "0",
    },
    "LivestatePartitionsMissing": {'livestate_store_missing_partitions{store="s",group="g"}': "2"},
    "LivestateChangelogGrows": {'livestate_group_changelog_bytes{group="g"}': "2000000000"},
    "LivestateDefects": {'livestate_failures_total{kind="Defect"}': "0+1"},
    "LivestateRefusals": {
        'livestate_failures_total{kind="Unavailable"}': "0+1",
        'livestate_statement_seconds_count{class="engine"}': "0",
    },
    "LivestateStatementsWait": {'livestate_slots_waiting{kind="statements"}': "3"},
    "LivestateSlow": {
        'livestate_statement_seconds_bucket{class="engine",le="5.0"}': "0",
        'livestate_statement_seconds_bucket{class="engine",le="10.0"}': "0+9",
        'livestate_statement_seconds_bucket{class="engine",le="+Inf"}': "0+9",
    },
    "LivestateSchedulingLag": {
        'livestate_scheduling_lag_seconds_bucket{le="0.1"}': "0",
        'livestate_scheduling_lag_seconds_bucket{le="0.5"}': "0+240",
        'livestate_scheduling_lag_seconds_bucket{le="+Inf"}': "0+240",
    },
    "LivestateDisk": {'livestate_rocksdb_property{property="write_failed"}': "1"},
}
"""For each alert what has it alone fire, as Prometheus writes series."""
OTHERWISE: Sequence[tuple[set[str], Mapping[str, str]]] = (
    (
        {"LivestateChangelogAway", "LivestateGroupProblem"},
        {
            'livestate_group_look_age_seconds{group="g"}': "0+60",
            'livestate_group_lag_epochs{group="g"}': "4",
            'livestate_group_problem{group="g"}': "1",
        },
    ),
    ({"LivestateGroupBehind"}, {'livestate_group_lag_seconds{group="_others"}': "90"}),
)
"""More that has alerts fire: the changelog is away from a host that is behind; groups that share a series."""
QUIET: Mapping[str, Mapping[str, str]] = {
    "at rest": {
        'up{job="livestate"}': "1",
        "livestate_ready": "1",
        "livestate_draining": "0",
        "livestate_hosts": "1",
        "livestate_hosts_alive": "1",
        "livestate_start_time_seconds": "1700000000",
        'livestate_statement_seconds_bucket{class="engine",le="+Inf"}': "0",
        'livestate_statement_seconds_count{class="engine"}': "0",
        'livestate_failures_total{kind="Unavailable"}': "0",
        'livestate_failures_total{kind="Defect"}': "0",
        'livestate_slots_waiting{kind="statements"}': "0",
        'livestate_scheduling_lag_seconds_bucket{le="0.001"}': "0+240",
        'livestate_scheduling_lag_seconds_bucket{le="+Inf"}': "0+240",
    },
    # The oldest commit that the host lacks was made long ago, and it looks again when a snapshot is read.
    "a host that builds": {
        "livestate_ready": "0x8 1",
        "livestate_draining": "0",
        'livestate_group_lag_seconds{group="g"}': "90000x8 0",
        'livestate_group_look_age_seconds{group="g"}': "0+60x8 0",
        'livestate_group_lag_epochs{group="g"}': "900x8 0",
        'livestate_group_epoch{group="g"}': "0x8 900",
        'livestate_group_problem{group="g"}': "0",
        'livestate_store_missing_partitions{store="s",group="g"}': "2x8 0",
    },
    # It looks again when the epoch is applied.
    "a large epoch that is applied": {
        'livestate_group_look_age_seconds{group="g"}': "0 60 120 180 0",
        'livestate_group_lag_epochs{group="g"}': "0 1 1 1 0",
        'livestate_group_lag_seconds{group="g"}': "0 60 120 180 0",
        'livestate_group_epoch{group="g"}': "7",
        'livestate_group_problem{group="g"}': "0",
    },
}
pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="Prometheus is not installed (make prometheus)"
)


def _series(values: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Values for all minutes: the last, or its step, goes on."""
    for name, written in values.items():
        own = name if "{" in name else f"{name}{{}}"
        labelled = own.replace("{", '{instance="a",').replace(",}", "}")
        *before, last = written.split()
        yield {"series": labelled, "values": " ".join([*before, f"{last}x{MINUTES}"])}


def _test(values: Mapping[str, str], minute: int, firing: set[str]) -> Mapping[str, Any]:
    """A test that of all alerts these fire, whatever their labels."""
    names = [
        rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]
    return {
        "interval": "1m",
        "input_series": list(_series(values)),
        "promql_expr_test": [
            {
                "expr": f'count by (alertname) (ALERTS{{alertname="{name}",alertstate="firing"}})',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name in firing else [],
            }
            for name in names
        ],
    }


def _check(directory: Path, tests: list[Mapping[str, Any]]) -> None:
    file = directory / "tests.yaml"
    document = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(document))
    found = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_each_alert_fires(tmp_path: Path) -> None:
    given = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    assert list(FIRES) == [rule["alert"] for rule in given]
    cases = [*(({name}, values) for name, values in FIRES.items()), *OTHERWISE]
    _check(tmp_path, [_test(values, 90, firing) for firing, values in cases])


@pytest.mark.parametrize("host", QUIET)
def test_none_fires_for_a_host_in_order(tmp_path: Path, host: str) -> None:
    _check(tmp_path, [_test(QUIET[host], minute, set()) for minute in (1, 3, 5, 8, 90)])
