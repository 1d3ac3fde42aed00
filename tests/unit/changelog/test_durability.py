"""A local directory: full disks, killed writers, and the order of the system calls that make a commit
durable.
"""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, local_objects, open_appender
from engine.changelog.layout import GROUPS_PATH, STORES_PATH, TEMPORARY_SUFFIX
from engine.changelog.local_objects import LocalObjects
from engine.changelog.objects import Objects
from engine.errors import LimitExceeded, Unavailable
from engine.model.schema import Epoch
from tests.unit.changelog.conftest import PLAYS, read, rows

FULL_DISK = """
import resource, sys
from engine.changelog import Changelog, open_appender
from engine.errors import LimitExceeded
from tests.unit.changelog.conftest import PLAYS, rows

def fill(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

appender = open_appender(Changelog.open(sys.argv[1]), [PLAYS])
appender.append({"plays": rows(1)})
for limit, count in ((100, 1), (100_000, 50_000)):
    fill(limit)
    try:
        appender.append({"plays": rows(*range(count))})
    except LimitExceeded as error:
        print(error)
    fill(resource.RLIM_INFINITY)
print(appender.append({"plays": rows(2)}).epoch)
"""

WRITE_ON_AND_ON = """
import sys
from engine.changelog import Changelog, open_appender
from tests.unit.changelog.conftest import PLAYS, rows

appender = open_appender(Changelog.open(sys.argv[1]), [PLAYS], query_ids=["q"])
number = 0
while True:
    # Every third epoch has a data file.
    songs = range(20_000) if number % 3 == 0 else range(5)
    print(appender.append({"plays": rows(*songs, plays=number)}, query_id="q", batch_id=number).epoch, flush=True)
    number += 1
"""


@pytest.mark.parametrize("failing", ["_sync_directory", "unlink"])
def test_a_disk_that_is_full_behind_a_commit_does_not_deny_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """A file system that copies on write needs room to delete, and to sync a directory."""
    changelog = Changelog.open(str(tmp_path))
    appender = open_appender(changelog, [PLAYS])
    appender.append({"plays": rows(1)})

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    staged = [appender.stage({"plays": rows(*range(20_000))})]
    with monkeypatch.context() as patched:
        if failing == "unlink":
            patched.setattr(Path, "unlink", fail)
        else:
            patched.setattr(local_objects, failing, fail)
        with suppress(Unavailable):
            appender.commit(staged)
    epoch = changelog.newest_epoch(PLAYS.group)
    commit = Changelog.open(str(tmp_path)).read_commit(PLAYS.group, epoch)
    assert commit is not None
    assert commit.files
    assert len(read(Changelog.open(str(tmp_path)), epoch)) == 20_000


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("The disk of the changelog is full") for line in lines[:2])
    assert lines[2] == "3"
    changelog = Changelog.open(str(tmp_path))
    assert [read(changelog, epoch) for epoch in (1, 2, 3)] == [[], [(1, "t", 1)], [(2, "t", 1)]]
    assert [path for path in tmp_path.rglob("*") if path.name.endswith((".tmp", ".arrow"))] == []


