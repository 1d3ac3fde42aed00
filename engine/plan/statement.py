"""A statement made ready: parsed, bound and planned once, then used any number of times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from engine.cached_property import cached_property
from engine.errors import InvalidInput
from engine.model.names import fold
from engine.model.schema import StoreDefinition, StoreName
from engine.plan.arguments import argument_types
from engine.plan.key_joins import KeyJoin, key_joins
from engine.plan.key_lookup import KeyLookup, key_list_lookup, key_lookup
from engine.plan.logical.logical_plan import logical_plan
from engine.plan.logical.plan import LogicalPlan
from engine.plan.plan_choice import plan
from engine.plan.plans import EnginePlan, Plan, RowsPlan
from engine.plan.predicates import OPAQUE, Predicate, computed_operands
from engine.plan.query_text import engine_text
from engine.plan.values import Computed
from engine.sql.bind import BoundStatement, bind
from engine.sql.literals import LiftedText
from engine.sql.output_names import holds_unnamed
from engine.sql.parameters import fix_types, is_typed_by_values
from engine.sql.parse import parse
from engine.sql.parsed_statement import StatementClass
from engine.sql.tree_copies import copy_without_positions
from engine.sql.versions import NO_MOMENTS, Moments

_MARK = re.compile(r"\$([0-9]+)")
_MARK_OR_NAME = re.compile(r"""'[^']*+'|"[^"]*+"|[^\W\d][\w$]*+|\$(?P<mark>[0-9]+)""")
_MOST_DIGITS = 6
_QUERIES = frozenset({StatementClass.QUERY, StatementClass.EXPLAIN, StatementClass.EXPLAIN_ANALYZE})


@dataclass(frozen=True)
class ReadyStatement:
    """A statement and its plan.

    Attributes:
        bound: The statement.
        plan: How to answer it; None for SHOW and for DESCRIBE of a store.
        sql: Text for the engine.
        types: Types of the parameters in it, with that of the statement's time if it reads that: those that
            their places suggest, as far as nothing else is known.
        names: Names of the result's columns; None where they are those that the engine gives them by `sql`.
    """

    bound: BoundStatement
    plan: Plan | None
    sql: str
    types: tuple[pa.DataType | None, ...] = ()
    names: tuple[str, ...] | None = None

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """For each reference, what holds for every row that can matter."""
        if isinstance(self.plan, EnginePlan):
            return self.plan.predicates
        known = self.plan.predicate if isinstance(self.plan, RowsPlan) else None
        return tuple(known or OPAQUE for _ in self.bound.references)

    @cached_property
    def logical(self) -> LogicalPlan | None:
        """The logical plan; None where there is none."""
        known = self.plan.logical if isinstance(self.plan, EnginePlan) else None
        return logical_plan(self.bound) if known is None else known

    @cached_property
    def key_joins(self) -> tuple[KeyJoin, ...]:
        """The joins by which rows of one store tell keys of another."""
        return key_joins(self.logical) if len(self.bound.references) > 1 else ()

    @cached_property
    def computed(self) -> tuple[Computed, ...]:
        """What the engine computes for each execution before it is planned which rows can matter."""
        predicate = self.plan.predicate if isinstance(self.plan, RowsPlan) else None
        known = self.plan.predicates if isinstance(self.plan, EnginePlan) else (predicate or OPAQUE,)
        return computed_operands(known)

    @cached_property
    def has_fitting_lists(self) -> bool:
        """Whether its lists mean the same as the literals that they were made of."""
        return lists_fit(self.bound)

    @cached_property
    def has_fixed_columns(self) -> bool:
        """Whether the result's columns follow from the stores' definitions alone, and not, as PIVOT's may,
        from their rows.
        """
        return self.bound.tree is None or self.bound.tree.find(exp.Pivot) is None

    @cached_property
    def is_typed_by_values(self) -> bool:
        """Whether types of the result's columns may hang on the values of its parameters."""
        return self.bound.tree is not None and is_typed_by_values(self.bound.tree)

    @cached_property
    def key_lookup(self) -> KeyLookup | None:
        """The statement as a lookup of one row by its only parameter; None if it is anything else."""
        return (
            key_lookup(self.plan, self.bound.parameters)
            if self.bound.statement_class is StatementClass.QUERY and not self.bound.reads_time
            else None
        )

    @cached_property
    def key_list_lookup(self) -> KeyLookup | None:
        """The statement as a lookup of rows by the only list in it; None if it is anything else."""
        bound = self.bound
        if bound.statement_class is not StatementClass.QUERY or bound.reads_time or bound.tree is None:
            return None
        where = bound.tree.args.get("where")
        return key_list_lookup(self.plan, None if where is None else where.this)

    def engine_sql(self, types: tuple[pa.DataType | None, ...]) -> str:
        """Text for the engine.

        Args:
            types: Types of the parameters' values; None for one that the engine finds.

        Returns:
            The statement in DuckDB's dialect, reading scans.
        """
        return self.sql if types == self.types else _engine_sql(self.bound, types)

    def is_current(self, tables: Mapping[StoreName, StoreDefinition]) -> bool:
        """Whether the statement's names still mean the stores that it was bound to, and these are still what
        they were.
        """
        for reference in self.bound.references:
            definition = tables.get(reference.name)
            if definition is not reference.definition and definition != reference.definition:
                return False
        return True


