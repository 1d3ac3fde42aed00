"""The run-book (docs/trouble.md) has an entry for every `problem` of a host, and for lacks of memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import engine.errors
import engine.replica.data_directory
import engine.replica.history
import engine.replica.open_partitions
import engine.replica.store_catalog
import engine.state.damage
from engine.access.principal import Limit
from engine.duckdb.engine_errors import Allowance, Failure, error_of
from engine.duckdb.worker_messages import lack_of_memory
from engine.errors import Cancelled, InvalidInput, LivestateError, NotFound

ROOT = Path(__file__).parents[2]
ROOMS = ("engine/replica", "engine/state", "engine/changelog", "engine/catalog/host_statuses.py")
KINDS = {
    name
    for module in (
        engine.errors,
        engine.replica.data_directory,
        engine.replica.history,
        engine.replica.open_partitions,
        engine.replica.store_catalog,
        engine.state.damage,
    )
    for name, kind in vars(module).items()
    # What a request names, and what it is made of, are the caller's; what is cancelled has no problem.
    if isinstance(kind, type)
    and issubclass(kind, LivestateError)
    and not issubclass(kind, Cancelled | InvalidInput | NotFound)
}
ERRORS = {
    name
    for name, kind in vars(engine.errors).items()
    if isinstance(kind, type) and issubclass(kind, LivestateError)
} | KINDS
SAID = ("silence", "disputes", "rebuild_reason", "alone_reason", "problem", "_UNKNOWN")
"""Where sentences are kept, beside those of errors."""
CALLERS = {
    "engine/catalog/host_statuses.py: Host …: …": "any problem, in a deployment",
    "engine/changelog/backup.py": "livestate backup and restore",
    "engine/changelog/definitions.py: Others keep": "livestate migrate",
    "engine/changelog/definitions.py: The definition of store … was written": "whoever creates the store",
    "engine/changelog/codec.py: What names a staged": "a Spark task",
    "engine/changelog/identity.py: A backup is being copied": "whoever creates the store, or the job",
    "engine/changelog/local_objects.py: A data file of the changelog exists already": "a Spark task",
    "engine/changelog/rows.py": "whoever appends",
    "engine/changelog/skipping.py": "livestate skip",
    "engine/changelog/store_drops.py": "livestate drop",
    "engine/changelog/switches.py: Others keep": "livestate switch",
    "engine/changelog/writer.py": "the job",
    "engine/replica/data_directory.py: The data directory has format": "livestate serve",
    "engine/replica/follower.py: The changelog that this host follows does not exist": "a statement",
    "engine/replica/group_views.py": "a statement",
    "engine/replica/store_catalog.py": "a statement",
}
"""Who else than a store's `problem` shows a sentence: a file, or the beginning of one sentence of it."""
HOLE = "…"


TOLD_OF_PLACES = {
    "engine/changelog/backup.py": "livestate backup and restore, which were given the places",
    "engine/changelog/objects.py": "whoever gives the URI, as a host starts or on the command line",
    "engine/replica/directory_inspection.py": "livestate verify, which was given the places",
}
"""Files with sentences that name places, and who alone is shown them."""
_HOLES_WITH_PLACES = {"root", "uri", "path", "directory", "filename"}


