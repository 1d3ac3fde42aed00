"""The stores of a host as they exist for somebody."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import TracebackType

from engine.access.scope import Scope
from engine.cluster.reports import GroupReport, Progress, StoreReport
from engine.errors import InvalidInput, NotFound
from engine.exec.restricted_view import Projections, RestrictedView
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.plan.row_filter import row_filter
from engine.plan.row_tests import EVERY_ROW, RowTest
from engine.scan import BuildingError, StoreSource, StoreStatus, StoreView

_log = logging.getLogger(__name__)
HIDDEN_PROBLEM = "Those who run the hosts know why."
"""In place of a group's problem, which may name stores that are hidden."""
_KnownMapping = tuple[Mapping[StoreName, StoreDefinition], Mapping[StoreName, StoreDefinition]]


@dataclass(frozen=True, eq=False)
class RestrictedStore:
    """One store as it exists for somebody.

    Attributes:
        whole: The store as it is.
        definition: The store with the columns that are seen.
        test: Rows that pass are seen.
        projections: As `RestrictedView.projections`.
    """

    whole: StoreDefinition
    definition: StoreDefinition
    test: RowTest
    projections: Projections = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is hidden."""
        return self.definition is self.whole and self.test == EVERY_ROW

    def view(self, whole: StoreView) -> StoreView:
        """What is seen of the store at an epoch.

        Args:
            whole: The store at that epoch.
        """
        return whole if self.is_whole else RestrictedView(whole, self.definition, self.test, self.projections)


class RestrictedStores:
    """What of each store exists for somebody, each found out once. Safe for threads.

    Args:
        scope: What exists.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._claims = dict(scope.claims)
        self._lock = threading.Lock()
        self._found: dict[tuple[StoreName, int], tuple[StoreDefinition, RestrictedStore | None]] = {}

    def may_be_seen(self, name: StoreName) -> bool:
        """Whether something of a store of that name exists, as far as the name says."""
        return self._scope.of_store(name) is not None

    def find(self, definition: StoreDefinition) -> RestrictedStore | None:
        """What of a store exists.

        Args:
            definition: The store as it is, or as it exists.

        Returns:
            The store; None where it does not exist: also where its rows cannot be told by the condition on
            them.
        """
        key = definition.name, definition.generation
        with self._lock:
            known = self._found.get(key)
        if known is not None and _is_known(definition, *known):
            return known[1]
        found = self._restrict(definition)
        with self._lock:
            self._found[key] = definition, found
        return found

    def view(self, whole: StoreView) -> StoreView:
        """What is seen of a store at an epoch.

        Args:
            whole: The store at that epoch.

        Raises:
            NotFound: It does not exist.
        """
        store = self.find(whole.definition)
        if store is None:
            raise NotFound(f"There is no store {whole.definition.name}.")
        return store.view(whole)

    def has_all_rows(self, name: StoreName) -> bool:
        """Whether no row of a store is hidden.

        Args:
            name: A store that exists.
        """
        rows = self._scope.of_store(name)
        return rows is not None and rows.has_all_rows

    def _restrict(self, definition: StoreDefinition) -> RestrictedStore | None:
        visible, rows = self._scope.visible_definition(definition), self._scope.of_store(definition.name)
        if visible is None or rows is None:
            return None
        try:
            test = row_filter(definition, rows.conditions, self._claims)
        except InvalidInput as error:
            # It is so for all of the role, of whom each may have another scope.
            _log.error(
                "a store is hidden from a role: %s",
                error.message,
                extra={"repeats": f"hidden {definition.name}"},
            )
            return None
        return RestrictedStore(definition, visible, test)


def _is_known(definition: StoreDefinition, whole: StoreDefinition, found: RestrictedStore | None) -> bool:
    """Whether a store is one that was found out before, as it is or as it exists."""
    seen = None if found is None else found.definition
    # Nearly always they are the same objects, which takes no comparison of schemas.
    return definition is whole or definition is seen or definition in (whole, seen)


class _RestrictedSnapshot:
    """A context that gives the views of some stores as they exist for somebody.

    Each lookup enters one: a generator takes three times as long.

    Args:
        stores: What exists.
        whole: Gives the views of the stores as they are.
    """

    __slots__ = ("_stores", "_whole")

    def __init__(
        self, stores: RestrictedStores, whole: AbstractContextManager[Mapping[StoreName, StoreView]]
    ) -> None:
        self._stores = stores
        self._whole = whole

    def __enter__(self) -> Mapping[StoreName, StoreView]:
        try:
            views = self._whole.__enter__()
        except BuildingError as error:
            # Its message has the problem of the group, and how much is to be built.
            raise BuildingError(
                "What is asked for is being built on this host: ask another one, or try again later."
            ) from error
        try:
            return {name: self._stores.view(view) for name, view in views.items()}
        except BaseException:
            self._whole.__exit__(*sys.exc_info())
            raise

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._whole.__exit__(error_type, error, traceback)


