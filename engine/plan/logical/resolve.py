"""A statement with nothing left to be guessed: every column qualified, every output named, every table under
a name of its own.

The resolved tree means what the statement means, but for the names of its outputs, which agree by place:

- every column is `"alias"."column"`, and no two tables of the statement have one alias, so a node may move
  without being caught by another name;
- stars are written out, USING and NATURAL are conditions, ordinals, aliases, `ALL` and named windows are what
  they stand for;
- every output of a SELECT has an alias, no two of them the same; ORDER BY names outputs by bare aliases,
  everything else by columns;
- common table expressions stand outside of the tree, each under a name of its own.

What DuckDB could understand in more than one way, or what is not known here, makes the whole statement
uncertain; it is then answered by `gather`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.function_properties import is_volatile
from engine.plan.logical.grouping import members_of_sets, write_out_groups
from engine.plan.logical.named_windows import write_out_windows
from engine.plan.logical.order_keys import (
    named_text,
    order_key_like,
    output_by_name,
    outputs_by_ordinal,
    value_by_ordinal,
)
from engine.plan.logical.outputs import (
    REPEATED,
    UNNAMED,
    asks_only_for_rows,
    check_outputs,
    name_of,
    names_left_out,
    rename_outputs,
)
from engine.plan.logical.plan import LogicalPlan
from engine.plan.logical.scopes import (
    Scope,
    Source,
    Uncertain,
    is_bare,
    is_resolved,
    mark_resolved,
    resolved_column,
)
from engine.plan.logical.shared_columns import write_out_using
from engine.plan.logical.trees import (
    EXPRESSION_CLAUSES,
    PART_PREFIX,
    UniqueNames,
    free_aliases,
    named_output,
    output_column,
    output_names,
    tables_of,
    text,
    unique_name,
    unwrap,
    used_arguments,
)
from engine.sql.bind import BoundStatement, StoreReference
from engine.sql.functions import ROW_MAKING_FUNCTIONS, function_name
from engine.sql.tree_copies import copy_without_positions

_SELECT_PARTS = frozenset({"with_", "from_", "joins", *EXPRESSION_CLAUSES})
_JOIN_PARTS = frozenset({"this", "side", "kind", "method", "on", "using"})
_UNKNOWN_NODES = (
    exp.Columns,
    exp.Comprehension,
    exp.PositionalColumn,
    exp.Pivot,
    exp.Lateral,
    exp.Explode,
    exp.Posexplode,
    exp.TableSample,
)
_UNKNOWN_FUNCTIONS = ROW_MAKING_FUNCTIONS | {"alias"}
_CLAUSES = ("where", "having", "group", "qualify")
"""HAVING before GROUP BY, as ALL stands for columns that it reads, too."""


def resolve(bound: BoundStatement) -> LogicalPlan | None:
    """Resolve the names of a statement.

    Args:
        bound: The statement; it is not changed.

    Returns:
        The resolved statement; None where something is uncertain.
    """
    if not isinstance(bound.tree, exp.Query):
        return None
    try:
        return resolve_query(bound, bound.tree)
    except Uncertain:
        return None


def resolve_query(
    bound: BoundStatement, query: exp.Query, withs: Sequence[exp.With] = (), outer: Scope | None = None
) -> LogicalPlan:
    """Resolve the names of one of a statement's queries.

    Args:
        bound: The statement.
        query: The query; it is not changed.
        withs: The WITH clauses around it, the outermost first.
        outer: What it sees of the SELECTs around it.

    Returns:
        The resolved query.

    Raises:
        Uncertain: Something in it is uncertain, or it reads something of the SELECTs around it.
    """
    resolver = _Resolver(bound.references, bound.list_schemas)
    visible: Mapping[str, str] = {}
    for clause in withs:
        visible = resolver.visible_ctes(clause, visible)
    tree = resolver.query(copy_without_positions(query), outer, visible)
    if outer is not None and free_aliases(tree):
        raise Uncertain("a row of another table")
    if withs:
        resolver.drop_unread_ctes(tree)
    nodes = [node for query in (tree, *resolver.ctes.values()) for node in query.walk()]
    for node in nodes:
        # Notes would be copied with every copy of the tree, empty ones too, which takes longer than all the
        # rest.
        node._meta = None  # noqa: SLF001 - `meta` makes empty notes
    return LogicalPlan(
        tree,
        resolver.ctes,
        resolver.references,
        resolver.aliases,
        any(map(is_volatile, nodes)),
        bound.list_schemas,
    )


@dataclass
class _Resolver:
    """Resolves one statement, whose tree it changes in place."""

    listed_references: tuple[StoreReference, ...]
    lists: Mapping[str, pa.Schema]
    ctes: dict[str, exp.Query] = field(default_factory=dict)
    aliases: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.references = {reference.scan: reference for reference in self.listed_references}
        self._table_names = {
            *self.references,
            *self.lists,
            *(reference.definition.name for reference in self.listed_references),
        }

    # Queries

    def query(self, node: exp.Expr, outer: Scope | None, ctes: Mapping[str, str]) -> exp.Query:
        """A resolved query; `ctes` are those that it sees, by the names that the statement has for them, in
        lower case.
        """
        ctes = self._with_clause(node, ctes)
        if isinstance(node, exp.Select):
            return self._select(node, outer, ctes)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, outer, ctes)
        if isinstance(node, exp.Subquery) and used_arguments(node) == {"this"}:
            return self.query(node.this, outer, ctes)
        raise Uncertain(node.key)

    def _with_clause(self, node: exp.Expr, ctes: Mapping[str, str]) -> Mapping[str, str]:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise Uncertain("RECURSIVE")
        visible = dict(ctes)
        for cte in clause.expressions:
            visible[fold(cte.alias)] = self._common_table(cte, visible)
        node.set("with_", None)
        return visible

    def _common_table(self, cte: exp.Expr, visible: Mapping[str, str]) -> str:
        """The name of a common table expression, whose query it takes over."""
        if used_arguments(cte) - {"this", "alias", "materialized"}:
            raise Uncertain(cte.alias)
        # Outside of its place it could not read what is around it.
        query = self.query(cte.this, None, visible)
        rename_outputs(query, [name.name for name in cte.args["alias"].args.get("columns") or ()])
        check_outputs(query)
        if fold(cte.alias).startswith(PART_PREFIX):
            raise Uncertain(cte.alias)
        name = unique_name(cte.alias, {*self.ctes, *self._table_names})
        self.ctes[name] = query
        return name

    def visible_ctes(self, clause: exp.With, ctes: Mapping[str, str]) -> Mapping[str, str]:
        """What a query below a WITH clause sees of it: those of its queries that are certain; names of others
        mean nothing.
        """
        visible = dict(ctes)
        if clause.args.get("recursive"):
            # Any of these names may mean a query of the clause before it is known.
            for cte in clause.expressions:
                visible.pop(fold(cte.alias), None)
        for cte in clause.expressions:
            try:
                found = self._common_table(copy_without_positions(cte), visible)
            except Uncertain:
                visible.pop(fold(cte.alias), None)
            else:
                visible[fold(cte.alias)] = found
        return visible

    def drop_unread_ctes(self, tree: exp.Query) -> None:
        """Forget common table expressions that a query does not read."""
        pending, read = [tree], set[str]()
        while pending:
            for found in tables_of(pending.pop()):
                if found.name in self.ctes and found.name not in read:
                    read.add(found.name)
                    pending.append(self.ctes[found.name])
        self.ctes = {name: query for name, query in self.ctes.items() if name in read}

    def _set_operation(
        self, node: exp.SetOperation, outer: Scope | None, ctes: Mapping[str, str]
    ) -> exp.Query:
        if used_arguments(node) - {
            "this",
            "expression",
            "distinct",
            "order",
            "limit",
            "offset",
            "with_",
        } or node.args.get("by_name"):
            raise Uncertain(node.key)
        for side in ("this", "expression"):
            branch = self.query(node.args[side], outer, ctes)
            plain = isinstance(branch, exp.Select) and not any(
                branch.args.get(part) for part in ("order", "limit", "offset")
            )
            node.set(side, branch if plain else exp.Subquery(this=branch))
        if len(output_names(node)) != len(output_names(node.args["expression"])):
            raise Uncertain(node.key)
        self._order_of_set(node)
        for part in ("limit", "offset"):
            self._expression(node.args.get(part), Scope(outer, ctes=ctes))
        return node

    def _order_of_set(self, node: exp.SetOperation) -> None:
        order = node.args.get("order")
        if order is None:
            return
        names = output_names(node)
        found: list[exp.Expr] = []
        for each in order.expressions:
            found += outputs_by_ordinal(each, names) or [output_by_name(each, names)]
        order.set("expressions", found)

    def _select(self, node: exp.Select, outer: Scope | None, ctes: Mapping[str, str]) -> exp.Select:
        if used_arguments(node) - _SELECT_PARTS:
            raise Uncertain(node.key)
        scope = Scope(outer, ctes=ctes)
        self._from_clause(node, scope)
        write_out_windows(node)
        self._outputs(node, scope)
        for clause in _CLAUSES:
            self._clause(node, clause, scope)
        self._distinct(node, scope)
        self._order(node, scope)
        for part in ("limit", "offset"):
            self._expression(node.args.get(part), scope)
        return node

    # The FROM clause

    def _from_clause(self, node: exp.Select, scope: Scope) -> None:
        clause = node.args.get("from_")
        if clause is None:
            if node.args.get("joins"):
                raise Uncertain("FROM")
            return
        clause.set("this", self._table(clause.this, scope, is_hidden=False))
        joins = node.args.get("joins") or []
        for join in joins:
            if used_arguments(join) - _JOIN_PARTS:
                raise Uncertain("JOIN")
            method = str(join.args.get("method") or "").upper()
            variant = str(join.args.get("kind") or "").upper()
            if method not in {"", "NATURAL", "ASOF", "POSITIONAL"} or (
                method == "NATURAL" and len(joins) > 1
            ):
                raise Uncertain(method)
            join.set("this", self._table(join.this, scope, is_hidden=variant in {"SEMI", "ANTI"}))
            write_out_using(join, scope, method)
            if join.args.get("on") is not None:
                self._expression(join.args["on"], _scope_of_condition(scope))

    def _table(self, node: exp.Expr, scope: Scope, *, is_hidden: bool) -> exp.Expr:
        """A table under a unique alias; its columns are added to what the scope sees."""
        written = node.args.get("alias")
        if written is not None and used_arguments(written) - {"this", "columns"}:
            raise Uncertain(node.key)
        name = written.name if written is not None else ""
        renamed = [found.name for found in written.args.get("columns") or ()] if written is not None else []
        known = unwrap(node)
        if not isinstance(known, exp.Subquery):
            _check_collation(node)
        if isinstance(known, exp.Table) and not used_arguments(known) - {"this", "alias"}:
            columns = self._columns_of_table(known, scope, renamed)
            name = name or (known.name if isinstance(known.this, exp.Identifier) else "")
        elif isinstance(known, exp.Subquery) and not used_arguments(known) - {"this", "alias"}:
            query = self.query(
                known.this, Scope(scope.outer, scope.sources, scope.merged, is_lateral=True), scope.ctes
            )
            rename_outputs(query, renamed)
            check_outputs(query)
            known.set("this", query)
            columns, renamed = tuple(output_names(query)), []
        elif isinstance(known, exp.Values) and not used_arguments(known) - {"expressions", "alias"}:
            columns = _value_columns(known, renamed)
            renamed = list(columns)
            self._expression_list(known.expressions, Scope(scope.outer, ctes=scope.ctes))
        elif (
            isinstance(known, exp.Unnest)
            and not used_arguments(known) - {"expressions", "alias"}
            and len(known.expressions) == 1
        ):
            self._expression(known, scope)
            columns = tuple(renamed) or None
        else:
            raise Uncertain(node.key)
        if name and any(
            source.name == fold(name) and source.is_hidden != is_hidden for source in scope.sources
        ):
            # The table that nobody sees hides the other one.
            raise Uncertain(name)
        alias = self._alias(name or "t")
        identifiers = [exp.to_identifier(each, quoted=True) for each in renamed]
        known.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=identifiers))
        scope.sources.append(Source(alias, fold(name), columns, is_hidden))
        return known

    def _columns_of_table(self, node: exp.Table, scope: Scope, renamed: list[str]) -> tuple[str, ...] | None:
        if not isinstance(node.this, exp.Identifier):
            if any(isinstance(found, exp.Query) for found in node.this.walk()):
                raise Uncertain(node.name)
            self._expression(node.this, scope)
            return tuple(renamed) or None
        if renamed:
            raise Uncertain(node.name)
        if node.name in self.references:
            return tuple(self.references[node.name].definition.schema.names)
        if node.name in self.lists:
            return tuple(self.lists[node.name].names)
        if node.db or fold(node.name) not in scope.ctes:
            raise Uncertain(node.name)
        name = scope.ctes[fold(node.name)]
        node.set("this", exp.to_identifier(name, quoted=True))
        return tuple(output_names(self.ctes[name]))

    def _alias(self, name: str) -> str:
        if fold(name).startswith(PART_PREFIX):
            raise Uncertain(name)
        alias = unique_name(name, self.aliases)
        self.aliases.add(alias)
        return alias

    # Outputs

    def _outputs(self, node: exp.Select, scope: Scope) -> None:
        if asks_only_for_rows(node):
            node.set("expressions", [exp.Literal.number(1)])
        found: list[exp.Expr] = []
        names = UniqueNames()
        for expression in node.expressions:
            if isinstance(expression, exp.Star) or (
                isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star)
            ):
                outputs = self._star(expression, scope)
            else:
                outputs = [self._output(expression, scope)]
            for name, value in outputs:
                is_repeated = name in names and name != UNNAMED
                found.append(named_output(value, names.add(REPEATED if is_repeated else name)))
        if not found:
            raise Uncertain("SELECT")
        node.set("expressions", found)

    def _output(self, expression: exp.Expr, scope: Scope) -> tuple[str, exp.Expr]:
        value = expression.this if isinstance(expression, exp.Alias) else expression
        _check_collation(value)
        _check_row_value(value)
        name = expression.alias if isinstance(expression, exp.Alias) else name_of(value)
        holder = exp.Paren(this=value)
        self._expression(holder, scope)
        written, value = value, holder.this
        if isinstance(written, exp.Column) and isinstance(value, exp.Column) and written is expression:
            # As its table writes it.
            name = value.name
        if isinstance(expression, exp.Alias):
            scope.add_output(name, value)
        elif isinstance(value, exp.Column):
            scope.add_plain_output(name, value)
        return name, value

    def _star(self, node: exp.Expr, scope: Scope) -> list[tuple[str, exp.Expr]]:
        """The outputs that a star stands for, with EXCLUDE and REPLACE."""
        star = node.this if isinstance(node, exp.Column) else node
        used = used_arguments(star)
        if used - {"except_", "replace"} or ("replace" in used and scope.merged):
            raise Uncertain("*")
        excluded = names_left_out(star)
        replaced = {fold(each.alias): each.this for each in star.args.get("replace") or ()}
        sources = [
            source
            for source in scope.visible_sources
            if not isinstance(node, exp.Column) or source.name == fold(node.table)
        ]
        if (
            not sources
            or any(source.columns is None for source in sources)
            or (isinstance(node, exp.Column) and (len(sources) > 1 or node.db))
            # Beside semi joins the engine takes tables of one name, and shows the columns of one of them.
            or len({source.name for source in sources}) < len(sources)
        ):
            raise Uncertain("*")
        found: list[tuple[str, exp.Expr]] = []
        merged: set[str] = set()
        for source in sources:
            for name in source.columns or ():
                lowered = fold(name)
                is_shared = source.alias in scope.sharing.get(lowered, ())
                if is_shared and lowered not in excluded and not isinstance(node, exp.Column):
                    if lowered not in merged:
                        found.append((name, scope.merged[lowered].copy()))
                    merged.add(lowered)
                elif lowered in replaced:
                    found.append(self._output(named_output(replaced[lowered].copy(), name), scope))
                elif lowered not in excluded:
                    found.append((name, resolved_column(source.alias, name)))
        if not (excluded | set(replaced)) <= {
            fold(name) for source in sources for name in source.columns or ()
        }:
            raise Uncertain("*")
        return found

    # Clauses

    def _clause(self, node: exp.Select, clause: str, scope: Scope) -> None:
        found = node.args.get(clause)
        if found is None:
            return
        if clause == "group":
            write_out_groups(node, found, scope)
        elif clause in {"having", "qualify"}:
            for each in found.find_all(exp.Column):
                if is_bare(each):
                    scope.check_alias(fold(each.name))
        written = members_of_sets(found)
        self._expression(found, scope)
        if len(members_of_sets(found)) < len(written):
            # The engine takes `k` and `t.k` for two groups, of which a set has one, though they are one
            # column.
            raise Uncertain("GROUPING SETS")

    def _distinct(self, node: exp.Select, scope: Scope) -> None:
        distinct = node.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return
        for each in on.find_all(exp.Column):
            if is_bare(each):
                scope.check_alias(fold(each.name))
        if any(
            isinstance(unwrap(each), exp.Literal)
            for each in (on.expressions if isinstance(on, exp.Tuple) else [on])
        ):
            raise Uncertain("DISTINCT ON")
        self._expression(distinct, scope)

    def _order(self, node: exp.Select, scope: Scope) -> None:
        order = node.args.get("order")
        if order is None:
            return
        names = [output.alias for output in node.expressions]
        values = {text(output.this): output.alias for output in reversed(node.expressions)}
        # Of outputs that are written alike, as two of random(), each has a value of its own.
        values |= {named_text(output.alias, output.this): output.alias for output in node.expressions}
        outputs = [output.this for output in node.expressions]
        found: list[exp.Expr] = []
        for each in order.expressions:
            collated = value_by_ordinal(each, outputs)
            found += outputs_by_ordinal(each, names) or [self._order_key(collated, values, scope)]
        order.set("expressions", found)

    def _order_key(self, ordered: exp.Expr, values: Mapping[str, str], scope: Scope) -> exp.Expr:
        """A key of ORDER BY that is an output's alias, or any expression; `values` has the outputs' aliases
        by their expressions, alone and under their names.
        """
        key = unwrap(ordered.this)
        if is_bare(key) and key is not None and scope.is_output(fold(key.name)):
            value = scope.output(fold(key.name))
            if value is None:
                raise Uncertain(key.name)
            alias = values.get(named_text(key.name, value), values[text(value)])
            return order_key_like(ordered, output_column(alias))
        for part in ordered.find_all(exp.Column):
            if is_bare(part):
                scope.check_alias(fold(part.name))
        self._expression(ordered, scope)
        same = values.get(text(ordered.this))
        return ordered if same is None else order_key_like(ordered, output_column(same))

    # Expressions

    def _expression_list(self, nodes: Collection[exp.Expr], scope: Scope) -> None:
        for node in nodes:
            self._expression(node, scope)

    def _expression(
        self,
        node: exp.Expr | None,
        scope: Scope,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        """Resolve what stands below a node, in place."""
        if node is None or isinstance(node, exp.DataType | exp.Identifier):
            return
        for child in list(node.iter_expressions()):
            if isinstance(child, exp.Func) and function_name(child) in _UNKNOWN_FUNCTIONS:
                raise Uncertain(function_name(child))
            if isinstance(child, _UNKNOWN_NODES) or (
                isinstance(child, exp.Star) and not isinstance(node, exp.Count)
            ):
                raise Uncertain(child.key)
            if isinstance(child, exp.Query) and not (
                isinstance(child, exp.Subquery) and used_arguments(child) == {"this"}
            ):
                child.replace(self.query(child, scope, scope.ctes))
            elif isinstance(child, exp.Values) or (
                isinstance(child, exp.Subquery) and isinstance(child.this, exp.Values)
            ):
                raise Uncertain(child.key)
            elif isinstance(child, exp.Column):
                self._column(child, scope, hidden)
            elif isinstance(child, exp.Lambda):
                names = frozenset(fold(each.name) for each in child.expressions)
                _check_fields_of_parameters(child, scope)
                self._expression(child, scope, hidden | names)
            else:
                self._expression(child, scope, hidden)

    def _column(self, node: exp.Column, scope: Scope, hidden: frozenset[str]) -> None:
        if isinstance(node.this, exp.Star):
            raise Uncertain("*")
        if is_resolved(node) or fold(node.parts[0].name) in hidden:
            return
        meaning = scope.meaning(node)
        if isinstance(meaning, exp.Column) and isinstance(node.this, exp.Identifier):
            # The node itself stays, with what the parser noted of it.
            node.set("this", meaning.this)
            node.set("table", meaning.args["table"])
            node.set("db", None)
            node.set("catalog", None)
            mark_resolved(node)
        else:
            node.replace(meaning)


def _scope_of_condition(scope: Scope) -> Scope:
    """A join's condition sees the right side of a SEMI or ANTI join, and no aliases of outputs."""
    sources = [
        *scope.sources[:-1],
        Source(scope.sources[-1].alias, scope.sources[-1].name, scope.sources[-1].columns),
    ]
    kept = [source for source in sources if not source.is_hidden]
    return Scope(scope.outer, kept, scope.merged, ctes=scope.ctes)


