"""`livestate load` into new stores of every kind: how the options are read, what they make, and what is
refused with which words.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.model.kinds import (
    PLAIN,
    Behaviour,
    Function,
    KeyValue,
    Merge,
    MergedColumn,
    Retention,
    Session,
    Versioned,
)
from engine.model.schema import GroupName, StoreDefinition, StoreName
from flight_server.cli.behaviour_text import BehaviourText, merged_column
from flight_server.cli.load import LoadOptions, load_file
from flight_server.client.client import Client
from flight_server.host.host import HostOptions
from tests.support.started_host import start_host
from tests.unit.cli.conftest import livestate
from tests.unit.cli.test_load import contents

DAY = 86_400_000_000
DAYS = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]
SALES = pa.table(
    {
        "shop": ["a", "b", "a"],
        "amount": pa.array([1, 2, 3], pa.int32()),
        "at": pa.array(DAYS, pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    file = tmp_path / "sales.parquet"
    pq.write_table(SALES, file)
    return file


def definition(changelog: Changelog) -> StoreDefinition:
    found = changelog.definition(StoreName("t"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "column",
    [
        MergedColumn("plays", Function.COUNT),
        MergedColumn("rated", Function.COUNT, "rating"),
        MergedColumn("total", Function.SUM, "amount"),
        MergedColumn("title", Function.LAST, "title", "played_at"),
        MergedColumn("latency", Function.QUANTILES, "ms", ranks=(0.0, 0.5, 0.9999999)),
        MergedColumn("the title", Function.FIRST, "a, b", "(c)"),
    ],
)
def test_a_merged_column_is_written_as_definitions_show_it(column: MergedColumn) -> None:
    assert merged_column(column.describe()) == column


def test_merged_columns_may_be_written_with_blanks_quotes_and_capitals() -> None:
    assert merged_column(' "the sum" = SUM ( "a, b" ) ') == MergedColumn("the sum", Function.SUM, "a, b")
    assert merged_column("plays=count") == MergedColumn("plays", Function.COUNT)
    assert merged_column("t=first(a  BY  b)") == MergedColumn("t", Function.FIRST, "a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sum(amount)", r"'sum\(amount\)' is no merged column; write it as total=sum\(amount\)"),
        ("total=sum(amount", "is no merged column"),
        ("total=median(amount)", r"there is no function median; there are sum, count, .*quantiles"),
        ("title=last(title)", r"say by which column, as in title=last\(title by played_at\)"),
        ("total=sum(a by b)", "only first and last go by another column"),
        ("total=sum(a, 0.5)", "only quantiles have ranks"),
        ("q=quantiles(a)", "say at which ranks"),
        ("q=quantiles(a, half)", "half is no rank; ranks are numbers from 0 to 1"),
    ],
)
def test_what_is_no_merged_column(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        merged_column(text)


@pytest.mark.parametrize(
    ("text", "behaviour"),
    [
        (BehaviourText(), PLAIN),
        (BehaviourText(order_by="at", is_global=True), Behaviour(KeyValue("at"), is_global=True)),
        (
            BehaviourText(merge=["n=count()"], retention="1 day"),
            Behaviour(Merge((MergedColumn("n", Function.COUNT),)), Retention(DAY)),
        ),
        (
            BehaviourText(gap="1 day", retention="2 days", in_memory=True),
            Behaviour(Session(DAY), Retention(2 * DAY, "session_end"), in_memory=True),
        ),
        (
            BehaviourText(valid_from="at", retention="1 day"),
            Behaviour(Versioned("at"), Retention(DAY, "valid_to")),
        ),
        (BehaviourText(retention="1 day", retention_column="at"), Behaviour(retention=Retention(DAY, "at"))),
    ],
)
def test_what_options_make(text: BehaviourText, behaviour: Behaviour) -> None:
    assert text.behaviour("t", PLAIN) == behaviour
    assert text.behaviour("t", behaviour) == behaviour
    assert BehaviourText().behaviour("t", behaviour) == behaviour


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BehaviourText(order_by="a", valid_from="b"),
            "--order-by and --valid-from make stores of different kinds",
        ),
        (
            BehaviourText(order_by="a", merge=["n=count()"]),
            "--order-by and --merge or --gap make stores of different kinds",
        ),
        (BehaviourText(retention_column="a"), "say how long it is, with --retention"),
        (BehaviourText(retention="0 days"), "a retention must be longer than nothing"),
        (BehaviourText(retention="-1 days"), "'-1 days' is no length of time"),
        (BehaviourText(retention="400000 days"), "a retention must not be longer than 1,000 years"),
        (BehaviourText(gap="0 s"), "the gap between sessions must be longer than nothing"),
        (BehaviourText(gap="99999 weeks"), "the gap between sessions must not be longer than 1,000 years"),
        (BehaviourText(merge=["q=quantiles(a, 1.5)"]), "the quantiles of q need ranks from 0 to 1"),
        (BehaviourText(merge=["q=quantiles(a, nan)"]), "the quantiles of q need ranks from 0 to 1"),
    ],
)
def test_options_that_do_not_do(text: BehaviourText, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        text.behaviour("t", PLAIN)


def test_events_become_a_merge_store(changelog: Changelog, sales: Path) -> None:
    merge = BehaviourText(merge=["amount=sum(amount)", "sales=count()", "mean=avg(amount)"])
    load_file(changelog, sales, LoadOptions("t", ["shop"], behaviour=merge))
    assert [str(field.type) for field in definition(changelog).schema] == [
        "string",
        "int64",
        "int64",
        "double",
    ]
    assert contents(changelog, "t") == [
        {"shop": "a", "amount": 4, "sales": 2, "__mean_sum": 4, "__mean_count": 2},
        {"shop": "b", "amount": 2, "sales": 1, "__mean_sum": 2, "__mean_count": 1},
    ]
    load_file(changelog, sales, LoadOptions("t", behaviour=merge))
    assert changelog.newest_epoch(GroupName("t")) == 4


def test_partial_rows_stay_what_they_are(changelog: Changelog, tmp_path: Path) -> None:
    rows = pa.table({"shop": ["a"], "sales": pa.array([7], pa.int64())})
    pq.write_table(rows, tmp_path / "partial.parquet")
    load_file(
        changelog,
        tmp_path / "partial.parquet",
        LoadOptions("t", ["shop"], behaviour=BehaviourText(merge=["sales=count()"])),
    )
    assert contents(changelog, "t") == rows.to_pylist()


def test_csv_events_feed_a_merge_store_that_is_there(changelog: Changelog, tmp_path: Path) -> None:
    file = tmp_path / "sales.csv"
    file.write_text("shop,amount\n007,1.5\n007,2\n")
    merge = BehaviourText(merge=["mean=avg(amount)"])
    load_file(changelog, file, LoadOptions("t", ["shop"], types={"shop": "VARCHAR"}, behaviour=merge))
    file.write_text("shop,amount\n007,4\n")
    load_file(changelog, file, LoadOptions("t"))
    assert contents(changelog, "t") == [{"shop": "007", "__mean_sum": 4.0, "__mean_count": 1}]


def test_events_become_session_fragments(changelog: Changelog, sales: Path) -> None:
    sessions = BehaviourText(gap="1 day", merge=["sales=count()"])
    with pytest.raises(InvalidInput, match="say which column has the time of the events, with --time"):
        load_file(changelog, sales, LoadOptions("t", ["shop"], behaviour=sessions))
    load_file(changelog, sales, LoadOptions("t", ["shop"], behaviour=sessions, time="at"))
    assert definition(changelog).key == ("shop", "session_start")
    first, second, third = contents(changelog, "t")
    assert first == {"shop": "a", "session_start": DAYS[0], "session_end": DAYS[0], "sales": 1}
    assert (second["session_end"], third["shop"]) == (DAYS[2], "b")


def test_an_event_without_its_time_is_named(changelog: Changelog, tmp_path: Path) -> None:
    file = tmp_path / "clicks.csv"
    file.write_text("user,at\n1,2026-01-01 00:00:00\n2,\n")
    with pytest.raises(InvalidInput, match=r"row 2: the time of the event, at is null"):
        load_file(
            changelog, file, LoadOptions("t", ["user"], behaviour=BehaviourText(gap="1 day"), time="at")
        )


def test_rows_go_by_the_watermark_that_is_given(changelog: Changelog, sales: Path) -> None:
    options = LoadOptions(
        "t", ["shop", "at"], behaviour=BehaviourText(retention="1 day", retention_column="at")
    )
    load_file(changelog, sales, options)
    commit = changelog.read_commit(GroupName("t"), changelog.newest_epoch(GroupName("t")))
    assert commit is not None
    assert commit.cutoffs == {}
    load_file(changelog, sales, LoadOptions("t", watermark=DAYS[2]))
    commit = changelog.read_commit(GroupName("t"), changelog.newest_epoch(GroupName("t")))
    assert commit is not None
    assert 0 <= DAYS[1].timestamp() * 1e6 - commit.cutoffs[StoreName("t")] < DAY / 64


def test_nothing_is_left_of_a_store_whose_first_load_has_a_watermark_of_the_future(
    changelog: Changelog, sales: Path
) -> None:
    options = LoadOptions(
        "t",
        ["shop", "at"],
        behaviour=BehaviourText(retention="1 day", retention_column="at"),
        watermark=dt.datetime(9999, 12, 31, tzinfo=dt.UTC),
    )
    with pytest.raises(InvalidInput, match=r"the watermark lies in the future .* Nothing was committed"):
        load_file(changelog, sales, options)
    assert changelog.definitions() == {}


def test_a_store_of_another_kind_is_left_alone(changelog: Changelog, sales: Path) -> None:
    load_file(changelog, sales, LoadOptions("t", ["shop"], behaviour=BehaviourText(order_by="at")))
    load_file(changelog, sales, LoadOptions("t", behaviour=BehaviourText(order_by="at")))
    with pytest.raises(
        InvalidInput,
        match=r"It is: t \(.*LATEST BY at\. Asked for: MERGE \(n=count\(\)\)\. Leave the options",
    ):
        load_file(changelog, sales, LoadOptions("t", behaviour=BehaviourText(merge=["n=count()"])))


def test_the_command_takes_the_options(tmp_path: Path, sales: Path) -> None:
    merges = ["--merge", "total=sum(amount)", "--merge", "last=last(amount by at)"]
    placed = ["--retention", "30 days", "--global", "--in-memory", "--watermark", "2026-01-01T00:00:00+02:00"]
    done = livestate(
        "load", "t", sales, "--changelog", tmp_path / "changelog", "--key", "shop", *merges, *placed
    )
    assert done.exit_code == 0, done.output
    columns = (
        MergedColumn("total", Function.SUM, "amount"),
        MergedColumn("last", Function.LAST, "amount", "at"),
    )
    assert definition(Changelog.open(str(tmp_path / "changelog"))).behaviour == Behaviour(
        Merge(columns), Retention(30 * DAY), True, True
    )
    refused = livestate(
        "load", "s", sales, "--changelog", tmp_path / "changelog", "--key", "shop", "--retention", "0 days"
    )
    assert (refused.exit_code, refused.stderr) == (
        1,
        "Error: Store s: a retention must be longer than nothing.\n",
    )
    refused = livestate(
        "load", "s", sales, "--changelog", tmp_path / "changelog", "--key", "shop", "--watermark", "soon"
    )
    assert refused.exit_code == 2
    assert "write it as 2026-11-20T12:00:00" in refused.stderr


def test_sql_sees_what_the_kinds_make_of_files(tmp_path: Path) -> None:
    file = tmp_path / "clicks.csv"
    file.write_text(
        "user,at,page\n1,2026-01-01 00:00:00,a\n1,2026-01-01 00:20:00,b\n1,2026-01-01 "
        "02:00:00,c\n2,2026-01-01 00:00:00,a\n"
    )
    changelog = tmp_path / "changelog"
    sessions = [
        "--gap",
        "30 minutes",
        "--time",
        "at",
        "--merge",
        "clicks=count()",
        "--merge",
        "last_page=last(page by at)",
    ]
    merged = ["--merge", "clicks=count()", "--merge", "pages=count_distinct(page)"]
    for store, options in (
        ("visits", sessions),
        ("users", merged),
        ("pages", ["--valid-from", "at"]),
        ("newest", ["--order-by", "at"]),
    ):
        done = livestate("load", store, file, "--changelog", changelog, "--key", "user", *options)
        assert done.exit_code == 0, done.output
    answers = {
        "SELECT clicks, last_page FROM visits ORDER BY user, session_start": [(2, "b"), (1, "c"), (1, "a")],
        "SELECT clicks, pages FROM users ORDER BY user": [(3, 3), (1, 1)],
        "SELECT page FROM pages ORDER BY user": [("c",), ("a",)],
        "SELECT page FROM pages AS OF TIMESTAMP '2026-01-01 00:30' ORDER BY user": [("b",), ("a",)],
        "SELECT page FROM newest ORDER BY user": [("c",), ("a",)],
    }
    with (
        start_host(HostOptions(str(changelog), tmp_path / "data", port=0)) as host,
        Client(host.uri) as client,
    ):
        for sql, rows in answers.items():
            assert [tuple(row.values()) for row in client.query(sql).read_all().to_pylist()] == rows, sql