class RestrictedSource:
    """Implements `engine.scan.StoreSource` over another source.

    Args:
        whole: All stores.
        scope: What exists of them.
    """

    def __init__(self, whole: StoreSource, scope: Scope) -> None:
        self._whole = whole
        self._stores = RestrictedStores(scope)
        self._definitions: _KnownMapping = {}, {}
        self._tables: _KnownMapping = {}, {}

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """As `StoreSource.definitions`."""
        whole = self._whole.definitions()
        known = self._definitions
        if known[0] is not whole:
            self._definitions = known = whole, self._visible(whole)
        return known[1]

    def definitions_of(self, generations: Mapping[GroupName, int]) -> Mapping[StoreName, StoreDefinition]:
        """As `StoreSource.definitions_of`, without stores that do not exist there: of some the condition on
        their rows is about a column that they lacked then.
        """
        return self._visible(self._whole.definitions_of(generations))

    def tables(self) -> Mapping[StoreName, StoreDefinition]:
        """As `StoreSource.tables`."""
        whole = self._whole.tables()
        known = self._tables
        if known[0] is not whole:
            self._tables = known = whole, self._visible(whole)
        return known[1]

    def damaged_names(self) -> Mapping[StoreName, str]:
        """As `StoreSource.damaged_names`, of stores that may be seen by their names."""
        whole = self._whole.damaged_names()
        return {name: sentence for name, sentence in whole.items() if self._stores.may_be_seen(name)}

    def has_hidden_rows(self, stores: Collection[StoreName]) -> bool:
        """Whether rows of one of some stores are hidden.

        Args:
            stores: Stores that are seen.
        """
        return any(not self._stores.has_all_rows(name) for name in stores)

    def _visible(
        self, definitions: Mapping[StoreName, StoreDefinition]
    ) -> Mapping[StoreName, StoreDefinition]:
        found = {name: self._stores.find(definition) for name, definition in definitions.items()}
        return {name: store.definition for name, store in found.items() if store is not None}

    def pin_views(
        self,
        stores: Collection[StoreName],
        epochs: Mapping[GroupName, Epoch] | None = None,
        partitions: Mapping[StoreName, Collection[PartitionId]] | None = None,
        shapes: Mapping[StoreName, StoreDefinition] | None = None,
        digests: Mapping[GroupName, str] | None = None,
    ) -> AbstractContextManager[Mapping[StoreName, StoreView]]:
        """As `StoreSource.pin_views`."""
        visible = self.definitions()
        for name in stores:
            if name not in visible:
                raise NotFound(f"There is no store {name}.")
        whole_shapes = None if shapes is None else self._whole_shapes(shapes)
        return _RestrictedSnapshot(
            self._stores, self._whole.pin_views(stores, epochs, partitions, whole_shapes, digests)
        )

    def _whole_shapes(
        self, shapes: Mapping[StoreName, StoreDefinition]
    ) -> Mapping[StoreName, StoreDefinition]:
        found = {name: self._stores.find(definition) for name, definition in shapes.items()}
        return {name: store.whole for name, store in found.items() if store is not None}

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """As `StoreSource.hold`."""
        groups = {definition.group for definition in self.definitions().values()}
        for group in epochs:
            if group not in groups:
                raise NotFound(f"There is no store group {group}.")
        self._whole.hold(epochs, seconds)

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        """As `StoreSource.report`, of stores that are seen. It counts all of their rows: it is for plans, and
        shown to nobody.
        """
        groups, stores = self._whole.report()
        return self.visible_reports(groups, stores)

    def visible_reports(
        self, groups: Mapping[GroupName, GroupReport], stores: Mapping[StoreName, StoreReport]
    ) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        """Those of stores that are seen, and of their groups, of which refusals tell what is in them: other
        stores of a group may be hidden.

        Args:
            groups: Reports of a host.
            stores: Likewise.
        """
        visible = self.definitions()
        shown = {definition.group for definition in visible.values()}
        return (
            {group: _shown_report(report) for group, report in groups.items() if group in shown},
            {name: report for name, report in stores.items() if name in visible},
        )

    def complete_until(self, stores: Collection[StoreName]) -> int:
        """As `StoreSource.complete_until`."""
        return self._whole.complete_until(stores)

    def status(self) -> Sequence[StoreStatus]:
        """As `StoreSource.status`, of stores that are seen."""
        visible = self.definitions()
        return [status for status in self._whole.status() if status.store in visible]


def _shown_report(report: GroupReport) -> GroupReport:
    """A report of a group without what may be about stores that are hidden."""
    if not report.problem and report.building is None and report.catching_up is None:
        return report
    return replace(
        report,
        problem=HIDDEN_PROBLEM if report.problem else "",
        building=_shown_progress(report.building),
        catching_up=_shown_progress(report.catching_up),
    )


def _shown_progress(progress: Progress | None) -> Progress | None:
    """How far a host is, without bytes: they are those of all stores of the group."""
    if progress is None:
        return None
    return replace(progress, bytes_done=0, bytes_left=None, bytes_per_second=None)
