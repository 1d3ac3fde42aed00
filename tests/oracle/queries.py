"""Random queries whose answers are determined, over the stores of a dataset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.oracle.collated import collated_query
from tests.oracle.conditions import Conditions
from tests.oracle.datasets import Dataset
from tests.oracle.kinds import LOOSE, SIMPLE, Expression, Family, Trust, quote_name
from tests.oracle.pages import key_query, page_query
from tests.oracle.relations import MOST_ROWS, Joins, Member, Relation
from tests.oracle.scalars import Sample, Scalars, Scope, put_samples
from tests.oracle.selects import Query, Selects
from tests.oracle.shared import shared_query
from tests.oracle.sources import Sources


@dataclass(frozen=True)
class Generated:
    """A query to ask.

    Attributes:
        sql: Its text, with `$1`, `$2`, … for parameters.
        parameters: Their values as SQL literals.
        trusts: How surely each column of the answer is determined.
        named: Places of the columns whose names it says.
        ordered: Places of the columns that rows must be ordered by, as far as they are; all of them for a
            total order.
        features: What it has.
        source: What it was made of; None for a text that was made of another query.
    """

    sql: str
    parameters: tuple[str, ...]
    trusts: tuple[Trust, ...]
    named: frozenset[int]
    ordered: tuple[int, ...]
    features: frozenset[str]
    source: Source | None = None


@dataclass(frozen=True)
class Source:
    """What a query was made of: texts in which values that columns are compared with are marks.

    Attributes:
        text: The whole statement.
        with_clause: Its WITH clause, or nothing.
        query: What stands behind it.
        parameters: Values of all parameters that were made, as literals.
        samples: What was marked.
    """

    text: str
    with_clause: str
    query: Query
    parameters: tuple[str, ...]
    samples: tuple[Sample, ...]

    def statement(self, text: str, values: Mapping[int, str] | None = None) -> tuple[str, tuple[str, ...]]:
        """A text of the same parts as a statement with its parameters.

        Args:
            text: The text.
            values: Marks that become parameters, with their values as literals.
        """
        parameters, others = [*self.parameters], {}
        for number, value in (values or {}).items():
            parameters.append(value)
            others[number] = f"${len(parameters)}"
        return _renumber(put_samples(text, self.samples, others), parameters)


def make_query(dataset: Dataset, seed: int, attempt: int = 0) -> Generated:
    """The query of a seed over a dataset; attempts make others of the same seed."""
    random = Random(f"query {dataset.seed} {seed} {attempt}")
    return _Generator(random, dataset).whole()


def store_under(alias: str, random: Random, dataset: Dataset) -> Relation:
    """One of the stores under an alias."""
    store = random.choice(dataset.stores)
    columns = tuple(replace(column, sql=f"{alias}.{column.sql}") for column in store.columns)
    keys = tuple(column for column in columns if column.name in store.definition.key)
    total = tuple(next(column for column in keys if column.name == name) for name in store.definition.key)
    return Relation(
        f"{quote_name(store.definition.name)} {random.choice(('', 'AS '))}{alias}",
        columns,
        total,
        keys,
        store.live.num_rows,
        members=(Member(store.definition.name, total),),
    )


_PARAMETER = re.compile(r"\$(\d+)")


def _renumber(sql: str, parameters: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A statement whose parameters are numbered without gaps: some were made for what was then left out."""
    used = list(dict.fromkeys(int(number) for number in _PARAMETER.findall(sql))) if parameters else []
    renumbered = _PARAMETER.sub(lambda found: f"${used.index(int(found[1])) + 1}", sql) if used else sql
    return renumbered, tuple(parameters[number - 1] for number in used)


