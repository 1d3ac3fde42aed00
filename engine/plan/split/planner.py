"""Plans a resolved statement: which of its queries hosts work out, in which order, and what is left to the
coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from engine.plan.split.broadcast import to_broadcast
from engine.plan.split.co_partitioned import RULE as CO_PARTITIONED
from engine.plan.split.co_partitioned import is_aggregating, windows_of
from engine.plan.split.correlated import Frame
from engine.plan.split.distinct import distinct
from engine.plan.split.functions import is_aggregate
from engine.plan.split.gather import RULE as GATHER
from engine.plan.split.implied import spell_out
from engine.plan.split.joins import (
    Item,
    components,
    connecting,
    connections,
    is_inner_only,
    known_types,
    place_joins,
)
from engine.plan.split.nodes import PART_PREFIX, Fragment, SelectSplit, SplitPlan
from engine.plan.split.numeric import note_types
from engine.plan.split.pieces import Piece, conditions_into_where, cut, put_in_place, single
from engine.plan.split.place import Placer, scans_of, where_of
from engine.plan.split.placement import Everywhere, Spread
from engine.plan.split.resolve import Resolved, output_names
from engine.plan.split.semi_join import Donor, reductions
from engine.plan.split.sizes import Estimator, Sizes
from engine.plan.split.top_k import top_k
from engine.plan.split.trees import (
    column,
    expressions_of,
    free_aliases,
    named,
    own_queries,
    select_from,
    table,
    tables_of,
    text,
    unique,
    used,
    without,
)
from engine.plan.split.two_phase import two_phase

COORDINATOR = "coordinator"
BROADCAST = "broadcast"
_TIMES = 2
"""How many times the bytes of known rows those of a table must be to send the known rows to it."""
_REDUCED_BY = 4
"""What part of a table may have a partner among known rows."""
_LAST = ("order", "limit", "offset")
"""Clauses that see all rows of a query, whatever makes them."""
_STABLE = (exp.Count, exp.CountIf, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr)


class NotPlannedError(Exception):
    """No rule takes a statement apart completely."""


@dataclass(frozen=True)
class Answer:
    """A query over fragments' rows.

    Attributes:
        tree: The query.
        part: Name of the fragment whose rows it gives unchanged; None if it does more.
        rule: Name of the rule that made it.
    """

    tree: exp.Query
    part: str | None
    rule: str


@dataclass
class Planner:
    """Plans one statement, whose resolved trees it changes in place.

    Attributes:
        resolved: The statement.
        sizes: How big stores are.
    """

    resolved: Resolved
    sizes: Sizes
    fragments: list[Fragment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._placer = Placer(self.resolved.references, dict(self.resolved.ctes), self.resolved.has_volatile)
        self._estimator = Estimator(self.sizes, self.resolved.references, self._placer.ctes)
        self._known: dict[tuple[str, ...], str] = {}
        self._stores = {
            scan: reference.definition.name for scan, reference in self.resolved.references.items()
        }

    def plan(self) -> SplitPlan:
        """Plan the whole statement.

        Returns:
            The plan.

        Raises:
            NotPlannedError: A store is still read where only fragments' rows can be.
        """
        tree = self.resolved.tree
        self._prepare_ctes(tree)
        self._prepare(tree, ())
        answer = self._answer(tree)
        rules = [fragment.rule for fragment in self.fragments]
        if (
            answer.part is not None
            and not self.fragments[-1].is_local
            and answer.part == self.fragments[-1].name
        ):
            return SplitPlan(tuple(rules), tuple(self.fragments), None)
        self._check_is_local(answer.tree)
        return SplitPlan((*rules, answer.rule), tuple(self.fragments), self._with_ctes(answer.tree))

    # Fragments

    def _add(self, tree: exp.Query, rule: str, types: Mapping[str, pa.DataType]) -> str:
        """A fragment of a query, which takes it over; returns the name of its rows."""
        whole = self._with_ctes(tree)
        tables = {each.name for each in tables_of(whole)}
        # In the statement's order: that of a tree's nodes is not the same in every process.
        inputs = tuple(part for part in self._placer.parts if part in tables)
        name = f"{PART_PREFIX}{len(self.fragments)}"
        references = tuple(
            reference for scan, reference in self.resolved.references.items() if scan in tables
        )
        self.fragments.append(Fragment(name, whole, references, inputs, rule if references else COORDINATOR))
        self._placer.parts[name] = types
        return name

    def _next_name(self) -> str:
        return f"{PART_PREFIX}{len(self.fragments)}"

    def _with_ctes(self, tree: exp.Query) -> exp.Query:
        """A query together with copies of the common table expressions that it reads."""
        if not self._placer.ctes:
            return tree
        wanted: set[str] = set()
        pending: list[exp.Expr] = [tree]
        while pending:
            for found in tables_of(pending.pop()):
                if found.name in self._placer.ctes and found.name not in wanted:
                    wanted.add(found.name)
                    pending.append(self._placer.ctes[found.name])
        if wanted:
            ctes = [
                exp.CTE(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
                for name, query in self._placer.ctes.items()
                if name in wanted
            ]
            tree.set("with_", exp.With(expressions=ctes))
        return tree

    # Making queries ready: what hosts cannot do with the rest is worked out before

    def _prepare_ctes(self, tree: exp.Query) -> None:
        """Each common table expression that hosts cannot work out in place, or whose readers must all see the
        same rows, becomes a fragment once.
        """
        self._drop_unread_ctes(tree)
        trees: list[exp.Query] = [tree, *self._placer.ctes.values()]
        for name, query in list(self._placer.ctes.items()):
            readers = [found for each in trees for found in tables_of(each) if found.name == name]
            if not readers:
                continue
            self._prepare(query, ())
            placement = self._placer.settle(query).placement
            if placement is not None and (
                len(readers) == 1 or all(map(_is_repeatable, self._with_those_read(query)))
            ):
                continue
            part = self._materialised(query)
            for found in readers:
                found.set("this", exp.to_identifier(part, quoted=True))

    def _drop_unread_ctes(self, tree: exp.Query) -> None:
        """Forget common table expressions that the statement never reads: to work them out can fail where the
        statement does not.
        """
        if not self._placer.ctes:
            return
        read = {id(query) for query in self._with_those_read(tree)}
        self._placer.ctes = {name: query for name, query in self._placer.ctes.items() if id(query) in read}

    def _with_those_read(self, query: exp.Query) -> list[exp.Query]:
        """A query and the common table expressions that it reads."""
        found, pending = [query], [query]
        while pending:
            for each in tables_of(pending.pop()):
                known = self._placer.ctes.get(each.name)
                if known is not None and not any(known is other for other in found):
                    found.append(known)
                    pending.append(known)
        return found

    def _prepare(self, query: exp.Expr, frames: Sequence[Frame]) -> None:
        if isinstance(query, exp.Subquery):
            self._prepare(query.this, frames)
        elif isinstance(query, exp.SetOperation):
            self._prepare(query.this, frames)
            self._prepare(query.args["expression"], frames)
        elif isinstance(query, exp.Select):
            spell_out(query)
            self._prepare_tables(query)
            self._broadcast(query, frames)
            self._prepare_subqueries(query, frames)

    def _prepare_tables(self, select: exp.Select) -> None:
        clause = select.args.get("from_")
        for holder in [*([clause] if clause is not None else []), *(select.args.get("joins") or ())]:
            node = holder.this
            if not isinstance(node, exp.Subquery) or free_aliases(node):
                continue
            self._prepare(node.this, ())
            if self._placer.settle(node.this).placement is None:
                holder.set("this", table(self._materialised(node.this), node.alias))

    def _prepare_subqueries(self, select: exp.Select, frames: Sequence[Frame]) -> None:
        joins = (
            join.args["on"] for join in select.args.get("joins") or () if join.args.get("on") is not None
        )
        queries = [query for part in (*expressions_of(select), *joins) for query in own_queries(part)]
        if not queries:
            return
        items = self._placer.items(select)
        placement = place_joins(items, where_of(select)) if items else Everywhere()
        inside = (*frames, Frame(placement or Everywhere(), known_types(items)))
        for query in queries:
            self._prepare(query, inside)
            if not free_aliases(query) and not self._placer.is_local(query, inside):
                self._replace_subquery(query)

    def _replace_subquery(self, query: exp.Query) -> None:
        """Let an expression read the rows of its uncorrelated subquery, which are worked out once."""
        holder = query.parent.parent if isinstance(query.parent, exp.Subquery) else query.parent
        if (
            isinstance(query, exp.Select)
            and used(query) <= {"expressions", "from_", "joins", "where"}
            and not _looks_at_many(query)
        ):
            if isinstance(holder, exp.In):
                # Membership does not count.
                query.set("distinct", exp.Distinct())
            elif isinstance(holder, exp.Exists):
                query.set("limit", exp.Limit(expression=exp.Literal.number(1)))
        names = output_names(query)
        parent, key, index = query.parent, query.arg_key, query.index
        part = self._materialised(query)
        alias = self._fresh(part)
        stand_in = select_from([named(column(alias, name), name) for name in names], table(part, alias))
        assert parent is not None and key is not None
        parent.set(key, stand_in, index)

    def _fresh(self, name: str) -> str:
        alias = unique(name, self.resolved.aliases)
        self.resolved.aliases.add(alias)
        return alias

    def _materialised(self, query: exp.Query) -> str:
        """The name of a fragment with a query's rows."""
        types = self._placer.relation(query).types
        answer = self._answer(query)
        if answer.part is not None:
            return answer.part
        self._check_is_local(answer.tree)
        return self._add(answer.tree, answer.rule, types)

    def _check_is_local(self, tree: exp.Query) -> None:
        if any(True for _ in scans_of(tree, self.resolved.references, self._placer.ctes)):
            raise NotPlannedError

    # Broadcast

    def _broadcast(self, select: exp.Select, frames: Sequence[Frame]) -> None:
        items = self._placer.items(select, frames)
        if sum(item.is_spread for item in items) < 2 or place_joins(items, where_of(select)) is not None:
            return
        inner = is_inner_only(items)
        where = [*where_of(select), *(condition for item in items for condition in item.on if inner)]
        about = [(condition, free_aliases(condition)) for condition in where] if inner else []
        chosen = to_broadcast(
            items, where, self.sizes.limit_bytes, lambda group: self._estimator.bytes_of(select, group, about)
        )
        if chosen and inner:
            conditions_into_where(select, items)
        for group in chosen:
            piece = (
                cut(select, group, self._placer, connections(group, where, known_types(items)))
                if inner
                else single(select, items, group[0], self._placer)
            )
            self._put(select, piece, BROADCAST)

    def _put(self, select: exp.Select, piece: Piece, rule: str) -> str:
        key = self._store_rows(piece)
        part = self._known.get(key) if key is not None else None
        if part is None:
            part = self._add(piece.query, rule, self._placer.types(piece.query))
            if key is not None:
                self._known[key] = part
            self._estimator.note(part, piece.query)
        else:
            self._read_for(part, piece.query.args["from_"].this.name)
        put_in_place(select, piece, part)
        return part

    def _read_for(self, part: str, scan: str) -> None:
        """Let a fragment stand for one more scan of its store: what the statement says of that scan may leave
        other partitions.
        """
        (place,) = (place for place, fragment in enumerate(self.fragments) if fragment.name == part)
        fragment = self.fragments[place]
        wanted = {scan, *(reference.scan for reference in fragment.references)}
        references = tuple(
            reference for name, reference in self.resolved.references.items() if name in wanted
        )
        self.fragments[place] = replace(fragment, references=references)

    def _store_rows(self, piece: Piece) -> tuple[str, ...] | None:
        """What a piece reads, if that is one store; pieces that read the same can be one fragment."""
        source = piece.query.args["from_"].this
        if (
            len(piece.aliases) > 1
            or source.name not in self._stores
            or len(list(piece.query.find_all(exp.Query))) > 1
        ):
            return None
        conditions = (
            text(condition).replace(f'"{source.alias}".', "") for condition in where_of(piece.query)
        )
        return self._stores[source.name], " ".join(sorted(piece.names.values())), *conditions

    # Answers

    def _answer(self, query: exp.Query) -> Answer:
        """A query over fragments' rows that gives what a prepared query gives."""
        if isinstance(query, exp.Subquery):
            return self._answer(query.this)
        if not any(True for _ in scans_of(query, self.resolved.references, self._placer.ctes)):
            return Answer(query, None, COORDINATOR)
        found = self._whole(query)
        if found is not None:
            return found
        if isinstance(query, exp.SetOperation):
            return self._branches(query)
        assert isinstance(query, exp.Select)
        return self._phases(query) or self._pieces(query)

    def _whole(self, query: exp.Query) -> Answer | None:
        """A query that hosts answer alone, but for its ORDER BY and LIMIT."""
        present = [part for part in _LAST if query.args.get(part) is not None]
        if "order" in present and _is_distinct_on(query):
            # The order also says which row of a key is left.
            return None
        relation = self._placer.relation(without(query, present) if present else query)
        if not isinstance(relation.placement, Spread):
            return None
        if not present:
            names = output_names(query)
            part = self._add(query, CO_PARTITIONED, relation.types)
            return Answer(_rows_of(part, names), part, CO_PARTITIONED)
        if isinstance(query, exp.Select) and not _looks_at_many(query):
            found = self._split(query, top_k(query, self._next_name()), "")
            if found is not None:
                return found
        plain = query.copy()
        clauses = {part: plain.args[part] for part in present}
        for part in present:
            plain.set(part, None)
        outer = self._around(plain, clauses)
        return (
            None
            if outer is None
            else self._split(outer, top_k(outer, self._next_name()), f"{CO_PARTITIONED}, ")
        )

    def _around(self, plain: exp.Query, clauses: Mapping[str, exp.Expr]) -> exp.Select | None:
        """A SELECT of a query's rows with its ORDER BY and LIMIT; sort keys that are no outputs become
        outputs of the query.
        """
        names = output_names(plain)
        alias = self._fresh("rows")
        order = clauses.get("order")
        for number, each in enumerate(order.expressions if order is not None else ()):
            key = each.this
            if isinstance(key, exp.Column) and not key.table:
                each.set("this", column(alias, next(name for name in names if name == key.name)))
                continue
            if not isinstance(plain, exp.Select) or plain.args.get("distinct") is not None:
                return None
            name = unique(f"__key_{number}", names)
            plain.append("expressions", named(key.copy(), name))
            each.set("this", column(alias, name))
        source = exp.Subquery(this=plain, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        outer = select_from([named(column(alias, name), name) for name in names], source)
        for part, clause in clauses.items():
            outer.set(part, clause)
        return outer

    def _phases(self, select: exp.Select) -> Answer | None:
        """A SELECT whose rows hosts have, in two phases."""
        items = self._placer.items(select)
        if not isinstance(self._placer.rows(select, (), items), Spread):
            return None
        note_types(select, known_types(items))
        for rule in (two_phase, distinct, top_k):
            found = self._split(select, rule(select, self._next_name()), "")
            if found is not None:
                return found
        return None

    def _split(self, select: exp.Select, split: SelectSplit | None, prefix: str) -> Answer | None:
        """Take a SELECT in two phases, if the merge reads nothing but fragments' rows and hosts can do their
        part.
        """
        if split is None or any(
            True for _ in scans_of(split.merge, self.resolved.references, self._placer.ctes)
        ):
            return None
        aggregating = is_aggregating(split.partial)
        rows = without(split.partial, ("order", "limit", "distinct", "group"))
        if not aggregating and not isinstance(self._placer.relation(rows).placement, Spread):
            return None
        after_where = (part for part in expressions_of(split.partial) if not isinstance(part, exp.Where))
        if aggregating and not all(
            self._is_known(query) for part in after_where for query in own_queries(part)
        ):
            return None
        rule = f"{prefix}{split.rule}"
        self._add(split.partial, rule, {})
        return Answer(split.merge, None, f"{rule} merge")

    def _is_known(self, query: exp.Query) -> bool:
        return not free_aliases(query) and isinstance(self._placer.relation(query).placement, Everywhere)

    def _branches(self, query: exp.SetOperation) -> Answer:
        """A set operation whose sides are answered each on its own."""
        for side in ("this", "expression"):
            answer = self._answer(query.args[side])
            needs_brackets = not isinstance(answer.tree, exp.Select) or bool(
                used(answer.tree) & {"order", "limit", "offset"}
            )
            query.set(side, exp.Subquery(this=answer.tree) if needs_brackets else answer.tree)
        return Answer(query, None, COORDINATOR)

    # Pieces

    def _pieces(self, select: exp.Select, donors: Sequence[Donor] = ()) -> Answer:
        """A SELECT over pieces of its FROM clause, which hosts work out."""
        items = self._placer.items(select)
        made = list(donors)
        if isinstance(place_joins(items, where_of(select)), Spread) and is_inner_only(items):
            made += self._cut_groups(select, items, [list(items)], made)
        elif is_inner_only(items):
            groups = [
                group
                for found in components(items, connecting(items, where_of(select)))
                for group in self._joined(select, items, found)
            ]
            made += self._cut_groups(select, items, groups, made)
        else:
            for item in items:
                if item.is_spread:
                    self._put(select, single(select, items, item, self._placer), GATHER)
        for part in [
            *expressions_of(select),
            *(
                holder
                for holder in (select.args.get("from_"), *(select.args.get("joins") or ()))
                if holder is not None
            ),
        ]:
            for query in list(own_queries(part)):
                self._local_subquery(query, made)
        return Answer(select, None, GATHER)

    def _joined(self, select: exp.Select, items: Sequence[Item], group: list[Item]) -> list[list[Item]]:
        """A group of tables, together if conditions about them alone connect them."""
        aliases = {item.alias for item in group}
        conditions = [*where_of(select), *(condition for item in items for condition in item.on)]
        about = [condition for condition in conditions if free_aliases(condition) <= aliases]
        return [group] if isinstance(place_joins(group, about), Spread) else [[item] for item in group]

    def _cut_groups(
        self, select: exp.Select, items: Sequence[Item], groups: list[list[Item]], donors: Sequence[Donor]
    ) -> list[Donor]:
        conditions_into_where(select, items)
        where = where_of(select)
        about = [(condition, free_aliases(condition)) for condition in where]
        estimates = {id(group): self._estimator.bytes_of(select, group, about) for group in groups}
        reduced = {id(group): self._estimator.is_reduced(group, where) for group in groups}
        made: list[Donor] = []
        for group in sorted(groups, key=lambda group: (not reduced[id(group)], estimates[id(group)])):
            aliases = {item.alias for item in group}
            known = {
                **known_types(items),
                **{name: kind for donor in donors for name, kind in donor.types.items()},
            }
            worthwhile = [donor for donor in (*donors, *made) if donor.bytes * _TIMES <= estimates[id(group)]]
            more = reductions(where_of(select), aliases, worthwhile, known)
            piece = cut(select, group, self._placer, more)
            part = self._put(select, piece, GATHER)
            if reduced[id(group)] or more:
                size = estimates[id(group)] / (_REDUCED_BY if more else 1)
                made.append(
                    Donor(
                        part,
                        piece.names,
                        next(iter(aliases)) if len(aliases) == 1 else part,
                        known_types(items),
                        size,
                    )
                )
        return [donor for donor in made if donor.bytes <= self.sizes.limit_bytes]

    def _local_subquery(self, query: exp.Query, donors: Sequence[Donor]) -> None:
        """Let a correlated subquery read fragments' rows; it stays with the coordinator."""
        if not any(True for _ in scans_of(query, self.resolved.references, self._placer.ctes)):
            return
        if isinstance(query, exp.Select):
            self._pieces(query, donors)
            return
        for branch in (query.this, query.args["expression"]):
            self._local_subquery(branch.this if isinstance(branch, exp.Subquery) else branch, donors)


def _looks_at_many(query: exp.Query) -> bool:
    """Whether a query makes its rows of several rows of its FROM clause."""
    if not isinstance(query, exp.Select):
        return True
    return is_aggregating(query) or bool(windows_of(query)) or query.args.get("distinct") is not None


def _is_distinct_on(query: exp.Expr) -> bool:
    distinct = query.args.get("distinct")
    return isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None


def _is_repeatable(query: exp.Expr) -> bool:
    """Whether a query gives the same rows however often it is worked out: not so where ties, or the order of
    a sum, decide.
    """
    return not any(
        isinstance(node, exp.Window)
        or (isinstance(node, exp.Distinct) and node.args.get("on") is not None)
        or (is_aggregate(node) and not isinstance(node, _STABLE))
        for node in query.walk()
    )


def _rows_of(part: str, names: Sequence[str]) -> exp.Select:
    return select_from([named(column(part, name), name) for name in names], table(part, part))
