"""A statement that cannot be split whole: its queries that can be split on their own are, and only the rest
is gathered.

A query is split on its own if all its names are certain and it reads nothing of the queries around it, but
for common table expressions. Then it has one answer, whatever is around it, and what it stands in reads that
answer in its place, under the same names:

- The largest such queries are taken: subqueries, derived tables, branches of set operations, and common table
  expressions that what is gathered still reads. A query takes the common table expressions that it reads
  along; one that several read must give all of them the same rows.
- What the coordinator has to do for such a query stays in its place, so that its rows need not be held.
- Constants among its outputs are written down again, since the engine gives a literal a type by what it
  meets.
- Volatile queries stay where they are: how often they are worked out could be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.logical_plan import MAX_REFERENCES, query_plan
from engine.plan.logical.outputs import asks_only_for_rows, has_made_up_names
from engine.plan.logical.plan import LogicalPlan
from engine.plan.logical.scopes import Scope, Source, Uncertain
from engine.plan.logical.trees import (
    PART_PREFIX,
    column,
    named_output,
    output_names,
    select_from,
    table,
    tables_of,
)
from engine.plan.predicates import Predicate
from engine.plan.split.gather_stores import gather_rest
from engine.plan.split.nodes import Fragment, SplitPlan
from engine.plan.split.place import scans_of
from engine.plan.split.planner import NotPlannedError, Planner, Rule
from engine.plan.split.rules import RULES
from engine.plan.split.rules.common_tables import is_repeatable
from engine.plan.split.rules.subqueries import ask_for_less, holder_of
from engine.plan.split.sizes import Sizes
from engine.sql.bind import BoundStatement
from engine.sql.output_names import name_outputs_around
from engine.sql.tree_copies import copy_without_positions

RULE = "subtrees"
_MOST_TRIES = 64
"""How many queries are tried: each that fails is looked at once more from inside."""
_NAMING = (exp.From, exp.Join, exp.Lateral, exp.CTE, exp.SetOperation, exp.Subquery, exp.Pivot)
"""What passes the names of a query's columns on; expressions do not."""
_AROUND = "around"
"""Alias of the tables that a query sees of the SELECTs around it."""
_Withs = tuple[exp.With, ...]


def gather_subtrees(
    bound: BoundStatement, predicates: Sequence[Predicate], sizes: Sizes, rules: Sequence[Rule] = RULES
) -> SplitPlan:
    """Split those queries of a statement that can be split on their own, and gather the rest.

    Args:
        bound: A statement without a logical plan.
        predicates: For each of its references, what holds for every row that can matter.
        sizes: How big stores are.
        rules: What is tried for each query, in this order.

    Returns:
        The plan. Without such a query it is that of `engine.plan.split.gather_stores`, with the reasons.

    Raises:
        NotPlannedError: The statement is too large, or too deep, to be looked at in parts.
    """
    if bound.tree is None or len(bound.references) > MAX_REFERENCES:
        raise NotPlannedError("It is too large to be split in parts.")
    if any(fold(cte.alias).startswith(PART_PREFIX) for cte in bound.tree.find_all(exp.CTE)):
        raise NotPlannedError("A common table expression is named like rows of a fragment.")
    try:
        splitter = _Splitter(bound, sizes, rules)
        splitter.split()
        plan = gather_rest(bound, splitter.tree, predicates, splitter.fragments)
    except RecursionError as error:
        raise NotPlannedError("It nests too deeply.") from error
    names = (*plan.rules, f"{RULE} merge") if splitter.fragments else plan.rules
    return replace(plan, rules=names, gathered=splitter.reasons(plan.fragments[len(splitter.fragments) :]))


