"""No text ends a process or holds it: what nests, chains and repeats is refused or read in time that grows
with its length.

A process that is ended, and one that is held for ever, fail these tests by themselves.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, Dialects, DialectType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from engine.deadline import NO_DEADLINE, Deadline
from engine.duckdb.binder import Binder
from engine.errors import DeadlineExceeded, InvalidInput, LimitExceeded, LivestateError, Unsupported
from engine.model.schema import StoreName, define_store
from engine.plan.query_text import engine_text
from engine.sql import lexer, literals
from engine.sql.as_of import take_as_of
from engine.sql.bind import bind
from engine.sql.diagnose import diagnose
from engine.sql.lexer import blanks_end, comment_end, search_in_turns
from engine.sql.literals import MAX_STATEMENT_LENGTH, lift
from engine.sql.parse import parse
from engine.sql.text import SourceText, offset_of
from engine.sql.tokens import (
    MAX_DOTS,
    MAX_INTERVAL,
    MAX_NAME,
    MAX_ORACLE_STRING,
    MAX_TOKENS,
    NESTED_TYPES,
    STRUCT_TYPES,
    dialect_of,
    lexer_of,
    tokenize,
)
from engine.statements import statement_cache
from engine.statements.column_names import ColumnNames
from engine.statements.deep_stack import SHORT_TEXT, ready_statement
from engine.statements.least_recently_used import CacheLimits
from engine.statements.statement_cache import MAX_LIFTED_AT_ONCE, StatementCache
from tests.fuzz.grammar import repeated_nests, texts_with_runs
from tests.support.processor_time import is_longer
from tests.support.seeds import seeded_random

TABLES = {
    StoreName("t"): define_store("t", pa.schema([("a", pa.int64()), ("b", pa.int64())]), ["a"], partitions=2)
}
TIMES = 20_000
RUN_CHARACTERS = 6000
MOST_TIMES_OF_PLAIN = 4
"""How many times as long as plain lists a text of the same length may take, in the same dialect."""
MOST_NEST_SECONDS = 0.8
"""Of the processor's time on a usual machine."""
NESTED: dict[str, Callable[[int], str]] = {
    "FROM": lambda n: "FROM " * n + "t",
    "joins before their conditions": lambda n: "SELECT * FROM t " + "JOIN t " * n + "ON true " * n,
    "joins without a table before": lambda n: "SELECT " + "JOIN a " * n + "1",
    "joins with their conditions": lambda n: "SELECT 1 FROM t " + "JOIN t USING (a) " * n,
    "LIST<": lambda n: f"SELECT CAST(1 AS {'LIST<' * n}INT{'>' * n})",
    "STRUCT<": lambda n: f"SELECT CAST(1 AS {'STRUCT<a ' * n}INT{'>' * n})",
    "STRUCT(": lambda n: f"SELECT CAST(1 AS {'STRUCT(a ' * n}INT{')' * n})",
    "NULLABLE(": lambda n: f"SELECT {'NULLABLE(' * n}INT{')' * n}",
    "OBJECT(": lambda n: f"SELECT {'OBJECT(' * n}1{')' * n}",
    "types that call": lambda n: f"SELECT {'DATE(' * n}1{')' * n}",
    "rows": lambda n: f"SELECT {'ROW(' * n}1{')' * n}",
    "brackets": lambda n: f"SELECT {'(' * n}1{')' * n}",
    "lists": lambda n: f"SELECT {'[' * n}1{']' * n}",
    "structs": lambda n: "SELECT " + "{'a':" * n + "1" + "}" * n,
    "CASE": lambda n: f"SELECT {'CASE WHEN ' * n}1",
    "CASE ELSE": lambda n: f"SELECT {'CASE WHEN a = 1 THEN 1 ELSE ' * n}1{' END' * n} FROM t",
    "NOT": lambda n: f"SELECT {'NOT ' * n}true",
    "minus": lambda n: f"SELECT {'- ' * n}1",
    "INTERVAL": lambda n: f"SELECT {'INTERVAL ' * n}1",
    "lambdas": lambda n: f"SELECT list_transform([1], {'x -> ' * n}1)",
    "arrows": lambda n: f"SELECT {'a -> ' * n}a FROM t",
    "subscripts": lambda n: f"SELECT a{'[1]' * n} FROM t",
    "methods": lambda n: f"SELECT a{'.abs()' * n} FROM t",
    "methods within each other": lambda n: f"SELECT {'a.abs(' * n}{')' * n} FROM t",
    "methods behind and within each other": lambda n: f"SELECT {'a.b().abs(' * n}{')' * n} FROM t",
    "units of time": lambda n: f"SELECT {'date_trunc(a, ' * n}a{')' * n} FROM t",
    "typed literals": lambda n: f"SELECT {'DECIMAL(8, 2) 1::INT, ' * n}a FROM t".replace("1", "'1'"),
    "casts": lambda n: f"SELECT a{'::INT' * n} FROM t",
    "BETWEEN": lambda n: f"SELECT {'a BETWEEN 1 AND ' * n}1 FROM t",
    "PIVOT": lambda n: "FROM t " + "PIVOT (count(*) FOR a IN (1)) " * n,
    "UNION": lambda n: "SELECT 1 " + "UNION SELECT 1 " * n,
    "WITH": lambda n: "WITH a AS (SELECT 1) " * n + "SELECT 1",
    "DESCRIBE": lambda n: "DESCRIBE " * n + "t",
    "ands": lambda n: f"SELECT 1 FROM t WHERE {'a = 1 AND ' * n}true",
    "mixed signs": lambda n: f"SELECT {'a + b - ' * n}1 FROM t",
}
UNCLOSED = (
    "/* ",
    "/*",
    "$a$ ",
    "$a1$$a2$",
    "'",
    "' ''",
    '"',
    "e'\\' ",
    "\\'",
    '\\"',
    "-- ",
    "--\n",
    "`",
    "a'b ",
    "IN (",
    "IN (1, ",
    "(VALUES (1), ",
    "AS OF EPOCH 1 -- ",
    "AT (",
)