def _engine_sql(bound: BoundStatement, types: tuple[pa.DataType | None, ...]) -> str:
    if bound.tree is None:
        return ""
    try:
        tree = fix_types(copy_without_positions(bound.tree), types)
    except RecursionError as error:
        raise InvalidInput(
            "The statement nests too deeply: write inner queries as WITH, or ask in parts."
        ) from error
    text = engine_text(tree, copy=False)
    _check_marks(text, len(types))
    return text


def _check_marks(text: str, parameters: int) -> None:
    """Refuse a text with marks that are no parameters of the statement: for `$999999999` the engine's client
    makes a list of so many values.
    """

    def is_beyond(number: str | None) -> bool:
        return number is not None and (len(number) > _MOST_DIGITS or int(number) > parameters)

    if any(map(is_beyond, _MARK.findall(text))) and any(
        is_beyond(found["mark"]) for found in _MARK_OR_NAME.finditer(text)
    ):
        raise InvalidInput("The statement has a numbered mark where no parameter can be.")


def make_ready(
    lifted: LiftedText,
    dialect: str,
    tables: Mapping[StoreName, StoreDefinition],
    *,
    all_columns: bool = False,
    moments: Moments = NO_MOMENTS,
) -> ReadyStatement:
    """Parse, bind and plan a statement.

    Args:
        lifted: Its text.
        dialect: Dialect of the text.
        tables: The store that each name means.
        all_columns: Read all columns of every store.
        moments: For which moments versioned stores are to be read.

    Returns:
        The statement, made ready.

    Raises:
        LivestateError: As `engine.sql.parse.parse` and `engine.sql.bind.bind`.
    """
    try:
        bound = bind(parse(lifted, dialect), lifted.lists, tables, all_columns=all_columns, moments=moments)
    except RecursionError as error:
        raise InvalidInput(
            "The statement nests too deeply: write inner queries as WITH, or ask in parts."
        ) from error
    if bound.statement_class not in _QUERIES and not (
        bound.statement_class is StatementClass.DESCRIBE and bound.tree is not None
    ):
        return ReadyStatement(bound, None, "")
    types = argument_types(bound)
    # Before it is planned, which writes parts of it: what cannot be written is seen here.
    text = _engine_sql(bound, types)
    return ReadyStatement(bound, plan(bound), text, types)


def lists_fit(bound: BoundStatement) -> bool:
    """Whether every list that was lifted out of a text means the same as its literals.

    A list in the text takes its type from what it is compared with. A lifted list has one of its own, and
    means the same if it is compared with plain columns of such a type. A lifted VALUES is typed as the engine
    types VALUES. Neither means the same where it would become part of a column's name.

    Args:
        bound: A statement with lifted lists.

    Returns:
        False if the statement must be parsed with its lists in place.
    """
    lifted = bound.list_schemas.keys() - bound.catalog_tables.keys()
    if bound.tree is None:
        return not lifted
    seen = set()
    for table in bound.tree.find_all(exp.Table):
        if table.name not in lifted:
            continue
        if holds_unnamed(table):
            return False
        seen.add(table.name)
        select = table.find_ancestor(exp.Select)
        outputs = select.expressions if select is not None else []
        if len(outputs) == 1 and isinstance(outputs[0], exp.Column):
            member = select.find_ancestor(exp.In) if select is not None else None
            if member is None or not _fits(bound, member.this, bound.list_schemas[table.name].field(0).type):
                return False
    return seen == lifted


def _fits(bound: BoundStatement, node: exp.Expr, arrow_type: pa.DataType) -> bool:
    if not isinstance(node, exp.Column):
        return False
    types = [
        field.type
        for reference in bound.references
        if not node.table or fold(node.table) == fold(reference.alias)
        for field in reference.definition.schema
        if fold(field.name) == fold(node.name)
    ]
    same = pa.types.is_string if pa.types.is_string(arrow_type) else pa.types.is_integer
    return bool(types) and all(same(found) for found in types)
