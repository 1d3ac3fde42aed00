"""Plans a resolved statement: which of its queries hosts work out, in which order, and what is left to the
coordinator.

The planner walks a statement's queries and keeps the fragments; what may become of a query the rules say,
which it is given in their order (`engine.plan.split.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.plan import LogicalPlan
from engine.plan.logical.selects import is_aggregating, sources_of, where_of
from engine.plan.logical.trees import (
    PART_PREFIX,
    drop_clauses,
    expressions_of,
    free_aliases,
    own_queries,
    tables_of,
    text,
    unique_name,
)
from engine.plan.split.correlated import Frame
from engine.plan.split.joins import known_types
from engine.plan.split.nodes import Fragment, SelectSplit, SplitPlan
from engine.plan.split.numeric import note_types
from engine.plan.split.pieces import Piece, put_in_place
from engine.plan.split.place import Placer, scans_of
from engine.plan.split.placement import Everywhere, Spread
from engine.plan.split.sizes import Estimator, Sizes

COORDINATOR = "coordinator"


class NotPlannedError(Exception):
    """No rule takes a statement apart completely."""


@dataclass(frozen=True)
class SplitAnswer:
    """A query over fragments' rows.

    Attributes:
        tree: The query.
        part: Name of the fragment whose rows it gives unchanged; None if it does more.
        rule: Name of the rule that made it.
    """

    tree: exp.Query
    part: str | None
    rule: str


@dataclass(frozen=True)
class StatementRule:
    """Changes the whole statement before any of its queries is looked at.

    Attributes:
        name: Its name.
        apply: Changes the planner's statement.
    """

    name: str
    apply: Callable[[Planner], None]


@dataclass(frozen=True)
class SelectRule:
    """Makes a SELECT ready, given the SELECTs around it: what hosts cannot do with the rest is worked out
    before.

    Attributes:
        name: Its name.
        apply: Changes the SELECT.
    """

    name: str
    apply: Callable[[Planner, exp.Select, Sequence[Frame]], None]


@dataclass(frozen=True)
class AnswerRule:
    """Answers a query that is ready.

    Attributes:
        name: Its name.
        apply: Gives the answer; None, and nothing changed, where the rule does not know one.
    """

    name: str
    apply: Callable[[Planner, exp.Query], SplitAnswer | None]


@dataclass(frozen=True)
class PhaseRule:
    """Answers a SELECT that is ready, and whose FROM and WHERE hosts work out alone, in two phases.

    Attributes:
        name: Its name.
        apply: Splits a SELECT whose partial rows are in a table of a given name; None where the rule does not
            know how.
    """

    name: str
    apply: Callable[[exp.Select, str], SelectSplit | None]


@dataclass(frozen=True)
class PlanRule:
    """Betters a plan.

    Attributes:
        name: Its name.
        apply: Gives a plan for the same rows.
    """

    name: str
    apply: Callable[[SplitPlan], SplitPlan]


Rule = StatementRule | SelectRule | AnswerRule | PhaseRule | PlanRule


@dataclass
class Planner:
    """Plans one statement, whose resolved trees it changes in place.

    Attributes:
        logical: The statement.
        sizes: How big stores are.
        rules: The rules, in the order in which they are tried.
        fragments: The fragments so far, in order.
        placer: Says where the rows of queries are.
        estimator: Says how many bytes rows are.
    """

    logical: LogicalPlan
    sizes: Sizes
    rules: Sequence[Rule]
    fragments: list[Fragment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.placer = Placer(self.logical.references, dict(self.logical.ctes), self.logical.has_volatile)
        self.estimator = Estimator(self.sizes, self.logical.references, self.placer.ctes)
        self._known: dict[tuple[object, ...], str] = {}
        self._stores = {
            scan: reference.definition.name for scan, reference in self.logical.references.items()
        }

    def plan(self) -> SplitPlan:
        """Plan the whole statement.

        Returns:
            The plan.

        Raises:
            NotPlannedError: A store is still read where only fragments' rows can be.
        """
        for rule in self.rules:
            if isinstance(rule, StatementRule):
                rule.apply(self)
        self.prepare(self.logical.tree, ())
        plan = self._plan_of(self.answer(self.logical.tree))
        for rule in self.rules:
            if isinstance(rule, PlanRule):
                plan = rule.apply(plan)
        return plan

    def _plan_of(self, answer: SplitAnswer) -> SplitPlan:
        """The fragments and what is made of them."""
        rules = [fragment.rule for fragment in self.fragments]
        if (
            answer.part is not None
            and not self.fragments[-1].is_local
            and answer.part == self.fragments[-1].name
        ):
            return SplitPlan(tuple(rules), tuple(self.fragments), None)
        self._check_is_local(answer.tree)
        return SplitPlan((*rules, answer.rule), tuple(self.fragments), self._attach_ctes(answer.tree))

    def prepare(self, query: exp.Expr, frames: Sequence[Frame]) -> None:
        """Make a query ready to be answered, or to be a part of another that is.

        Args:
            query: The query; changed in place.
            frames: The SELECTs around it.
        """
        if isinstance(query, exp.Subquery):
            self.prepare(query.this, frames)
        elif isinstance(query, exp.SetOperation):
            self.prepare(query.this, frames)
            self.prepare(query.args["expression"], frames)
        elif isinstance(query, exp.Select):
            for rule in self.rules:
                if isinstance(rule, SelectRule):
                    rule.apply(self, query, frames)

    def answer(self, query: exp.Query) -> SplitAnswer:
        """A query over fragments' rows that gives what a prepared query gives, by the first rule that knows
        one.

        Args:
            query: The query, which the answer takes over.

        Returns:
            The answer.

        Raises:
            NotPlannedError: No rule knows one.
        """
        if isinstance(query, exp.Subquery):
            return self.answer(query.this)
        has_rows: bool | None = None
        for rule in self.rules:
            found: SplitAnswer | None = None
            if isinstance(rule, AnswerRule):
                found = rule.apply(self, query)
            elif isinstance(rule, PhaseRule) and isinstance(query, exp.Select):
                has_rows = self._note_spread_rows(query) if has_rows is None else has_rows
                found = self.split_select(rule.apply(query, self.next_name())) if has_rows else None
            if found is not None:
                return found
        raise NotPlannedError("No rule answers one of its queries.")

    def _note_spread_rows(self, select: exp.Select) -> bool:
        """Whether hosts work out a SELECT's FROM and WHERE alone; if so, types are noted on its columns."""
        items = self.placer.items(select)
        if not isinstance(self.placer.rows(select, (), items), Spread):
            return False
        note_types(select, known_types(items))
        return True

    def reads_stores(self, query: exp.Expr) -> bool:
        """Whether a tree reads a store, itself or by a common table expression."""
        return any(True for _ in scans_of(query, self.logical.references, self.placer.ctes))

    def _check_is_local(self, tree: exp.Query) -> None:
        if self.reads_stores(tree):
            raise NotPlannedError("A store is read where only rows of fragments are.")

    # Fragments

    def add_fragment(self, tree: exp.Query, rule: str, types: Mapping[str, pa.DataType]) -> str:
        """A fragment of a query, which takes it over; returns the name of its rows."""
        whole = self._attach_ctes(tree)
        tables = {each.name for each in tables_of(whole)}
        # In the statement's order: that of a tree's nodes is not the same in every process.
        inputs = tuple(part for part in self.placer.parts if part in tables)
        name = f"{PART_PREFIX}{len(self.fragments)}"
        references = tuple(reference for scan, reference in self.logical.references.items() if scan in tables)
        self.fragments.append(Fragment(name, whole, references, inputs, rule if references else COORDINATOR))
        self.placer.parts[name] = types
        return name

    def next_name(self) -> str:
        """The name of the next fragment."""
        return f"{PART_PREFIX}{len(self.fragments)}"

    def new_alias(self, name: str) -> str:
        """An alias that the statement has not, like a name."""
        alias = unique_name(name, self.logical.aliases)
        self.logical.aliases.add(alias)
        return alias

    def _attach_ctes(self, tree: exp.Query) -> exp.Query:
        """A query together with copies of the common table expressions that it reads."""
        if not self.placer.ctes:
            return tree
        wanted: set[str] = set()
        pending: list[exp.Expr] = [tree]
        while pending:
            for found in tables_of(pending.pop()):
                if found.name in self.placer.ctes and found.name not in wanted:
                    wanted.add(found.name)
                    pending.append(self.placer.ctes[found.name])
        if wanted:
            ctes = [
                exp.CTE(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
                for name, query in self.placer.ctes.items()
                if name in wanted
            ]
            tree.set("with_", exp.With(expressions=ctes))
        return tree

    def materialise(self, query: exp.Query) -> str:
        """The name of a fragment with a query's rows."""
        types = self.placer.relation(query).types
        answer = self.answer(query)
        if answer.part is not None:
            return answer.part
        self._check_is_local(answer.tree)
        return self.add_fragment(answer.tree, answer.rule, types)

    def put_piece(self, select: exp.Select, piece: Piece, rule: str) -> str:
        """Let a SELECT read a piece of its FROM clause from a fragment.

        Args:
            select: The SELECT; changed in place.
            piece: The piece.
            rule: Name of the rule that cut it.

        Returns:
            The fragment's name; pieces that read the same of stores are one fragment.
        """
        key = self._store_rows(piece)
        part = self._known.get(key) if key is not None else None
        if part is None:
            part = self.add_fragment(piece.query, rule, self.placer.types(piece.query))
            if key is not None:
                self._known[key] = part
            self.estimator.note(part, piece.query)
        else:
            self._add_scans_to(part, [source.name for source in sources_of(piece.query)])
        put_in_place(select, piece, part)
        return part

    def _add_scans_to(self, part: str, scans: Sequence[str]) -> None:
        """Let a fragment stand for more scans of its stores: what the statement says of these may leave other
        partitions.
        """
        (index,) = (index for index, fragment in enumerate(self.fragments) if fragment.name == part)
        fragment = self.fragments[index]
        wanted = {*scans, *(reference.scan for reference in fragment.references)}
        references = tuple(reference for name, reference in self.logical.references.items() if name in wanted)
        self.fragments[index] = replace(fragment, references=references)

    def _store_rows(self, piece: Piece) -> tuple[object, ...] | None:
        """What a piece reads, if that is stores; pieces that read the same can be one fragment."""
        tables = sources_of(piece.query)
        if (
            any(each.name not in self._stores for each in tables)
            or len(list(piece.query.find_all(exp.Query))) > 1
        ):
            return None
        places = {each.alias: str(place) for place, each in enumerate(tables)}
        stores = tuple(self._stores[each.name] for each in tables)
        outputs = sorted((places[alias], name, output) for (alias, name), output in piece.names.items())
        conditions = [condition.copy() for condition in where_of(piece.query)]
        for found in (each for condition in conditions for each in condition.find_all(exp.Column)):
            if found.table in places:
                found.set("table", exp.to_identifier(places[found.table], quoted=True))
        return stores, tuple(outputs), *map(text, conditions)

    def split_select(self, split: SelectSplit | None, prefix: str = "") -> SplitAnswer | None:
        """Take a SELECT in two phases, if the merge reads nothing but fragments' rows and hosts can do their
        part.

        Args:
            split: The phases; None for none.
            prefix: What comes before the rule's name.

        Returns:
            The answer; None if there is none.
        """
        if split is None or self.reads_stores(split.merge):
            return None
        aggregating = is_aggregating(split.partial)
        # What these clauses leave out or put together on a host, the merge does again for all hosts.
        rows = drop_clauses(split.partial, ("order", "limit", "distinct", "group"))
        if not aggregating and not isinstance(self.placer.relation(rows).placement, Spread):
            return None
        after_where = (part for part in expressions_of(split.partial) if not isinstance(part, exp.Where))
        if aggregating and not all(
            self._is_everywhere(query) for part in after_where for query in own_queries(part)
        ):
            return None
        rule = f"{prefix}{split.rule}"
        self.add_fragment(split.partial, rule, {})
        return SplitAnswer(split.merge, None, f"{rule} merge")

    def _is_everywhere(self, query: exp.Query) -> bool:
        return not free_aliases(query) and isinstance(self.placer.relation(query).placement, Everywhere)