def _value_columns(node: exp.Values, renamed: list[str]) -> tuple[str, ...]:
    first = node.expressions[0]
    if not isinstance(first, exp.Tuple):
        raise Uncertain("VALUES")
    width = len(first.expressions)
    return tuple(renamed[index] if index < len(renamed) else f"col{index}" for index in range(width))


def _check_collation(value: exp.Expr) -> None:
    """A collation is part of a column's type, and decides what is equal and in which order rows are; it does
    not travel with the values.
    """
    if value.find(exp.Collate) is not None:
        raise Uncertain("COLLATE")


def _check_row_value(value: exp.Expr) -> None:
    """The fields of a row value have no names. Where it has travelled they do, and it is compared with no row
    any more.
    """
    row = unwrap(value)
    if isinstance(row, exp.Tuple) or (isinstance(row, exp.Anonymous) and fold(row.name) == "row"):
        raise Uncertain("a row value")


def _check_fields_of_parameters(found: exp.Lambda, scope: Scope) -> None:
    """Where a column or a table has the name of a parameter `x`, the engine takes `x.f` for its field."""
    for field_of in found.find_all(exp.Dot):
        if isinstance(field_of.this, exp.Identifier) and isinstance(field_of.expression, exp.Identifier):
            scope.check_no_column(fold(field_of.this.name))
