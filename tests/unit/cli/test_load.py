"""A file becomes one epoch of a store."""

from __future__ import annotations

import gzip
import math
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.changelog import Changelog, open_appender
from engine.changelog.first_loads import collect_first_load, unfinished_first_loads
from engine.changelog.layout import mark_path
from engine.errors import Fenced, InvalidInput, LivestateError, NotFound
from engine.model.migration import parse_changes
from engine.model.schema import Epoch, GroupName, StoreName, define_store
from engine.model.sql_types import parse_sql_type
from flight_server.cli.load import LoadOptions, Progress, load_file, pieces
from flight_server.cli.render import write_csv
from tests.unit.cli.conftest import livestate

ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "name": [f"n{i}" for i in range(1000)]})


def contents(changelog: Changelog, store: str) -> list[dict[str, object]]:
    """The rows of a store, by key; later epochs win."""
    definition = changelog.definition(StoreName(store))
    assert definition is not None
    rows: dict[tuple[object, ...], dict[str, object]] = {}
    for epoch in range(1, changelog.newest_epoch(definition.group) + 1):
        commit = changelog.read_commit(definition.group, epoch)  # type: ignore[arg-type]
        assert commit is not None
        for batch in changelog.read_rows(commit, changelog.definitions()).values():
            rows |= {tuple(row[name] for name in definition.key): row for row in batch.to_pylist()}
    return [rows[key] for key in sorted(rows, key=str)]


def write_file(tmp_path: Path, name: str, table: pa.Table = ROWS) -> Path:
    file = tmp_path / name
    if file.suffix == ".csv":
        pyarrow.csv.write_csv(table, file)
    elif file.suffix == ".parquet":
        pq.write_table(table, file, row_group_size=300)
    else:
        make = pa.ipc.new_file if file.suffix == ".arrow" else pa.ipc.new_stream
        with make(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
    return file


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.arrow", "rows.arrows"])
def test_every_format_loads_the_same_rows_as_one_epoch(
    tmp_path: Path, changelog: Changelog, name: str
) -> None:
    seen: list[Progress] = []
    loaded = load_file(
        changelog,
        write_file(tmp_path, name),
        LoadOptions("t", ["id"], partitions=3, batch_rows=400),
        seen.append,
    )
    assert [progress.rows for progress in seen] == [400, 800, 1000, 1000]
    assert (loaded.rows, loaded.epoch) == (1000, 2) == (1000, changelog.newest_epoch(GroupName("t")))
    commit = changelog.read_commit(GroupName("t"), Epoch(2))
    assert commit is not None
    assert len(commit.files) == 3
    assert contents(changelog, "t") == sorted(ROWS.to_pylist(), key=lambda row: str((row["id"],)))


def test_loading_again_replaces_by_key(tmp_path: Path, changelog: Changelog) -> None:
    load_file(changelog, write_file(tmp_path, "a.parquet"), LoadOptions("t", ["id"]))
    load_file(
        changelog, write_file(tmp_path, "b.parquet", pa.table({"id": [5], "name": ["new"]})), LoadOptions("t")
    )
    rows = contents(changelog, "t")
    assert len(rows) == 1000
    assert {row["id"]: row["name"] for row in rows}[5] == "new"


def test_a_group_that_a_job_writes_is_taken_over_when_asked_for(tmp_path: Path, changelog: Changelog) -> None:
    definition = define_store("t", ROWS.schema, ["id"], partitions=1)
    job = open_appender(changelog, [definition])
    job.append({"t": ROWS}, query_id="a job", batch_id=0)
    command = [
        "load",
        "t",
        str(write_file(tmp_path, "a.parquet", pa.table({"id": [5], "name": ["new"]}))),
        "--changelog",
        changelog.uri,
    ]
    refused = livestate(*command)
    assert refused.exit_code == 1
    said = " ".join(refused.stderr.split())
    assert (
        "A job writes store group t: its last batch is epoch 2, and it would be refused from now on." in said
    )
    assert "--take-over" in said
    # It goes on as if nothing had been.
    assert job.append({"t": ROWS}, query_id="a job", batch_id=1).epoch == 3
    assert livestate(*command, "--take-over").exit_code == 0
    assert {row["id"]: row["name"] for row in contents(changelog, "t")}[5] == "new"
    with pytest.raises(Fenced, match=r"written by livestate load of a\.parquet"):
        job.append({"t": ROWS}, query_id="a job", batch_id=2)


@pytest.mark.parametrize("text", ["id,name\n,x\n", "id,name\nx,y\n", "id\n5\n", 'id,name\n5,"x'])
def test_a_file_that_is_refused_ends_no_term(tmp_path: Path, changelog: Changelog, text: str) -> None:
    job = open_appender(changelog, [define_store("t", ROWS.schema, ["id"], partitions=1)])
    job.append({"t": ROWS}, query_id="a job", batch_id=0)
    file = tmp_path / "a.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput):
        load_file(changelog, file, LoadOptions("t", take_over=True))
    assert job.append({"t": ROWS}, query_id="a job", batch_id=1).epoch == 3


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"id": [5]}),
        pa.table({"id": [5], "name": ["x"], "more": [1]}),
        pa.table({"id": ["five"], "name": ["x"]}),
        pa.table({"id": [5], "name": [1]}),
        pa.table({"id": pa.array([2**63], pa.uint64()), "name": ["x"]}),
        pa.table({"id": pa.array([None], pa.int64()), "name": ["x"]}),
    ],
)
def test_first_rows_that_do_not_fit_end_no_term(
    tmp_path: Path, changelog: Changelog, table: pa.Table
) -> None:
    job = open_appender(changelog, [define_store("t", ROWS.schema, ["id"], partitions=1)])
    job.append({"t": ROWS}, query_id="a job", batch_id=0)
    with pytest.raises(InvalidInput):
        load_file(changelog, write_file(tmp_path, "a.parquet", table), LoadOptions("t", take_over=True))
    assert job.append({"t": ROWS}, query_id="a job", batch_id=1).epoch == 3


