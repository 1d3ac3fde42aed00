"""What names mean at one place of a statement, by DuckDB's rules; where a rule leaves room for doubt, nothing
is said at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from engine.cached_property import cached_property
from engine.model.names import fold
from engine.plan.logical.function_properties import is_aggregate, is_volatile
from engine.plan.logical.trees import column, text, unwrap

_RESOLVED = "resolved"


class Uncertain(Exception):
    """What a name of a statement means cannot be said with certainty."""


def resolved_column(alias: str, name: str) -> exp.Column:
    """`"alias"."name"`, a column whose meaning is settled."""
    found = column(alias, name)
    mark_resolved(found)
    return found


def mark_resolved(node: exp.Column) -> None:
    """Note that a column's meaning is settled."""
    node.meta[_RESOLVED] = True


def is_resolved(node: exp.Column) -> bool:
    """Whether a column's meaning is settled."""
    return _RESOLVED in node.meta


@dataclass(frozen=True)
class Source:
    """One table of a FROM clause.

    Attributes:
        alias: Its name in the resolved tree, unique in the whole statement.
        name: Its name in the statement, in lower case; empty for none.
        columns: Its columns; None where they are not known.
        is_hidden: Whether it is the right side of a SEMI or ANTI join, which only that join's condition sees.
    """

    alias: str
    name: str
    columns: tuple[str, ...] | None
    is_hidden: bool = False

    @cached_property
    def _names_as_written(self) -> Mapping[str, str]:
        """The columns by their names in lower case; of two that differ in case only, the first."""
        return {fold(known): known for known in reversed(self.columns or ())}

    def column(self, name: str) -> str | None:
        """The column of a name, as it is written."""
        return self._names_as_written.get(name)