def _template(node: ast.expr) -> str | None:
    """A sentence with holes where names and numbers stand."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in parts)
        case _:
            return None


def _raised_sentences(room: str) -> Iterator[tuple[str, ast.JoinedStr]]:
    """Files, and the sentences with holes that errors are made of in them."""
    for file in _files_of(room):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                values = (*node.args, *(each.value for each in node.keywords))
                for part in (part for value in values for part in ast.walk(value)):
                    if isinstance(part, ast.JoinedStr):
                        yield str(file.relative_to(ROOT)), part


def _names_in_holes(sentence: ast.JoinedStr) -> Iterator[str]:
    for node in ast.walk(sentence):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name


def _files_of(room: str) -> Sequence[Path]:
    return [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py"))


def _sentences() -> Iterator[tuple[str, str]]:
    """Files, and the sentences in them that somebody can be shown."""
    for room in ROOMS:
        for file in _files_of(room):
            name = str(file.relative_to(ROOT))
            for node in ast.walk(ast.parse(file.read_text())):
                match node:
                    case ast.Call(func=ast.Name(id=kind), args=[first, *_]) if kind in KINDS:
                        found = [_template(first)]
                    case ast.Call(func=ast.Name(id=kind), keywords=keywords) if kind in KINDS:
                        found = [_template(each.value) for each in keywords if each.arg == "message"]
                    case ast.Assign(targets=[target], value=value) if _name(target) in SAID:
                        found = [_template(value)]
                    case ast.Return(value=ast.JoinedStr() as value) if room.endswith(".py"):
                        found = [_template(value)]
                    case _:
                        continue
                # What has no words of its own repeats another sentence.
                yield from ((name, text) for text in found if text is not None and re.search(r"\w{3}", text))


def _name(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _name(value)
        case _:
            return ""


SENTENCES = sorted(set(_sentences()))


def _entries(begin: str, end: str) -> dict[str, re.Pattern[str]]:
    """The sentences that have an entry between two headings of the page."""
    page = (ROOT / "docs" / "trouble.md").read_text()
    part = page[page.index(begin) : page.index(end)]
    cells = [
        line.split(" | ")[0]
        for line in part.splitlines()
        if line.startswith("| `") and "`problem`" not in line
    ]
    texts = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    return {text: re.compile(".*".join(map(re.escape, text.split(HOLE)))) for text in texts}


ENTRIES = _entries("## When `problem` says", "## When a statement says")
OF_STATEMENTS = _entries("## When a statement says", "## Pass an epoch by")


def _is_for_callers(file: str, sentence: str) -> bool:
    return any(
        file == place and sentence.startswith(beginning)
        for place, _, beginning in (known.partition(": ") for known in CALLERS)
    )


def test_the_walk_finds_what_there_is() -> None:
    found = {sentence for _, sentence in SENTENCES}
    assert len(found) > 60
    for wanted in (
        "Hosts have different rows of",
        "is damaged: restore",
        "disk of the data directory",
        "No host that",
    ):
        assert any(wanted in sentence for sentence in found), wanted


@pytest.mark.parametrize(("file", "sentence"), SENTENCES)
def test_every_problem_has_an_entry(file: str, sentence: str) -> None:
    assert _is_for_callers(file, sentence) or any(entry.search(sentence) for entry in ENTRIES.values()), (
        "Add an entry to docs/trouble.md, or say in CALLERS who is shown it."
    )


@pytest.mark.parametrize("room", ROOMS)
def test_no_sentence_tells_clients_where_something_is_on_this_machine(room: str) -> None:
    """Who gave the place to a command line is told of it, and the log of a host is. A client is not."""
    told = [
        f"{name}: {ast.unparse(sentence)}"
        for name, sentence in _raised_sentences(room)
        if name not in TOLD_OF_PLACES and _HOLES_WITH_PLACES & set(_names_in_holes(sentence))
    ]
    assert not told, "Say what it is instead of where; see TOLD_OF_PLACES."


def test_no_entry_and_no_caller_is_left_over() -> None:
    text = "\n".join(sentence for _, sentence in SENTENCES)
    told = "\n".join(
        (ROOT / path).read_text()
        for path in (
            "engine/replica/failures.py",
            "engine/changelog/catalog.py",
            "engine/changelog/history.py",
            "engine/changelog/objects.py",
            "engine/catalog/host_statuses.py",
            "engine/replica/store_status.py",
        )
    )
    known = text + re.sub(r"\{[^{}]*\}", HOLE, told)
    for what in ("Store", "The name"):
        assert f'"{what}"' in told
        known += f"\n{what} … cannot be read: …"
    unused = [entry for entry, pattern in ENTRIES.items() if not pattern.search(known)]
    assert not unused
    files = {file for file, _ in SENTENCES}
    assert not [known for known in CALLERS if known.partition(": ")[0] not in files]


def test_what_statements_may_not_take_has_an_entry() -> None:
    role = Limit(20, "desk")
    said = [
        error_of(Failure("outofmemory", ""), allowance).message
        for allowance in (
            Allowance(10),
            Allowance(10, role),
            Allowance(20, role),
            Allowance(10, in_worker=True),
            Allowance(10, role, in_worker=True),
        )
    ]
    said.append(lack_of_memory(role).message)
    found = [[entry for entry, pattern in OF_STATEMENTS.items() if pattern.search(each)] for each in said]
    assert all(found)
    assert {entry for entries in found for entry in entries} == set(OF_STATEMENTS)
