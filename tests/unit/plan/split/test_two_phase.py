"""SELECTs that group, over hosts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.plan.split.rules.top_k import top_k
from engine.plan.split.rules.two_phase import two_phase
from tests.support.seeds import seeded_random
from tests.unit.plan.split.random_rows import COLUMNS, random_rows
from tests.unit.plan.split.spread import PART, Spread, unread_column
from tests.unit.plan.split.test_partial_aggregates import CALLS

GROUPINGS = [
    ("{}", ""),
    ("g, {}", "GROUP BY g"),
    ("g, h, {}", "GROUP BY g, h"),
    ("g + 1, (g + 1) * 2, {}", "GROUP BY g + 1"),
    ("x, {}", "GROUP BY x"),
    ("l, {}", "GROUP BY l"),
    ("dt, {}", "GROUP BY (dt)"),
    ("upper(h), {}", "GROUP BY upper(h), g"),
    ("(g, h), {}", "GROUP BY (g, h)"),
    ("{}", "GROUP BY ()"),
    ("g, h, grouping(g, h), {}", "GROUP BY ROLLUP (g, h)"),
    ("g, h, grouping_id(h), {}", "GROUP BY CUBE (g, h)"),
    ("g, h, x, {}", "GROUP BY GROUPING SETS ((g, x), (h), ())"),
    ("g, {}", "GROUP BY g, ROLLUP (h)"),
    ("g, {}", "GROUP BY GROUPING SETS (ROLLUP (g, h), CUBE (x))"),
]

AFTER = [
    'SELECT g AS a, sum(i) AS n FROM t GROUP BY g ORDER BY "n" DESC NULLS FIRST, g LIMIT 2',
    "SELECT g AS a, sum(i) AS n FROM t GROUP BY g HAVING sum(d) > 0 ORDER BY sum(d) DESC, g LIMIT 2 OFFSET 1",
    (
        "SELECT upper(h) AS a, count(*) AS n FROM t GROUP BY upper(h) ORDER BY upper(h) COLLATE NOCASE NULLS "
        "FIRST, upper(h)"
    ),
    'SELECT DISTINCT count(*) AS a FROM t GROUP BY g ORDER BY "a" LIMIT 2',
    "SELECT DISTINCT ON (g) g AS a, max(d) AS m FROM t GROUP BY g, h ORDER BY g, max(d) DESC",
    (
        "SELECT g AS a, sum(i) AS n, row_number() OVER (ORDER BY g) AS r FROM t GROUP BY g QUALIFY "
        "row_number() "
        'OVER (ORDER BY g) <= 2 ORDER BY "a"'
    ),
    (
        "SELECT g AS a, sum(sum(i)) OVER (ORDER BY g ROWS UNBOUNDED PRECEDING) AS r FROM t GROUP BY g ORDER "
        "BY "
        '"a"'
    ),
    "SELECT g AS a, sum(count(*)) FILTER (WHERE sum(i) > 0) OVER () AS r FROM t GROUP BY g ORDER BY g",
    (
        "SELECT g AS a, first_value(sum(d) IGNORE NULLS) OVER w AS z FROM t GROUP BY g WINDOW w AS (ORDER "
        "BY g) ORDER BY g"
    ),
    (
        "SELECT g AS a, rank() OVER (PARTITION BY h ORDER BY sum(d) DESC, g) AS r FROM t GROUP BY g, h "
        "ORDER BY g, h"
    ),
    (
        "SELECT CASE grouping(g) WHEN 1 THEN '-' ELSE h END AS a, count(DISTINCT v) AS b FROM t GROUP BY "
        "ROLLUP (g, h) ORDER BY grouping(g, h), g, h"
    ),
    "SELECT 1 AS a FROM t HAVING true",
    "SELECT 1 AS a FROM t HAVING count(*) > 2",
    "SELECT g AS a FROM t GROUP BY g ORDER BY g",
    "SELECT count(*) AS a FROM t HAVING max(i) > (SELECT 3 AS k) LIMIT 1",
    "SELECT count(*) AS a FROM t AS u, t WHERE u.g = t.g AND u.i < 0",
]

NOT_SPLIT = [
    "SELECT i FROM t",
    "SELECT sum(i) OVER () FROM t",
    "SELECT g, count(*), i FROM t GROUP BY g",
    "SELECT random(), count(*) FROM t GROUP BY random()",
    "SELECT max(ts - now()::TIMESTAMP) FROM t",
    "SELECT max(v COLLATE NOCASE) FROM t",
    "SELECT v COLLATE NOCASE, count(*) FROM t GROUP BY v COLLATE NOCASE",
    "SELECT geomean(y) FROM t",
    "SELECT wavg(y, i) FROM t",
    "SELECT lttb(y, x, 3) FROM t",
    "SELECT bitstring_agg(i) FROM t",
    "SELECT sum(i) FROM t USING SAMPLE 3",
    "SELECT 'a', count(*) FROM t GROUP BY 'a'",
    "SELECT count(t.*) FROM t",
    "SELECT unnest(l), count(*) FROM t GROUP BY unnest(l)",
    "SELECT (SELECT max(u.i) FROM u WHERE u.g = t.g), count(*) FROM t GROUP BY g",
    "SELECT sum((SELECT 1)) FROM t",
    "SELECT sum(u.i) FROM t",
    "SELECT count(*) AS __value_0 FROM t",
    "SELECT first(i RESPECT NULLS) FROM t",
    "SELECT count(*)",
]


@settings(max_examples=25)
@given(st.data())
def test_groups_and_aggregates(data: st.DataObject) -> None:
    """Any aggregates over any grouping of any rows on any hosts are those of all rows."""
    chance = seeded_random(data.draw(st.integers(0, 2**32)))
    spread = Spread(
        COLUMNS,
        random_rows(chance, data.draw(st.sampled_from([0, 1, 3, 10, 40]))),
        data.draw(st.integers(1, 4)),
        chance.randrange(10**9),
    )
    for _ in range(4):
        outputs, grouping = data.draw(st.sampled_from(GROUPINGS))
        calls = ", ".join(data.draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=4)))
        calls += f", count({unread_column(f'{calls} {outputs} {grouping}', COLUMNS)})"
        where = data.draw(st.sampled_from(["", "WHERE i > 0", "WHERE g = 99"]))
        having = data.draw(st.sampled_from(["", "", "HAVING count(*) > 1"]))
        spread.check(f"SELECT {outputs.format(calls)} FROM t {where} {grouping} {having}", two_phase)


@pytest.mark.parametrize("value", ["(g, h)", "((g, h))", "row(g, h)", "{'a': g, 'b': h}", "[i, g]"])
def test_rows_of_different_values(value: str) -> None:
    """The engine groups by a row as by its columns: where others were grouped by, it was a row of NULLs."""
    chance = seeded_random(value)
    for hosts in (1, 3):
        spread = Spread(COLUMNS, random_rows(chance, 40), hosts, chance.randrange(10**9))
        calls = f"count(DISTINCT {value}), bit_xor(DISTINCT i), count(DISTINCT {value}) FILTER (WHERE g > 1)"
        spread.check(f"SELECT {calls} FROM t", two_phase)
        spread.check(f"SELECT g, {calls} FROM t GROUP BY g", two_phase)


@pytest.mark.parametrize("sql", AFTER)
def test_what_comes_after_the_aggregation(sql: str) -> None:
    chance = seeded_random(sql)
    for count in (0, 1, 3, 40):
        hosts = 1 if " AS u, t " in sql else chance.randint(1, 4)
        Spread(COLUMNS, random_rows(chance, count), hosts, chance.randrange(10**9)).check(
            sql, two_phase, ordered=True
        )


@pytest.mark.parametrize("sql", NOT_SPLIT)
def test_what_is_not_split(sql: str) -> None:
    select = Spread(COLUMNS, [], 1, 0).select(sql)
    assert two_phase(select, PART) is None


def test_an_aggregate_is_no_top_k() -> None:
    spread = Spread(COLUMNS, [], 1, 0)
    for call in (
        "sum(i)",
        "any_value(i)",
        "geomean(y)",
        "json_group_array(i)",
        "count(*) FILTER (WHERE p)",
        "mode() WITHIN GROUP (ORDER BY i)",
    ):
        assert top_k(spread.select(f"SELECT {call} FROM t LIMIT 1"), PART) is None