@dataclass
class Scope:
    """What the expressions of one SELECT see.

    Attributes:
        outer: What the SELECT around a subquery sees.
        sources: Tables of the FROM clause so far.
        merged: Columns of USING in lower case, and what they mean.
        sharing: By such a column, the aliases of the tables that share it.
        outputs: Aliases of the SELECT list so far, in lower case, and what they stand for; None where two of
            them differ.
        plain_outputs: Columns of the SELECT list without aliases so far; None where two have one name.
        is_lateral: Whether these are the tables beside a derived table, which must not read them.
        ctes: Common table expressions that queries here see: their names in the plan, by those that the
            statement has for them, in lower case.
    """

    outer: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, exp.Expr] = field(default_factory=dict)
    sharing: dict[str, set[str]] = field(default_factory=dict)
    outputs: dict[str, exp.Expr | None] = field(default_factory=dict)
    plain_outputs: dict[str, exp.Expr | None] = field(default_factory=dict)
    is_lateral: bool = False
    ctes: Mapping[str, str] = field(default_factory=dict)

    @property
    def visible_sources(self) -> Iterator[Source]:
        """Tables that every expression sees."""
        return (source for source in self.sources if not source.is_hidden)

    def meaning(self, node: exp.Column) -> exp.Expr:
        """What a column expression means.

        Args:
            node: A column of the statement as it was written.

        Returns:
            A new expression over columns of unique aliases.

        Raises:
            Uncertain: It could mean several things, or something that is not known here.
        """
        names = [fold(part.name) for part in node.parts]
        scope: Scope | None = self
        while scope is not None:
            found = scope.meaning_in_tables(names, scope is self)
            if found is not None:
                if scope.is_lateral:
                    break
                return found
            scope = scope.outer
        raise Uncertain(node.name)

    def meaning_in_tables(self, names: list[str], is_innermost: bool) -> exp.Expr | None:
        """What a name means among the tables of this SELECT.

        Args:
            names: The name's parts in lower case.
            is_innermost: Whether the name stands in this SELECT itself, so that it may be one of its aliases.

        Returns:
            A new expression; None where it means nothing here.

        Raises:
            Uncertain: It could mean several things.
        """
        qualified = [source for source in self.visible_sources if source.name == names[0]]
        bare = self.meaning_of_bare_name(names[0])
        if any(source.columns is None for source in self.visible_sources) and not (
            len(names) == 2 and qualified and bare is None
        ):
            raise Uncertain(names[0])
        if len(names) == 1:
            if bare is None and qualified:
                raise Uncertain(names[0])
            return bare if bare is not None else self._output(names[0]) if is_innermost else None
        if qualified and (bare is not None or len(qualified) > 1):
            raise Uncertain(names[0])
        if qualified:
            known = qualified[0].column(names[1])
            if known is None:
                raise Uncertain(names[1])
            return _fields(resolved_column(qualified[0].alias, known), names[2:])
        if bare is not None and self._is_table_around(names[0]):
            # A field of a column here, or a column of that table: the engine goes by the column's type.
            raise Uncertain(names[0])
        return None if bare is None else _fields(bare, names[1:])

    def meaning_of_bare_name(self, name: str) -> exp.Expr | None:
        """What a bare name means among the tables of this SELECT.

        Args:
            name: A name in lower case.

        Returns:
            A new expression; None for a name of none of the tables.

        Raises:
            Uncertain: Several tables have such a column.
        """
        if name in self.merged:
            return self.merged[name].copy()
        found = [
            (source, known) for source in self.visible_sources if (known := source.column(name)) is not None
        ]
        if len(found) > 1:
            raise Uncertain(name)
        return resolved_column(found[0][0].alias, found[0][1]) if found else None

    def _output(self, name: str) -> exp.Expr | None:
        """What an alias of the SELECT list stands for, where no table has a column of that name."""
        if name not in self.outputs:
            return None
        found = self.outputs[name]
        # An expression stands twice where its alias is used, so it must give the same value both times.
        if (
            found is None
            or self._is_outer(name)
            or any(is_volatile(node) or isinstance(node, exp.Query) for node in found.walk())
        ):
            raise Uncertain(name)
        copied = found.copy()
        return copied if isinstance(copied, exp.Column | exp.Literal | exp.Func) else exp.Paren(this=copied)

    def _is_table_around(self, name: str) -> bool:
        scope = self.outer
        while scope is not None:
            if any(source.name == name for source in scope.sources):
                return True
            scope = scope.outer
        return False

    def _is_outer(self, name: str) -> bool:
        scope = self.outer
        while scope is not None:
            if (
                any(
                    source.columns is None or source.column(name) or source.name == name
                    for source in scope.sources
                )
                or name in scope.outputs
            ):
                return True
            scope = scope.outer
        return False

    def check_no_column(self, name: str) -> None:
        """A name is that of no table and no column, here and around.

        Raises:
            Uncertain: It may be one.
        """
        scope: Scope | None = self
        while scope is not None:
            if any(
                source.columns is None or source.column(name) or source.name == name
                for source in scope.sources
            ):
                raise Uncertain(name)
            scope = scope.outer

    def check_alias(self, name: str) -> None:
        """Where DuckDB prefers the column or the alias by circumstances, they must be the same.

        Raises:
            Uncertain: They are not.
        """
        known = self.meaning_of_bare_name(name)
        if known is None or name not in self.outputs:
            return
        stands_for = self.outputs[name]
        if stands_for is None or text(known) != text(stands_for):
            raise Uncertain(name)

    def add_output(self, name: str, expression: exp.Expr) -> None:
        """Note an alias of the SELECT list."""
        lowered = fold(name)
        seen = self.outputs.get(lowered, expression)
        self.outputs[lowered] = (
            expression
            if seen is expression or (seen is not None and text(seen) == text(expression))
            else None
        )

    def add_plain_output(self, name: str, expression: exp.Expr) -> None:
        """Note a column of the SELECT list without an alias, whose name ORDER BY knows unless there is such
        an alias, or a second such column.
        """
        lowered = fold(name)
        self.plain_outputs[lowered] = None if lowered in self.plain_outputs else expression

    def is_output(self, name: str) -> bool:
        """Whether a bare name in ORDER BY means an output."""
        return name in self.outputs or self.plain_outputs.get(name) is not None

    def output(self, name: str) -> exp.Expr | None:
        """The output that a bare name in ORDER BY means; None if there are several."""
        return self.outputs[name] if name in self.outputs else self.plain_outputs[name]


def _fields(base: exp.Expr, names: list[str]) -> exp.Expr:
    """Fields of a struct, by name."""
    found = base
    for name in names:
        found = exp.Dot(
            this=found if isinstance(found, exp.Dot) else exp.Paren(this=found),
            expression=exp.to_identifier(name, quoted=True),
        )
    return found


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an expression has an aggregate of its own SELECT in it, outside of windows' arguments."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        inner = node.this
        while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            inner = inner.this
        parts = [
            *inner.iter_expressions(),
            *(child for child in node.iter_expressions() if child is not node.this),
        ]
        return any(has_aggregate(part) for part in parts)
    return is_aggregate(node) or any(has_aggregate(child) for child in node.iter_expressions())


def is_bare(node: exp.Expr | None) -> bool:
    """Whether an expression is a name without a qualifier."""
    node = unwrap(node)
    return isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star)
