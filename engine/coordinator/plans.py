"""What a coordinator works out once for a statement: its texts, the types of what it gathers, and the merge."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from engine.errors import Defect, LivestateError
from engine.exec.engine import BindingError, Engine, Outputs
from engine.exec.fragment_cache import FragmentCache
from engine.exec.local import Bindable
from engine.exec.statement_cache import LeastRecentlyUsed
from engine.plan.plans import CountPlan, RowsPlan
from engine.plan.query_text import QueryText, ReadColumn, fragment_text, merge_text
from engine.plan.split.nodes import PART_PREFIX, Fragment, SplitPlan
from engine.plan.split.sizes import Sizes
from engine.plan.statement import ReadyStatement
from engine.schema import StoreDefinition, StoreName
from engine.sql.bind import BoundStatement

_log = logging.getLogger(__name__)

Definitions = Mapping[StoreName, StoreDefinition]
Types = tuple[pa.DataType, ...]
ROWS_RULE = "rows"
COUNT_RULE = "count"


_REFUSED = (BindingError, LivestateError)
"""How a text is refused that was made from a right statement."""


@dataclass(frozen=True)
class Splitter:
    """How statements are split.

    Attributes:
        split: Splits a statement, knowing how big its stores are.
        gather: Splits it so that the coordinator runs it whole over gathered rows: always right.
    """

    split: Callable[[BoundStatement, Sizes], SplitPlan]
    gather: Callable[[BoundStatement], SplitPlan]


@dataclass(frozen=True)
class ReadyFragment:
    """A fragment as it travels.

    Attributes:
        fragment: The fragment.
        text: Its text.
        outputs: What it gives.
    """

    fragment: Fragment
    text: QueryText
    outputs: Outputs


@dataclass(frozen=True)
class ReadyPlan:
    """A statement over several hosts, ready to run.

    Attributes:
        statement: The statement that was asked.
        runs: The statement that is split: the same, or one that reads all columns where the engine insists.
        split: How it is split.
        schema: Schema of the result; None where the rows make it.
        fragments: The plan's fragments.
        merge: What the engine makes of their rows; None: the rows of the last fragment are the answer.
    """

    statement: ReadyStatement
    runs: ReadyStatement
    split: SplitPlan
    schema: pa.Schema | None
    fragments: tuple[ReadyFragment, ...]
    merge: QueryText | None


Bind = Callable[[], Bindable]
"""Binds a statement unsplit; raises what is wrong with it."""


@dataclass(frozen=True)
class WholeText:
    """A whole statement as a fragment.

    Attributes:
        statement: The statement that was asked.
        text: Its text; None where another host would not read it as the statement.
        schema: Schema of the result; None where the rows make it.
    """

    statement: ReadyStatement
    text: QueryText | None
    schema: pa.Schema | None


@dataclass(frozen=True)
class _Key:
    """What a plan depends on, besides the statement."""

    statement: int
    types: tuple[str, ...]
    sizes: Sizes


class PlanCache:
    """Makes plans, and keeps them for statements that come again. Safe for threads.

    Args:
        engine: Tells the types of merges.
        fragments: Makes fragments ready.
        splitter: Splits statements.
        size: How many plans to keep.
    """

    def __init__(self, engine: Engine, fragments: FragmentCache, splitter: Splitter, size: int) -> None:
        self._engine = engine
        self._fragments = fragments
        self._splitter = splitter
        self._plans: LeastRecentlyUsed[ReadyPlan] = LeastRecentlyUsed(size)
        self._wholes: LeastRecentlyUsed[WholeText] = LeastRecentlyUsed(size)

    def plan(self, statement: ReadyStatement, types: Types, sizes: Sizes, bind: Bind, definitions: Definitions) -> ReadyPlan:
        """The plan of a statement.

        Args:
            statement: The statement; the same object finds the same plan.
            types: Types of its parameters' values.
            sizes: How big its stores are.
            bind: Binds the statement unsplit.
            definitions: All stores.

        Returns:
            The plan.

        Raises:
            LivestateError: The statement itself is refused.
        """
        key = _Key(id(statement), tuple(map(str, types)), sizes)
        found = self._plans.get(key)
        if found is None or found.statement is not statement:
            found = self._made(statement, types, sizes, bind, definitions)
            self._plans.put(key, found)
        return found

    def _made(self, statement: ReadyStatement, types: Types, sizes: Sizes, bind: Bind, definitions: Definitions) -> ReadyPlan:
        bindable = bind()
        try:
            split = _simple(bindable.statement) or self._splitter.split(bindable.statement.bound, sizes)
            return self._ready(statement, bindable, split, types, definitions)
        except _REFUSED as error:
            _log.warning("A statement is answered by gathering, since its split form is refused: %s", error)
            return self.gathering(statement, types, bind, definitions)

    def gathering(self, statement: ReadyStatement, types: Types, bind: Bind, definitions: Definitions) -> ReadyPlan:
        """The plan that is always right; not kept.

        Args:
            statement: As in `plan`.
            types: As in `plan`.
            bind: As in `plan`.
            definitions: As in `plan`.

        Raises:
            LivestateError: The statement itself is refused.
        """
        bindable = bind()
        try:
            return self._ready(statement, bindable, self._splitter.gather(bindable.statement.bound), types, definitions)
        except BindingError as error:
            raise Defect(f"The statement is right, and the engine refuses it over gathered rows ({error}); please report the statement.") from error

    def whole(self, statement: ReadyStatement, types: Types, bind: Bind, definitions: Definitions) -> WholeText:
        """A whole statement as the text of one fragment.

        Args:
            statement: As in `plan`.
            types: As in `plan`.
            bind: As in `plan`.
            definitions: As in `plan`.

        Raises:
            LivestateError: The statement itself is refused.
        """
        key = _Key(id(statement), tuple(map(str, types)), Sizes())
        found = self._wholes.get(key)
        if found is None or found.statement is not statement:
            found = self._whole(statement, types, bind, definitions)
            self._wholes.put(key, found)
        return found

    def _whole(self, statement: ReadyStatement, types: Types, bind: Bind, definitions: Definitions) -> WholeText:
        outputs = bind().outputs
        schema = None if outputs is None else outputs.schema
        bound = statement.bound
        try:
            text = fragment_text(_query_of(bound), bound.references, {}, tuple(bound.list_schemas))
            inputs = {name: bound.list_schemas[name] for name in text.tables}
            found = self._fragments.bound(text.sql, definitions, inputs, [types[place] for place in text.places])
        except _REFUSED as error:
            _log.warning("A statement cannot be handed to another host as it is: %s", error)
            return WholeText(statement, None, schema)
        return WholeText(statement, text if schema is None or found.outputs.schema.types == schema.types else None, schema)

    def _ready(self, statement: ReadyStatement, bindable: Bindable, split: SplitPlan, types: Types, definitions: Definitions) -> ReadyPlan:
        lists = bindable.statement.bound.list_schemas
        columns: dict[str, tuple[ReadColumn, ...]] = {}
        schemas: dict[str, pa.Schema] = {}
        fragments = []
        for fragment in split.fragments:
            text = fragment_text(fragment.tree, fragment.references, {name: columns[name] for name in fragment.inputs}, tuple(lists))
            inputs = {name: schemas[name] if name in schemas else lists[name] for name in text.tables}
            bound = self._fragments.bound(text.sql, definitions, inputs, [types[place] for place in text.places])
            columns[fragment.name], schemas[fragment.name] = bound.outputs.columns, bound.outputs.schema
            fragments.append(ReadyFragment(fragment, text, bound.outputs))
        merge = self._merge(split, types, columns, {**lists, **schemas}, bindable.outputs)
        schema = None if bindable.outputs is None else bindable.outputs.schema
        return ReadyPlan(statement, bindable.statement, split, schema, tuple(fragments), merge)

    def _merge(
        self, split: SplitPlan, types: Types, columns: Mapping[str, tuple[ReadColumn, ...]], schemas: Mapping[str, pa.Schema], wanted: Outputs | None
    ) -> QueryText | None:
        """The merge, with the columns of the unsplit statement."""
        tree = split.merge
        if tree is None:
            last = split.fragments[-1]
            if wanted is None or schemas[last.name].types == wanted.schema.types:
                return None
            tree = exp.select("*").from_(exp.Table(this=exp.to_identifier(last.name, quoted=True)))
        lists = tuple(name for name in schemas if name not in columns)
        text = merge_text(tree, columns, lists, types, None)
        if wanted is None:
            return text
        found = self._engine.outputs(text.sql, {name: schemas[name] for name in text.tables}, [None] * len(text.places))
        if len(found.columns) != len(wanted.columns):
            raise Defect(f"A merge has {len(found.columns)} columns, and its statement {len(wanted.columns)}; please report the statement.")
        return text if found.schema.types == wanted.schema.types else merge_text(tree, columns, lists, types, wanted.columns)


def _query_of(bound: BoundStatement) -> exp.Query:
    assert isinstance(bound.tree, exp.Query)
    return bound.tree


def _simple(statement: ReadyStatement) -> SplitPlan | None:
    """Plain rows and counts of one store: each host answers for its own."""
    if isinstance(statement.plan, RowsPlan | CountPlan):
        rule = ROWS_RULE if isinstance(statement.plan, RowsPlan) else COUNT_RULE
        bound = statement.bound
        return SplitPlan((rule,), (Fragment(f"{PART_PREFIX}0", _query_of(bound), bound.references, (), rule),), None)
    return None
