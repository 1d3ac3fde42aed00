"""What RocksDB is told, and what is on the disk when a write has returned."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Event

import pytest

from engine.errors import LivestateError, Unavailable
from engine.state.damage import DamagedError
from engine.state.rocks import Rocks, shared_options
from engine.state.state_options import MIB, StateOptions
from tests.support.waiting import wait_until

VALUE = b"livestate" * 20_000
"""Larger than one write call aims at."""


@pytest.fixture
def rocks(tmp_path: Path) -> Iterator[Rocks]:
    storage = Rocks(tmp_path / "db", StateOptions())
    yield storage
    storage.close()


def _logged_bytes(directory: Path) -> int:
    return sum(file.read_bytes().count(b"livestate") for file in directory.glob("*.log"))


def test_what_was_written_is_in_the_log_when_the_call_returns(rocks: Rocks, tmp_path: Path) -> None:
    """So a host that is killed loses nothing. The log is in pieces, which cut some of the words."""
    rocks.write([(b"a", VALUE), (b"b", VALUE), (b"c", b"livestate")])
    assert _logged_bytes(tmp_path / "db") >= 39_900
    rocks.write_atomically([(b"d", VALUE)])
    assert _logged_bytes(tmp_path / "db") >= 59_850


def test_a_write_leaves_the_log_to_a_call_without_the_gil(rocks: Rocks, tmp_path: Path) -> None:
    (told,) = (tmp_path / "db").glob("OPTIONS-*")
    assert "manual_wal_flush=true" in told.read_text()


def test_a_full_place_for_temporary_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(Unavailable, match=r"temporary file cannot be written \(No such .*\): free space in"):
        shared_options(StateOptions())


def test_values_are_read_by_their_keys(rocks: Rocks) -> None:
    rocks.write([(b"a", VALUE)], logged=False)
    assert rocks.get(b"a") == VALUE
    assert rocks.get(b"b") is None


def test_it_is_closed_while_others_read(tmp_path: Path) -> None:
    """They have what they asked for, or a refusal; rocksdict itself refuses to be closed meanwhile."""
    pairs = [(b"%04d" % number, VALUE[:5000]) for number in range(300)]
    keys = [key for key, _ in pairs]

    def read(storage: Rocks, began: Event) -> str:
        for _ in range(3000):
            try:
                assert storage.get_all(keys) == [value for _, value in pairs]
                assert list(storage.pairs(b"00")) == pairs[:100]
            except Unavailable as refusal:
                return str(refusal)
            began.set()
        return "never refused"

    with ThreadPoolExecutor(3) as readers:
        for attempt in range(10):
            storage = Rocks(tmp_path / f"{attempt}", StateOptions())
            storage.write(pairs)
            began = [Event() for _ in range(3)]
            refusals = [readers.submit(read, storage, event) for event in began]
            assert all(event.wait(60) for event in began)
            storage.close()
            for refusal in refusals:
                assert "ask again" in refusal.result(60)


def lose_file(directory: Path, pattern: str) -> None:
    with closing(Rocks(directory, StateOptions())) as rocks:
        rocks.write([(b"a", VALUE), (b"b", VALUE)])
        rocks.flush()
    (file,) = directory.glob(pattern)
    file.unlink()


def test_a_lost_file_is_damage(tmp_path: Path) -> None:
    lose_file(tmp_path / "db", "*.blob")
    for _ in range(2):
        with closing(Rocks(tmp_path / "db", StateOptions())) as rocks:
            with pytest.raises(DamagedError):
                rocks.get(b"a")
            with pytest.raises(DamagedError):
                list(rocks.pairs(b""))
    lose_file(tmp_path / "other", "MANIFEST-*")
    with pytest.raises(DamagedError):
        Rocks(tmp_path / "other", StateOptions())
    lose_file(tmp_path / "third", "CURRENT")
    for is_read_only in (True, False):
        with pytest.raises(DamagedError):
            Rocks(tmp_path / "third", StateOptions(), is_read_only=is_read_only)


def test_a_directory_that_is_gone_is_not_damaged(tmp_path: Path) -> None:
    """The disk may be away."""
    lose_file(tmp_path / "db", "*.blob")
    rocks = Rocks(tmp_path / "db", StateOptions())
    (tmp_path / "db").rename(tmp_path / "away")
    with pytest.raises(Unavailable, match=r"does not answer \(IO error\)"):
        rocks.get(b"a")
    (tmp_path / "away").rename(tmp_path / "db")
    with pytest.raises(DamagedError):
        rocks.get(b"a")
    rocks.close()


def test_an_error_that_is_kept_keeps_nothing_open(tmp_path: Path) -> None:
    lose_file(tmp_path / "db", "*.blob")
    kept = []
    for _ in range(3):
        rocks = Rocks(tmp_path / "db", StateOptions())
        try:
            list(rocks.pairs(b""))
        except DamagedError as error:
            kept.append(error)
        with suppress(LivestateError):
            rocks.close()
    assert len(kept) == 3


def test_it_is_said_who_has_a_directory_open(tmp_path: Path) -> None:
    rocks = Rocks(tmp_path / "db", StateOptions())
    with pytest.raises(Unavailable, match="still being closed by this host"):
        Rocks(tmp_path / "db", StateOptions())
    rocks.close()
    program = (
        "import sys; from pathlib import Path; from engine.state.rocks import Rocks; "
        "from engine.state.state_options import StateOptions; "
        "rocks = Rocks(Path(sys.argv[1]), StateOptions()); print('open', flush=True); input(); rocks.close()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(Unavailable, match="is open in another process"):
            Rocks(tmp_path / "db", StateOptions())
        other.communicate("\n")
    Rocks(tmp_path / "db", StateOptions()).close()


def test_nothing_is_opened_behind_its_end(tmp_path: Path) -> None:
    """It is closed while a write after a failure waits to open it anew."""
    rocks = Rocks(tmp_path / "rocks", StateOptions())
    rocks._has_failed = True
    with ThreadPoolExecutor(2) as threads:
        with rocks._database():
            writing = threads.submit(rocks.write, [(b"key", b"value")])
            wait_until(lambda: rocks._is_reopening)
            closing_it = threads.submit(rocks.close)
            wait_until(lambda: rocks._is_closed)
        closing_it.result()
        with pytest.raises(Unavailable, match="was closed"):
            writing.result()
    assert rocks._openings == 1
    Rocks(tmp_path / "rocks", StateOptions()).close()


@pytest.mark.parametrize(
    ("cache", "memtables"), [(1, 16), (64, 16), (256, 64), (512, 128), (1024, 128), (1 << 20, 128)]
)
def test_memtables_take_less_beside_a_small_cache(cache: int, memtables: int) -> None:
    assert StateOptions(cache_bytes=cache * MIB).memtable_bytes == memtables * MIB


def test_options_hold_for_a_directory_that_was_made_with_others(tmp_path: Path) -> None:
    """And so does that there is no cache of RocksDB's own, of which no limit of memory knows."""
    for buffer in (4 * MIB, 8 * MIB):
        options = StateOptions(write_buffer_bytes=buffer)
        for shared in (None, shared_options(options)):
            with closing(Rocks(tmp_path / "db", options, shared)) as storage:
                storage.write_atomically([(b"a", VALUE)])
            said = (tmp_path / "db" / "LOG").read_text()
            found = set(re.findall(r"Options\.write_buffer_size: (\d+)|  block_cache: (\S+)", said))
            assert found == {(f"{buffer}", ""), ("", "(nil)")}
    with closing(Rocks(tmp_path / "db", options, is_read_only=True)) as storage:
        assert storage.get(b"a") == VALUE


def test_full_memtables_are_written_out(tmp_path: Path) -> None:
    options = StateOptions(cache_bytes=64 * MIB)
    storage = Rocks(tmp_path, options, shared_options(options))
    for number in range(5 * options.memtable_bytes // len(VALUE) // 4):
        storage.write([(b"%05d" % number, VALUE)])
    wait_until(lambda: storage.figures()["total-blob-file-size"] > 0)
    storage.close()
