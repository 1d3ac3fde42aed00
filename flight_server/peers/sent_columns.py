"""What another host was told of columns: reports go out with each epoch, most columns stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.cluster.reports import ColumnReport, HostReport, StoreReport
from engine.model.schema import StoreName

MOST_COLUMNS_SENT = 4096
"""Columns in one report, a megabyte and a half, beside those of one store; those of other stores come with
the next ones.
"""

Columns = Mapping[str, ColumnReport]


@dataclass
class SentColumns:
    """What one other host was told. Not safe for threads.

    Attributes:
        life: When that host started, as it said.
        stores: The columns that it has, by store; known again by being the same objects.
    """

    life: int | None = None
    stores: dict[StoreName, Columns] = field(default_factory=dict)

    def news(self, report: HostReport) -> HostReport:
        """A report that says of columns only what the other host was not told.

        Args:
            report: What there is to say.
        """
        found: dict[StoreName, StoreReport] = {}
        columns = 0
        for name, store in report.stores.items():
            is_new = store.columns is not None and store.columns is not self.stores.get(name)
            is_sent = is_new and columns < MOST_COLUMNS_SENT
            columns += len(store.columns or ()) if is_sent else 0
            found[name] = store if is_sent else replace(store, columns=None)
        return replace(report, stores=found)

    def note_answer(self, told: HostReport, life: int) -> None:
        """Take note that the other host has a report.

        Args:
            told: What `news` gave.
            life: When the host that answered started: one that was started again knows nothing.
        """
        if life != self.life:
            # It may have been told by the calls before, in its other life.
            self.stores.clear()
        self.life = life
        self.stores |= {
            name: store.columns for name, store in told.stores.items() if store.columns is not None
        }


def without_columns(report: HostReport) -> HostReport:
    """A report that says nothing of columns."""
    return replace(
        report, stores={name: replace(store, columns=None) for name, store in report.stores.items()}
    )


def fill_columns(report: HostReport, other: HostReport) -> HostReport:
    """A report with columns where it says nothing of them.

    Args:
        report: The report.
        other: Another report of the same host, which may say it.
    """
    stores = {
        name: replace(store, columns=other.stores[name].columns)
        if store.columns is None and name in other.stores
        else store
        for name, store in report.stores.items()
    }
    return replace(report, stores=stores)
