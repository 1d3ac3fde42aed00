"""Damage on the disk under a partition: an error of the right kind that says what to do, and never a wrong
answer.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import Corrupt, LivestateError, Unavailable
from engine.model.schema import Epoch, PartitionId, StoreDefinition
from engine.state.cache import ColumnCache
from engine.state.formats import MANIFEST, STATE_FORMAT, Manifest, SegmentId, block_key, segment_key
from engine.state.partition import PartitionStore
from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions
from tests.chaos.partition_process import definition, rows_of, rows_until
from tests.property.test_partition_store import contents

OPTIONS = StateOptions(block_rows=8)
EPOCH = Epoch(3)
HOLD_LOCK = """
import fcntl, sys

with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""
"""A process that has the lock of a RocksDB as one that has it open."""


def open_store(path: Path, store: StoreDefinition | None = None) -> PartitionStore:
    return PartitionStore(store or definition(), PartitionId(0), path, ColumnCache(1 << 20), OPTIONS)


def held_values(store: PartitionStore) -> dict[object, object]:
    return {key: value for (key,), value in contents(store.version, definition()).items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed partition at epoch 3."""
    store = open_store(tmp_path / "0")
    for epoch in range(1, EPOCH + 1):
        store.apply(Epoch(epoch), rows_of(epoch))
    store.close()
    return tmp_path / "0"


def overwrite(path: Path, key: bytes, value: bytes) -> None:
    rocks = Rocks(path, OPTIONS)
    rocks.write_atomically([(key, value)])
    rocks.close()


def manifest_of(path: Path) -> Manifest:
    rocks = Rocks(path, OPTIONS)
    data = rocks.get(MANIFEST)
    rocks.close()
    assert data is not None
    return Manifest.from_bytes(data)


@pytest.mark.parametrize(
    "value", [b"", b"no manifest", b"[]", b"{}", b'{"format": 1}', b'{"format": 99, "segments": []}']
)
def test_a_damaged_manifest(path: Path, value: bytes) -> None:
    overwrite(path, MANIFEST, value)
    with pytest.raises(Corrupt, match=rf"format {STATE_FORMAT}: upgrade|manifest is damaged") as caught:
        open_store(path)
    assert str(path) not in caught.value.message


@pytest.mark.parametrize("value", [b"", b"no record", b"\xff" * 200])
def test_a_damaged_segment_record(path: Path, value: bytes) -> None:
    overwrite(path, segment_key(manifest_of(path).segments[0]), value)
    with pytest.raises(Corrupt, match="segment record is damaged"):
        open_store(path)


@pytest.mark.parametrize("value", [b"", b"no block", b"\xff" * 200])
def test_a_damaged_block(path: Path, value: bytes) -> None:
    for segment in manifest_of(path).segments:
        overwrite(path, block_key(SegmentId(segment), 1, 0), value)
    store = open_store(path)
    with pytest.raises(Corrupt, match="block is damaged"):
        held_values(store)
    store.close()


def test_a_partition_of_another_store_is_refused(path: Path) -> None:
    from engine.model.schema import define_store  # noqa: PLC0415 - only here

    other = define_store("other", definition().schema, ["k"], partitions=1)
    with pytest.raises(Corrupt, match=r"partition 0 of store store .* store other"):
        open_store(path, other)


def test_a_partition_that_is_open_elsewhere_is_refused(path: Path) -> None:
    open_store(path).close()
    holder = ["-c", HOLD_LOCK, str(path / "LOCK")]
    with subprocess.Popen(
        [sys.executable, *holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(Unavailable, match="open in another process"):
            open_store(path)
        process.stdin.close()
    store = open_store(path)
    with pytest.raises(Unavailable, match="still being closed by this host"):
        open_store(path)
    assert held_values(store) == rows_until(EPOCH)
    store.close()


def test_flipped_bytes_are_an_error_or_change_nothing(path: Path) -> None:
    """RocksDB's checksums stand between the disk and an answer."""
    files = sorted(
        file for file in path.iterdir() if file.suffix in {".log", ".sst", ".blob"} and file.stat().st_size
    )
    assert files
    for file in files:
        whole = file.read_bytes()
        for place in range(3, len(whole), max(1, len(whole) // 12)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
            found = what_is_there(path)
            assert found is None or found in [rows_until(epoch) for epoch in range(EPOCH + 1)]


def what_is_there(path: Path) -> dict[object, object] | None:
    """What a partition answers; None where it refuses to."""
    try:
        store = open_store(path)
    except LivestateError:
        return None
    try:
        return held_values(store)
    except LivestateError:
        return None
    finally:
        store.close()


FULL = """
import resource, sys
from pathlib import Path
from threading import Thread
from engine.errors import LimitExceeded, Unavailable
from engine.model.schema import Epoch
from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions
from tests.chaos.partition_process import rows_of, rows_until
from tests.chaos.test_damaged_state import held_values, open_store

def limit_files(nbytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, resource.RLIM_INFINITY))
"""
PARTITION_ON_A_FULL_DISK = (
    FULL
    + """
store = open_store(Path(sys.argv[1]))
limit_files(30_000)
epoch, refused = 0, 0
while refused < 3:
    try:
        store.apply(Epoch(epoch + 1), rows_of(epoch + 1))
        epoch += 1
    except LimitExceeded as error:
        assert "disk of the data directory is full" in error.message
        refused += 1
    assert held_values(store) == rows_until(epoch), epoch
if len(sys.argv) > 2:
    limit_files(resource.RLIM_INFINITY)
    for _ in range(2):
        store.apply(Epoch(epoch + 1), rows_of(epoch + 1))
        epoch += 1
        assert held_values(store) == rows_until(epoch), epoch
    while store.compact():
        assert held_values(store) == rows_until(epoch), epoch
    store.close()
print(epoch)
"""
)
"""Until it takes nothing any more; with another argument it has room again then."""


def run_with_full_disk(program: str, *arguments: str) -> str:
    """What a program prints; a limit on file sizes is what a full disk looks like without root."""
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("arguments", [(), ("has room again",)])
def test_a_full_disk_leaves_the_last_whole_epoch(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    epoch = int(run_with_full_disk(PARTITION_ON_A_FULL_DISK, str(tmp_path / "0"), *arguments))
    assert epoch > 3
    store = open_store(tmp_path / "0")
    assert store.applied == epoch
    assert held_values(store) == rows_until(epoch)
    store.apply(Epoch(epoch + 1), rows_of(epoch + 1))
    assert held_values(store) == rows_until(epoch + 1)
    store.close()


UNLOGGED_ON_A_FULL_DISK = (
    FULL
    + """
rocks = Rocks(Path(sys.argv[1]), StateOptions())
rocks.write([(b"before", b"1")])
rocks.write([(b"flushed", b"1")], logged=False)
rocks.flush()
rocks.write([(b"unlogged", b"1")], logged=False)

def write_in_vain():
    limit_files(100)
    for _ in range(2):
        try:
            rocks.write([(b"failed", b"1" * 1000)])
        except LimitExceeded:
            pass
        else:
            raise AssertionError
    assert rocks.get_all([b"before", b"unlogged"]) == [b"1", b"1"]
    limit_files(resource.RLIM_INFINITY)
    rocks.write([(b"after", b"1")])
    rocks.flush()
    print("written again")

other = Thread(target=write_in_vain)
other.start()
other.join()
try:
    rocks.flush()
except Unavailable as error:
    print(error.message)
for logged in (True, False):
    rocks.write([(b"unlogged", b"2")], logged=logged)
    rocks.flush()
rocks.close()
rocks = Rocks(Path(sys.argv[1]), StateOptions())
assert rocks.get_all([b"before", b"flushed", b"after", b"unlogged"]) == [b"1", b"1", b"1", b"2"]
"""
)


def test_who_wrote_past_the_log_is_told_that_it_is_gone(tmp_path: Path) -> None:
    """Another thread of the same RocksDB finds that the disk has room again, and has it opened anew."""
    said = run_with_full_disk(UNLOGGED_ON_A_FULL_DISK, str(tmp_path / "0")).splitlines()
    assert said == [
        "written again",
        (
            "A disk that was full has room again, and what was being written to a partition meanwhile is "
            "written again."
        ),
    ]
