"""Names that mean another store: on every storage, as often as they are switched, and by whoever is first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.changelog import Changelog, Switch
from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.layout import switch_path
from engine.errors import Corrupt, InvalidInput, NotFound
from engine.model.schema import StoreName, define_store
from tests.unit.changelog.conftest import PLAYS

Reopen = Callable[[], Changelog]
OTHER = define_store("by country", PLAYS.schema, ["song", "title"], group="others")
BEST = StoreName("best")


def switch(changelog: Changelog, name: str, store: str) -> Switch:
    return changelog.switch(StoreName(name), StoreName(store))


def meanings(changelog: Changelog) -> dict[StoreName, StoreName]:
    """What names mean that do not mean the store of the name."""
    return changelog.catalog()[1]


def test_the_newest_switch_of_a_name_counts(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    changelog.create_store(OTHER)
    assert meanings(changelog) == {}
    assert switch(changelog, "plays", "by country") == Switch(PLAYS.name, OTHER.name, 1)
    assert meanings(reopen()) == {"plays": "by country"}
    assert switch(reopen(), "by country", "plays").number == 1
    assert switch(reopen(), "best", "plays").number == 1
    assert (
        meanings(reopen())
        == meanings(changelog)
        == {"plays": "by country", "by country": "plays", "best": "plays"}
    )
    assert switch(changelog, "plays", "plays") == Switch(PLAYS.name, PLAYS.name, 2)
    assert meanings(reopen()) == {"by country": "plays", "best": "plays"}
    assert set(reopen().definitions()) == {"plays", "by country"}


def test_a_switch_to_what_a_name_means_already_writes_nothing(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    changelog.create_store(OTHER)
    assert switch(changelog, "plays", "plays").number == 0
    assert (
        switch(changelog, "plays", "by country").number == switch(reopen(), "plays", "by country").number == 1
    )


def test_more_than_nine_switches(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    changelog.create_store(OTHER)
    for number in range(1, 13):
        assert switch(reopen(), "plays", ["plays", "by country"][number % 2]).number == number
    assert meanings(changelog) == {}
    switch(changelog, "plays", "by country")
    assert meanings(reopen()) == {"plays": "by country"}


def test_only_stores_can_be_meant(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    with pytest.raises(NotFound, match="There is no store gone: plays keeps its meaning"):
        switch(changelog, "plays", "gone")
    switch(changelog, "best", "plays")
    with pytest.raises(NotFound, match="no store best"):
        switch(changelog, "plays", "best")
    with pytest.raises(NotFound, match="no store gone"):
        switch(changelog, "gone", "gone")
    for name in ("a/b", "", "x" * 300):
        with pytest.raises(InvalidInput, match="store"):
            switch(changelog, name, "plays")
    assert meanings(reopen()) == {"best": "plays"}
    assert switch(changelog, "best", "best").number == 2
    assert meanings(reopen()) == {}


def test_long_and_strange_names(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    names = ["ø" * 100, ".hidden", "switches", "definition.json", "0000000001.json"]
    for name in names:
        switch(changelog, name, "plays")
    assert meanings(reopen()) == dict.fromkeys(names, "plays")
    assert set(reopen().definitions()) == {"plays"}


def test_damage_is_noticed(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path))
    changelog.create_store(PLAYS)
    changelog.create_store(OTHER)
    switch(changelog, "plays", "by country")
    file = tmp_path / switch_path(PLAYS.name, 1)
    whole = file.read_bytes()
    for data in (
        whole[:-3],
        whole.replace(b"by country", b"by continent"),
        b"",
        whole.replace(b'"format": 1', b'"format": 2'),
    ):
        file.write_bytes(data)
        with pytest.raises(Corrupt, match="restore"):
            meanings(Changelog.open(str(tmp_path)))
    file.write_bytes(whole)
    moved = tmp_path / switch_path(BEST, 1)
    moved.parent.mkdir(parents=True)
    file.rename(moved)
    with pytest.raises(Corrupt, match="lies where another one should be"):
        meanings(Changelog.open(str(tmp_path)))


def test_a_damaged_switch_is_followed_by_another(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path))
    changelog.create_store(PLAYS)
    changelog.create_store(OTHER)
    switch(changelog, "best", "plays")
    for number, store in enumerate(("by country", "by country", "plays"), start=1):
        (tmp_path / switch_path(BEST, number)).write_bytes(b"damaged")
        found = switch(Changelog.open(str(tmp_path)), "best", store)
        assert (found.number, found.store) == (number + 1, store)
        assert meanings(Changelog.open(str(tmp_path))) == {BEST: store}
    newest = tmp_path / switch_path(BEST, 4)
    newest.write_bytes(with_format(newest.read_bytes(), 2))
    with pytest.raises(Corrupt, match="upgrade livestate"):
        switch(Changelog.open(str(tmp_path)), "best", "by country")


def with_format(data: bytes, number: int) -> bytes:
    """A switch as another version writes it."""
    document = json.loads(unseal(data, "A switch"))
    return seal(json.dumps({**document, "format": number}, indent=1).encode())