class _Splitter:
    """Splits the queries of one statement.

    Attributes:
        tree: The statement, with rows of fragments in the places of queries that are split.
        fragments: The fragments so far.
    """

    def __init__(self, bound: BoundStatement, sizes: Sizes, rules: Sequence[Rule]) -> None:
        assert bound.tree is not None
        self.tree = copy_without_positions(bound.tree)
        self.fragments: list[Fragment] = []
        self._bound = bound
        self._sizes = sizes
        self._rules = rules
        self._readers = [fold(found.name) for found in tables_of(bound.tree)]
        self._references = {reference.scan: reference for reference in bound.references}
        self._tries = 0
        self._made: set[int] = set()
        self._failures: list[tuple[exp.Expr, str]] = []

    def split(self) -> None:
        """Split what can be split."""
        if isinstance(self.tree, exp.Query):
            try:
                query_plan(self._bound, self.tree, (), None)
            except Uncertain as error:
                self._failures.append((self.tree, str(error)))
        self._visit(self.tree, ())

    def reasons(self, gathered: Sequence[Fragment]) -> tuple[str, ...]:
        """Why references are gathered.

        Args:
            gathered: Fragments of their rows, which the tree reads by now.
        """
        found: dict[str, None] = {}
        stores = {each.name: each.references[0].definition.name for each in gathered}
        reasons = {id(node): reason for node, reason in self._failures}
        for node in tables_of(self.tree):
            around: exp.Expr | None = node
            while around is not None and id(around) not in reasons:
                around = around.parent
            if around is not None and node.name in stores:
                found[f"{stores[node.name]} AS {node.alias_or_name}, because of {reasons[id(around)]}"] = None
        return tuple(found)

    def _visit(self, node: exp.Expr, withs: _Withs) -> None:
        """Split the largest queries below a node that can be."""
        clause = node.args.get("with_")
        inside = withs if clause is None else (*withs, clause.copy())
        # The values that a PIVOT turns into columns must stay as they are written.
        children = [node.this] if isinstance(node, exp.Pivot) else list(node.iter_expressions())
        for child in children:
            if child is clause or not isinstance(child, exp.Expr) or isinstance(child, exp.Lambda):
                continue
            if not (isinstance(child, exp.Select | exp.SetOperation) and self._replace_query(child, inside)):
                self._visit(child, inside)
        if clause is not None:
            self._visit_common_tables(node, clause, inside)

    def _visit_common_tables(self, node: exp.Expr, clause: exp.With, withs: _Withs) -> None:
        """Split common table expressions that are still read, and leave out those that are not."""
        for cte in reversed(list(clause.expressions)):
            own = {id(found) for found in tables_of(cte)}
            if not any(
                fold(found.name) == fold(cte.alias) and id(found) not in own and not self._is_made(found)
                for found in tables_of(self.tree)
            ):
                clause.set("expressions", [each for each in clause.expressions if each is not cte])
            elif not self._replace_query(cte.this, withs):
                self._visit(cte.this, withs)
        if not clause.expressions:
            node.set("with_", None)

    def _is_made(self, node: exp.Expr | None) -> bool:
        """Whether a node stands in what took the place of a query."""
        while node is not None and id(node) not in self._made:
            node = node.parent
        return node is not None

    def _replace_query(self, query: exp.Query, withs: _Withs) -> bool:
        """Put rows of fragments in the place of a query; whether it can be split on its own."""
        if isinstance(query, exp.Select) and asks_only_for_rows(query):
            query.set("expressions", [exp.Literal.number(1)])
        plan = self._try_plan(query, withs)
        if plan is None:
            return False
        ask_for_less(plan.tree, query)
        names, constants = output_names(plan.tree), _constants(plan.tree)
        try:
            found = Planner(plan, self._sizes, self._rules, list(self.fragments)).plan()
        except NotPlannedError as error:
            self._failures.append((query, str(error)))
            return False
        self.fragments = list(found.fragments)
        alias = f"{RULE}_rows"
        if found.merge is None:
            source: exp.Expr = table(self.fragments[-1].name, alias)
            columns = output_names(self.fragments[-1].tree)
        else:
            columns = names
            source = exp.Subquery(
                this=found.merge,
                alias=exp.TableAlias(
                    this=exp.to_identifier(alias, quoted=True),
                    columns=[exp.to_identifier(name, quoted=True) for name in columns],
                ),
            )
        outputs = [
            named_output(constants.get(place) or column(alias, known), name)
            for place, (known, name) in enumerate(zip(columns, names, strict=True))
        ]
        name_outputs_around([query])
        made = select_from(outputs, source)
        query.replace(made)
        self._made.add(id(made))
        return True

    def _try_plan(self, query: exp.Query, withs: _Withs) -> LogicalPlan | None:
        """The plan of a query that reads a store and can be planned on its own; None of others."""
        if self._tries == _MOST_TRIES or not self._may_read_stores(query, withs):
            return None
        self._tries += 1
        try:
            plan = query_plan(self._bound, query, withs, self._scope_around(query))
            if not any(True for _ in scans_of(plan.tree, self._references, plan.ctes)):
                return None
            self._check_plan(plan, query, withs)
        except Uncertain as error:
            self._failures.append((query, str(error)))
            return None
        return plan

    def _scope_around(self, query: exp.Query) -> Scope | None:
        """What a query may see of the SELECTs around it; None for nothing."""
        scope: Scope | None = None
        node: exp.Expr = query
        path = {id(query)}
        while node.parent is not None and not isinstance(node.parent, exp.CTE):
            node = node.parent
            path.add(id(node))
            if isinstance(node, exp.Select):
                found = Scope()
                for table_node in _tables_of_from(node):
                    if id(table_node) not in path:
                        found.sources.append(self._source(table_node))
                for output in node.expressions:
                    if isinstance(output, exp.Alias) and id(output) not in path:
                        found.add_output(output.alias, output.this)
                scope = _outermost_added(scope, found)
        return scope

    def _source(self, node: exp.Expr) -> Source:
        reference = self._references.get(node.name)
        columns = None if reference is None else tuple(reference.definition.schema.names)
        return Source(_AROUND, fold(node.alias_or_name), columns)

    def _may_read_stores(self, query: exp.Query, withs: _Withs) -> bool:
        known = {fold(cte.alias) for clause in withs for cte in clause.expressions}
        return any(found.name in self._references or fold(found.name) in known for found in tables_of(query))

    def _check_plan(self, plan: LogicalPlan, query: exp.Query, withs: _Withs) -> None:
        """Refuse a query whose answer depends on what is around it, or whose columns get other names."""
        if plan.has_volatile:
            raise Uncertain("a volatile function")
        if has_made_up_names(plan.tree) and _passes_names_on(query, len(output_names(plan.tree))):
            raise Uncertain("an output without a name")
        shared = [
            cte.alias
            for clause in withs
            for cte in clause.expressions
            if self._readers.count(fold(cte.alias)) > 1
        ]
        if shared and not all(
            is_repeatable(each) and each.find(exp.Limit, exp.Offset) is None for each in plan.ctes.values()
        ):
            raise Uncertain(shared[0])