def test_a_moment_between_microseconds_ends_no_term(tmp_path: Path, changelog: Changelog) -> None:
    rows = pa.table({"id": [1], "at": pa.array([1], pa.timestamp("us"))})
    job = open_appender(changelog, [define_store("t", rows.schema, ["id"], partitions=1)])
    job.append({"t": rows}, query_id="a job", batch_id=0)
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "at": pa.array([1001], pa.timestamp("ns"))}), file)
    with pytest.raises(InvalidInput, match="cannot hold exactly"):
        load_file(changelog, file, LoadOptions("t", take_over=True))
    assert job.append({"t": rows}, query_id="a job", batch_id=1).epoch == 3


def test_a_first_load_that_is_refused_at_once_leaves_nothing(tmp_path: Path) -> None:
    """Not even a directory."""
    twice = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    file = write_file(tmp_path, "a.parquet", pa.table({"id": [1], "counts": twice}))
    with pytest.raises(InvalidInput, match="a map with a key twice"):
        load_file(Changelog.open(str(tmp_path / "changelog")), file, LoadOptions("t", ["id"]))
    assert not (tmp_path / "changelog").exists()


def test_a_new_store_is_not_left_behind_in_the_group_of_a_job(tmp_path: Path, changelog: Changelog) -> None:
    other = define_store("other", ROWS.schema, ["id"], group="t", partitions=1)
    open_appender(changelog, [other]).append({"other": ROWS}, query_id="a job", batch_id=0)
    with pytest.raises(InvalidInput, match="A job writes store group t"):
        load_file(changelog, write_file(tmp_path, "a.parquet"), LoadOptions("t", ["id"]))
    assert list(changelog.definitions()) == ["other"]


def test_pieces_are_cut_by_rows_and_by_bytes() -> None:
    small = [pa.record_batch({"n": list(range(start, start + 7))}) for start in range(0, 70, 7)]
    cut = list(pieces(small, 25))
    assert [table.num_rows for table in cut] == [25, 25, 20]
    assert pa.concat_tables(cut)["n"].to_pylist() == list(range(70))
    wide = [pa.record_batch({"text": ["x" * (40 << 20)]}) for _ in range(4)]
    assert [table.num_rows for table in pieces(wide, 1000)] == [2, 2]


def test_a_new_store_needs_a_key(tmp_path: Path, changelog: Changelog) -> None:
    with pytest.raises(InvalidInput, match=r"Store t does not exist yet.*--key"):
        load_file(changelog, write_file(tmp_path, "a.csv"), LoadOptions("t"))
    assert changelog.definitions() == {}


def test_a_store_that_differs_is_left_alone(tmp_path: Path, changelog: Changelog) -> None:
    load_file(changelog, write_file(tmp_path, "a.parquet"), LoadOptions("t", ["id"]))
    with pytest.raises(InvalidInput, match=r"It is: t \(id BIGINT.*KEY \(id\).*Asked for: .*KEY \(name\)"):
        load_file(changelog, write_file(tmp_path, "a.parquet"), LoadOptions("t", ["name"]))
    with pytest.raises(InvalidInput, match=r"Store t.*the column name is missing"):
        load_file(changelog, write_file(tmp_path, "b.parquet", ROWS.select(["id"])), LoadOptions("t"))


def test_csv_takes_its_types_from_the_store(tmp_path: Path, changelog: Changelog) -> None:
    file = tmp_path / "a.csv"
    file.write_text("code,at,amount\n007,2024-05-17 12:30:00,1.5\n,,\n")
    types = {"code": "VARCHAR", "amount": "DECIMAL(10,2)"}
    with pytest.raises(InvalidInput, match="row 2: the key column code is null"):
        load_file(changelog, file, LoadOptions("t", ["code"], types=types))
    file.write_text("code,at,amount\n007,2024-05-17 12:30:00,1.5\n008,,\n")
    load_file(changelog, file, LoadOptions("t", ["code"], types=types))
    load_file(changelog, file, LoadOptions("t"))
    first, second = contents(changelog, "t")
    assert first["code"] == "007"
    assert str(first["amount"]) == "1.50"
    assert (second["at"], second["amount"]) == (None, None)


