"""Who decided what of a changelog: recorded beside it, on every storage."""

from __future__ import annotations

import json
from collections.abc import Callable

from engine.changelog import UNKNOWN_AUTHOR, Author, Changelog, Decision, DecisionKind
from engine.changelog.amendments import encode_migration, migration_author
from engine.changelog.store_drops import drop_store
from engine.model.migration import migrate_definition, parse_changes
from engine.model.schema import StoreDefinition, StoreName
from tests.unit.changelog.conftest import PLAYS

Reopen = Callable[[], Changelog]
ANN = Author("ann@ops-1", 1_700_000_000_000_000)
ADDED = parse_changes(["city VARCHAR"], (), (), ())


def heard(changelog: Changelog) -> dict[tuple[DecisionKind, str, int], Decision]:
    """What a host hears of by its look at the catalogue."""
    changelog.readable_catalog()
    changelog.exclusions(PLAYS.group)
    return {(each.kind, each.place, each.number): each for each in changelog.decisions()}


def test_who_decided_is_heard_of_by_others(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    assert heard(reopen()) == {}
    changelog.switch(StoreName("best"), PLAYS.name, ANN)
    after = changelog.migrate_store(PLAYS.name, ADDED, ANN).after
    changelog.switch(StoreName("best"), StoreName("best"))
    drop_store(changelog, PLAYS.name, ANN.who, ANN.at)
    found = heard(reopen())
    assert found == {
        (DecisionKind.SWITCH, "best", 2): Decision(
            DecisionKind.SWITCH, "best", 2, UNKNOWN_AUTHOR, "best means best"
        ),
        (DecisionKind.MIGRATION, "plays", 1): Decision(
            DecisionKind.MIGRATION, "plays", 1, ANN, after.describe()
        ),
        (DecisionKind.DROP, "plays", 2): Decision(DecisionKind.DROP, "plays", 2, ANN, "plays"),
    }


def test_a_migration_without_an_author_is_as_before() -> None:
    after = migrate_definition(PLAYS, ADDED, 1)
    assert encode_migration(after, UNKNOWN_AUTHOR) == after.to_json()
    assert migration_author(after.to_json()) == UNKNOWN_AUTHOR


def test_an_author_hinders_no_reader_of_definitions() -> None:
    after = migrate_definition(PLAYS, ADDED, 1)
    document = encode_migration(after, ANN)
    assert StoreDefinition.from_json(document) == after
    assert migration_author(document) == ANN
    damaged = json.dumps({**json.loads(document), "at": "yesterday"}).encode()
    assert migration_author(damaged) == UNKNOWN_AUTHOR
