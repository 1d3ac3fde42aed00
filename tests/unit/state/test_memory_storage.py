"""Partitions in memory do what those in RocksDB do."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.changelog import Changelog, open_appender
from engine.model.kinds import Behaviour
from engine.model.schema import GroupName, define_store
from engine.service import QueryService
from engine.state.memory_storage import MemoryStorage
from tests.support.following import OPTIONS, run_follower

KEYS = st.binary(min_size=1, max_size=2)
RANGES = st.lists(st.tuples(KEYS, KEYS), max_size=2)
GROUP = GroupName("group")
SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.dictionaries(KEYS, st.binary(max_size=2), max_size=4), RANGES), max_size=5), KEYS
)
def test_it_is_a_sorted_dict(
    writes: list[tuple[dict[bytes, bytes], list[tuple[bytes, bytes]]]], asked: bytes
) -> None:
    memory, expected = MemoryStorage(), dict[bytes, bytes]()
    for pairs, removed in writes:
        memory.write_atomically(pairs.items(), removed)
        expected = {
            key: value
            for key, value in expected.items()
            if not any(low <= key < high for low, high in removed)
        } | pairs
    assert memory.get(asked) == expected.get(asked)
    for length in range(4):
        assert memory.beginnings(length) == sorted({key[:length] for key in expected})
        found = sorted({key[:length] for key in expected if asked <= key < asked + b"\xff"})
        assert memory.beginnings(length, (asked, asked + b"\xff")) == found
    assert list(memory.pairs(asked)) == sorted(
        (key, value) for key, value in expected.items() if key.startswith(asked)
    )
    memory.write([(asked, b"new")], logged=False)
    assert memory.get(asked) == b"new"


def test_a_host_rebuilds_what_it_has_in_memory(tmp_path: Path) -> None:
    behaviour = Behaviour(in_memory=True)
    quick = define_store("quick", SCHEMA, ["k"], partitions=2, group=GROUP, behaviour=behaviour)
    slow = define_store("slow", SCHEMA, ["k"], partitions=2, group=GROUP)
    changelog = Changelog.open(str(tmp_path / "changelog"))
    query = (
        "SELECT (SELECT sum(n) FROM quick) AS quick, (SELECT sum(n) FROM slow) AS slow, (SELECT n FROM "
        "quick WHERE k = 7) AS seven"
    )
    with open_appender(changelog, [quick, slow]) as appender:
        for start in range(40):
            table = pa.table({"k": range(start, start + 50), "n": [start] * 50})
            epoch = appender.append({"quick": table, "slow": table}).epoch
    total = sum(range(39)) + 39 * 50
    for _ in range(2):
        with (
            run_follower(changelog, tmp_path / "data", OPTIONS) as follower,
            closing(QueryService(follower)) as service,
        ):
            assert follower.wait_for(GROUP, epoch, 60.0)
            assert service.execute(query).read_all().to_pylist() == [
                {"quick": total, "slow": total, "seven": 7}
            ]
    found = {path.name for path in (tmp_path / "data").rglob("*") if path.is_dir()}
    assert "slow" in found
    assert "quick" not in found
