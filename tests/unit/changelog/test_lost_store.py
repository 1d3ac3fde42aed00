"""A host whose object store cannot be reached when it starts: it serves what it has, and catches up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.errors import Unavailable
from engine.model.schema import define_store
from engine.replica.follower import Follower
from tests.support.following import OPTIONS, contents, run_follower
from tests.support.forwarder import Forwarder
from tests.support.waiting import PATIENCE_SECONDS, wait_until

SCHEMA = pa.schema([("account", pa.int64()), ("amount", pa.int64())])
STORE = define_store("debit", SCHEMA, ["account"], partitions=2, group="bank")


@pytest.fixture
def forwarder(s3_options: Mapping[str, str]) -> Iterator[Forwarder]:
    forwarder = Forwarder(urlsplit(s3_options["endpoint"]).port or 0)
    yield forwarder
    forwarder.cut()


def test_a_host_starts_without_its_object_store(
    s3_options: Mapping[str, str], forwarder: Forwarder, tmp_path: Path
) -> None:
    uri = f"s3://bucket/{uuid4()}"
    appender = open_appender(Changelog.open(uri, s3_options), [STORE])
    behind = {**s3_options, "endpoint": f"http://127.0.0.1:{forwarder.port}"}

    def append(account: int) -> None:
        appender.append({STORE.name: pa.table({"account": [account], "amount": [1]}, SCHEMA)})

    append(1)
    with run_follower(Changelog.open(uri, behind), tmp_path / "data") as follower:
        assert follower.wait_for(STORE.group, appender.epoch, PATIENCE_SECONDS)
    forwarder.cut()
    with pytest.raises(Unavailable, match="cannot be reached"):
        Follower(Changelog.open(uri, behind), tmp_path / "new", OPTIONS).start()
    with run_follower(Changelog.open(uri, behind), tmp_path / "data") as follower:
        with follower.pin_views([STORE.name]) as views:
            assert contents(views[STORE.name]) == {1: 1}
        assert f"what can be read is epoch {appender.epoch}" in follower.status()[0].problem
        append(2)
        forwarder.mend()
        assert follower.wait_for(STORE.group, appender.epoch, PATIENCE_SECONDS)
        with follower.pin_views([STORE.name]) as views:
            assert contents(views[STORE.name]) == {1: 1, 2: 1}
        wait_until(lambda: follower.status()[0].problem == "")
