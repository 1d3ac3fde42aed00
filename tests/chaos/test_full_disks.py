"""A host whose disk is full: it answers as before, says so, and goes on by itself once there is room."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa
import yaml
from prometheus_client.parser import text_string_to_metric_families

from engine.changelog import Changelog, open_appender
from engine.model.schema import define_store
from flight_server.client.client import Client
from flight_server.host.ports import free_ports
from tests.support.lone_host import lone_host
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ACCOUNTS = define_store(
    "accounts", pa.schema([("account", pa.int64()), ("amount", pa.int64())]), ["account"], partitions=2
)
ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
LARGEST_FILE = 100_000
ROWS, MORE_ROWS = 100, 50_000


def totals(client: Client) -> tuple[int, int]:
    """How many accounts there are, and what they have together."""
    (found,) = client.query("SELECT count(*) AS n, sum(amount) AS total FROM accounts").read_all().to_pylist()
    return found["n"], int(found["total"])


def problem(client: Client) -> str:
    (store,) = client.query("SHOW STORES").read_all().to_pylist()
    return str(store["problem"])


def disk_alert_fires(watched: str) -> bool:
    """Whether the metrics say what the rule `LivestateDisk` looks for."""
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    (expression,) = (rule["expr"] for rule in rules if rule["alert"] == "LivestateDisk")
    found = re.fullmatch(r'(\w+)\{property=~"([^"]+)"\} > 0', expression)
    assert found is not None
    with urlopen(f"http://{watched}/metrics") as answer:
        families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
    return any(
        sample.value > 0
        for sample in families[found[1]].samples
        if re.fullmatch(found[2], sample.labels["property"])
    )


def test_a_host_goes_on_when_its_disk_has_room_again(tmp_path: Path) -> None:
    """A limit on file sizes is what a full disk looks like without root."""
    appender = open_appender(Changelog.open(str(tmp_path / "changelog")), [ACCOUNTS])

    def append(rows: int, amount: int) -> None:
        columns = {
            "account": pa.array(range(rows), pa.int64()),
            "amount": pa.array([amount] * rows, pa.int64()),
        }
        appender.append({ACCOUNTS.name: pa.table(columns)})

    append(ROWS, 1)
    (port,) = free_ports("127.0.0.1", 0, 1)
    watched = f"127.0.0.1:{port}"
    with lone_host(tmp_path / "changelog", tmp_path / "data", "--http-address", watched) as (process, client):
        wait_until(lambda: totals(client) == (ROWS, ROWS))
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (LARGEST_FILE, resource.RLIM_INFINITY))
        append(MORE_ROWS, 2)
        wait_until(lambda: "disk of the data directory is full" in problem(client), PATIENCE_SECONDS)
        wait_until(lambda: disk_alert_fires(watched), PATIENCE_SECONDS)
        assert totals(client) == (ROWS, ROWS)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_until(lambda: totals(client) == (MORE_ROWS, 2 * MORE_ROWS), PATIENCE_SECONDS)
        wait_until(lambda: not problem(client), PATIENCE_SECONDS)
        wait_until(lambda: not disk_alert_fires(watched), PATIENCE_SECONDS)
        append(ROWS, 3)
        wait_until(lambda: totals(client) == (MORE_ROWS, 2 * MORE_ROWS + ROWS), PATIENCE_SECONDS)