@dataclass
class _Generator:
    random: Random
    dataset: Dataset
    used: set[str] = field(default_factory=set)
    names: int = 0
    ctes: list[tuple[str, Query]] = field(default_factory=list)
    parameters: list[str] | None = None
    marked: list[Sample] = field(default_factory=list)

    # ---- the whole statement

    def whole(self) -> Generated:
        random = self.random
        if random.random() < 0.12:
            self.parameters = []
            self.used.add("parameters")
        if (
            random.random() < 0.02
            and (collated := collated_query(random, self.used, self._store, self._condition)) is not None
        ):
            return self._generate("", collated, ())
        if random.random() < 0.04:
            return self._generate("", self._one_key(), ())
        if random.random() < 0.12 and (page := self._page()) is not None:
            return self._generate("", page, page.ordered)
        if random.random() < 0.03 and (shared := self._shared_cte()) is not None:
            return self._generate("", shared, ())
        with_clause = self._with_clause() if random.random() < 0.2 else ""
        query = self.set_operation(1) if random.random() < 0.12 else self.select(2, is_top=True)
        query, ordered = self._add_order(query)
        if with_clause:
            self.used.add("cte")
        return self._generate(with_clause, query, ordered)

    def _generate(self, with_clause: str, query: Query, ordered: tuple[int, ...]) -> Generated:
        source = Source(
            with_clause + query.sql, with_clause, query, tuple(self.parameters or ()), tuple(self.marked)
        )
        sql, parameters = source.statement(source.text)
        return Generated(
            sql,
            parameters,
            tuple(column.trust for column in query.columns),
            frozenset(place for place, column in enumerate(query.columns) if column.name),
            ordered,
            frozenset(self.used),
            source,
        )

    def _condition(self, relation: Relation) -> str:
        return self.conditions(relation, (), 0).make(1)

    def _page(self) -> Query | None:
        store = self._store()
        scalars = self.scalars(store.columns, ())
        return page_query(self.random, self.used, store, scalars.sample)

    def _one_key(self) -> Query:
        store = self._store()
        return key_query(self.random, self.used, store, self.scalars(store.columns, ()).sample)

    def _shared_cte(self) -> Query | None:
        sample = self.scalars(self._store().columns, ()).sample
        return shared_query(self.random, self.used, self._store, sample)

    def _with_clause(self) -> str:
        parts, recursive = [], ""
        for _ in range(self.random.choice((1, 1, 2))):
            if self.random.random() < 0.12:
                name, recursive = self.name("cte"), "RECURSIVE "
                text, columns = self.sources.recursive()
                parts.append(f"{name} AS ({text.format(name)})")
                self.ctes.append((name, Query("", columns, (), self.dataset.stores[0].live.num_rows * 2)))
                continue
            query = self.set_operation(0) if self.random.random() < 0.15 else self.select(1)
            name = self.name("cte")
            hint = self.random.choice(("", "", "", "MATERIALIZED ", "NOT MATERIALIZED "))
            parts.append(f"{name} AS {hint}({query.sql})")
            self.ctes.append((name, query))
        return f"WITH {recursive}{', '.join(parts)} "

    def _add_order(self, query: Query) -> tuple[Query, tuple[int, ...]]:
        """Maybe an ORDER BY of the whole, by columns of its answer, maybe with a LIMIT."""
        random = self.random
        if query.is_limited or random.random() < 0.5:
            return query, query.ordered
        places = [
            place
            for place, column in enumerate(query.columns)
            if column.family in SIMPLE and column.trust <= Trust.EQUAL and column.name
        ]
        if not places:
            return query, ()
        chosen = random.sample(places, random.randrange(1, min(3, len(places)) + 1))
        limited = random.random() < 0.6
        if limited:
            missing = self._missing_order(query, chosen)
            if missing is None:
                return query, ()
            chosen += missing
        self.used.add("order by, limit" if limited else "order by")
        names = [
            str(place + 1)
            if random.random() < 0.2 or not query.columns[place].name
            else quote_name(query.columns[place].name)
            for place in chosen
        ]
        order = ", ".join(
            name + random.choice(("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST")) for name in names
        )
        text = f"{query.sql} ORDER BY {order}"
        if limited:
            text += f" LIMIT {random.choice((0, 1, 3, 5, 10, 40))}" + (
                f" OFFSET {random.choice((0, 1, 4, 20))}" if random.random() < 0.35 else ""
            )
        columns = (
            tuple(column.loosen(Trust.EQUAL) for column in query.columns)
            if limited and not query.total
            else query.columns
        )
        return replace(query, sql=text, columns=columns, is_limited=limited), tuple(chosen)

    def _missing_order(self, query: Query, chosen: Sequence[int]) -> list[int] | None:
        """Columns that an order lacks to be total; None if none can be."""
        if query.total:
            return [place for place in query.total if place not in chosen]
        if any(
            column.trust is Trust.CLOSE or not column.name or column.family is Family.MAP
            for column in query.columns
        ):
            return None
        return [place for place in range(len(query.columns)) if place not in chosen]

    # ---- what queries are made of

    @property
    def sources(self) -> Sources:
        return Sources(self.random, self.used, self.name, self._store)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def scalars(self, columns: tuple[Expression, ...], outer: tuple[Expression, ...]) -> Scalars:
        return Scalars(
            self.random,
            Scope(columns, outer),
            is_reckless=self.random.random() < 0.02,
            used=self.used,
            parameters=self.parameters,
            marked=self.marked,
        )

    def conditions(self, relation: Relation, outer: tuple[Expression, ...], depth: int) -> Conditions:
        subqueries = _Subqueries(self, relation.columns, depth) if depth > 0 else None
        return Conditions(self.scalars(relation.columns, outer), subqueries, relation.keys)

    def select(self, depth: int, outer: tuple[Expression, ...] = (), *, is_top: bool = False) -> Query:
        relation = self.relation(depth, outer)
        conditions = self.conditions(relation, outer, depth)
        return Selects(
            conditions.scalars, relation, conditions, is_top=is_top, subqueries=conditions.subqueries
        ).make()

    def columns_of(self, families: Sequence[Family], depth: int) -> Query:
        """A plain SELECT of given families."""
        relation = self.relation(depth, ())
        conditions = self.conditions(relation, (), depth)
        return Selects(conditions.scalars, relation, conditions).plain(families)

    def set_operation(self, depth: int) -> Query:
        random = self.random
        before = self.names
        left = self.columns_of([random.choice(SIMPLE) for _ in range(random.randrange(1, 4))], depth)
        if random.random() < 0.3:
            made = self.select(depth)
            if (
                all(column.family in SIMPLE and column.trust < Trust.CLOSE for column in made.columns)
                and not made.is_limited
                and not made.ordered
            ):
                left = made
        after = self.names
        if random.random() < 0.4:
            # Neither side sees the other: both may call a table the same.
            self.names = before
        right = self.columns_of([column.family for column in left.columns], depth)
        self.names = max(self.names, after)
        operator = random.choice(
            ("UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
        )
        self.used.add(operator.lower())
        trust = max((column.trust for column in (*left.columns, *right.columns)), default=Trust.EXACT)
        columns = tuple(
            replace(
                one.loosen(max(trust, Trust.EQUAL if one.family in LOOSE else Trust.EXACT)),
                is_tame=one.is_tame and other.is_tame,
                kind="",
            )
            for one, other in zip(left.columns, right.columns, strict=True)
        )
        total = () if operator.endswith("ALL") else tuple(range(len(columns)))
        sides = [left.sql, right.sql]
        if random.random() < 0.2:
            sides = [f"({side})" for side in sides]
        keys = tuple(place for place in left.keys if place in right.keys or operator.startswith("EXCEPT"))
        return Query(f"{sides[0]} {operator} {sides[1]}", columns, total, left.rows + right.rows, keys=keys)

    # ---- FROM

    def relation(self, depth: int, outer: tuple[Expression, ...]) -> Relation:
        found = self.sources.positional() if self.random.random() < 0.015 else self.factor(depth, outer)
        joins = Joins(self.random, self.used, outer)
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 1, 2, 2, 3))):
            if found.rows > MOST_ROWS // 2 or found.is_merged:
                break
            if self.random.random() < 0.05 and depth > 0:
                found = self._lateral(found) or found
                continue
            if self.random.random() < 0.08:
                found = self.sources.unnest(found) or found
                continue
            found = joins.join(found, self.factor(depth, ())) or found
        return found

    def factor(self, depth: int, outer: tuple[Expression, ...]) -> Relation:
        random = self.random
        if self.ctes and random.random() < 0.5:
            name, query = random.choice(self.ctes)
            return self._name_query(name, query)
        if depth > 0 and random.random() < 0.15:
            self.used.add("derived table")
            query = self.set_operation(0) if random.random() < 0.2 else self.select(depth - 1)
            query, _ = self._add_order(query)
            return self._name_query(f"({query.sql})", query)
        if random.random() < 0.06:
            return self.sources.any() or self._store()
        return self._store()

    def _name_query(self, sql: str, query: Query) -> Relation:
        alias = self.name("d")
        columns = tuple(column.column_under(alias, column.name) for column in query.columns)
        total = tuple(columns[place] for place in query.total)
        keys = tuple(columns[place] for place in query.keys)
        return Relation(f"{sql} AS {alias}", columns, total, keys, query.rows)

    def _store(self) -> Relation:
        return store_under(self.name("t"), self.random, self.dataset)

    def _lateral(self, left: Relation) -> Relation | None:
        inner = _Subqueries(self, left.columns, 1).lateral()
        if inner is None:
            return None
        self.used.add("lateral")
        alias = self.name("l")
        columns = tuple(column.column_under(alias, column.name) for column in inner.columns)
        kind = self.random.choice(("CROSS JOIN LATERAL", "LEFT JOIN LATERAL"))
        condition = " ON TRUE" if kind.startswith("LEFT") else ""
        return replace(
            left,
            sql=f"{left.sql} {kind} ({inner.sql}) AS {alias}{condition}",
            columns=(*left.columns, *columns),
        )


