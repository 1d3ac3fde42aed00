"""Three hosts that a real Prometheus scrapes: the expressions of dashboard and alerts have results.

What the docs say of metrics and alerts is what there is.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from engine.changelog import Changelog, append_table
from engine.changelog.layout import definition_path
from engine.cluster.reports import HostName
from engine.errors import NotFound
from engine.replica.follower_options import FollowerOptions
from engine.replica.snapshot_options import SnapshotOptions
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from flight_server.host.ports import free_ports
from tests.support.many_hosts import three_hosts
from tests.support.plays import COUNT, FAN_OUT, PLAYS, STORE
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "livestate.json"
_NAME = re.compile(r"livestate_\w+")
_SUFFIX = re.compile(r"_(bucket|count|sum)$")
_ABSENT = ("livestate_group_building_ratio",)
"""Metrics that a healthy deployment has no values of."""
NEEDS_PROMETHEUS = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed (make prometheus)"
)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[HostName, Host]]:
    """Hosts that have answered statements of all kinds, and written a snapshot."""
    directory = tmp_path_factory.mktemp("hosts")
    follower = FollowerOptions(snapshots=SnapshotOptions(after_bytes=1, look_seconds=0.05))
    with three_hosts(directory, http=("127.0.0.1", 0), follower=follower) as found:
        append_table(Changelog.open(str(directory / "changelog")), STORE, PLAYS.slice(0, 10))
        for host in found.values():
            with Client(host.uri) as client:
                _ask(client)
        yield found


def _ask(client: Client) -> None:
    for sql, _ in FAN_OUT:
        client.query(sql).read_all()
    for sql in ("SELECT * FROM plays WHERE song = 7", "SHOW STORES", "SELECT 1"):
        client.query(sql).read_all()
    with client.keys("plays") as keys:
        assert keys.get(1) is not None
    with pytest.raises(NotFound):
        client.query("SELECT nothing FROM plays")


def families(host: Host) -> Mapping[str, Any]:
    """What a host says of itself, by the names of the metrics."""
    with urlopen(f"{host.http_uri}/metrics") as answer:
        text = answer.read().decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    return {f"{name}_total" if each.type == "counter" else name: each for name, each in found.items()}


def value(host: Host, name: str, **labels: str) -> float:
    """One value; 0 where there is none."""
    family = families(host)[_SUFFIX.sub("", name)]
    return sum(
        float(each.value)
        for each in family.samples
        if each.name == name and labels.items() <= each.labels.items()
    )


def alert_rules() -> Sequence[Mapping[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    rules: Sequence[Mapping[str, Any]] = group["rules"]
    return rules


def dashboard_expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")


def test_the_docs_have_all_metrics_and_no_others(hosts: Mapping[HostName, Host]) -> None:
    table = re.findall(
        r"^\| `(livestate_\w+)` \| *(.*?) *\|", (ROOT / "docs" / "monitoring.md").read_text(), re.MULTILINE
    )
    found = families(hosts[HostName("a")])
    assert [name for name, _ in table] == list(found)
    for name, labels in table:
        shown = {label for sample in found[name].samples for label in sample.labels} - {"le"}
        assert name in _ABSENT or shown == set(labels.split(", ")) - {""}, name


def test_each_alert_says_what_to_do() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "alerts.md").read_text(), re.MULTILINE)
    rules = alert_rules()
    assert [rule["alert"] for rule in rules] == headings
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"docs/alerts.md#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_expressions_name_metrics_that_there_are(hosts: Mapping[HostName, Host]) -> None:
    known = families(hosts[HostName("a")])
    expressions = [*dashboard_expressions(), *(rule["expr"] for rule in alert_rules())]
    used = {_SUFFIX.sub("", name) for text in expressions for name in _NAME.findall(text)}
    assert used <= known.keys()
    assert {"livestate_failures_total", "livestate_statement_seconds"} <= used


def test_statements_are_counted_by_how_they_were_answered(hosts: Mapping[HostName, Host]) -> None:
    host = hosts[HostName("a")]
    count = "livestate_statement_seconds_count"
    for name in ("split", "lookup", "catalog", "engine", "keys"):
        assert value(host, count, **{"class": name}) > 0, name
    assert sum(value(each, count, **{"class": "fragment"}) for each in hosts.values()) > 0
    assert value(host, "livestate_statement_moved_bytes_total", **{"class": "split"}) > 0
    assert value(host, "livestate_failures_total", kind="NotFound") == 1
    wait_until(lambda: value(host, "livestate_hosts_alive") == 3)
    rows = sum(value(each, "livestate_store_rows", store="plays", group="plays") for each in hosts.values())
    assert rows == PLAYS.num_rows
    wait_until(lambda: value(host, "livestate_group_snapshot_bytes", group="plays") > 0)


def test_a_store_whose_definition_is_damaged_is_counted(tmp_path: Path) -> None:
    changelog = str(tmp_path / "changelog")
    append_table(Changelog.open(changelog), STORE, PLAYS.slice(0, 10))
    definition = Path(changelog, *definition_path(STORE.name).split("/"))
    whole = definition.read_bytes()
    definition.write_bytes(b"damaged")
    with (
        start_host(HostOptions(changelog, tmp_path / "data", port=0, http=("127.0.0.1", 0))) as host,
        Client(host.uri) as client,
    ):
        assert value(host, "livestate_stores_unreadable") == 1
        (store,) = client.query("SHOW STORES").read_all().to_pylist()
        assert store["problem"].startswith("Store plays cannot be read: ")
        definition.write_bytes(whole)
        wait_until(lambda: value(host, "livestate_stores_unreadable") == 0)


@contextmanager
def _prometheus(hosts: Mapping[HostName, Host], directory: Path) -> Iterator[str]:
    """A Prometheus that scrapes the hosts as the example does, more often; where it is."""
    config = yaml.safe_load((ALERTS.parent / "prometheus.yaml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(ALERTS)]
    targets = [urlsplit(host.http_uri).netloc for host in hosts.values()]
    (scrape,) = config["scrape_configs"]
    scrape["static_configs"] = [{"targets": targets}]
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    (port,) = free_ports("127.0.0.1", 0, 1)
    command = [
        "prometheus",
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        uri = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: _is_up(f"{uri}/-/ready"))
            yield uri
        finally:
            running.kill()


def _is_up(uri: str) -> bool:
    try:
        with urlopen(uri):
            return True
    except OSError:
        return False


def _get(uri: str, path: str) -> Any:
    with urlopen(f"{uri}/api/v1/{path}") as answer:
        document = json.load(answer)
    assert document["status"] == "success"
    return document["data"]


def _result(uri: str, expression: str) -> Sequence[Any]:
    """What an expression gives now."""
    found = _get(uri, f"query?{urlencode({'query': expression})}")
    assert found["resultType"] == "vector", expression
    result: Sequence[Any] = found["result"]
    return result


@NEEDS_PROMETHEUS
def test_a_real_prometheus_understands_all_expressions(
    hosts: Mapping[HostName, Host], tmp_path: Path
) -> None:
    subprocess.run(["promtool", "check", "rules", ALERTS], check=True, capture_output=True)
    with _prometheus(hosts, tmp_path) as uri:
        wait_until(lambda: len(_result(uri, "livestate_build_info")) == 3)
        # A rate takes two scrapes, and something that happens between them.
        with Client(hosts[HostName("a")].uri) as client:

            def ask_on() -> bool:
                for _ in range(3):
                    client.query(COUNT).read_all()
                return bool(_result(uri, 'rate(livestate_statement_seconds_count{class="split"}[1m]) > 0'))

            wait_until(ask_on)
        wait_until(lambda: bool(_result(uri, "livestate_group_snapshot_bytes")))
        for expression in dashboard_expressions():
            if any(name in expression for name in _ABSENT):
                _result(uri, expression)
            else:
                # A host that was not scraped in time has no values for a moment.
                wait_until(lambda: bool(_result(uri, expression)))  # noqa: B023 - called at once
        firing = {rule["alert"] for rule in alert_rules() if _result(uri, rule["expr"])}
        assert firing.isdisjoint({"LivestateDefects", "LivestateHostNotReady", "LivestateHostDrained"})
        with Client(hosts[HostName("b")].uri) as client:
            client.drain("begin")
            drained = next(rule["expr"] for rule in alert_rules() if rule["alert"] == "LivestateHostDrained")
            wait_until(lambda: len(_result(uri, drained)) == 1)
            client.drain("end")
        loaded = _get(uri, "rules")["groups"]
        assert [each["name"] for group in loaded for each in group["rules"]] == [
            rule["alert"] for rule in alert_rules()
        ]
        assert all(each["health"] in ("ok", "unknown") for group in loaded for each in group["rules"])
