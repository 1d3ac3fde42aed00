"""What a coordinator works out once for a statement: its texts, the types of what it gathers, and
the merge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from engine.coordinator.fragment_types import fragment_types
from engine.deadline import Deadline
from engine.duckdb.engine import Engine, Outputs
from engine.duckdb.engine_errors import NotBoundError
from engine.errors import Defect
from engine.exec.fallbacks import PIECE_RULES, PLAN_REFUSALS, Fallback, log_fallback
from engine.exec.fragment_cache import FragmentCache
from engine.exec.local_executor import BindableStatement, LocalExecutor
from engine.plan.logical.trees import PART_PREFIX
from engine.plan.plans import CountPlan, RowsPlan
from engine.plan.query_text import (
    QueryText,
    ReadColumn,
    StandIn,
    fragment_text,
    merge_text,
    text_over_scans,
)
from engine.plan.split.gather_stores import RULE as GATHER
from engine.plan.split.gather_stores import gather
from engine.plan.split.gather_subtrees import gather_subtrees
from engine.plan.split.nodes import Fragment, SplitPlan
from engine.plan.split.planner import NotPlannedError
from engine.plan.split.sizes import Sizes
from engine.plan.split.split import split
from engine.plan.split.streamed_merges import is_read_once
from engine.plan.statement import ReadyStatement
from engine.sql.bind import BoundStatement
from engine.statements.deep_stack import Made, work_on_text
from engine.statements.least_recently_used import CacheLimits, LeastRecentlyUsed, statement_bytes
from engine.statements.request import Request

Types = tuple[pa.DataType, ...]
ROWS_RULE = "rows"
COUNT_RULE = "count"


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
        flows: Whether the merge can read the rows of the last fragment as they come.
        fallbacks: The fall-backs that led to it.
    """

    statement: ReadyStatement
    runs: ReadyStatement
    split: SplitPlan
    schema: pa.Schema | None
    fragments: tuple[ReadyFragment, ...]
    merge: QueryText | None
    flows: bool = False
    fallbacks: tuple[Fallback, ...] = ()

    def with_fallbacks(self, fallbacks: tuple[Fallback, ...]) -> ReadyPlan:
        """The plan, with fall-backs that were taken before it was made."""
        return replace(self, fallbacks=(*fallbacks, *self.fallbacks)) if fallbacks else self


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
        local: Binds statements unsplit, and says what is wrong with them.
        limits: How many plans to keep, of each kind.
    """

    def __init__(
        self, engine: Engine, fragments: FragmentCache, local: LocalExecutor, limits: CacheLimits
    ) -> None:
        self._engine = engine
        self._fragments = fragments
        self._local = local
        self._plans: LeastRecentlyUsed[ReadyPlan] = LeastRecentlyUsed(limits)
        self._wholes: LeastRecentlyUsed[WholeText] = LeastRecentlyUsed(limits)
        self._gathering: LeastRecentlyUsed[ReadyPlan] = LeastRecentlyUsed(limits)

    def plan(self, request: Request, sizes: Sizes) -> ReadyPlan:
        """The plan of a statement.

        Args:
            request: The statement; the same one, with parameters of the same types, finds the same plan.
            sizes: How big its stores are.

        Returns:
            The plan.

        Raises:
            LivestateError: The statement itself is refused.
        """
        gathering = self._gathering.get(_values_key(request))
        if gathering is not None and gathering.statement is request.statement:
            return gathering
        key = _Key(id(request.statement), tuple(map(str, request.types)), sizes)
        found = self._plans.get(key)
        if found is None or found.statement is not request.statement:
            found = self._make_plan(request, sizes)
            self._plans.put(key, found, _plan_bytes(request))
        return found

    def _make_plan(self, request: Request, sizes: Sizes) -> ReadyPlan:
        bindable = self._local.bind(request)
        plan = bindable.statement.plan
        if isinstance(plan, CountPlan) or (isinstance(plan, RowsPlan) and plan.takes_any_rows):
            return _one_store_plan(request.statement, bindable)
        logical = _work(request, lambda: bindable.statement.logical)
        if logical is None:
            return self._plan_subtrees(request, bindable, sizes)
        try:
            return self._make_ready(request, bindable, _work(request, partial(split, logical, sizes)))
        except PLAN_REFUSALS as error:
            log_fallback(Fallback.GATHER_PIECES, error)
        try:
            pieces = _work(request, partial(split, logical, sizes, PIECE_RULES))
            return self._make_ready(request, bindable, pieces, Fallback.GATHER_PIECES)
        except PLAN_REFUSALS as error:
            log_fallback(Fallback.GATHER_ALL, error)
        return self.gather_plan(request)

    def _plan_subtrees(self, request: Request, bindable: BindableStatement, sizes: Sizes) -> ReadyPlan:
        """The plan of a statement that has no logical plan."""
        statement = bindable.statement
        try:
            plan = _work(request, partial(gather_subtrees, statement.bound, statement.predicates, sizes))
            is_whole = all(fragment.rule == GATHER for fragment in plan.fragments)
            taken = Fallback.GATHER_ALL if is_whole else Fallback.GATHER_SUBTREES
            log_fallback(taken, NotPlannedError("; ".join(plan.gathered) or "Not all of it is split."))
            return self._make_ready(request, bindable, plan, taken)
        except PLAN_REFUSALS as error:
            log_fallback(Fallback.GATHER_ALL, error)
        return self.gather_plan(request)

    def replace_refused(self, request: Request) -> ReadyPlan:
        """The plan of a statement whose plan a host refused at work; kept for it with just these parameters.

        With others no row may be refused, and gathering costs the most.

        Args:
            request: The statement.

        Returns:
            As `gather_plan`.

        Raises:
            LivestateError: The statement itself is refused.
        """
        found = self.gather_plan(request)
        if not any(pa.types.is_nested(found_type) for found_type in request.types):
            self._gathering.put(_values_key(request), found, _plan_bytes(request) + _values_bytes(request))
        return found

    def gather_plan(self, request: Request) -> ReadyPlan:
        """The plan that is always right, by which this host runs the statement whole over gathered rows; not
        kept.

        Args:
            request: The statement.

        Raises:
            LivestateError: The statement itself is refused.
        """
        bindable = self._local.bind(request)
        try:
            bound, predicates = bindable.statement.bound, bindable.statement.predicates
            plan = _work(request, partial(gather, bound, predicates))
            return self._make_ready(request, bindable, plan, Fallback.GATHER_ALL)
        except (NotBoundError, NotPlannedError) as error:
            # Plain rows of a store need no engine where they have their columns: only now it is asked.
            self._local.bind_on_engine(request)
            raise Defect(
                f"The statement is right, and the engine refuses it over gathered rows ({error}); please "
                "report the statement."
            ) from error

    def whole_text(self, request: Request) -> WholeText:
        """A whole statement as the text of one fragment.

        Args:
            request: As in `plan`.

        Raises:
            LivestateError: The statement itself is refused.
        """
        key = _Key(id(request.statement), tuple(map(str, request.types)), Sizes())
        found = self._wholes.get(key)
        if found is None or found.statement is not request.statement:
            found = self._make_whole(request)
            self._wholes.put(key, found, _plan_bytes(request))
        return found

    def _make_whole(self, request: Request) -> WholeText:
        statement = request.statement
        outputs = self._local.bind(request).outputs
        schema = None if outputs is None else outputs.schema
        bound, types = statement.bound, request.types
        if not isinstance(bound.tree, exp.Query):
            return WholeText(statement, None, schema)  # PIVOT and SUMMARIZE are no text of a fragment
        try:
            text = _whole_text(statement)
            inputs = {name: bound.list_schemas[name] for name in text.tables}
            found = self._fragments.bind(
                text.sql,
                bound.definitions,
                inputs,
                [types[index] for index in text.parameter_indexes],
                request.deadline,
            )
        except PLAN_REFUSALS as error:
            log_fallback(Fallback.SPLIT, error)
            return WholeText(statement, None, schema)
        return WholeText(
            statement, text if schema is None or found.outputs.schema.types == schema.types else None, schema
        )

    def _make_ready(
        self, request: Request, bindable: BindableStatement, split_plan: SplitPlan, *fallbacks: Fallback
    ) -> ReadyPlan:
        bound, wanted = bindable.statement.bound, bindable.outputs
        types, deadline = request.types, request.deadline
        lists = tuple(bound.list_schemas)
        # Where rows make the columns there is nothing to tell of the merge; nor where it is the statement as
        # it stands, whose columns may hang on values.
        with_merge = wanted is not None and not (types and Fallback.GATHER_ALL in fallbacks)
        texts, merge, outputs, merged = self._find_types(
            split_plan, bound, types, deadline, with_merge=with_merge
        )
        columns = {name: found.columns for name, found in outputs.items()}
        fragments = []
        for fragment in split_plan.fragments:
            inputs = {name: columns[name] for name in fragment.inputs}
            text = fragment_text(fragment.tree, texts[fragment.name], fragment.references, inputs, lists)
            fragments.append(ReadyFragment(fragment, text, outputs[fragment.name]))
        if split_plan.merge is None or merge is None:
            last = fragments[-1]
            given = (
                None
                if wanted is None or last.outputs.schema.types == wanted.schema.types
                else _cast_text(last, wanted.columns)
            )
            flows = given is not None
        else:
            given = merge_text(
                split_plan.merge, merge, columns, lists, types, _columns_to_cast(wanted, merged)
            )
            flows = bool(fragments) and is_read_once(split_plan.merge, fragments[-1].fragment.name)
        return ReadyPlan(
            request.statement,
            bindable.statement,
            split_plan,
            None if wanted is None else wanted.schema,
            tuple(fragments),
            given,
            flows,
            (*bindable.fallbacks, *fallbacks),
        )

    def _find_types(
        self,
        split_plan: SplitPlan,
        bound: BoundStatement,
        types: Types,
        deadline: Deadline,
        *,
        with_merge: bool,
    ) -> tuple[Mapping[str, str], str | None, Mapping[str, Outputs], Outputs | None]:
        """The texts of fragments by name and that of the merge, by which their columns can be told; and these
        columns.
        """
        # To split a long statement has taken its time.
        deadline.check()
        stand_ins = tuple(StandIn) if types else (StandIn.SUBQUERY,)
        for stand_in in stand_ins:
            texts = {
                fragment.name: text_over_scans(fragment.tree, types, stand_in)
                for fragment in split_plan.fragments
            }
            merge = None if split_plan.merge is None else text_over_scans(split_plan.merge, types, stand_in)
            try:
                outputs, merged = fragment_types(
                    self._engine.binder,
                    split_plan.fragments,
                    texts,
                    merge if with_merge else None,
                    bound.references,
                    bound.list_schemas,
                    deadline,
                )
            except NotBoundError as error:
                if stand_in is stand_ins[-1]:
                    if types:
                        raise NotPlannedError("Values of parameters decide what it is.") from error
                    raise
            else:
                return texts, merge, outputs, merged
        raise AssertionError("the last way is refused, or returns")


def _work(request: Request, plan: Callable[[], Made]) -> Made:
    """What planning makes of a statement, as `work_on_text`."""
    return work_on_text(request.statement.bound.source.text, plan, request.deadline)


def _values_key(request: Request) -> tuple[int, tuple[pa.Scalar, ...]]:
    return id(request.statement), request.arguments.parameters


def _plan_bytes(request: Request) -> int:
    """About what a plan takes. Lists that were lifted out of the text are no part of it."""
    return statement_bytes(request.statement.bound.source.text)


def _values_bytes(request: Request) -> int:
    """What the values of a request take that can be long."""
    buffers = (value.as_buffer() for value in request.arguments.parameters if hasattr(value, "as_buffer"))
    return sum(buffer.size for buffer in buffers if buffer is not None)


def _columns_to_cast(wanted: Outputs | None, merged: Outputs | None) -> tuple[ReadColumn, ...] | None:
    """The columns of the unsplit statement, if the merge has other types by itself."""
    if wanted is None or merged is None:
        return None
    if len(merged.columns) != len(wanted.columns):
        raise Defect(
            f"A merge has {len(merged.columns)} columns, and its statement {len(wanted.columns)}; please "
            "report the statement."
        )
    return None if merged.schema.types == wanted.schema.types else wanted.columns


def _cast_text(fragment: ReadyFragment, columns: tuple[ReadColumn, ...]) -> QueryText:
    """A merge that does nothing but give a fragment's columns other types."""
    name = fragment.fragment.name
    tree = exp.select("*").from_(exp.Table(this=exp.to_identifier(name, quoted=True)))
    return merge_text(tree, text_over_scans(tree, ()), {name: fragment.outputs.columns}, (), (), columns)


def _whole_text(statement: ReadyStatement) -> QueryText:
    """A whole statement as it travels."""
    bound = statement.bound
    return fragment_text(_query_of(bound), statement.sql, bound.references, {}, tuple(bound.list_schemas))


def _query_of(bound: BoundStatement) -> exp.Query:
    assert isinstance(bound.tree, exp.Query)
    return bound.tree


def _one_store_plan(statement: ReadyStatement, bindable: BindableStatement) -> ReadyPlan:
    """Plain rows, or the count, of one store: each host answers for its own."""
    runs, outputs = bindable.statement, bindable.outputs
    assert outputs is not None
    rule = ROWS_RULE if isinstance(runs.plan, RowsPlan) else COUNT_RULE
    fragment = Fragment(f"{PART_PREFIX}0", _query_of(runs.bound), runs.bound.references, (), rule)
    ready = ReadyFragment(fragment, _whole_text(runs), outputs)
    return ReadyPlan(statement, runs, SplitPlan((rule,), (fragment,), None), outputs.schema, (ready,), None)
