"""The docs name only what there is: paths, links, commands of the Makefile, modules to run, and options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from textwrap import dedent

import click
import pytest

from engine.replica.follower_options import FollowerOptions
from engine.sql.refused_syntax import MAX_SELECTS
from engine.sql.tokens import MAX_NESTING, MAX_TABLES, MAX_TOKENS
from engine.sql.tree_depth import MAX_TERMS
from engine.state.state_options import StateOptions
from flight_server.cli.main import main
from flight_server.server.limits import ServerLimits

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"  # it tells of what there was
)
ROOMS = ("engine", "flight_server", "spark_pipeline", "tests", "benchmarks", "tools", "docs", "deploy")
OTHER_FILES = {"json.py": "a file of a user's that has the name of a module"}
COLUMNS = 100
MOST_WORDS = {"ARCHITECTURE.md": 2500, "CONTRIBUTING.md": 1800}
FOR_DEVELOPERS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md", "docs/journeys.md")

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_FENCE_LINE = re.compile(r"^ *```.*$", re.MULTILINE)
_PYTHON = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(ROOMS)})/[\w./@-]*\w")
_MODULE = re.compile(r"-m ((?:tests|benchmarks|spark_pipeline|flight_server)(?:\.\w+)*)")
_TARGET = re.compile(r"^make ([a-z-]+)", re.MULTILINE)
_COMMAND = re.compile(r"\blivestate ((?:[a-z]+\b)) *([^\n`|]*)")
_NAME = re.compile(r"`(?:\w+\.)?(\w*(?:_\w|[a-z][A-Z])\w*)(?:\(\))?`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _anchors(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text())
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in _HEADING.findall(text)
    }


def _broken_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(_FENCE.sub("", page.read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            yield link


def _tree_paths(text: str) -> Iterator[str]:
    """The paths of a tree of directories that is drawn with indentation."""
    parents: list[tuple[int, str]] = []
    for line in text.splitlines():
        found = re.match(r"( *)([\w.]+/|[\w]+\.py)(?: |$)", line)
        if found is None:
            continue
        indent, name = len(found[1]), found[2]
        while parents and parents[-1][0] >= indent:
            parents.pop()
        yield "".join(parent for _, parent in parents) + name
        if name.endswith("/"):
            parents.append((indent, name))


def _long_lines(page: Path) -> Iterator[str]:
    for line in _FENCE.sub("", page.read_text()).splitlines():
        # Tables, headings and links cannot be wrapped.
        if len(line) > COLUMNS and not line.startswith(("|", "#")) and not _LINK.search(line):
            yield line


def _commands(page: Path) -> Iterator[tuple[str, set[str]]]:
    """Commands of `livestate` that a page shows, with the options that follow on the same line."""
    text = page.read_text().replace("\\\n", " ")
    shown = [
        *_CODE.findall(_FENCE.sub("", text)),
        *(line for fence in _FENCE.findall(text) for line in fence.splitlines()),
    ]
    for code in shown:
        for command, rest in _COMMAND.findall(code):
            if code.startswith("livestate "):
                yield command, set(re.findall(r"(?<!\S)--[a-z][a-z-]*", rest.split(" #")[0]))


def test_there_are_pages() -> None:
    assert {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md"} <= {
        _name(page) for page in PAGES
    }


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    assert not list(_broken_links(page))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_paths_exist(page: Path) -> None:
    named = {
        path for code in _CODE.findall(page.read_text()) for path in _PATH.findall(code) if "<" not in code
    }
    assert not [path for path in sorted(named) if not (ROOT / path).exists()]
    files = {path.name for room in ROOMS for path in (ROOT / room).rglob("*.py")} | set(OTHER_FILES)
    short = {code for code in _CODE.findall(page.read_text()) if re.fullmatch(r"\w+\.py", code)}
    assert not short - files


def test_the_drawn_rooms_are_those_that_there_are() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    drawn = {path for fence in _FENCE.findall(text) for path in _tree_paths(fence)}
    assert not [path for path in sorted(drawn) if not (ROOT / path).exists()]
    rooms = {
        f"{room.parent.relative_to(ROOT)}/"
        for package in ("engine", "flight_server", "spark_pipeline")
        for room in (ROOT / package).rglob("__init__.py")
    }
    assert drawn >= rooms


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_exist(page: Path) -> None:
    text = page.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = "\n".join([*_CODE.findall(_FENCE.sub("", text)), *_FENCE.findall(text)])
    assert set(_TARGET.findall(shown)) <= targets, "a target of make"
    for module in _MODULE.findall(shown):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    assert isinstance(main, click.Group)
    for name, options in _commands(page):
        assert name in main.commands, name
        known = {option for each in main.commands[name].params for option in each.opts}
        assert options <= known, name


def _command_lines(page: Path) -> Iterator[str]:
    """The commands of `livestate` in a page's blocks of code, each to its end."""
    for fence in _FENCE.findall(page.read_text()):
        # Other blocks show what a command prints.
        for line in fence.replace("\\\n", " ").splitlines() if fence.startswith("```sh\n") else ():
            if line.startswith("livestate ") and "…" not in line:
                yield line


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_can_be_given(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs: click reads the arguments, and finds the files that are named."""
    monkeypatch.chdir(tmp_path)
    for name in ("LIVESTATE_URI", "LIVESTATE_CHANGELOG", "LIVESTATE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for line in _command_lines(page):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.commenters, lexer.whitespace_split = "#", True
        words = list(takewhile(lambda word: not set(word) <= set("|<>&;"), lexer))
        command: click.Command = main
        for place, word in enumerate(words[1:], 1):
            if not isinstance(command, click.Group):
                words = words[place:]
                break
            assert word in command.commands, line
            command = command.commands[word]
        else:
            words = []
        while True:
            try:
                command.make_context(command.name, list(words)).close()
            except click.BadParameter as error:
                absent = re.search(r"'([^']+)'(?: does not exist|: No such file)", error.message)
                assert absent, (line, error.message)
                _make_file(tmp_path, absent[1])
                words = [
                    str(tmp_path / absent[1].lstrip("/")) if absent[1] in word else word for word in words
                ]
                continue
            except click.UsageError as error:
                raise AssertionError(f"{line}: {error.message}") from error
            break


def _make_file(place: Path, name: str) -> None:
    file = place / name.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_lines_are_short(page: Path) -> None:
    assert not list(_long_lines(page))


@pytest.mark.parametrize("page", MOST_WORDS)
def test_pages_stay_short(page: str) -> None:
    assert len((ROOT / page).read_text().split()) <= MOST_WORDS[page]


@pytest.mark.parametrize("page", FOR_DEVELOPERS)
def test_names_of_code_exist(page: str) -> None:
    code = "\n".join(path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    known = set(re.findall(r"\w+", code))
    named = set(_NAME.findall(_FENCE.sub("", (ROOT / page).read_text())))
    assert named, "the page names something"
    assert not sorted(named - known)


def test_every_decision_is_in_the_index() -> None:
    directory = ROOT / "docs" / "decisions"
    notes = sorted(page.name for page in directory.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in notes] == list(range(1, len(notes) + 1))
    listed = _LINK.findall((directory / "README.md").read_text())
    assert notes == sorted(link for link in listed if link[0].isdigit())
    for name in notes:
        text = (directory / name).read_text()
        assert text.startswith(f"# {int(name[:4])}. ")
        for part in ("Decided", "Situation", "Cost", "Figures", "What would change it"):
            assert f"**{part}.**" in text, name


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_code_is_closed_and_python_is_python(page: Path) -> None:
    text = page.read_text()
    fences = [line.strip() for line in _FENCE_LINE.findall(text)]
    assert all(fence == "```" for fence in fences[1::2])
    assert len(fences) % 2 == 0
    for _, code in _PYTHON.findall(text):
        # What is left to the reader is an ellipsis.
        compile(dedent(code).replace("…", "..."), str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_words_of_the_glossary_are_there_once() -> None:
    rows = re.findall(r"^\| (?!word|-)([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = [word for row in rows for word in row.split(", ")]
    assert len(words) > 50
    assert len(words) == len(set(words))
    code = "\n".join(path.read_text() for room in ROOMS[:3] for path in (ROOT / room).rglob("*.py"))
    names = [word.strip("`") for word in words if word.startswith("`")]
    assert not [name for name in names if not re.search(rf"\b{name}\b", code)]


FOLLOWER, STATE, LIMITS = FollowerOptions(), StateOptions(), ServerLimits()


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("host.md", f"applied in pieces of {STATE.apply_bytes >> 20} MiB"),
        (
            "host.md",
            f"readable for {FOLLOWER.retention_seconds:.0f} seconds, {FOLLOWER.retained_epochs} epochs",
        ),
        ("host.md", f"{FOLLOWER.retained_bytes >> 20} MiB of what only they need"),
        ("host.md", f"{FOLLOWER.poll_seconds:g} seconds by default"),
        ("host.md", f"The default is {FOLLOWER.snapshots.after_bytes >> 20} MiB"),
        ("store-kinds.md", f"when {STATE.dead_share * 100:.0f} % of their rows are dead"),
        ("sizing.md", f"cache (`--cache`, {STATE.cache_bytes >> 30} GiB)"),
        ("many-hosts.md", f"computes {LIMITS.max_statements} statements at once"),
        ("many-hosts.md", f"{LIMITS.max_waiting:,} statements may wait like this"),
        ("sql.md", f"| {MAX_NESTING}; {MAX_SELECTS}; {MAX_TABLES:,}; {MAX_TERMS:,}; {MAX_TOKENS:,} |"),
        ("key-streams.md", f"{LIMITS.max_key_streams} may be open at once"),
        ("key-streams.md", f"without messages for {LIMITS.max_idle_seconds:.0f} seconds"),
    ],
)
def test_figures_of_pages_are_the_defaults(page: str, sentence: str) -> None:
    assert sentence in " ".join((ROOT / "docs" / page).read_text().split())