def test_csv_gives_the_bytes_back_that_sql_writes(tmp_path: Path, changelog: Changelog) -> None:
    blobs = [b"\x00\xff", b"", None, b"\\xff", b"\\x", b"\\xf", b"\\xfg", b'a,\n"', bytes(range(256))]
    rows = pa.table({"id": pa.array(range(len(blobs)), pa.int64()), "b": pa.array(blobs, pa.binary())})
    file = tmp_path / "a.csv"
    with file.open("wb") as out:
        write_csv(rows.schema, rows.to_batches(), out)
    load_file(changelog, file, LoadOptions("t", ["id"], types={"b": "BLOB"}))
    assert [row["b"] for row in contents(changelog, "t")] == blobs
    # Bytes of other programs are taken as they are.
    file.write_bytes(b'id,b\n0,\\xFf00\n1,\\xf\n2,x\\x00\n3,\xff\n4,\\x00\xff\n5,"\\x00\n"\n6,ff\n')
    load_file(changelog, file, LoadOptions("t"))
    assert [row["b"] for row in contents(changelog, "t")][:7] == [
        b"\xff\x00",
        b"\\xf",
        b"x\\x00",
        b"\xff",
        b"\\x00\xff",
        b"\\x00\n",
        b"ff",
    ]


def test_csv_has_one_word_for_null(tmp_path: Path, changelog: Changelog) -> None:
    file = tmp_path / "a.csv"
    file.write_text('id,country,x\n1,NA,NaN\n2,null,1.5\n3,,\n4,"",nan\n')
    load_file(changelog, file, LoadOptions("t", ["id"]))
    found = contents(changelog, "t")
    assert [row["country"] for row in found] == ["NA", "null", None, ""]
    assert [repr(row["x"]) for row in found] == ["nan", "1.5", "None", "nan"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"200000,1.5,a,7", "row 200,000: 4 values for 3 columns"),
        (b"200000,1.5,\xe9", "cannot be read as csv: .*invalid UTF8 data"),
        (b'200000,1.5,"a', "row 200,000: a quotation mark is never closed"),
    ],
)
def test_a_csv_row_that_is_wrong_behind_infinity(
    tmp_path: Path, changelog: Changelog, row: bytes, message: str
) -> None:
    file = tmp_path / "a.csv"
    rows = b"".join(b"%d,1.5,a\n" % number for number in range(2, 200_000))
    file.write_bytes(b"id,x,s\n1,inf,a\n" + rows + row + b"\n")
    with pytest.raises(InvalidInput, match=rf"a\.csv.*{message}"):
        load_file(changelog, file, LoadOptions("t", ["id"]))
    assert changelog.definitions() == {}


def test_csv_has_infinity_where_it_is_written(tmp_path: Path, changelog: Changelog) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,v\n 1, inf\n2 ,-Infinity \n3,+1e308\n4,\n")
    load_file(changelog, file, LoadOptions("t", ["id"]))
    assert [row["v"] for row in contents(changelog, "t")] == [math.inf, -math.inf, 1e308, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,v\n1,2\n2,x\n", r"a\.csv, row 2, column v: 'x' is no DOUBLE; correct it\."),
        ("id,v\n 1,2\n2 , 1.5\n3,x\n", r"a\.csv, row 3, column v: 'x' is no DOUBLE; correct it\."),
        ("id,v\n 1, inf\n2,1e308\n3, 1e309\n", r"row 3, column v: ' 1e309' is no DOUBLE; correct it\."),
        ("id,v\n1,2\n2\n", r"a\.csv, row 2: 1 value for 2 columns"),
        ("id,v\n1,2\n,3\n", "row 2: the key column id is null"),
        ("id\n1\n", r"a\.csv has no column v; it has id"),
        ("", r"a\.csv cannot be read as csv: Empty CSV file"),
    ],
)
def test_bad_csv_says_where(tmp_path: Path, changelog: Changelog, text: str, message: str) -> None:
    good = write_file(tmp_path, "good.parquet", pa.table({"id": [1], "v": [1.0]}))
    load_file(changelog, good, LoadOptions("t", ["id"]))
    file = tmp_path / "a.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        load_file(changelog, file, LoadOptions("t"))
    assert contents(changelog, "t") == [{"id": 1, "v": 1.0}]


TYPED = pa.table({"id": ["007", "8"], "nothing": pa.nulls(2), "many": pa.nulls(2), "number": [1.0, 2.0]})


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.arrows"])
def test_types_are_given_to_every_format(tmp_path: Path, changelog: Changelog, name: str) -> None:
    file = write_file(tmp_path, name, TYPED)
    with pytest.raises(
        InvalidInput, match="no value tells the type of the column nothing: say it, with --type"
    ):
        load_file(changelog, file, LoadOptions("t", ["id"]))
    types = {"id": "BIGINT", "nothing": "VARCHAR", "many": "INTEGER[]", "number": "DECIMAL(10,2)"}
    load_file(changelog, file, LoadOptions("t", ["id"], types=types))
    assert [(row["id"], str(row["number"]), row["many"]) for row in contents(changelog, "t")] == [
        (7, "1.00", None),
        (8, "2.00", None),
    ]
    load_file(changelog, file, LoadOptions("t", types=types))
    bad = write_file(tmp_path, name, pa.table({"id": [*map(str, range(100)), "x"]}))
    with pytest.raises(InvalidInput, match=f"{name}, row 101, column id: 'x' is no BIGINT; correct it"):
        load_file(changelog, bad, LoadOptions("u", ["id"], types={"id": "BIGINT"}))
    with pytest.raises(InvalidInput, match=f"{name} has no column other; it has id, nothing"):
        load_file(
            changelog, write_file(tmp_path, name, TYPED), LoadOptions("u", ["id"], types={"other": "BIGINT"})
        )


UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(15) + b"A", None], pa.binary(16)))


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([5, -5]), "DECIMAL(3,2)", ["5.00", "-5.00"]),
        (pa.array([5, None]).dictionary_encode(), "DECIMAL(3,2)", ["5.00", None]),
        (pa.array([0.12, -1.5]), "DECIMAL(5,2)", ["0.12", "-1.50"]),
        (pa.array([Decimal("1.0"), None]), "BIGINT", [1, None]),
        (pa.array([0, 1, None]), "BOOLEAN", [False, True, None]),
        (pa.array([0.1, math.inf, math.nan, -0.0]), "FLOAT", ["0.1", "inf", "nan", "-0"]),
        (pa.array([Decimal("0.1")]), "DOUBLE", [0.1]),
        (pa.array([0, 86_400_000_000], pa.timestamp("us", "America/New_York")), "DATE", [0, 1]),
        (pa.array([[0.5, None], None]), "DECIMAL(3,1)[]", [[Decimal("0.5"), None], None]),
        (pa.array([{"a": 1}, None]), 'STRUCT("a" DECIMAL(3,2))', [{"a": Decimal(1)}, None]),
        (pa.array([[("a", 0.1)]], pa.map_(pa.string(), pa.float64())), "MAP(VARCHAR, FLOAT)", None),
        (UUIDS, "VARCHAR", ["00000000-0000-0000-0000-000000000041", None]),
        (UUIDS, "BLOB", [bytes(15) + b"A", None]),
    ],
    ids=lambda each: str(getattr(each, "type", each)),
)
def test_values_have_their_like_in_another_type(
    tmp_path: Path, changelog: Changelog, values: pa.Array, kind: str, expected: list[Any] | None
) -> None:
    target = parse_sql_type(kind)
    file = write_file(tmp_path, "a.arrow", pa.table({"id": range(len(values)), "v": values}))
    load_file(changelog, file, LoadOptions("t", ["id"], types={"v": kind}))
    found = pa.array([row["v"] for row in contents(changelog, "t")], target)
    if expected is None:
        assert found.to_pylist() == values.cast(target).to_pylist()
    elif isinstance(expected[0], str):
        assert found.cast(pa.string()).to_pylist() == expected
    else:
        assert found.to_pylist() == pa.array(expected, target).to_pylist()


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        (pa.array([0.5, 0.1234567]), "DECIMAL(5,2)", "0.1234567"),
        (pa.array([[0.5], [0.1234567]]), "DECIMAL(5,2)[]", r"\[0.1234567\]"),
        (pa.array([5, 1000]), "DECIMAL(5,2)", "1000"),
        (pa.array([0.5, 1e300]), "FLOAT", r"1e\+300"),
        (pa.array(["inf", "1e400"]), "DOUBLE", "'1e400'"),
        (pa.array([1, 5]), "BOOLEAN", "5"),
        (pa.array([1.0, 0.5]), "BOOLEAN", "0.5"),
        (pa.array([0, 3_600_000_000], pa.timestamp("us", "Europe/Paris")), "DATE", "datetime"),
        (pa.array([0, 2**63 - 1], pa.timestamp("us")), "DATE", "<value out of range"),
        (pa.array([{"a": 1}, {"a": 1, "b": 2}]), 'STRUCT("a" BIGINT)', "{'a': 1"),
        (
            pa.array([[("a", 1.0)], [("a", 0.25)]], pa.map_(pa.string(), pa.float64())),
            "MAP(VARCHAR, DECIMAL(2,1))",
            r"\[\('a', 0.25\)\]",
        ),
    ],
    ids=lambda each: str(getattr(each, "type", each)),
)
def test_values_without_their_like_in_another_type(
    tmp_path: Path, changelog: Changelog, values: pa.Array, kind: str, shown: str
) -> None:
    file = write_file(tmp_path, "a.arrow", pa.table({"id": range(len(values)), "v": values}))
    with pytest.raises(InvalidInput, match=rf"a\.arrow, row [12], column v: {shown}.* is no .*; correct it"):
        load_file(changelog, file, LoadOptions("t", ["id"], types={"v": kind}))
    assert changelog.definitions() == {}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b"id,\xe9\n1,2\n", r"a\.csv names its columns in another encoding than UTF-8"),
        (b"id,v\n1,2\n3,\xe9,\n", r"a\.csv, in a row that is not text in UTF-8: 3 values for 2 columns"),
        (b"id,v\n" + b"1,2\n" * 300_000 + b"\xe9\n", r"not text in UTF-8: 1 value for 2 columns"),
        (b"id,v\n" + b"1,2\n" * 300_000 + b"1,\xe9\n", r"a\.csv cannot be read as csv: .*invalid UTF8 data"),
    ],
)
def test_csv_in_another_encoding(tmp_path: Path, changelog: Changelog, written: bytes, message: str) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(written)
    types = {"v": "VARCHAR"} if written.startswith(b"id,v") else {}
    with pytest.raises(InvalidInput, match=message):
        load_file(changelog, file, LoadOptions("t", ["id"], types=types))


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.arrow", "a.arrows"])
def test_two_columns_of_a_name(tmp_path: Path, changelog: Changelog, name: str) -> None:
    load_file(changelog, write_file(tmp_path, "good.parquet"), LoadOptions("t", ["id"]))
    twice = pa.Table.from_arrays([ROWS["id"], ROWS["id"], ROWS["name"]], ["id", "id", "name"])
    for store in ("t", "new"):
        with pytest.raises(InvalidInput, match=f"{name} has more than one column 'id'"):
            load_file(changelog, write_file(tmp_path, name, twice), LoadOptions(store, ["id"]))