@pytest.mark.parametrize("times", [50, 150, 2000, TIMES])
@pytest.mark.parametrize("name", NESTED)
def test_what_nests_is_refused_or_read(name: str, times: int) -> None:
    text = NESTED[name](times)
    try:
        made = ready_statement(lift(text, "duckdb"), "duckdb", TABLES, NO_DEADLINE)
    except LivestateError as error:
        assert "please report" not in error.message
    else:
        assert made.sql or made.bound.described is not None


@pytest.mark.parametrize("piece", UNCLOSED)
@pytest.mark.parametrize("dialect", ["duckdb", "spark"])
@pytest.mark.parametrize("end", ["", "\\"])
def test_what_is_not_closed_is_read_once(piece: str, end: str, dialect: str) -> None:
    text = "SELECT ? FROM t AS OF EPOCH 1 " + piece * (400_000 // len(piece)) + end
    with pytest.raises(LivestateError):
        # As the statements of clients are read.
        lift(take_as_of(text, dialect).text, dialect)
        parse(lift(text, dialect), dialect)


def test_time_is_over_while_lists_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()

    def lift_slowly(text: str, dialect: str) -> None:
        is_over.wait(5.0)
        raise InvalidInput("Nobody waits for this any more.")

    monkeypatch.setattr(statement_cache, "lift", lift_slowly)
    cache = StatementCache(CacheLimits(1), ColumnNames(Binder(None)))
    with pytest.raises(DeadlineExceeded):
        cache.ready_text("x" * (MAX_LIFTED_AT_ONCE + 1), "duckdb", TABLES, Deadline(0.0))
    is_over.set()


def test_budgets_say_what_to_do() -> None:
    for name, message in (
        (
            "joins before their conditions",
            "more than 10 JOINs in a row without ON or USING: write the condition of each behind it",
        ),
        ("LIST<", "more than 64 types of types"),
        ("NULLABLE(", "10 structs within each other"),
        ("types that call", "use brackets less"),
        ("PIVOT", "more than 20 PIVOTs"),
        ("FROM", "more than 20 operators and keywords in a row"),
        ("methods", "more than 100 subscripts, or calls of methods"),
        ("casts", "nests too deeply"),
    ):
        # What is before < is no type in DuckDB's dialect.
        dialect = "spark" if name == "LIST<" else "duckdb"
        with pytest.raises(InvalidInput, match=message):
            parse(lift(NESTED[name](190 if name == "types that call" else 1500), dialect), dialect)
    with pytest.raises(LimitExceeded, match="more than 100000 tokens"):
        parse(lift("SELECT " + "1.5, " * 60_000 + "1", "duckdb"), "duckdb")


class Uncut(Spark):
    """A dialect that must not cut a text into tokens."""

    def tokenize(self, sql: str, dialect: DialectType = None, **opts: Any) -> list[Token]:
        """Nothing of the kind."""
        raise AssertionError


class UncutDuckDB(DuckDB):
    """Likewise, with the strings of the host's."""

    def tokenize(self, sql: str, dialect: DialectType = None, **opts: Any) -> list[Token]:
        """Nothing of the kind."""
        raise AssertionError


@pytest.mark.parametrize("dialect", [Uncut(), UncutDuckDB()], ids=["other", "duckdb"])
@pytest.mark.parametrize(
    "piece", ["a ", ".abs()", "1.5,", "'a',", "(", "é+", ";", "/**/a ", "--'\na ", "'a''''b'"]
)
def test_a_text_of_too_many_tokens_is_refused_before_it_is_cut(dialect: Dialect, piece: str) -> None:
    """No other thread runs while sqlglot cuts a text."""
    text = "SELECT " + piece * (MAX_TOKENS + 1)
    with pytest.raises(LimitExceeded, match="more than 100000 tokens"):
        tokenize(SourceText(text, text), text, dialect)


@pytest.mark.parametrize("quoted", ["''" * 2, "\\\\" * 2])
def test_what_stands_for_a_quotation_mark_counts(quoted: str) -> None:
    text = f"SELECT '{quoted * (MAX_TOKENS + 1)}'"
    with pytest.raises(LimitExceeded, match="more than 100000 tokens"):
        tokenize(SourceText(text, text), text, Uncut())


@pytest.mark.parametrize("dialect", ["duckdb", "spark"])
@pytest.mark.parametrize(
    ("piece", "message"), [("?,", "more than 1000 parameters"), ("IN (?", "more than 1000 parameters")]
)
def test_parameters_are_counted_while_they_are_found(dialect: str, piece: str, message: str) -> None:
    with pytest.raises(LimitExceeded, match=message):
        lift("SELECT " + piece * 1_000_000, dialect)


@pytest.mark.parametrize("piece", ["IN (", "(VALUES (1", "x'", "/**/ IN (", "a 'x'"])
def test_a_text_that_is_too_long_is_not_read_to_its_end(piece: str) -> None:
    with pytest.raises(LimitExceeded, match="longer than 1048576 characters"):
        lift("SELECT " + piece * (MAX_STATEMENT_LENGTH + 1), "duckdb")


PIECES = (
    "IN (",
    "'",
    "''",
    "#",
    "`",
    "\\",
    '"',
    "--",
    "\n",
    " ",
    "x",
    "e'",
    "$$",
    "$a$",
    "/*",
    "?",
    "(VALUES (",
    "1,",
    "é",
)


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.integers(0, 20))
def test_turns_change_nothing(text: str, start: int) -> None:
    """What is found in windows of a few characters is found in one."""
    others = (literals._marks_of(lexer_of(dialect)) for dialect in ("spark", "mysql", "postgres", "bigquery"))
    for tokens in (literals._SKIPPED, *others):
        expected = tokens.search(text, start)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(lexer, "_WINDOW", 20)
            patched.setattr(lexer, "_LONGEST_MARK", 10)
            found = search_in_turns(tokens, text, start)
        assert (found and (found.span(), found.lastgroup)) == (
            expected and (expected.span(), expected.lastgroup)
        )