def test_a_killed_writer_leaves_whole_epochs(tmp_path: Path) -> None:
    acknowledged = 0
    for goal in (7, 16, 24):
        with subprocess.Popen(
            [sys.executable, "-c", WRITE_ON_AND_ON, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            while acknowledged < goal:
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
    changelog = Changelog.open(str(tmp_path))
    newest = changelog.newest_epoch(PLAYS.group)
    assert newest >= acknowledged
    batches = []
    for epoch in range(1, newest + 1):
        commit = changelog.read_commit(PLAYS.group, Epoch(epoch))
        assert commit is not None
        found = read(changelog, epoch)
        assert len(found) == (0 if commit.batch_id is None else 20_000 if commit.batch_id % 3 == 0 else 5)
        batches.append(commit.batch_id)
    assert [batch for batch in batches if batch is not None] != []
    open_appender(changelog, [PLAYS], query_ids=["q"])
    changelog.collect(PLAYS.group)
    assert list(tmp_path.rglob("*.tmp")) == []


def test_what_is_being_written_is_no_object(local: Changelog) -> None:
    """Nobody lists it; it may be gone the next moment."""
    open_appender(local, [PLAYS]).append({"plays": rows(1)})
    objects = local.objects
    listed = sorted(path for place in (STORES_PATH, GROUPS_PATH) for path in objects.list(place))
    unfinished = [f"{path}.0011223344556677{TEMPORARY_SUFFIX}" for path in listed]
    for path in unfinished:
        objects.put(path, [pa.py_buffer(b"half")])
    now = objects.current_time()
    assert sorted(path for place in (STORES_PATH, GROUPS_PATH) for path in objects.list(place)) == listed
    found = [each for place in (STORES_PATH, GROUPS_PATH) for each in objects.unfinished_objects(place)]
    assert sorted(path for path, _ in found) == unfinished
    assert all(written_at <= now for _, written_at in found)
    objects.delete(unfinished)
    assert not [each for place in (STORES_PATH, GROUPS_PATH) for each in objects.unfinished_objects(place)]


def test_what_killed_commands_were_writing_is_collected(local: Changelog) -> None:
    """Wherever it is; not what somebody may be writing, nor what is not the changelog's."""
    open_appender(local, [PLAYS]).append({"plays": rows(1)})
    root = Path(local.uri)
    names = [
        "FORMAT",
        "clock",
        "clock/0011/first",
        "backup/0000000001.json",
        "stores/plays/definition.json",
        "stores/plays/switches/0000000001.json",
        "groups/plays/00000000000000000003.commit",
        "groups/plays/00000000000000000009/task-0.arrow",
        "groups/plays/dropped.json",
        "groups/plays/migrations/0000000001.json",
        "groups/plays/floors/0000000001.json",
        "groups/plays/snapshots/00000000000000000002.snapshot",
        "groups/plays/snapshots/00000000000000000002/plays-0.arrow",
    ]
    young = [f"{name}.8899aabbccddeeff{TEMPORARY_SUFFIX}" for name in names]
    old = [f"{name}.0011223344556677{TEMPORARY_SUFFIX}" for name in names]
    others = [f"notes{TEMPORARY_SUFFIX}", f"notes/of mine{TEMPORARY_SUFFIX}"]
    now = local.objects.current_time()
    before = [path for path in root.rglob("*") if path.is_file()]
    for name in (*young, *old, *others):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
        if name not in young:
            os.utime(path, (0, now / 1e6 - 3601))
    assert local.collect_unfinished(now) == len(old)
    left = {path for path in root.rglob("*") if path.is_file()}
    assert left == {*before, *(root / name for name in (*young, *others))}
    assert local.collect_unfinished(now) == 0


def test_a_commit_is_durable_before_it_is_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def name_of(target: object) -> str:
        path = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else Path(str(target))
        return path.name.split(".tmp")[0]

    def record(function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            calls.append((function.__name__, name_of(arguments[-1])))
            function(*arguments)

        return call

    changelog = Changelog.open(str(tmp_path / "deep" / "root"))
    appender = open_appender(changelog, [PLAYS])
    monkeypatch.setattr(os, "fsync", record(os.fsync))
    monkeypatch.setattr(os, "link", record(os.link))
    appender.append({"plays": rows(*range(30_000))})
    data, commit = (name for step, name in calls if step == "link")
    directory = commit.removesuffix(".commit")
    before_link = calls[: calls.index(("link", commit))]
    assert before_link[-1][0] == "fsync"
    assert before_link[-1][1].startswith(commit)
    # Before that the data file, its name, and the name of the directory that it is in.
    assert calls.index(("link", data)) > 0
    assert [("fsync", directory), ("fsync", "plays")] == before_link[
        before_link.index(("link", data)) + 1 : -1
    ]
    assert calls[-2:] == [("fsync", "plays"), ("fsync", "groups")]


def test_a_reader_makes_durable_what_it_relies_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_appender(Changelog.open(str(tmp_path)), [PLAYS]).append({"plays": rows(1)})
    reader = Changelog.open(str(tmp_path))
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    assert reader.newest_epoch(PLAYS.group) == 2
    assert synced == ["plays"]
    reader.read_commit(PLAYS.group, Epoch(1))
    reader.read_commit(PLAYS.group, Epoch(2))
    assert synced == ["plays"]


def test_a_root_that_cannot_be_a_directory(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    assert changelog.definitions() == {}
    with pytest.raises(Unavailable, match=r"directory cannot be written \(File exists\)") as raised:
        open_appender(changelog, [PLAYS])
    assert str(tmp_path) not in raised.value.message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EIO])
@pytest.mark.parametrize(
    "call",
    [
        lambda objects: objects.get("FORMAT"),
        lambda objects: objects.get_ranges("FORMAT", 1, [(0, 1)]),
        lambda objects: objects.exists("FORMAT"),
        lambda objects: objects.put("groups/a", []),
        lambda objects: objects.create("groups/a", []),
        lambda objects: objects.settle("FORMAT"),
        lambda objects: list(objects.list("groups")),
        lambda objects: list(objects.unfinished_objects("groups")),
        lambda objects: objects.delete(["FORMAT"]),
        lambda objects: objects.current_time(),
    ],
)
def test_no_failure_tells_clients_where_the_changelog_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Objects], object], number: int
) -> None:
    open_appender(Changelog.open(str(tmp_path)), [PLAYS])

    def fail(path: object, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    for function in ("open", "scandir", "stat"):
        monkeypatch.setattr(os, function, fail)
    for method in ("open", "unlink"):
        monkeypatch.setattr(Path, method, fail)
    with pytest.raises((LimitExceeded, Unavailable)) as raised:
        call(LocalObjects(tmp_path))
    assert os.strerror(number) in raised.value.message
    assert tmp_path.name not in raised.value.message


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    changelog = Changelog.open("here")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    # Spark's executors work elsewhere, too.
    sent = pickle.loads(pickle.dumps(changelog))
    open_appender(sent, [PLAYS])
    assert (tmp_path / "here" / "FORMAT").exists()
    assert [*changelog.definitions()] == [PLAYS.name]
