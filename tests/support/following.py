"""A follower that looks often, and what its stores contain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from engine.changelog import Changelog
from engine.model.schema import GroupName, StoreDefinition, define_store
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.scan import LIVE_COLUMN, StoreView
from engine.state.state_options import StateOptions

GROUP = GroupName("bank")
PARTITIONS = 4
OPTIONS = FollowerOptions(poll_seconds=0.01, retry_seconds=0.05, state=StateOptions(block_rows=16, fan_out=3))


def define(name: str) -> StoreDefinition:
    """A store of accounts with an amount each."""
    return define_store(
        name,
        pa.schema([("account", pa.int64()), ("amount", pa.int64())]),
        ["account"],
        partitions=PARTITIONS,
        group=GROUP,
    )


@contextmanager
def run_follower(
    changelog: Changelog, directory: Path, options: FollowerOptions = OPTIONS
) -> Iterator[Follower]:
    """A follower that runs meanwhile.

    Args:
        changelog: What it follows.
        directory: For its data.
        options: How it follows.
    """
    follower = Follower(changelog, directory, options)
    follower.start()
    try:
        yield follower
    finally:
        follower.stop()


def live_rows(view: StoreView) -> pa.Table:
    """All live rows of a store, in no order."""
    table = view.scan(view.definition.schema.names).to_table()
    if LIVE_COLUMN in table.schema.names:
        table = table.filter(pc.equal(table[LIVE_COLUMN], 1)).drop_columns([LIVE_COLUMN])
    assert table.num_rows == view.live_rows
    return table


def contents(view: StoreView) -> dict[int, int]:
    """The amount of each account that is live."""
    table = live_rows(view)
    return dict(zip(table["account"].to_pylist(), table["amount"].to_pylist(), strict=True))
