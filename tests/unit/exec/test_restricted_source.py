"""Stores as they exist for somebody: all answers are those of stores that hold nothing else."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import enumerate as enumerate_threads
from typing import Any

import pyarrow as pa
import pytest

from engine.access.claims import Claim
from engine.access.scope import Grant, Scope, scope_of
from engine.cluster.reports import GroupReport, HostName, Progress, StoreReport
from engine.errors import InvalidInput, LivestateError, NotFound, Unavailable
from engine.exec.kernels import passing_batches, passing_rows, row_passes
from engine.exec.restricted_source import RestrictedSource
from engine.exec.row_selections import MOST_ROWS
from engine.model.kinds import Behaviour, KeyValue
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreName, define_store
from engine.plan.row_filter import row_filter
from engine.plan.row_tests import EVERY_ROW, NO_ROW, columns_of
from engine.scan import BuildingError, ScanStatistics, StoreView
from engine.service import QueryOptions, QueryService, Session
from tests.support.local_cluster import host_names, memory_cluster
from tests.support.memory_source import MemoryScan, MemorySource, MemoryView, memory_view
from tests.support.oracle import expected_answer, sorted_rows

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("desk", pa.string()),
        ("amount", pa.string()),
        ("price", pa.float64()),
        ("note", pa.string()),
    ]
)
ROWS = [
    {
        "id": key,
        "desk": (None, "rates", "fx", "rates")[key % 4],
        # What is hidden is no number: a statement that casts it fails if it ever meets it.
        "amount": str(key) if key % 2 else f"secret {key}",
        "price": (1.5, float("nan"), None, -0.0)[key % 4],
        "note": f"note {key}",
    }
    for key in range(40)
]
TRADES = define_store("trades", SCHEMA, ["id"], partitions=4)
DESKS = define_store(
    "desks", pa.schema([("desk", pa.string()), ("head", pa.string())]), ["desk"], partitions=1
)
DESK_ROWS = [{"desk": "rates", "head": "ann"}, {"desk": "fx", "head": "bob"}]
SECRETS = define_store("secrets", pa.schema([("id", pa.int64())]), ["id"], partitions=1)
SEEN = [
    {name: row[name] for name in ("id", "desk", "amount", "price")} for row in ROWS if row["desk"] == "rates"
]
ANN = scope_of(
    [
        Grant(("trad*",), ("id", "desk", "amount", "p*"), "desk = claim('desk')"),
        Grant(("desks",)),
    ],
    "ann",
    {"desk": "rates"},
)


def all_stores() -> MemorySource:
    dead = pa.Table.from_pylist([{**row, "amount": "dead"} for row in ROWS[:9]], SCHEMA)
    return MemorySource(
        [
            memory_view(TRADES, pa.Table.from_pylist(ROWS, SCHEMA), dead),
            memory_view(DESKS, pa.Table.from_pylist(DESK_ROWS, DESKS.schema)),
            memory_view(SECRETS, pa.table({"id": [1]})),
        ]
    )


@pytest.fixture(scope="module")
def service() -> Iterator[QueryService]:
    found = QueryService(RestrictedSource(all_stores(), ANN))
    yield found
    found.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM trades",
        "SELECT count(*) FROM trades",
        "SELECT count(*) FROM trades WHERE id > 10",
        "SELECT * FROM trades WHERE id = 1",
        "SELECT * FROM trades WHERE id = 2",
        "SELECT id AS desk, desk AS id FROM trades WHERE id = 3",
        "SELECT amount AS desk FROM trades WHERE id = 2",
        "SELECT * FROM trades WHERE id IN (1, 2, 3, 4, 5, 6)",
        "SELECT price AS desk FROM trades WHERE id IN (1, 2, 3)",
        "SELECT * FROM trades WHERE id BETWEEN 3 AND 9",
        "SELECT * FROM trades WHERE id > 3 ORDER BY id LIMIT 7",
        "SELECT * FROM trades ORDER BY id DESC LIMIT 5",
        "SELECT id FROM trades WHERE desk = 'fx'",
        "SELECT id FROM trades WHERE desk IS NULL",
        "SELECT sum(CAST(amount AS BIGINT)) FROM trades",
        "SELECT id FROM trades WHERE CAST(amount AS BIGINT) > 5",
        "SELECT sum(id), min(price), max(desk) FROM trades WHERE id BETWEEN 3 AND 30",
        "SELECT desk, count(*), sum(CAST(amount AS BIGINT)) FROM trades GROUP BY desk",
        "SELECT t.id, d.head FROM trades t JOIN desks d ON t.desk = d.desk",
        "SELECT a.id, b.id FROM trades a JOIN trades b ON a.id = b.id + 2",
        "SELECT t.id, d.head FROM trades t JOIN desks d USING (desk) WHERE t.id = 3",
        "SELECT d.desk, (SELECT count(*) FROM trades t WHERE t.desk = d.desk) FROM desks d",
        "SELECT * FROM desks WHERE desk IN (SELECT desk FROM trades)",
        "SELECT id FROM trades WHERE id NOT IN (SELECT id FROM trades WHERE id > 9)",
        "WITH t AS (SELECT id, row_number() OVER (ORDER BY id) AS r FROM trades) FROM t WHERE r < 4",
        "SELECT max(id) FROM trades",
        "SELECT id FROM trades WHERE price <> 1",
        "SELECT count(DISTINCT desk) FROM trades",
    ],
)
def test_an_answer_is_that_of_stores_with_nothing_else(service: QueryService, sql: str) -> None:
    tables = {
        "trades": pa.Table.from_pylist(SEEN, pa.schema([SCHEMA.field(name) for name in SEEN[0]])),
        "desks": pa.Table.from_pylist(DESK_ROWS, DESKS.schema),
    }
    with service.execute(sql) as result:
        found = pa.Table.from_batches(list(result), result.schema)
    expected = expected_answer(sql, tables)
    assert found.schema.names == expected.schema.names
    assert sorted_rows(found) == sorted_rows(expected)


@pytest.mark.parametrize(
    ("sql", "like"),
    [
        ("SELECT note FROM trades", "SELECT nothing FROM trades"),
        ("SELECT * FROM trades WHERE note = 'x'", "SELECT * FROM trades WHERE nothing = 'x'"),
        ("SELECT * FROM secrets", "SELECT * FROM nothing"),
        ("DESCRIBE secrets", "DESCRIBE nothing"),
    ],
)
def test_what_is_hidden_is_refused_as_what_is_not_there(service: QueryService, sql: str, like: str) -> None:
    def refusal(text: str) -> str:
        with pytest.raises(LivestateError) as caught:
            service.execute(text)
        return caught.value.message

    assert refusal(sql).replace("note", "nothing").replace("secrets", "nothing") == refusal(like)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM trades",
        "SELECT count(*) FROM trades WHERE id > 10",
        "SELECT * FROM trades WHERE id = 1",
        "SELECT * FROM trades WHERE id IN (1, 2, 3)",
        "SELECT id FROM trades WHERE id BETWEEN 3 AND 900 ORDER BY id",
        "SELECT id FROM trades WHERE id > 3 ORDER BY id LIMIT 7",
        "SELECT sum(id), max(desk) FROM trades WHERE id > 3",
        "SELECT desk, count(*) FROM trades GROUP BY desk",
        "SELECT t.id, d.head FROM trades t JOIN desks d USING (desk)",
    ],
)
def test_metadata_are_those_of_stores_with_nothing_else(sql: str) -> None:
    """How many rows are hidden decides how some statements are answered."""

    def facts(hidden: int) -> dict[str, Any]:
        rows = [row for row in ROWS if row["desk"] == "rates"]
        rows += [{**ROWS[2], "id": 1000 + number} for number in range(hidden)]
        source = MemorySource(
            [
                memory_view(TRADES, pa.Table.from_pylist(rows, SCHEMA)),
                memory_view(DESKS, pa.Table.from_pylist(DESK_ROWS, DESKS.schema)),
            ]
        )
        with closing(QueryService(source)) as service, service.restrict(ANN).execute(sql) as result:
            result.read_all()
            found: dict[str, Any] = json.loads(result.metadata.to_json())
        assert found["seconds"].keys() <= {"total"}
        return found | {"age_seconds": 0, "stale_seconds": 0, "seconds": {}}

    assert facts(0) == facts(2 * MOST_ROWS)


def test_keys_of_a_stream(service: QueryService) -> None:
    stream = service.key_stream("trades", ["amount", "desk"])
    assert stream.schema.names[1:] == ["amount", "desk"]
    with pytest.raises(NotFound):
        service.key_stream("secrets")
    with pytest.raises(NotFound):
        service.key_stream("trades", ["note"])


def definition(**columns: pa.DataType) -> StoreDefinition:
    return define_store("t", pa.schema(columns.items()), ["id"])


@pytest.mark.parametrize(
    ("grants", "columns"),
    [
        ([], None),
        ([Grant(("x",))], None),
        ([Grant(("*",))], ["id", "a", "b"]),
        ([Grant(("t",), ("id", "a"))], ["id", "a"]),
        ([Grant(("t",), ("a", "b"))], None),
        ([Grant(("t",), ("id", "a")), Grant(("t",), ("id", "b"))], ["id"]),
        ([Grant(("T",))], None),
        ([Grant(("t*",), ("*",), "a = 1"), Grant(("*t",), ("id", "b"))], ["id", "b"]),
    ],
)
def test_columns_that_are_seen(grants: list[Grant], columns: list[str] | None) -> None:
    store = definition(id=pa.int64(), a=pa.int64(), b=pa.int64())
    seen = scope_of(grants, "ann", {}).visible_definition(store)
    assert (None if seen is None else seen.schema.names) == columns


def test_a_store_whose_kind_names_a_hidden_column_does_not_exist() -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("b", pa.int64())])
    store = define_store("t", schema, ["id"], behaviour=Behaviour(KeyValue(order_by="at")))
    assert Scope((Grant(("t",), ("id", "b")),)).visible_definition(store) is None
    assert Scope((Grant(("t",), ("id", "at")),)).visible_definition(store) is not None


def test_scopes_know_the_claims_that_their_conditions_call_alone() -> None:
    grants = [Grant(("t",), rows="a = claim('desk') AND b = claim('principal') OR c = CLAIM ( 'none' )")]
    first = scope_of(grants, "ann", {"desk": "rates", "level": 3})
    assert first.claims == (("desk", "rates"), ("principal", "ann"))
    assert first == scope_of(grants, "ann", {"desk": "rates", "level": 4})
    assert first != scope_of(grants, "bob", {"desk": "rates"})
    flag, number = (scope_of(grants, "ann", {"desk": value}) for value in (True, 1))
    assert flag != number
    assert len({flag, number}) == 2


@pytest.mark.parametrize(
    "condition",
    [
        "upper(a) = 'A'",
        "nope = 1",
        "a",
        "1 = 1",
        "NOT a",
        "NOT a = NULL",
        "NOT (a = 'x' OR a IN ('y', NULL))",
        "NOT true",
        "NOT upper(a) = 'A'",
        "a LIKE 'x_'",
        "a LIKE 'x%y'",
        "a ILIKE 'x%'",
        "a LIKE 'x' ESCAPE '$'",
        "a LIKE id",
        "id LIKE '1%'",
        "starts_with(lower(a), 'x')",
        "starts_with('x', a)",
        "a LIKE CAST(NULL AS VARCHAR)",
        "a = 'x' ORDER BY 1",
        "a = 'x'; DROP TABLE t",
        "a = 'x') OR (a = 'y'",
        "a = (SELECT 'x')",
        "t.a = 'x'",
        "id = claim('desk')",
        "a = claim(a)",
        "a = claim('x', 'y')",
        "id = 99999999999999999999999",
        "'" * 7,
        "(" * 5000,
        "a = '" + "x" * 20_000 + "'",
    ],
)
def test_conditions_that_only_an_engine_could_decide_are_refused(condition: str) -> None:
    store = definition(id=pa.int64(), a=pa.string())
    with pytest.raises(InvalidInput, match="The rows of store t cannot be told"):
        row_filter(store, [condition], {"desk": "rates"})
    source = MemorySource([memory_view(store, pa.table({"id": [1], "a": ["x"]}))])
    scope = Scope((Grant(("t",), rows=condition),), (("desk", "rates"),))
    assert not RestrictedSource(source, scope).definitions()


def test_conditions_that_all_or_none_meet() -> None:
    store = definition(id=pa.int64(), a=pa.string())
    claims: dict[str, Claim] = {"desks": ("x", "y")}
    assert row_filter(store, ["a = 'x'", ""], claims) == EVERY_ROW
    assert row_filter(store, ["a = 'x' OR true"], claims) == EVERY_ROW
    assert row_filter(store, ["a = claim('desk') OR id = 1"], claims) == NO_ROW
    assert row_filter(store, ["a IN claim('desks')", "false"], claims) == row_filter(
        store, ["a = ANY(claim('desks'))"], claims
    )


def test_of_damaged_stores_only_those_are_told_that_may_be_seen() -> None:
    source = all_stores()
    source.damaged = {StoreName(name): f"Store {name} cannot be read." for name in ("tradings", "secret")}
    with closing(QueryService(RestrictedSource(source, ANN))) as service:
        with pytest.raises(Unavailable, match=r"^Store tradings cannot be read\.$"):
            service.execute("SELECT * FROM Tradings")
        with pytest.raises(NotFound, match=r"^There is no store secret\."):
            service.execute("SELECT * FROM secret")


def test_a_source_keeps_what_it_found_out() -> None:
    source = RestrictedSource(all_stores(), ANN)
    first, second = source.definitions(), source.tables()
    assert all(first[name] is second[name] for name in first)
    assert list(first) == ["trades", "desks"]
    groups, stores = source.report()
    assert (set(groups), set(stores)) == ({"trades", "desks"}, {"trades", "desks"})
    assert [status.store for status in source.status()] == ["desks", "trades"]
    with pytest.raises(NotFound), source.pin_views([StoreName("secrets")]):
        pass
    with pytest.raises(NotFound):
        source.hold({SECRETS.group: 1}, 1.0)  # type: ignore[dict-item] # a number, not an Epoch


class StuckSource(MemorySource):
    """Stores of one group that does not get on, for a reason that names one of them."""

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        groups, stores = super().report()
        progress = Progress(Epoch(1), Epoch(2), None, 7_000_000, 1_000_000, 5_000_000.0)
        problem = "The rows of store secrets are damaged."
        return {
            group: replace(
                report, newest_known=Epoch(2), unread_since=1, problem=problem, catching_up=progress
            )
            for group, report in groups.items()
        }, stores


class BuildingSource(MemorySource):
    """Stores of a group that is built."""

    @contextmanager
    def pin_views(self, *_: Any, **__: Any) -> Iterator[Mapping[StoreName, MemoryView]]:
        yield _refuse_view()


def _refuse_view() -> Mapping[StoreName, MemoryView]:
    raise BuildingError("Group trades does not get on: The rows of store secrets are damaged.")


@pytest.mark.parametrize(
    ("read_point", "max_lag", "figures"),
    [(ReadPoint(min_epoch=Epoch(2)), None, ""), (ReadPoint(), 0.1, "87 %, 4.8 MiB/s")],
)
def test_why_a_group_does_not_get_on_names_no_store_that_is_hidden(
    read_point: ReadPoint, max_lag: float | None, figures: str
) -> None:
    views = [memory_view(TRADES, pa.Table.from_pylist(ROWS, SCHEMA))]
    session = Session(read_point=read_point, timeout_seconds=0.2)

    def refusal(service: QueryService) -> str:
        with pytest.raises(Unavailable) as caught:
            service.execute("SELECT count(*) FROM trades", None, session)
        return caught.value.message

    with closing(QueryService(StuckSource(views), QueryOptions(max_lag_seconds=max_lag))) as service:
        told, shown = refusal(service), refusal(service.restrict(ANN))
    assert "store secrets" in told
    assert figures in told
    assert "secrets" not in shown
    assert "/s" not in shown
    assert "Those who run the hosts know why" in shown


def test_what_a_host_builds_is_refused_without_a_reason() -> None:
    source = RestrictedSource(BuildingSource([memory_view(TRADES, pa.Table.from_pylist(ROWS, SCHEMA))]), ANN)
    with pytest.raises(BuildingError) as caught, source.pin_views([TRADES.name]):
        pass
    assert "secrets" not in caught.value.message


@contextmanager
def seen_trades(rows: str, dead: Sequence[Mapping[str, object]] = ()) -> Iterator[StoreView]:
    """The trades as they exist for somebody who sees those that meet a condition."""
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    source = MemorySource([memory_view(TRADES, table, pa.Table.from_pylist(list(dead), SCHEMA))])
    restricted = RestrictedSource(source, Scope((Grant(("trades",), rows=rows),)))
    with restricted.pin_views([TRADES.name]) as views:
        yield views[TRADES.name]


@pytest.mark.parametrize(
    ("rows", "copied"),
    [("id >= 0", 0), ("NOT id = 100 OR desk = 'fx'", 0), ("id <> 13", 1), ("desk = 'fx'", 6)],
)
def test_a_block_of_which_all_rows_are_seen_is_not_copied(rows: str, copied: int) -> None:
    table = pa.Table.from_pylist(ROWS, SCHEMA).combine_chunks()
    scan = MemoryScan(table, ScanStatistics(1, 1, 1, 1, 1, 1, len(ROWS), len(ROWS)))
    batches = list(passing_batches(scan, ["id"], row_filter(TRADES, [rows], {})))
    stored = table.column("id").chunk(0).buffers()[1].address
    assert sum(batch.column("id").buffers()[1].address != stored for batch in batches) == copied


@pytest.mark.parametrize("rows", ["id < 14", "desk = 'rates'", "id = 3", "id < 0", "price < 1", "false"])
@pytest.mark.parametrize("columns", [[], ["id"], ["desk"], ["note", "price"]])
def test_a_scan_has_the_rows_that_are_seen_and_no_empty_block(rows: str, columns: list[str]) -> None:
    dead = [{**row, "note": "dead"} for row in ROWS[:9]]
    test = row_filter(TRADES, [rows], {})
    expected = passing_rows(pa.Table.from_pylist(ROWS, SCHEMA), test)
    with seen_trades(rows, dead) as view:
        batches = list(view.scan(columns).batches())
        assert all(batch.num_rows for batch in batches)
        assert sum(batch.num_rows for batch in batches) == view.live_rows == expected.num_rows
        assert all(batch.schema.names == columns for batch in batches)
        if columns:
            found = view.scan(columns).to_table()
            assert sorted_rows(found) == sorted_rows(expected.select(columns))


@pytest.mark.parametrize(
    "rows",
    [
        "id = 3",
        "id <> 13",
        "id < 14 AND id >= 2",
        "id <= 2 OR id > 38",
        "desk = 'rates'",
        "desk <> 'rates'",
        "desk > 'fx'",
        "desk IS NULL",
        "desk IS NOT NULL",
        "desk IN ('fx', 'x')",
        "desk LIKE 'r%'",
        "price < 1",
        "price > 1",
        "price = 0",
        "NOT price = 1.5",
        "desk = 'fx' OR id < 5",
        "desk = 'fx' AND price IS NULL",
        "amount = '1' OR desk LIKE 'r%' AND id = 7",
        "false",
    ],
)
def test_one_row_passes_as_it_does_among_others(rows: str) -> None:
    test = row_filter(TRADES, [rows], {})
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    passing = set(passing_rows(table, test).column("id").to_pylist())
    for row in table.combine_chunks().to_batches(max_chunksize=1):
        values = {name: row.column(name) for name in columns_of(test)}
        assert row_passes(values, test) == (row.column("id")[0].as_py() in passing)


@pytest.mark.parametrize("names", [["id", "desk"], ["desk"], ["amount", "id"], ["desk", "desk", "amount"]])
def test_a_row_is_tested_by_columns_that_are_asked_for_or_not(names: list[str]) -> None:
    places = [SCHEMA.get_field_index(name) for name in names]
    # The names that are asked for are a user's: here those of other columns.
    schema = pa.schema(
        [pa.field(f"{'id' if place else 'desk'}", SCHEMA.field(place).type) for place in places]
    )
    with seen_trades("desk = 'rates'") as view:
        for row in ROWS:
            key = int(str(row["id"]))
            found, flagged = view.row(key, places, schema), view.found_row(key, places, schema)
            if row["desk"] != "rates":
                assert found is flagged is None
                continue
            assert found is not None
            assert flagged is not None
            assert found.schema == schema
            values = [row[name] for name in names]
            assert [column.to_pylist() for column in found.columns] == [[value] for value in values]
            assert [column.to_pylist() for column in flagged.columns] == [
                [True],
                *([each] for each in values),
            ]


def test_everybody_for_whom_a_part_exists_shares_the_threads_of_the_host() -> None:
    """There may be thousands, each of whom has another part."""
    live = {"trades": pa.Table.from_pylist(ROWS, SCHEMA)}
    session = Session(timeout_seconds=60.0)
    with memory_cluster([TRADES], live, host_names(2)) as cluster:
        service = cluster.services[HostName("a")]

        def threads_after(number: int) -> int:
            grant = Grant(("trades",), rows="desk = 'rates' AND amount <> claim('principal')")
            restricted = service.restrict(scope_of([grant], f"user {number}", {}))
            with restricted.execute("SELECT sum(price), count(*) AS n FROM trades", None, session) as result:
                assert result.read_all()["n"].to_pylist() == [len(SEEN)]
            assert sum(cluster.asked.values()) > number
            return sum(thread.name == "livestate-deadlines" for thread in enumerate_threads())

        assert len({threads_after(number) for number in range(5)}) == 1


def test_a_store_that_is_hidden_from_a_role_is_one_kind_of_line(caplog: pytest.LogCaptureFixture) -> None:
    """Each principal of the role may have another scope, and there may be thousands."""
    for name in ("ann", "bob"):
        scope = scope_of([Grant(("trades",), rows="lower(desk) = claim('principal')")], name, {})
        assert not RestrictedSource(all_stores(), scope).definitions()
    assert [record.__dict__["repeats"] for record in caplog.records] == 2 * ["hidden trades"]