def _tables_of_from(select: exp.Select) -> list[exp.Expr]:
    clause = select.args.get("from_")
    holders = [*([clause] if clause is not None else []), *(select.args.get("joins") or ())]
    return [*(holder.this for holder in holders), *(select.args.get("laterals") or ())]


def _outermost_added(scope: Scope | None, outermost: Scope) -> Scope:
    """A scope, with one more around all of it."""
    if scope is None:
        return outermost
    return replace(scope, outer=_outermost_added(scope.outer, outermost))


def _passes_names_on(query: exp.Query, width: int) -> bool:
    """Whether the names of a query's columns can be seen around it."""
    holder = holder_of(query)
    if not isinstance(holder, _NAMING):
        return False
    if isinstance(holder, exp.SetOperation) and not holder.args.get("by_name"):
        return not any(holder.args["expression"] is each for each in (query, query.parent))
    aliases = (node.args.get("alias") for node in (query.parent, holder) if node is not None)
    return all(alias is None or len(alias.args.get("columns") or ()) < width for alias in aliases)


def _constants(query: exp.Query) -> dict[int, exp.Expr]:
    """The literals among the outputs of a SELECT, by their places."""
    if not isinstance(query, exp.Select):
        return {}
    return {
        place: output.this.copy()
        for place, output in enumerate(query.expressions)
        if isinstance(output.this, exp.Literal | exp.Null)
    }
