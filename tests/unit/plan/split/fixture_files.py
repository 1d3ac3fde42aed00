"""The format of the fixture files: one file a rule, which shows statements and what becomes of them.

    -- Songs a genre: those without one are a group, too.
    SELECT …
    ---- __part_0, on every host: two-phase. Reads songs
    SELECT …
    ---- merge: two-phase merge
    SELECT …

The statement comes first, then each fragment in order, then the merge. The headings name what EXPLAIN names;
the SQL is EXPLAIN's too, over several lines and without quotes around plain names. A blank line ends a
fixture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import sqlglot
from sqlglot import exp

from engine.plan.split.explain_split import store_sql
from engine.plan.split.nodes import Fragment, SplitPlan
from engine.sql.engine_dialect import EngineDialect

DIRECTORY = Path(__file__).parent / "fixtures"
_HEADING = "---- "
_PLAIN_NAME = re.compile(r"[a-z_][a-z_0-9]*")
_WIDTH = 70
"""A list of expressions that is longer is written over several lines."""
_LINE = 100
"""What fits into a line is written in one."""


@dataclass(frozen=True)
class Fixture:
    """One statement and how it is split.

    Attributes:
        rule: The rule that it shows, which is its file's name without the ending.
        title: What it shows.
        sql: The statement.
        plan: The lines of its fragments and its merge.
    """

    rule: str
    title: str
    sql: str
    plan: tuple[str, ...]


def read(path: Path) -> list[Fixture]:
    """The fixtures of a file."""
    found = []
    for block in re.split(r"\n\s*\n(?=-- )", path.read_text().strip()):
        title, *lines = block.split("\n")
        first = next((place for place, line in enumerate(lines) if line.startswith(_HEADING)), len(lines))
        found.append(
            Fixture(
                path.stem,
                title.removeprefix("-- ").rstrip("."),
                "\n".join(lines[:first]).strip(),
                tuple(line.rstrip() for line in lines[first:]),
            )
        )
    return found


def read_all() -> list[Fixture]:
    """The fixtures of all files."""
    return [fixture for path in sorted(DIRECTORY.glob("*.sql")) for fixture in read(path)]


def write(path: Path, fixtures: Iterable[Fixture]) -> None:
    """Write a file that `read` reads."""
    path.write_text(
        "\n\n".join(f"-- {each.title}.\n{each.sql}\n" + "\n".join(each.plan) for each in fixtures) + "\n"
    )


def plan_lines(plan: SplitPlan) -> tuple[str, ...]:
    """A plan as the lines of a fixture."""
    lines: list[str] = []
    for fragment in plan.fragments:
        lines += [_HEADING + _heading(fragment), *readable_sql(store_sql(fragment)).split("\n")]
    if plan.merge is None:
        return (*lines, f"{_HEADING}no merge: the rows of all hosts")
    merge = readable_sql(plan.merge.sql(dialect=EngineDialect))
    return (*lines, f"{_HEADING}merge: {plan.rules[-1]}", *merge.split("\n"))


def _heading(fragment: Fragment) -> str:
    where = "at the coordinator" if fragment.is_local else "on every host"
    stores = dict.fromkeys(str(reference.definition.name) for reference in fragment.references)
    read_tables = ", ".join((*fragment.inputs, *stores))
    return f"{fragment.name}, {where}: {fragment.rule}. Reads {read_tables}"


def readable_sql(sql: str) -> str:
    """SQL over several lines. Plain names have no quotes, and tables no alias that is their name."""
    tree = sqlglot.parse_one(sql, dialect=EngineDialect)
    for name in tree.find_all(exp.Identifier):
        if _PLAIN_NAME.fullmatch(name.name):
            name.set("quoted", False)
    for table in tree.find_all(exp.Table):
        if table.alias == table.name:
            table.set("alias", None)
    text = str(tree.sql(dialect=EngineDialect, pretty=True, max_text_width=_WIDTH))
    return "\n".join(_folded(re.sub(r"FILTER\(WHERE\s+", "FILTER (WHERE ", text).split("\n")))


def _folded(lines: list[str]) -> list[str]:
    """Lines of which each goes together with those that stand below it, if they fit into one."""
    found: list[str] = []
    place = 0
    while place < len(lines):
        line, end = lines[place], place + 1
        while end < len(lines) and _indent(lines[end]) > _indent(line):
            end += 1
        if line.endswith("(") and end < len(lines) and lines[end].strip().startswith(")"):
            end += 1
        joined = line
        for each in lines[place + 1 : end]:
            is_tight = joined.endswith("(") or each.strip().startswith(")")
            joined += ("" if is_tight else " ") + each.strip()
        if len(joined) <= _LINE:
            found.append(joined)
            place = end
        else:
            found.append(line)
            place += 1
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
