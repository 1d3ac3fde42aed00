"""`livestate migrate`, on changelogs that jobs write, or do not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table, open_appender
from engine.errors import Fenced
from engine.model.schema import GroupName, StoreDefinition, StoreName, define_store
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import livestate

ROWS = pa.table(
    {
        "id": pa.array(range(5), pa.int64()),
        "name": [f"n{i}" for i in range(5)],
        "count": pa.array(range(5), pa.int32()),
    }
)
STORE = define_store("t", ROWS.schema, ["id"], partitions=2)
GROUP = GroupName("t")
CHANGES = (
    "--add",
    "kind VARCHAR DEFAULT 'it''s'",
    "--add",
    '"a b" DOUBLE',
    "--rename",
    "name=title",
    "--widen",
    "count=BIGINT",
)


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    """One that has a store with rows."""
    opened = Changelog.open(str(tmp_path / "changelog"))
    append_table(opened, STORE, ROWS)
    return opened


def current_definition(changelog: Changelog) -> StoreDefinition:
    found = Changelog.open(changelog.uri).definition(StoreName("t"))
    assert found is not None
    return found


def test_a_dry_run_shows_both_definitions(changelog: Changelog) -> None:
    shown = livestate("migrate", "t", "--changelog", changelog.uri, *CHANGES, "--dry-run")
    assert shown.exit_code == 0
    before, after, nothing = shown.stdout.splitlines()
    assert before == f"was: {STORE.describe()}"
    assert after.startswith(
        "is:  t (id BIGINT, title VARCHAR, count BIGINT, kind VARCHAR, a b DOUBLE) KEY (id)"
    )
    assert nothing == "Nothing was changed: this was a dry run."
    assert (current_definition(changelog), changelog.generation(GROUP)) == (STORE, 0)


def test_the_next_commit_of_a_job_takes_it_up(changelog: Changelog) -> None:
    job = open_appender(changelog, [STORE])
    with ThreadPoolExecutor(1) as thread:
        command = thread.submit(
            livestate, "migrate", "t", "--changelog", changelog.uri, *CHANGES, "--wait", "60"
        )
        wait_until(lambda: Changelog.open(changelog.uri).generation(GROUP) == 1)
        commit = job.append({"t": ROWS})
        shown = command.result()
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[-1] == f"In effect at epoch {commit.epoch} of store group t."
    rows = changelog.read_rows(commit, {STORE.name: current_definition(changelog)}).values()
    assert {row["kind"] for batch in rows for row in batch.to_pylist()} == {"it's"}


def test_without_a_commit_it_says_what_comes(changelog: Changelog) -> None:
    shown = livestate("migrate", "t", "--changelog", changelog.uri, "--drop", "name", "--wait", "0")
    assert shown.exit_code == 0
    assert "No commit of store group t came within 0 s. The next one takes the change up" in shown.stdout
    assert f"livestate migrate t --changelog {changelog.uri} --take-over;" in shown.stdout
    assert current_definition(changelog).schema.names == ["id", "count"]
    waits = livestate("migrate", "t", "--changelog", changelog.uri, "--wait", "0")
    assert "No commit of store group t came" in waits.stdout
    commit = open_appender(changelog, [STORE]).append({})
    there = livestate("migrate", "t", "--changelog", changelog.uri, "--wait", "0")
    assert there.stdout.splitlines() == [
        f"is:  {current_definition(changelog).describe()}",
        f"In effect at epoch {commit.epoch} of store group t.",
    ]


def test_taking_over_ends_the_term_of_a_job(changelog: Changelog) -> None:
    job = open_appender(changelog, [STORE])
    shown = livestate(
        "migrate", "t", "--changelog", changelog.uri, "--drop", "name", "--wait", "0", "--take-over"
    )
    assert shown.exit_code == 0
    epoch = changelog.newest_epoch(GROUP)
    assert f"In effect at epoch {epoch} of store group t, which was taken over" in shown.stdout
    commit = changelog.read_commit(GROUP, epoch)
    assert commit is not None
    assert commit.generation == 1
    with pytest.raises(Fenced, match="written by livestate migrate on "):
        job.append({"t": ROWS})
    assert open_appender(changelog, [STORE]).append({"t": ROWS}).generation == 1


NOT_UNDERSTOOD = ("write it like --rename old=new", "NOTHING")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--drop", "a"], "There is no store x in the changelog"),
        (["t"], "say what is to change"),
        (["t", "--dry-run"], "say what is to change"),
        (["t", "--drop", "id"], "id is in the key"),
        (["t", "--widen", "count=VARCHAR"], "count is INTEGER, and VARCHAR does not have all of its values"),
        (["t", "--rename", "name"], "write it like --rename old=new"),
        (["t", "--add", "x INTEGER DEFAULT 'a'"], "'a' is no INTEGER"),
        (["t", "--add", "x NOTHING"], "NOTHING"),
    ],
)
def test_what_cannot_be_is_refused(changelog: Changelog, arguments: list[str], message: str) -> None:
    shown = livestate("migrate", *arguments, "--changelog", changelog.uri, "--wait", "0")
    assert shown.exit_code == (2 if message in NOT_UNDERSTOOD else 1)
    assert message in shown.stderr.replace("\n", " ")
    assert Changelog.open(changelog.uri).generation(GROUP) == 0


def test_types_are_written_as_in_sql(changelog: Changelog) -> None:
    shown = livestate(
        "migrate",
        "t",
        "--changelog",
        changelog.uri,
        "--dry-run",
        "--add",
        'x struct("a b" bigint, "C" Decimal(4,1)[])',
        "--drop",
        "name",
    )
    assert shown.exit_code == 0
    assert (
        'is:  t (id BIGINT, count INTEGER, x STRUCT("a b" BIGINT, "C" DECIMAL(4,1)[])) KEY (id)'
        in shown.stdout
    )


@pytest.mark.parametrize(
    ("seconds", "message"), [("nan", "'nan' is no number of seconds"), ("-1", "is not in the range x>=0")]
)
def test_a_time_to_wait_that_is_none(changelog: Changelog, seconds: str, message: str) -> None:
    shown = livestate("migrate", "t", "--changelog", changelog.uri, "--drop", "name", "--wait", seconds)
    assert shown.exit_code == 2
    assert message in shown.stderr