HEADERS = st.lists(
    st.binary(max_size=4)
    | st.sampled_from([b"id", b"v", b"\xe9", b"\xef\xbb\xbfid", b'"id"', b"\0", b"n\x61"]),
    min_size=1,
    max_size=5,
).map(b",".join)


@settings(max_examples=300, deadline=None)
@given(HEADERS, st.sampled_from([b"\n1,2\n", b"\n1\n", b"\n", b"", b'\n1,"2']), st.booleans())
@example(b"id,\xe9", b"\n1,2\n", False)
@example(b"id,id", b"\n1,2\n", True)
@example(b"\xff\xfei\0d\0,\0v\0", b"\n\0", False)
def test_any_first_line_is_taken_or_refused_in_words(header: bytes, rows: bytes, is_there: bool) -> None:
    changelog = Changelog.open("memory://")
    if is_there:
        definition = define_store("t", pa.schema([("id", pa.int64()), ("v", pa.int64())]), ["id"])
        open_appender(changelog, [definition])
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "a.csv"
        file.write_bytes(header + rows)
        with suppress(LivestateError):
            load_file(changelog, file, LoadOptions("t", ["id"]))


@pytest.mark.parametrize("cut_at", ["a", "b\n3,c\n4,d\n", "x\n" * 600_000, "x\n" * 3_000_000])
@pytest.mark.parametrize("rows_before", [1, 300_000])
def test_a_quotation_mark_that_is_never_closed(
    tmp_path: Path, changelog: Changelog, cut_at: str, rows_before: int
) -> None:
    """All that is behind it would be one value: the rows there would be lost without a word."""
    file = tmp_path / "a.csv"
    file.write_text("k,v\n" + "1,a\n" * rows_before + f'2,"{cut_at}')
    with pytest.raises(InvalidInput, match=r"a\.csv.* a quotation mark is never closed"):
        load_file(changelog, file, LoadOptions("t", ["k"], batch_rows=100_000))
    assert Changelog.open(changelog.uri).definitions() == {}


def test_a_quotation_mark_that_is_never_closed_where_a_number_is_due(
    tmp_path: Path, changelog: Changelog
) -> None:
    file = tmp_path / "a.csv"
    file.write_text('k,v\n1,2\n3,"4')
    with pytest.raises(InvalidInput, match=r"a\.csv, row 2: a quotation mark is never closed"):
        load_file(changelog, file, LoadOptions("t", ["k"]))


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r", "\n\n\n"])
@pytest.mark.parametrize(
    ("written", "value"), [('5" x', '5" x'), ('"a""b"', 'a"b'), ('"a\n,b"', "a\n,b"), ('"a"b"', 'ab"')]
)
def test_quotation_marks_within_values(
    tmp_path: Path, changelog: Changelog, written: str, value: str, end: str
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"k,v\n1,{written}{end}", newline="")
    assert load_file(changelog, file, LoadOptions("t", ["k"])).rows == 1
    assert contents(changelog, "t") == [{"k": 1, "v": value}]


def test_a_csv_file_that_is_compressed(tmp_path: Path, changelog: Changelog) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"id,name\n1,a\n"))
    load_file(changelog, file, LoadOptions("t", ["id"], format="csv"))
    assert contents(changelog, "t") == [{"id": 1, "name": "a"}]


