"""A lookup by a list of keys answers the same on its short way, which is taken by no other text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import LivestateError
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, StoreDefinition, define_store
from engine.service import QueryService, Session
from tests.support.memory_source import MemorySource, memory_view

AS_WRITTEN = "\n--"
"""Behind a text: one with a comment goes the long way."""
NUMBERS = define_store(
    "numbers",
    pa.schema([("id", pa.int16()), ("other", pa.int16()), ("text", pa.string())]),
    ["id"],
    partitions=3,
)
WORDS = define_store("words", pa.schema([("word", pa.string()), ("n", pa.int64())]), ["word"], partitions=2)
PAIRS = define_store(
    "pairs", pa.schema([("a", pa.int64()), ("b", pa.int64())]), ["a", "b"], partitions=2, partition_by=["a"]
)
STRANGE = ["", "a", "it's", "a, b", "x IN (1, 2)", ")", "(", "--", "/*", "é"]


def _table(definition: StoreDefinition, *columns: object) -> pa.Table:
    arrays = [pa.array(values, field.type) for values, field in zip(columns, definition.schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=definition.schema)


@pytest.fixture(scope="module")
def service() -> Iterator[QueryService]:
    ids = list(range(-50, 200))
    views = [
        memory_view(NUMBERS, _table(NUMBERS, ids, ids[::-1], [None if n % 3 else f"t{n}" for n in ids])),
        memory_view(WORDS, _table(WORDS, STRANGE, list(range(len(STRANGE))))),
        memory_view(PAIRS, _table(PAIRS, [1, 1, 2], [1, 2, 2])),
    ]
    found = QueryService(MemorySource(views))
    try:
        yield found
    finally:
        found.close()


def _is_short(service: QueryService, text: str) -> bool:
    return service._texts.lookup_by_list(text) is not None


def _answer(service: QueryService, text: str) -> pa.Table | str:
    try:
        with service.execute(text) as result:
            table = result.read_all().replace_schema_metadata()
    except LivestateError as error:
        return error.message
    return table.sort_by([(name, "ascending") for name in dict.fromkeys(table.schema.names)])


def _check(service: QueryService, text: str) -> None:
    assert _answer(service, text) == _answer(service, text + AS_WRITTEN), text


@pytest.mark.parametrize(
    "head",
    [
        "SELECT * FROM numbers WHERE id IN ",
        'select text, "id" AS x, id from numbers n where n.id in',
        "SELECT text FROM numbers WHERE id IN\n",
    ],
)
def test_lists_of_numbers_share_the_short_way(service: QueryService, head: str) -> None:
    random = np.random.default_rng(3)
    _check(service, f"{head}(5, 7, 7, 1000)")
    for length in (1, 2, 10, 63, 64, 65, 200):
        keys = random.integers(-100, 300, length).tolist()
        text = f"{head}({', '.join(map(str, keys))})"
        assert _is_short(service, text)
        _check(service, text)
    for body in ("5,6 ,\t7", " -1 ", "007, -0"):
        assert _is_short(service, f"{head}({body})")
        _check(service, f"{head}({body})")
    # What no key can be, what is no number, and what is no list at all, goes the long way.
    for body in ("5, 70000", "1, NULL", "1, 2.0", "1, '2'", "1 + 1", "'a'", "", "1,", "SELECT 1", "1), (2"):
        assert not _is_short(service, f"{head}({body})")
        _check(service, f"{head}({body})")


def test_what_is_no_text_is_refused_on_every_way(service: QueryService) -> None:
    for condition in ("= 'a'", "= '\ud800'", "= '\ud800'", "IN ('a', 'b')", "IN ('a', '\ud800')"):
        text = f"SELECT n FROM words WHERE word {condition}"
        _check(service, text)
        if "\ud800" in condition:
            assert "surrogate" in str(_answer(service, text))


def test_lists_of_texts_share_the_short_way(service: QueryService) -> None:
    head = "SELECT n, word FROM words WHERE word IN "
    _check(service, f"{head}('a', 'b')")
    for word in STRANGE:
        literal = "'{}'".format(word.replace("'", "''"))
        text = f"{head}('none', {literal})"
        assert _is_short(service, text) is ("(" not in word)
        _check(service, text)
    for body in ("'a', '\x00'", "'a', '\ud800'"):
        assert not _is_short(service, f"{head}({body})")
        _check(service, f"{head}({body})")
    long = ", ".join(f"'w{number}'" for number in range(100))
    assert _is_short(service, f"{head}({long}, 'a')")
    _check(service, f"{head}({long}, 'a')")
    for body in ("'a', 5", "'a' 'b'", "'a', E'b'", "'a' || 'b'", "x'61'", "NULL", "'a', NULL"):
        assert not _is_short(service, f"{head}({body})")
        _check(service, f"{head}({body})")


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("SELECT id FROM numbers WHERE id NOT IN (1, 2)", "(3, 4)"),
        ("SELECT id FROM numbers WHERE other IN (1, 2)", "(3, 4)"),
        ("SELECT id FROM numbers WHERE id = 9 OR id IN (1, 2)", "(3, 4)"),
        ("SELECT id FROM numbers WHERE id IN (1, 2) OR id IN (1, 2)", "(3, 4)"),
        ("SELECT id FROM numbers WHERE id IN (1, 2) AND id IN (1, 2)", "(1, 4)"),
        ("SELECT id FROM numbers WHERE other < 9 AND id IN (1, 2)", "(3, 200)"),
        ("SELECT id FROM numbers WHERE id IN (1, 2) -- id IN (1, 2)", "(3, 4)"),
        ("SELECT id FROM numbers /* ( */ WHERE id IN (1, 2)", "(3, 4)"),
        ("SELECT id AS 'x IN (' FROM numbers WHERE id IN (1, 2)", "(3, 4)"),
        ("SELECT id + 1 FROM numbers WHERE id IN (1, 2)", "(3, 4)"),
        ("SELECT count(*) FROM numbers WHERE id IN (1, 2)", "(3, 4, 5)"),
        ("SELECT DISTINCT id FROM numbers WHERE id IN (1, 2)", "(3, 4)"),
        ("SELECT id, id IN (1, 2) FROM numbers WHERE id IN (1, 2)", "(3, 4)"),
        ("SELECT a, b FROM pairs WHERE a IN (1, 2)", "(3, 4)"),
        ("SELECT a, b FROM pairs WHERE (a, b) IN ((1, 1), (2, 2))", "((1, 2), (2, 1))"),
        ("SELECT id FROM numbers WHERE id IN (SELECT a FROM pairs WHERE b IN (1, 2))", "(3, 4))"),
        ("SELECT id FROM numbers WHERE text IS NULL AND id IN (1, 2)", "(3, 4)"),
        (
            "SELECT id FROM numbers WHERE id IN (1, 2) UNION ALL SELECT a FROM pairs WHERE b IN (1, 2)",
            "(9, 2)",
        ),
        ("EXPLAIN SELECT id FROM numbers WHERE id IN (1, 2)", "(3, 4)"),
        ("DESCRIBE SELECT id FROM numbers WHERE id IN (1, 2)", "(3, 4)"),
        ("SELECT id FROM numbers AS OF EPOCH 1 WHERE id IN (1, 2)", "(3, 4)"),
    ],
)
def test_no_other_text_takes_it(service: QueryService, text: str, other: str) -> None:
    second = text[: text.rindex("((" if other.startswith("((") else "(")] + other
    for each in (text, second):
        answer = _answer(service, each)
        assert not _is_short(service, each) or "x IN (" in each
        if not text.startswith("EXPLAIN") and "AS OF" not in text:
            assert answer == _answer(service, each + AS_WRITTEN)


def test_a_statement_that_asks_for_other_epochs_goes_the_long_way(service: QueryService) -> None:
    text = "SELECT text FROM numbers WHERE id IN (5, 6)"
    _check(service, text)
    session = Session(read_point=ReadPoint(min_epoch=Epoch(1000)), timeout_seconds=0.1)
    with pytest.raises(LivestateError, match="1000"):
        service.execute(text, session=session)


def test_a_store_of_other_columns_is_not_taken_for_the_one_before(service: QueryService) -> None:
    text = "SELECT * FROM words WHERE word IN ('a', 'é')"
    _check(service, text)
    source = service.source
    assert isinstance(source, MemorySource)
    wider = define_store("words", WORDS.schema.append(pa.field("m", pa.int64())), ["word"], partitions=2)
    before = source.views
    source.views = {**before, wider.name: memory_view(wider, _table(wider, ["a"], [1], [2]))}
    try:
        assert not _is_short(service, text)
        found = _answer(service, text)
        assert isinstance(found, pa.Table)
        assert found.to_pylist() == [{"word": "a", "n": 1, "m": 2}]
    finally:
        source.views = before
