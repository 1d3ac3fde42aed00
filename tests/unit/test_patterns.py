"""Regular expressions mean the same in all releases of Python that livestate runs on.

In early ones (3.11.2 of Debian 12 is one) `(?:…)*+` goes on from where its last, failed round has come to,
not from where that began. So rounds of such a group fail before anything in them repeats, looks ahead or
chooses; other groups are `(?>(?:…)*)`.

And they take time that grows with a text's length and no faster: while one is at work, no other thread runs.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import re
import time
from collections.abc import Iterator, Sequence
from re import _constants as codes  # type: ignore[attr-defined]  # where `re` keeps them since 3.11
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from engine.sql import as_of, literals, tokens
from engine.sql.tokens import lexer_of

ROOMS = ("engine", "flight_server", "spark_pipeline")
RUN = 8000
"""Characters of a text for a pattern."""
LEAST_SECONDS = 0.002
"""Less processor time cannot be told from what else the machine does; a square takes five times as much."""
TIMES = 8
"""How many times as long the longer one of two texts is."""
MOST_GROWTH = 22
"""How many times as long it takes, at most: `TIMES` if its time is linear, and that squared if a square."""
RUNS = (
    " ",
    "\n",
    "1",
    "a",
    "'",
    '"',
    "(",
    ")",
    ",",
    ".",
    "-",
    ";",
    "''",
    '""',
    "1,",
    "a ",
    "(1),",
    "--\n",
    "/*",
    "'a',",
)
ENDS = ("", "!", "1")
_USES = {"match": "match", "fullmatch": "fullmatch"}
OF_OPERATORS = ("engine.model.migration.", "flight_server.cli.")
"""Patterns for what somebody types at a terminal, which has no length to speak of."""
_STEPS = (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY, codes.AT)


def patterns() -> Iterator[tuple[str, str, int]]:
    """The patterns of all modules: name, text and flags."""
    for room in ROOMS:
        found = importlib.import_module(room)
        for info in pkgutil.walk_packages(found.__path__, f"{room}."):
            if info.name.endswith("__main__"):
                continue
            for name, value in vars(importlib.import_module(info.name)).items():
                if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                    yield f"{info.name}.{name}", value.pattern, value.flags


def is_safe(body: Sequence[Any]) -> bool:
    """Whether what a possessive group repeats fails without having moved on."""
    *steps, (last, arguments) = list(body)
    if any(step not in _STEPS for step, _ in steps):
        return False
    if last is codes.BRANCH:
        return not steps and all(is_safe(branch) for branch in arguments[1])
    if last is codes.SUBPATTERN:
        return not steps and arguments[0] is None and is_safe(arguments[-1])
    if last in (codes.MAX_REPEAT, codes.POSSESSIVE_REPEAT):
        least, _, repeated = arguments
        return bool(least == 0 and len(repeated) == 1 and repeated[0][0] in _STEPS)
    return last in _STEPS


def unsafe_groups(parsed: Any) -> int:
    """How many possessive groups of a parsed pattern are not safe."""
    if isinstance(parsed, tuple) and len(parsed) == 2 and parsed[0] is codes.POSSESSIVE_REPEAT:
        _, _, body = parsed[1]
        found = 0 if is_safe(body) else 1
        return found + unsafe_groups(body)
    if isinstance(parsed, tuple | list | parser.SubPattern):
        return sum(unsafe_groups(part) for part in parsed)
    return 0


@pytest.mark.parametrize(
    "pattern", [r"(?:, \s*\d)*+", r"(?:a(?=b)c)*+", r"(?:(?!in)[^(])*+", r"x|(?:a|\s*b)*+"]
)
def test_what_is_not_safe_is_seen(pattern: str) -> None:
    assert unsafe_groups(parser.parse(pattern)) == 1


@pytest.mark.parametrize("pattern", [r"[a-z]*+", r"(?:''[^']*+)*+", r"(?:[^a]|aa)*+", r"(?>(?:, \s*\d)*)"])
def test_what_is_safe_passes(pattern: str) -> None:
    assert unsafe_groups(parser.parse(pattern)) == 0


def test_no_pattern_depends_on_the_release() -> None:
    found = list(patterns())
    assert len(found) > 80
    assert not [name for name, text, flags in found if unsafe_groups(parser.parse(text, flags))]


def uses_of(name: str) -> set[str]:
    """By which methods a module uses its pattern; those that look for more than one match are `finditer`."""
    module, _, own_name = name.rpartition(".")
    source = inspect.getsource(importlib.import_module(module))
    found = re.findall(rf"\b{own_name}\.([a-z]+)\(", source)
    # A pattern that is handed over stands at a place that is known.
    return {_USES.get(use, "finditer") for use in found} or {"match"}


def texts_for(pattern: str) -> Iterator[tuple[str, str, str]]:
    """Texts of one piece many times, behind nothing, and behind each of the first words of a pattern.

    Each is what it begins with, the piece and what it ends with.
    """
    words = dict.fromkeys(re.findall(r"[A-Za-z]{2,}", pattern))
    begins = ["", "a ", "'", '"', "(", *(f"{word}{end}" for word in [*words][:8] for end in ("", " "))]
    yield from itertools.product(begins, RUNS, ENDS)


def seconds_of(pattern: re.Pattern[str], use: str, text: str) -> float:
    """Processor time of one use."""
    begun = time.thread_time()
    found = getattr(pattern, use)(text)
    if use == "finditer":
        for _ in found:
            pass
    return time.thread_time() - begun


def is_slow(pattern: re.Pattern[str], use: str, begin: str, run: str, end: str) -> bool:
    """Whether the time of a text that has one piece many times grows much faster than the text."""
    short, long = (begin + run * (length // len(run)) + end for length in (RUN // TIMES, RUN))
    if seconds_of(pattern, use, long) < LEAST_SECONDS:
        return False
    for _ in range(3):
        # What others do on the machine can slow some of the uses down, and so all of one kind for a while.
        pairs = [(seconds_of(pattern, use, short), seconds_of(pattern, use, long)) for _ in range(5)]
        shortest, longest = map(min, zip(*pairs, strict=True))
        if longest <= max(LEAST_SECONDS, MOST_GROWTH * shortest):
            return False
    return True


@pytest.mark.parametrize(("pattern", "use"), [(" *Use", "finditer"), (" * *!", "match")])
def test_a_square_is_seen(pattern: str, use: str) -> None:
    assert is_slow(re.compile(pattern), use, "", " ", "x")


@pytest.mark.parametrize(
    "dialect", ["bigquery", "clickhouse", "mysql", "oracle", "postgres", "spark", "tsql"]
)
def test_patterns_of_dialects_take_linear_time(dialect: str) -> None:
    lexer = lexer_of(dialect)
    made = [literals._marks_of(lexer), as_of._tokens_of(lexer), tokens._pieces_of(lexer)]
    assert not any(unsafe_groups(parser.parse(pattern.pattern, pattern.flags)) for pattern in made)
    begins = ("", "'", '"', "`", "$", "$a$", "{#", "x'", "q'[", '"""', "\\")
    pieces = (*RUNS, "\\", "`", "``", "$", "{#", "#", "?")
    slow = [
        (begin, run, end)
        for pattern in made
        for begin, run, end in itertools.product(begins, pieces, ENDS)
        if is_slow(pattern, "finditer", begin, run, end)
    ]
    assert slow == []


def test_patterns_take_linear_time() -> None:
    slow = [
        (name, use, begin, run, end)
        for name, pattern, flags in patterns()
        if name.startswith(("engine.", "flight_server.")) and not name.startswith(OF_OPERATORS)
        for use in uses_of(name)
        for begin, run, end in texts_for(pattern)
        if is_slow(re.compile(pattern, flags), use, begin, run, end)
    ]
    assert slow == []
