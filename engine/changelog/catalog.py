"""What hosts read of all stores at once. What is damaged is named, and left out: it keeps nothing else from
being read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from engine.changelog.amendments import StoreDrop
from engine.changelog.definitions import Definitions
from engine.changelog.switches import Switches
from engine.errors import Corrupt
from engine.model.schema import GroupName, StoreDefinition, StoreName


@dataclass(frozen=True)
class Catalog:
    """All stores of a changelog, and what SQL calls them.

    Attributes:
        stores: The stores as they are now, migrations that no commit has taken up yet included.
        switches: The names by which SQL means another store than that of the name.
        damaged_stores: What is wrong with stores of which nobody knows what they are, in a sentence each.
        damaged_names: What is wrong with names of which nobody knows which store they mean, likewise.
        drops: The ends of stores that were dropped, by store group.
    """

    stores: Mapping[StoreName, StoreDefinition]
    switches: Mapping[StoreName, StoreName]
    damaged_stores: Mapping[StoreName, str] = field(default_factory=dict)
    damaged_names: Mapping[StoreName, str] = field(default_factory=dict)
    drops: Mapping[GroupName, Sequence[StoreDrop]] = field(default_factory=dict)


def read_catalog(definitions: Definitions, switches: Switches, paths: Sequence[str]) -> Catalog:
    """Read all that there is of stores.

    Args:
        definitions: The changelog's definitions.
        switches: Its switches.
        paths: A listing of all that is below `STORES_PATH`.

    Raises:
        Unavailable: The changelog cannot be reached.
    """
    stores: dict[str, Corrupt] = {}
    names: dict[str, Corrupt] = {}
    newest = definitions.newest_definitions(paths, stores)
    switched = switches.switched_names(paths, names)
    drops = {}
    for group in definitions.written_groups(paths):
        try:
            drops[group] = definitions.exclusions(group).all_drops
        except Corrupt:
            continue  # said of its stores
    return Catalog(newest, switched, _sentences("Store", stores), _sentences("The name", names), drops)


def _sentences(what: str, faults: Mapping[str, Corrupt]) -> Mapping[StoreName, str]:
    """What is wrong, by the name that the path of an object has."""
    found = {}
    for path, error in sorted(faults.items()):
        name = StoreName(unquote(path.split("/")[1]))
        found[name] = f"{what} {name} cannot be read: {error.message}"
    return found