@dataclass(frozen=True)
class _Subqueries:
    """Implements `tests.oracle.conditions.Subqueries`."""

    generator: _Generator
    around: tuple[Expression, ...]
    depth: int

    def _relation(self) -> tuple[Relation, Conditions, str]:
        """A FROM clause, and a WHERE that mostly ties it to the query around."""
        make = self.generator
        random = make.random
        relation = (
            make.relation(self.depth - 1, ()) if random.random() < 0.3 else make.factor(self.depth - 1, ())
        )
        outer = self.around if random.random() < 0.6 else ()
        conditions = make.conditions(relation, outer, self.depth - 1)
        parts = [*relation.ties]
        if outer:
            ties = Joins(random, make.used).equalities(outer, relation, random.choice((1, 1, 2)))
            parts += ties
            make.used.add("correlated" if ties else "subquery")
        if random.random() < 0.5:
            parts.append(conditions.make(1))
        return relation, conditions, f" WHERE {' AND '.join(parts)}" if parts else ""

    def scalar(self, family: Family) -> Expression | None:
        relation, conditions, where = self._relation()
        columns = [
            column for column in conditions.scalars.scope.readable(family) if column in relation.columns
        ]
        if family is Family.INTEGER and self.generator.random.random() < 0.3:
            return Expression(f"(SELECT count(*) FROM {relation.sql}{where})", family)
        if not columns:
            return None
        column = self.generator.random.choice(columns)
        trust = Trust.EQUAL if family in LOOSE else Trust.EXACT
        if relation.total and self.generator.random.random() < 0.3:
            order = ", ".join(each.sql for each in relation.total)
            text = f"(SELECT {column.sql} FROM {relation.sql}{where} ORDER BY {order} LIMIT 1)"
            return replace(column.loosen(trust), sql=text, kind="", name="")
        if family is Family.BOOLEAN:
            return Expression(f"(SELECT bool_or({column.sql}) FROM {relation.sql}{where})", family)
        return replace(
            column.loosen(trust),
            sql=(
                f"(SELECT {self.generator.random.choice(('min', 'max'))}({column.sql}) FROM "
                f"{relation.sql}{where})"
            ),
            kind="",
            name="",
        )

    def column(self, family: Family) -> str | None:
        relation, conditions, where = self._relation()
        columns = [
            column for column in conditions.scalars.scope.readable(family) if column in relation.columns
        ]
        if not columns:
            return None
        column = self.generator.random.choice(columns)
        distinct = self.generator.random.choice(("", "", "", "DISTINCT "))
        if self.generator.random.random() < 0.15:
            return (
                f"(SELECT {column.sql} FROM {relation.sql}{where} GROUP BY {column.sql} HAVING count(*) > 1)"
            )
        return f"(SELECT {distinct}{column.sql} FROM {relation.sql}{where})"

    def rows(self) -> str | None:
        relation, _, where = self._relation()
        return (
            f"(SELECT {self.generator.random.choice(('1', '*', relation.columns[0].sql))} FROM "
            f"{relation.sql}{where})"
        )

    def lateral(self) -> Query | None:
        """Rows that depend on those of the FROM clause before them: one row, for its rows keep what sets them
        apart.
        """
        relation, _, where = self._relation()
        found = [
            column for column in relation.columns if column.family in SIMPLE and column.trust < Trust.CLOSE
        ]
        if not found:
            return None
        column = self.generator.random.choice(found)
        trust = Trust.EQUAL if column.family in LOOSE else Trust.EXACT
        outputs = (
            Expression("", Family.INTEGER, name="many"),
            replace(column.loosen(trust), sql="", kind="", name="most"),
        )
        return Query(
            f"SELECT count(*) AS many, max({column.sql}) AS most FROM {relation.sql}{where}", outputs, (), 1
        )