def test_a_compressed_csv_file_that_is_damaged(tmp_path: Path, changelog: Changelog) -> None:
    file = tmp_path / "a.csv.gz"
    wrong_sum = bytearray(gzip.compress(b"id,name\n1,a\n"))
    wrong_sum[-6] ^= 1
    rows = "".join(f"{number},{number * 0x9E3779B97F4A7C15:x}\n" for number in range(200_000))
    long = gzip.compress(f"id,name\n{rows}".encode())
    wrong_sum_behind = bytearray(long)
    wrong_sum_behind[-6] ^= 1
    damaged = {
        long[:20]: "is damaged: Truncated",
        bytes(wrong_sum): "is damaged: .*incorrect data check",
        b"id,name\n1,a\n": "is damaged: .*incorrect header check",
        long[: len(long) // 2]: "is damaged behind row [1-9].*: Truncated",
        bytes(wrong_sum_behind): "is damaged behind row [1-9].*: .*incorrect data check",
    }
    for data, message in damaged.items():
        file.write_bytes(data)
        with pytest.raises(InvalidInput, match=rf"a\.csv\.gz {message}"):
            load_file(changelog, file, LoadOptions("t", ["id"], format="csv"))
    assert changelog.definitions() == {}


def test_a_process_that_has_read_damaged_files_ends(tmp_path: Path) -> None:
    rows = "".join(f"{number},{number * 0x9E3779B97F4A7C15:x}\n" for number in range(100_000))
    data = gzip.compress(f"id,name\n{rows}".encode())
    file = tmp_path / "a.csv.gz"
    file.write_bytes(data[: len(data) // 2])
    # An error that Arrow's thread holds may leave it waiting for itself.
    program = (
        "import pathlib, sys\n"
        "from engine.errors import InvalidInput\n"
        "from flight_server.cli.input_files import open_rows\n"
        "for _ in range(40):\n"
        "    try:\n"
        "        list(open_rows(pathlib.Path(sys.argv[1]), 'csv', {}).batches)\n"
        "    except InvalidInput as error:\n"
        "        assert 'is damaged behind row' in error.message\n"
        "    else:\n"
        "        raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", program, str(file)], check=True, timeout=120)


@pytest.mark.parametrize("before", ["", "1,a\n"])
def test_a_csv_value_that_is_too_long(tmp_path: Path, changelog: Changelog, before: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"id,name\n{before}2,{'x' * (3 << 20)}\n")
    with pytest.raises(InvalidInput, match=r"a value is too long \(1 MiB is always read\)"):
        load_file(changelog, file, LoadOptions("t", ["id"]))


def test_a_bad_row_far_behind_leaves_nothing(tmp_path: Path, changelog: Changelog) -> None:
    """Not even a store whose types would be in the way of the next try."""
    file = tmp_path / "a.csv"
    file.write_text("id\n" + "".join(f"{number}\n" for number in range(300_000)) + "x\n")
    with pytest.raises(
        InvalidInput,
        match=r"row 300,001, column id: 'x' is no BIGINT.*--type id=VARCHAR.*Nothing of the file was",
    ):
        load_file(changelog, file, LoadOptions("t", ["id"], batch_rows=100_000))
    assert Changelog.open(changelog.uri).definitions() == {}
    assert not list(changelog.objects.list("groups/t/00000000000000000002"))
    load_file(changelog, file, LoadOptions("t", ["id"], types={"id": "VARCHAR"}))
    assert len(contents(changelog, "t")) == 300_001


class Died(Exception):
    """The process ended here."""


def test_a_load_that_dies_leaves_nothing_to_see(tmp_path: Path, changelog: Changelog) -> None:
    """What it has staged goes with the next writer."""
    load_file(changelog, write_file(tmp_path, "a.parquet"), LoadOptions("t", ["id"]))
    before = contents(changelog, "t")
    other = pa.table({"id": range(100), "name": ["other"] * 100})

    def die(progress: Progress) -> None:
        raise Died

    appender = open_appender(changelog, [define_store("t", ROWS.schema, ["id"])])
    staged = appender.stage({"t": other})
    assert staged.epoch == changelog.newest_epoch(GroupName("t")) + 1
    assert contents(changelog, "t") == before
    file = write_file(tmp_path, "b.parquet", other)
    with pytest.raises(Died):
        load_file(changelog, file, LoadOptions("t", ["id"]), die)
    assert contents(changelog, "t") == before
    load_file(changelog, file, LoadOptions("t"))
    assert [row["name"] for row in contents(changelog, "t")].count("other") == 100
    assert changelog.collect(GroupName("t")) == 0


@pytest.mark.parametrize("store", ["t", "my songs", ".t"])
def test_a_first_load_that_died_is_collected_an_hour_later(
    tmp_path: Path, changelog: Changelog, store: str
) -> None:
    file = write_file(tmp_path, "a.parquet")

    def collect(*groups: str) -> str:
        return livestate("collect", *groups, "--changelog", tmp_path / "changelog").output

    def look(progress: Progress) -> None:
        """A load that goes on is left alone."""
        if progress.epoch is None:
            assert collect() == f"{store}: 0 files deleted, 0 epochs and 0 snapshots dropped\n"

    load_file(changelog, file, LoadOptions(store, ["id"], batch_rows=400), look)
    # Its store is lost, and so is its commit: as if it had been killed.
    shutil.rmtree(tmp_path / "changelog" / "stores")
    (commit,) = tmp_path.rglob("*2.commit")
    commit.unlink()
    died = Changelog.open(changelog.uri)
    load = unfinished_first_loads(died)[GroupName(store)]
    assert len(load.files) == 3
    found = livestate("verify", tmp_path / "changelog")
    assert f"Store group {store} has no store, and 3 data files of a load" in found.stdout
    assert found.exit_code == 0
    assert collect(store) == f"{store}: 0 files deleted, 0 epochs and 0 snapshots dropped\n"
    for path in tmp_path.rglob("*"):
        os.utime(path, (0, 0))
    assert collect(store) == f"{store}: 3 files deleted, 0 epochs and 0 snapshots dropped\n"
    assert not list(tmp_path.rglob("*.arrow"))
    assert "has no store groups" in collect()
    assert "of a load" not in livestate("verify", tmp_path / "changelog").stdout
    load_file(Changelog.open(changelog.uri), file, LoadOptions(store, ["id"]))
    assert len(contents(Changelog.open(changelog.uri), store)) == 1000


def test_a_first_load_that_has_slept_too_long_is_refused(tmp_path: Path, changelog: Changelog) -> None:
    """Rather than that it commits files that are gone."""

    def sleep(progress: Progress) -> None:
        (load,) = unfinished_first_loads(changelog).values()
        assert collect_first_load(changelog, load, load.written_at + 3_600_000_000) == 0
        assert collect_first_load(changelog, load, load.written_at + 3_600_000_001) == len(load.files) == 1

    with pytest.raises(
        Fenced, match=r"written by livestate collect with token.*Nothing of the file was loaded"
    ):
        load_file(
            changelog, write_file(tmp_path, "a.parquet"), LoadOptions("t", ["id"], batch_rows=100), sleep
        )
    assert changelog.definitions() == {}
    assert not list(tmp_path.rglob("*.arrow"))


def test_what_a_backup_has_so_far_is_no_first_load(tmp_path: Path, changelog: Changelog) -> None:
    """Its files come before its stores."""

    def look(progress: Progress) -> None:
        assert len(unfinished_first_loads(changelog)) == (progress.epoch is None)
        changelog.objects.put(mark_path(1), [pa.py_buffer(b"a mark")])
        assert unfinished_first_loads(changelog) == {}
        changelog.objects.delete([mark_path(1)])

    load_file(changelog, write_file(tmp_path, "a.parquet"), LoadOptions("t", ["id"]), look)


def test_a_load_that_is_overtaken_stops_early_and_leaves_nothing(
    tmp_path: Path, changelog: Changelog
) -> None:
    definition = define_store("t", ROWS.schema, ["id"])
    rows: list[int] = []

    def overtake(progress: Progress) -> None:
        rows.append(progress.rows)
        open_appender(changelog, [definition]).append({"t": ROWS.slice(0, 1)})

    with pytest.raises(Fenced, match=r"written by python with token.*Nothing of the file was loaded"):
        load_file(
            changelog, write_file(tmp_path, "a.parquet"), LoadOptions("t", ["id"], batch_rows=100), overtake
        )
    assert rows == [100]
    assert len(contents(changelog, "t")) == 1


def test_an_empty_file_makes_a_store(tmp_path: Path, changelog: Changelog) -> None:
    loaded = load_file(
        changelog, write_file(tmp_path, "a.parquet", ROWS.slice(0, 0)), LoadOptions("t", ["id"])
    )
    assert (loaded.rows, loaded.epoch) == (0, 2)
    assert contents(changelog, "t") == []


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.arrows"])
def test_a_file_that_is_not_what_it_says(tmp_path: Path, changelog: Changelog, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"ARROW1\0\0 nothing" if name == "a.arrow" else b"not at all, and long enough")
    with pytest.raises(InvalidInput, match=f"{name} cannot be read as"):
        load_file(changelog, file, LoadOptions("t", ["id"]))


def test_a_parquet_file_that_is_damaged_underway(tmp_path: Path, changelog: Changelog) -> None:
    file = write_file(tmp_path, "a.parquet")
    data = bytearray(file.read_bytes())
    data[4:2000] = b"\xff" * 1996
    file.write_bytes(data)
    with pytest.raises(InvalidInput, match=r"a\.parquet is damaged behind row"):
        load_file(changelog, file, LoadOptions("t", ["id"]))


def test_a_file_without_a_known_ending_and_one_that_is_not_there(
    tmp_path: Path, changelog: Changelog
) -> None:
    with pytest.raises(InvalidInput, match="say --format"):
        load_file(changelog, tmp_path / "rows.txt", LoadOptions("t", ["id"]))
    with pytest.raises(NotFound, match=r"rows\.csv cannot be opened"):
        load_file(changelog, tmp_path / "rows.csv", LoadOptions("t", ["id"]))


def test_the_command_loads_and_reports(tmp_path: Path, changelog: Changelog) -> None:
    file = write_file(tmp_path, "rows.csv")
    done = livestate(
        "load",
        "t",
        file,
        "--changelog",
        tmp_path / "changelog",
        "--key",
        "id, name",
        "--partition-by",
        "id",
        "--partitions",
        "2",
    )
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert "t: 1,000 rows in " in done.stderr
    definition = changelog.definition(StoreName("t"))
    assert definition is not None
    assert (definition.key, definition.partition_by, definition.partitions) == (("id", "name"), ("id",), 2)


def test_the_command_fails_with_one_line(tmp_path: Path) -> None:
    file = write_file(tmp_path, "rows.csv")
    failed = livestate("load", "t", file, "--changelog", tmp_path / "changelog")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr.splitlines() == [
        "Error: Store t does not exist yet: say which columns identify a row, with --key a,b."
    ]
    assert livestate("load", "t", file, "--changelog", tmp_path / "c", "--key", "a,,b").exit_code == 2
    assert livestate("load", "t", file, "--changelog", tmp_path / "c", "--type", "nothing").exit_code == 2
    twice = ("--type", "id=TINYINT", "--type", "id=INT")
    failed = livestate("load", "t", file, "--changelog", tmp_path / "c", "--key", "id", *twice)
    assert failed.exit_code == 2
    assert "--type says both TINYINT and INT of id: give one." in failed.stderr


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_files_of_before_and_after_a_migration(tmp_path: Path, changelog: Changelog, name: str) -> None:
    load_file(changelog, write_file(tmp_path, name), LoadOptions("t", ["id"]))
    changes = parse_changes(add=["rank INTEGER DEFAULT 7"], rename=["name=title"])
    changelog.migrate_store(StoreName("t"), changes)
    load_file(changelog, write_file(tmp_path, f"old-{name}", ROWS.slice(0, 2)), LoadOptions("t"))
    new = pa.table({"title": ["x"], "id": [5], "rank": pa.array([1], pa.int32())})
    load_file(changelog, write_file(tmp_path, f"new-{name}", new), LoadOptions("t"))
    rows = contents(changelog, "t")
    assert len(rows) == 1000
    assert {row["rank"] for row in rows if row["id"] != 5} == {7}
    assert [row for row in rows if row["id"] == 5] == [{"id": 5, "title": "x", "rank": 1}]
    with pytest.raises(
        InvalidInput,
        match=(
            r"has no column rank|the column rank is missing.*the store is t \(id BIGINT, title VARCHAR, "
            r"rank INTEGER\)"
        ),
    ):
        load_file(
            changelog, write_file(tmp_path, f"other-{name}", new.drop_columns(["rank"])), LoadOptions("t")
        )


def test_collect_counts_what_it_deletes(tmp_path: Path, changelog: Changelog) -> None:
    load_file(changelog, write_file(tmp_path, "a.parquet"), LoadOptions("t", ["id"]))
    assert (
        livestate("collect", "--changelog", tmp_path / "changelog").stdout
        == "t: 0 files deleted, 0 epochs and 0 snapshots dropped\n"
    )
    unfinished = tmp_path / "changelog" / "FORMAT.0011223344556677.tmp"
    unfinished.write_bytes(b"half")
    os.utime(unfinished, (0, 0))
    assert (
        livestate("collect", "--changelog", tmp_path / "changelog").stdout
        == "t: 0 files deleted, 0 epochs and 0 snapshots dropped\nall: 1 unfinished file deleted\n"
    )
    assert not unfinished.exists()
    unknown = livestate("collect", "nope", "--changelog", tmp_path / "changelog")
    assert (unknown.exit_code, unknown.stderr) == (1, "Error: There is no store group nope; there are t.\n")


def test_a_moment_becomes_a_date_only_at_midnight(tmp_path: Path) -> None:
    for name, moment, code in (("noon", "2024-01-02 12:00:00", 1), ("midnight", "2024-01-02", 0)):
        rows = pa.table({"id": [1, 2], "t": pa.array(["2024-01-01", moment]).cast(pa.timestamp("us"))})
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        given = (name, tmp_path / f"{name}.parquet", "--changelog", tmp_path / "c", "--key", "id")
        loaded = livestate("load", *given, "--type", "t=DATE")
        assert loaded.exit_code == code
        assert ("noon.parquet, row 2, column t: " in loaded.stderr) == (code == 1)


def test_a_process_ends_while_a_csv_file_is_read_ahead(tmp_path: Path) -> None:
    """Arrow's thread that waits for the interpreter kept the process from ending, or aborted it."""
    file = tmp_path / "rows.csv"
    file.write_text("id,day\n1,31/12/2024\n")
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from flight_server.cli import input_files\n"
        "class SlowFile:\n"
        "    def __init__(self, file):\n"
        "        self.read_file = open_file(file)\n"
        "    def read(self, size):\n"
        "        time.sleep(0.2)\n"
        "        return self.read_file.read(size)\n"
        "    def close(self):\n"
        "        self.read_file.close()\n"
        "open_file = input_files.pa.input_stream\n"
        "input_files._csv_names = lambda file: ['id', 'day']\n"
        "input_files.pa.input_stream = SlowFile\n"
        "rows = input_files.open_rows(Path(sys.argv[1]), 'csv', {})\n"
        "print(next(iter(rows.batches)).num_rows)\n"
    )
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", program, file], capture_output=True, text=True, check=False, timeout=120
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "")