def test_a_turn_is_a_few_thousand_characters() -> None:
    """No other thread runs while they are searched, each of which can take a microsecond."""
    turns: list[int] = []

    class Pattern:
        def search(self, text: str, start: int, end: int | None = None) -> None:
            turns.append((len(text) if end is None else end) - start)

    assert search_in_turns(cast("Any", Pattern()), "x" * 100_000, 0) is None
    assert sum(turns) >= 100_000
    assert max(turns) <= 8192


@pytest.mark.parametrize("around", ["'{}'", '"{}"', "/*{}*/", "--{}\n", "$${}$$", "$a${}$a$", "e'\\'{}'"])
def test_words_of_strings_and_comments_are_no_tokens(around: str) -> None:
    words = "x, " * (MAX_TOKENS + 1 if around != '"{}"' else MAX_NAME // 3)
    text = f"SELECT 1 {around.format(words)}"
    assert len(tokenize(SourceText(text, text), text, dialect_of("duckdb"))) <= 4
    if "$" not in around and "e'" not in around:
        assert len(tokenize(SourceText(text, text), text, dialect_of("spark"))) <= 4


@pytest.mark.parametrize(
    "type_name", ["INT[100000][2]", f"INT{'[100000]' * 15}", "STRUCT(a INT[1000])[101]", "INT[9999999999999]"]
)
def test_arrays_in_arrays_have_a_budget(type_name: str) -> None:
    with pytest.raises(InvalidInput, match="arrays of more than 100000 values"):
        parse(lift(f"SELECT CAST(NULL AS {type_name})", "duckdb"), "duckdb")
    for usual in ("INT[100000]", "INT[3][3]", "INT[][100000]", "DECIMAL(38, 37)[3]"):
        assert parse(lift(f"SELECT CAST(NULL AS {usual}), NULL::{usual}", "duckdb"), "duckdb").tree


def test_ordinary_statements_are_far_from_the_budgets() -> None:
    joins = " ".join(
        f"LEFT JOIN t AS t{number} ON t{number}.a = t.a AND t{number}.b IS NOT NULL" for number in range(200)
    )
    branches = " ".join(
        f"WHEN t.a = {number} AND NOT t.b = -{number} THEN CAST({number} AS DECIMAL(10, 2))"
        for number in range(500)
    )
    names = " AND ".join(
        f"name = {word} AND date IS NOT DISTINCT FROM first"
        for word in ("format", "index", "row", "type", "level", "schema")
    )
    for text in (
        f"SELECT CASE {branches} END FROM t {joins}",
        f"SELECT 1 FROM t WHERE {names}",
        "SELECT - - -1, NOT NOT NOT true",
    ):
        assert parse(lift(text, "duckdb"), "duckdb").tree is not None


def test_short_texts_need_little_stack() -> None:
    """The thread of a caller has 8 MiB; half a megabyte is enough for the worst of short texts."""
    texts = [make(SHORT_TEXT // len(make(1)) * 2)[:SHORT_TEXT] for make in NESTED.values()]
    program = f"""
import threading
from engine.errors import LivestateError
from engine.sql.literals import lift
from engine.sql import tokens
from engine.sql.text import SourceText
def parse_all():
    for text in {texts!r}:
        dialect = tokens.dialect_of("duckdb")
        try:
            tokens.parse_tokens(dialect.tokenize(text), text, dialect)
        except Exception:
            pass
threading.stack_size(1 << 21)
thread = threading.Thread(target=parse_all)
thread.start()
thread.join()
print("whole")
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.stdout == "whole\n", (found.returncode, found.stderr[-500:])


FUZZ = """
import sys
from sqlglot.dialects.dialect import Dialect, DialectType
from engine.errors import LivestateError
from engine.sql import tokens
from engine.sql.literals import lift
from engine.sql.parse import parse
from engine.sql.tokens import parse_tokens

PATTERNS = (
    ("{} (", "1", ")"), ("{} ", "1", ""), ("a {} ", "1", ""), ("{}<", "INT", ">"), ("CAST(1 AS {}(", "1", "))"), ("{} (SELECT * FROM ", "t", ")"),
    ("{} [", "1", "]"), ("CASE WHEN {} (", "1", ") THEN 1 END"), ("(", "1", " {} 1)"), ("", "1", " {}"), ("{} a ", "1", ""),
)
questions = []

def count_questions(cut, text, dialect):
    try:
        return parse_tokens(cut, text, dialect)
    finally:
        left = object.__getattribute__(dialect, "__dict__")["questions"]
        questions.append(1000 + tokens.QUESTIONS_A_TOKEN * len(cut) - left)

def reading(word, pattern, times):
    # How it ends, and how often the parser asks its dialect something on the way.
    before, inner, after = pattern
    text = "SELECT " + before.format(word) * times + inner + after.format(word) * times
    questions[:] = [0]
    print(repr(text[:60]), file=sys.stderr)
    try:
        parse(lift(text, name), name)
    except LivestateError as error:
        return type(error).__name__, *questions
    return "", *questions

sys.modules["engine.sql.parse"].parse_tokens = count_questions
name = sys.argv[1]
exhausting = set()
dialect = Dialect.get_or_raise(name)
parser = dialect.parser_class
words = {*dialect.tokenizer_class.KEYWORDS, *parser.FUNCTION_PARSERS, *parser.NO_PAREN_FUNCTION_PARSERS, *dialect.tokenizer_class.SINGLE_TOKENS}
words |= {kind.name.replace("_", " ") for kind in parser.NO_PAREN_FUNCTIONS} | {"COLUMNS", "ROW", "LIST", "UNNEST", "IF"}
for word in sorted(words):
    for pattern in PATTERNS:
        three, four = reading(word, pattern, 3), reading(word, pattern, 4)
        # Where each level multiplies the questions, sixty exhaust what may be asked, which takes long. It is
        # done for one of those that are asked alike, as nearly all names of types are.
        if four[-1] < 1.5 * three[-1] or (pattern, three, four) not in exhausting:
            exhausting.add((pattern, three, four))
            reading(word, pattern, 60)
print("whole")
"""
"""Each keyword in each pattern."""


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "snowflake"])
def test_every_keyword_nested_and_repeated(dialect: str) -> None:
    found = subprocess.run([sys.executable, "-c", FUZZ, dialect], capture_output=True, text=True, check=False)
    assert found.stdout == "whole\n", (found.returncode, found.stderr[-500:])


def test_rows_from_is_refused() -> None:
    with pytest.raises(Unsupported, match="call each function in FROM by itself"):
        parse(lift("SELECT * FROM t, ROWS FROM (range(3), range(4))", "duckdb"), "duckdb")


def test_comments_nest() -> None:
    text = "SELECT 1 /* a /* b */ AS OF EPOCH 3 */ -- c\r+ 1"
    assert take_as_of(text).clauses == ()
    assert comment_end(text, text.index("/*")) == text.index("*/ --") + 2
    assert blanks_end(" -- a\r\n /* /* */ */ x", 0) == len(" -- a\r\n /* /* */ */ ")
    assert lift("SELECT /* /* */ ? */ ?", "duckdb").marks == 1


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "mysql", "bigquery", "snowflake"])
def test_no_comment_is_part_of_a_tree(dialect: str) -> None:
    """What is read of the texts that are written of it would be hidden by a quotation mark in a comment."""
    comments = "-- it's\n", "/* ' */", '/* " */', "-- '\n"
    text = "{0}SELECT {1} max(v {2}) {3}, t.v {1} FROM t {1} WHERE {1} v IN (1 {1}) {3}".format(*comments)
    tree = parse(lift(text, dialect), dialect).tree
    assert tree is not None
    assert engine_text(tree) == "SELECT MAX(v), t.v FROM t WHERE v IN (1)"
    assert not any(node.comments for node in tree.walk())


@pytest.mark.parametrize("path", ["$[1,2]", "[1, 2]", "$..a", "$[1:2]", "$[?(@.a>1)]", "$[(@.length-1)]"])
def test_paths_into_json_that_cannot_be_written_are_refused(path: str) -> None:
    call = f"JSON_EXTRACT(s, '{path}')"
    with pytest.raises(Unsupported, match="names of members, places"):
        parse(lift(f"SELECT {call} FROM u WHERE {call} IS NULL", "mysql"), "mysql")
    tree = parse(lift(f"SELECT s -> '{path}' FROM u", "duckdb"), "duckdb").tree
    assert tree is not None
    assert engine_text(tree) == f"SELECT s -> '{path}' FROM u"


def test_calls_in_calls_are_looked_through_once_to_say_where_the_wrong_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walked: list[object] = []

    def count_walk(node: exp.Expr) -> int | None:
        walked.append(node)
        return offset_of(node)

    monkeypatch.setattr("engine.sql.diagnose.offset_of", count_walk)
    text = f"SELECT {'twice(' * 100}a{')' * 100} FROM t"
    bound = bind(parse(lift(text, "duckdb"), "duckdb"), (), TABLES)
    error = diagnose(bound, "No function matches.", "twice", "", "")
    assert isinstance(error, InvalidInput)
    assert len(walked) == 1


@pytest.mark.parametrize("dialect", ["duckdb", "oracle", "bigquery"])
def test_what_stands_in_a_text_many_times_is_read_in_linear_time(dialect: str) -> None:
    """An INTERVAL of 100,000 digits, and a DESCRIBE before as many blanks, kept the interpreter for minutes."""
    plain = [begin + ", 1" * (RUN_CHARACTERS // 3) for begin in ("SELECT a", "SELECT * FROM t")]
    seconds = [min(reading_seconds(text, dialect) for _ in range(6)) for text in plain]
    most = MOST_TIMES_OF_PLAIN * max(seconds)
    slow = [
        text
        for text in texts_with_runs(RUN_CHARACTERS, seeded_random(1), 0.01)
        # What others do on the machine can slow some readings down.
        if all(reading_seconds(text, dialect) > most for _ in range(6))
    ]
    assert slow == []


def test_what_nests_takes_no_longer_as_it_is_there_twice() -> None:
    """Arrows that were no lambdas were read once more with all that stood in them: a text of 50 KB for half a
    minute, and no other long text meanwhile.
    """
    slow = [text for text in repeated_nests(150, 4000) if is_read_slowly(text, "duckdb")]
    assert slow == []


def is_read_slowly(text: str, dialect: str) -> bool:
    """Whether a text that nests takes long each time that it is read."""
    return all(is_longer(reading_seconds(text, dialect), MOST_NEST_SECONDS) for _ in range(3))


def reading_seconds(text: str, dialect: str) -> float:
    """Processor time that it takes to read a text."""
    begun = time.process_time()
    # `make_ready` refuses what recurses too deeply.
    with suppress(LivestateError, RecursionError):
        parse(lift(take_as_of(text, dialect).text, dialect), dialect)
    return time.process_time() - begun


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"SELECT {'x' * (MAX_NAME + 1)}(1)", "name has more than 1000 characters"),
        (f'SELECT 1 AS "{"x" * (MAX_NAME + 1)}"', "name has more than 1000 characters"),
        (f"SELECT 1::{'x' * (MAX_NAME + 1)}", "name has more than 1000 characters"),
        (f"SELECT {'1' * (MAX_NAME + 1)}", "number has more than 1000 digits"),
        (f"SELECT a{'.b' * (MAX_DOTS + 1)} FROM t", "name has more than 100 dots"),
        (f"SELECT INTERVAL '{'1' * (MAX_INTERVAL + 1)}' DAY", "interval has more than 200 characters"),
    ],
)
def test_pieces_of_a_text_have_a_length(sql: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse(lift(sql, "duckdb"), "duckdb")
    # Which place it is depends on the piece; the others are as long as they may be.
    shorter = re.sub(r"(x|1){5,}|(\.b){5,}", lambda found: found[0][2:], sql, count=1)
    assert parse(lift(shorter, "duckdb"), "duckdb").tree


def test_strings_of_oracle_have_a_length() -> None:
    """Each could be an interval there."""
    text = f"SELECT '{'x' * (MAX_ORACLE_STRING + 1)}' FROM t"
    with pytest.raises(
        InvalidInput, match="a string has 1000 characters at the most: pass it as a parameter"
    ):
        parse(lift(text, "oracle"), "oracle")
    assert parse(lift(text.replace("xx", "x", 1), "oracle"), "oracle").tree
    assert parse(lift(text, "duckdb"), "duckdb").tree


def test_parts_of_statements_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """sqlglot would: of a path that it cannot read, once for each."""
    text = "SELECT json_extract('{}', '$[secret') AS v"
    with caplog.at_level("DEBUG"), suppress(LivestateError):
        ready_statement(lift(text, "spark"), "spark", TABLES, NO_DEADLINE)
    assert not caplog.records


TYPED_NESTS = (
    *("STRUCT<{}>(1)", "STRUCT<a {}>(1)", "MAP(INT, STRUCT<a {}>[3])", "ARRAY<{}>[1]", "STRUCT<INT>({})"),
    *("MAP<INT, {}>(1)", "STRUCT({})(1)", "NULLABLE({})", "ARRAY<STRUCT<a {}>>[1]", "VARCHAR({})"),
    *("FILE ({})", "TABLE<{}>(1)"),
    *("DECIMAL({}, 1)", "{}::STRUCT<a INT>(1)", "STRUCT<a {} >[2](1)", "CAST(x AS STRUCT<a {}>)", "MAP[{}]"),
)


@pytest.mark.parametrize("nest", TYPED_NESTS)
def test_types_with_values_behind_them_nest_in_every_dialect(nest: str) -> None:
    """In MySQL's dialect 22 levels of the first took 24 s, and in Snowflake's a copy of the third all memory of
    a host.
    """
    text = "INT"
    for _ in range(20):
        text = nest.replace("{}", text)
    slow = []
    for dialect in sorted(dialect.value for dialect in Dialects if dialect.value):
        for statement in (f"SELECT {text}", f"SELECT CAST(x AS {text})"):
            begun = time.process_time()
            with suppress(LivestateError):
                tree = parse(lift(statement, dialect), dialect).tree
                assert tree is not None
                tree.copy()
            if is_longer(time.process_time() - begun, MOST_NEST_SECONDS):
                slow.append((dialect, statement[:20]))
    assert slow == []


def test_all_types_that_nest_are_counted() -> None:
    for name in (dialect.value for dialect in Dialects if dialect.value):
        parser = Dialect.get_or_raise(name).parser_class
        assert parser.NESTED_TYPE_TOKENS <= NESTED_TYPES
        assert parser.STRUCT_TYPE_TOKENS - {TokenType.UNION} <= STRUCT_TYPES
