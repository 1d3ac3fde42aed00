"""Random SELECTs over a FROM clause: plain, grouped, with windows, DISTINCT and DISTINCT ON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.oracle.aggregates import Aggregates
from tests.oracle.conditions import COMPARISONS, Conditions, Subqueries
from tests.oracle.kinds import LOOSE, NESTED, SIMPLE, Expression, Family, Trust, quote_name
from tests.oracle.relations import Relation
from tests.oracle.scalars import Scalars, put_samples
from tests.oracle.sources import element_family
from tests.oracle.windows import Windows

MANY_ROWS = 700
"""More rows than this are counted, grouped or limited rather than given."""


@dataclass(frozen=True)
class Form:
    """How a SELECT is put together, so that it can be put together otherwise.

    Attributes:
        head: What stands before FROM.
        relation: The FROM clause.
        conditions: The conjuncts of WHERE.
        tail: What stands behind WHERE.
        adds_up: It gives a row for each row that it reads, so that parts of them give parts of the answer.
        picked: Places of outputs that are the same in all rows that one row of the answer comes from.
    """

    head: str
    relation: Relation
    conditions: tuple[str, ...]
    tail: str = ""
    adds_up: bool = False
    picked: tuple[int, ...] = ()

    def select(self, *more: str, source: str | None = None, head: str | None = None) -> str:
        """The SELECT without its tail, with more conditions, another FROM clause or other outputs."""
        conditions = (*self.conditions, *more)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"{head or self.head} FROM {source or self.relation.sql}{where}"

    def text(self, *more: str, source: str | None = None) -> str:
        """The SELECT, with more conditions, or another FROM clause."""
        return self.select(*more, source=source) + self.tail


@dataclass(frozen=True)
class Query:
    """A query.

    Attributes:
        sql: Its text.
        columns: Its outputs; those without a name have one of the engine's making.
        total: Places of outputs that no two rows have in common; empty where rows may be equal.
        rows: How many rows there may be, roughly.
        is_limited: It ends in a LIMIT, or in an ORDER BY of its own.
        ordered: Places of the outputs that its rows are ordered by.
        keys: Places of outputs that are columns of stores' keys.
        form: How it is put together; None where it is no plain SELECT.
    """

    sql: str
    columns: tuple[Expression, ...]
    total: tuple[int, ...] = ()
    rows: int = 0
    is_limited: bool = False
    ordered: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    form: Form | None = None


@dataclass(frozen=True)
class Selects:
    """Makes SELECTs.

    Attributes:
        scalars: Makes expressions.
        relation: The FROM clause.
        conditions: Makes conditions on its rows.
        is_top: Nothing is around it: outputs need no names.
        subqueries: Makes scalar subqueries; None for none.
    """

    scalars: Scalars
    relation: Relation
    conditions: Conditions
    is_top: bool = False
    subqueries: Subqueries | None = None

    def make(self) -> Query:
        """A SELECT of some kind."""
        kinds: tuple[tuple[int, Callable[[], Query | None]], ...] = (
            (8 if self.relation.rows < MANY_ROWS else 1, self._rows),
            (9, self._grouped_query),
            (3, self._whole),
            (4 if self.relation.rows < MANY_ROWS else 0, self._windowed_query),
            (3, self._distinct),
            (2, self._distinct_on),
            (3, self._top),
            (1, self._counted_query),
        )
        while True:
            found = self._random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]()
            if found is not None:
                return found

    @property
    def _random(self) -> Random:
        return self.scalars.random

    def _form(self, text: str, tail: str = "", *, adds_up: bool = False, picked: Sequence[int] = ()) -> Form:
        parts = [*self.relation.ties]
        if self._random.random() < 0.4:
            parts.append(self.conditions.make())
        if self.conditions.key and self._random.random() < 0.1:
            self.scalars.used.add("pinned key")
            parts.append(self.conditions.about_key())
        return Form(text, self.relation, tuple(parts), tail, adds_up, tuple(picked))

    def _keys(self, outputs: Sequence[Expression]) -> tuple[int, ...]:
        keys = {key.sql for key in self.relation.keys}
        return tuple(place for place, output in enumerate(outputs) if output.sql in keys)

    def _name_outputs(
        self, outputs: Sequence[Expression], *, all_named: bool = False
    ) -> tuple[str, tuple[Expression, ...]]:
        """A SELECT list, with names as people choose them, none twice."""
        texts, columns = [], []
        taken: set[str] = set()
        # In ORDER BY a name of an output goes before a column that is written without its table.
        bare_columns = {
            column.name.lower() for column in self.relation.columns if column.sql == quote_name(column.name)
        }
        for place, output in enumerate(outputs):
            bare = self.is_top and not all_named and self._random.random() < 0.2
            hides_another = output.name.lower() in bare_columns and output.sql != quote_name(output.name)
            if (
                output.name
                and output.name.lower() not in taken
                and not hides_another
                and self._random.random() < 0.5
            ):
                texts.append(output.sql)
                columns.append(output)
                taken.add(output.name.lower())
                continue
            if bare and not hides_another and (not output.name or output.name.lower() not in taken):
                texts.append(output.sql)
                columns.append(replace(output, name=""))
                taken.add(output.name.lower())
                continue
            name = self._random.choice(("x", "y", "n", "Out", "my out", "total", f"o{place}"))
            if name.lower() in taken or name.lower() in bare_columns:
                name = f"o{place}"
            while name.lower() in taken:
                name += "_"
            taken.add(name.lower())
            texts.append(f"{output.sql} AS {quote_name(name)}")
            columns.append(replace(output, name=name))
        return ", ".join(texts), tuple(columns)

    # ---- kinds

    def plain(self, families: Sequence[Family]) -> Query:
        """Expressions of given families."""
        outputs = [self._key_of(family) or self.scalars.expression(family, 1) for family in families]
        text, columns = self._name_outputs(outputs, all_named=True)
        form = self._form(f"SELECT {text}")
        return Query(form.text(), columns, (), self.relation.rows, keys=self._keys(outputs))

    def _key_of(self, family: Family) -> Expression | None:
        """Now and then a column of a key."""
        found = [key for key in self.relation.keys if key.family is family and key.trust <= Trust.EQUAL]
        return self._random.choice(found) if found and self._random.random() < 0.4 else None

    def _outputs(self, most: int) -> list[Expression]:
        found = []
        for _ in range(self._random.randrange(1, most + 1)):
            chance = self._random.random()
            if chance < 0.12:
                strange = [
                    column
                    for column in self.relation.columns
                    if column.family in NESTED or column.trust is Trust.CLOSE
                ]
                if strange:
                    found.append(self._random.choice(strange))
                    continue
            if chance > 0.95 and self.subqueries is not None:
                value = self._subquery_value(self.subqueries)
                if value is not None:
                    found.append(value)
                    continue
            if chance > 0.8 and self.relation.keys:
                found.append(self._random.choice(self.relation.keys))
                continue
            columns = self.scalars.scope.readable()
            found.append(self._random.choice(columns) if columns and chance < 0.7 else self.scalars.any(2))
        return found

    def _subquery_value(self, subqueries: Subqueries) -> Expression | None:
        """What a scalar subquery gives, or the first of several that gives something."""
        family = self._random.choice(SIMPLE)
        values = [
            value
            for _ in range(self._random.choice((1, 1, 2, 3)))
            if (value := subqueries.scalar(family)) is not None
        ]
        if not values:
            return None
        self.scalars.used.add("scalar subquery" if len(values) == 1 else "scalar subqueries")
        merged = self.scalars.merge(*values)
        return (
            values[0]
            if len(values) == 1
            else replace(merged, sql=f"coalesce({', '.join(value.sql for value in values)})")
        )

    def _places(self, outputs: Sequence[Expression], wanted: Sequence[Expression]) -> tuple[int, ...]:
        """Where some expressions are among outputs; empty unless all are."""
        texts = [output.sql for output in outputs]
        return (
            tuple(texts.index(each.sql) for each in wanted)
            if wanted and all(each.sql in texts for each in wanted)
            else ()
        )

    def _rows(self) -> Query:
        if not self.relation.is_merged and self._random.random() < 0.12 and self._can_star():
            self.scalars.used.add("star")
            columns = self.relation.columns
            form = self._form("SELECT *", adds_up=True, picked=range(len(columns)))
            return Query(
                form.text(),
                columns,
                self._places(columns, self.relation.total),
                self.relation.rows,
                keys=self._keys(columns),
                form=form,
            )
        outputs = self._outputs(5)
        if self._random.random() < 0.4:
            outputs += [
                column
                for column in self.relation.total
                if column.sql not in [output.sql for output in outputs]
            ]
        total = self.relation.total
        picked = range(len(outputs))
        lists = [column for column in self.relation.columns if element_family(column) is not None]
        if lists and self._random.random() < 0.15:
            self.scalars.used.add("unnest")
            outputs.append(self._rows_of(self._random.choice(lists)))
            total = ()
        text, columns = self._name_outputs(outputs)
        form = self._form(f"SELECT {text}", adds_up=True, picked=picked)
        return Query(
            form.text(),
            columns,
            self._places(outputs, total),
            self.relation.rows,
            keys=self._keys(outputs),
            form=form,
        )

    def _rows_of(self, column: Expression) -> Expression:
        """What makes a row of each element of a list, or of each part of a text."""
        texts = self.scalars.scope.readable(Family.TEXT)
        chance = self._random.random()
        if chance < 0.25:
            return Expression(f"generate_subscripts({column.sql}, 1)", Family.INTEGER, is_tame=False)
        if chance < 0.5 and texts:
            return Expression(
                f"regexp_split_to_table({self._random.choice(texts).sql}, 'a')", Family.TEXT, is_tame=False
            )
        return Expression(f"unnest({column.sql})", element_family(column) or Family.TEXT, is_tame=False)

    def _can_star(self) -> bool:
        names = [column.name.lower() for column in self.relation.columns]
        return all(names) and (len(set(names)) == len(names))

    def _whole(self) -> Query:
        """Aggregates of all rows."""
        aggregates = Aggregates(self.scalars, self.relation.total)
        outputs = [self._compute_over(aggregates.make()) for _ in range(self._random.randrange(1, 5))]
        text, columns = self._name_outputs(outputs)
        self.scalars.used.add("aggregates of all rows")
        having = ""
        if self._random.random() < 0.1:
            having = f" HAVING count(*) {self._random.choice(COMPARISONS)} {self._random.choice((0, 1, 10))}"
        exact = tuple(place for place, column in enumerate(columns) if column.trust < Trust.CLOSE)
        form = self._form(f"SELECT {text}", having)
        return Query(form.text(), columns, exact[:1], 1, form=form)

    def _compute_over(self, aggregate: Expression) -> Expression:
        """Now and then an expression over an aggregate."""
        if self._random.random() > 0.15 or aggregate.trust is Trust.CLOSE:
            return aggregate
        if self._random.random() < 0.3:
            return self._chained_call(aggregate)
        match aggregate.family:
            case Family.INTEGER if aggregate.is_tame:
                return replace(
                    aggregate,
                    sql=f"({aggregate.sql} {self._random.choice(('+ 1', '* 2', '% 3', '- count(*)'))})",
                    kind="",
                )
            case Family.TEXT:
                return replace(aggregate, sql=f"upper({aggregate.sql})", kind="")
            case Family.FLOAT | Family.DECIMAL | Family.DATE:
                return replace(
                    aggregate,
                    sql=f"coalesce({aggregate.sql}, {self.scalars.literal(aggregate.family).sql})",
                    kind="",
                )
            case _:
                return aggregate

    def _chained_call(self, aggregate: Expression) -> Expression:
        """A call behind a dot."""
        self.scalars.used.add("chained call")
        match aggregate.family:
            case Family.INTEGER if aggregate.is_tame:
                call = self._random.choice((".add(1)", ".abs().add(2)", ".greatest(3)"))
            case Family.TEXT:
                call = self._random.choice((".upper()", ".lower().concat('a')", ".length().add(1)"))
                if "length" in call:
                    return Expression(f"({aggregate.sql}){call}", Family.INTEGER)
            case _:
                return aggregate
        return replace(aggregate, sql=f"({aggregate.sql}){call}", kind="")

    def _groups(self, most: int) -> list[Expression]:
        """What to group by: columns, keys above all, and expressions of columns."""
        random = self._random
        found: list[Expression] = []
        for _ in range(random.randrange(1, most + 1)):
            readable = self.scalars.scope.readable()
            if not readable:
                break
            group = random.choice(
                self.relation.keys if self.relation.keys and random.random() < 0.4 else readable
            )
            if random.random() < 0.2:
                made = self.scalars.any(2)
                made = replace(made, sql=put_samples(made.sql, self.scalars.marked or ()))
                # A literal would be taken for a place in the SELECT list, and a subquery of its own is
                # another expression each time.
                if (
                    any(column.sql in made.sql for column in readable)
                    and "SELECT" not in made.sql
                    and "$" not in made.sql
                ):
                    group = replace(made, name="")
            if group.sql not in [each.sql for each in found] and group.trust < Trust.CLOSE:
                found.append(group.loosen(Trust.EQUAL if group.family in LOOSE else Trust.EXACT))
        return found

    def _grouped_query(self) -> Query | None:
        random = self._random
        groups = self._groups(3)
        if not groups:
            return None
        self.scalars.used.add("group by")
        sets = self._grouping_sets(groups)
        shown = [group for group in groups if random.random() < 0.85]
        is_all = not sets and random.random() < 0.2
        if is_all:
            self.scalars.used.add("group by all")
            groups = shown
        aggregates = Aggregates(self.scalars, self.relation.total, () if sets else tuple(groups))
        outputs = [
            *shown,
            *(self._compute_over(aggregates.make()) for _ in range(random.randrange(0 if shown else 1, 4))),
        ]
        if sets and random.random() < 0.5:
            outputs.append(Expression(f"grouping({random.choice(groups).sql})", Family.INTEGER))
        if random.random() < 0.15:
            random.shuffle(outputs)
        clause = " GROUP BY ALL" if is_all else sets or self._group_clause(groups, outputs)
        is_windowed = not is_all and random.random() < 0.08
        if is_windowed:
            outputs.append(self._group_window(groups))
        text, columns = self._name_outputs(outputs)
        named = self._named_values(outputs, columns) if not is_windowed else []
        if named and random.random() < 0.15 and (over := self._over_alias(named)) is not None:
            text, columns, named = f"{text}, {over.sql} AS later", (*columns, over), [*named, over]
        having, is_finer = "", False
        if random.random() < (0.5 if is_all else 0.25):
            # What HAVING reads is a part of ALL.
            values = [*named, *groups, *(self.scalars.scope.readable() if is_all else ())]
            condition, is_finer = self._having_condition(aggregates, values)
            having = f" HAVING {condition}"
        total = () if sets or (is_all and is_finer) else self._places(outputs, groups)
        grouped = [group.sql for group in groups]
        picked = [place for place, output in enumerate(outputs) if output.sql in grouped and not sets]
        form = self._form(f"SELECT {text}", f"{clause}{having}", picked=picked if not is_windowed else ())
        return Query(
            form.text(),
            columns,
            total,
            self.relation.rows,
            keys=() if sets else self._keys(outputs),
            form=form,
        )

    def _grouping_sets(self, groups: Sequence[Expression]) -> str:
        """A GROUP BY that makes several rows of each combination; empty for a plain one."""
        random = self._random
        texts = [group.sql for group in groups]
        chance = random.random()
        if chance < 0.12:
            self.scalars.used.add("grouping sets")
            subsets = [
                random.sample(texts, random.randrange(0, len(texts) + 1))
                for _ in range(random.choice((2, 3)))
            ]
            return (
                " GROUP BY GROUPING SETS ("
                + ", ".join(f"({', '.join(subset)})" for subset in (texts, *subsets))
                + ")"
            )
        if chance < 0.2:
            name = random.choice(("ROLLUP", "CUBE"))
            self.scalars.used.add(name.lower())
            return f" GROUP BY {name} ({', '.join(texts)})"
        return ""

    def _group_clause(self, groups: Sequence[Expression], outputs: Sequence[Expression]) -> str:
        """A plain GROUP BY, by expressions or by their places."""
        texts = [group.sql for group in groups]
        shown = [output.sql for output in outputs]
        if self._random.random() < 0.12 and all(text in shown for text in texts):
            return f" GROUP BY {', '.join(str(shown.index(text) + 1) for text in texts)}"
        return f" GROUP BY {', '.join(texts)}"

    def _group_window(self, groups: Sequence[Expression]) -> Expression:
        """A window over grouped rows."""
        self.scalars.used.add("window over groups")
        partition = f"PARTITION BY {self._random.choice(groups).sql}" if self._random.random() < 0.5 else ""
        name = self._random.choice(
            ("sum(count(*)) OVER ({})", "max(count(*)) OVER ({})", "rank() OVER ({} ORDER BY count(*))")
        )
        return Expression(name.format(partition), Family.INTEGER)

    def _named_values(self, outputs: Sequence[Expression], columns: Sequence[Expression]) -> list[Expression]:
        """Outputs by their aliases, where no column is called so."""
        known = {column.name.lower() for column in (*self.relation.columns, *self.scalars.scope.outer)}
        return [
            replace(column, sql=quote_name(column.name))
            for output, column in zip(outputs, columns, strict=True)
            if column.name and column.name != output.name and column.name.lower() not in known
        ]

    def _over_alias(self, named: Sequence[Expression]) -> Expression | None:
        """An output over the alias of another one."""
        fitting = [each for each in named if each.family is Family.INTEGER and each.is_tame]
        if not fitting or any(each.name == "later" for each in named):
            return None
        self.scalars.used.add("output over an alias")
        chosen = self.scalars.random.choice(fitting)
        text = f"{chosen.sql} {self.scalars.random.choice(('+ 1', '% 3', '* 2'))}"
        return replace(chosen, sql=text, name="later", kind="")

    def _having_condition(self, aggregates: Aggregates, values: Sequence[Expression]) -> tuple[str, bool]:
        """A condition on aggregates, or on other values of groups, and whether it is on these."""
        random = self.scalars.random
        self.scalars.used.add("having")
        if random.random() < 0.5:
            fitting = [each for each in values if _is_compared(each)]
            if fitting:
                self.scalars.used.add("having about groups")
                value = random.choice(fitting)
                sql = quote_name(value.name) if value.name == "later" else value.sql
                literal = self.scalars.literal(value.family).sql
                return f"{sql} {random.choice(COMPARISONS)} {literal}", True
        for _ in range(4):
            value = aggregates.make()
            if _is_compared(value):
                literal = self.scalars.literal(value.family).sql
                return f"{value.sql} {random.choice(COMPARISONS)} {literal}", False
        return f"count(*) {random.choice(COMPARISONS)} {random.choice((1, 2, 3))}", False

    def _windowed_query(self) -> Query:
        windows = Windows(self.scalars, self.relation.total, self.relation.keys)
        outputs = [*self._outputs(3), *(windows.make() for _ in range(self._random.choice((1, 1, 2))))]
        qualify = ""
        if self._random.random() < 0.3:
            self.scalars.used.add("qualify")
            qualify = (
                f" QUALIFY {windows.rank().sql} {self._random.choice(('=', '<=', '<', '>'))} "
                f"{self._random.choice((1, 2, 3))}"
            )
        text, columns = self._name_outputs(outputs)
        form = self._form(f"SELECT {text}", qualify)
        return Query(
            form.text(),
            columns,
            self._places(outputs, self.relation.total),
            self.relation.rows,
            keys=self._keys(outputs),
            form=form,
        )

    def _distinct(self) -> Query | None:
        outputs = [output for output in self._outputs(3) if output.trust < Trust.CLOSE]
        if not outputs:
            return None
        self.scalars.used.add("distinct")
        outputs = [
            output.loosen(
                Trust.EQUAL if output.family in (*LOOSE, Family.LIST, Family.STRUCT) else Trust.EXACT
            )
            for output in outputs
        ]
        text, columns = self._name_outputs(outputs)
        every = tuple(range(len(columns)))
        form = self._form(f"SELECT DISTINCT {text}", picked=every)
        keys = self._keys(outputs)
        return Query(form.text(), columns, every, self.relation.rows, keys=keys, form=form)

    def _total_order(self) -> str | None:
        """An ORDER BY, behind some of its columns, in which no two rows tie that differ in what
        can be read.
        """
        total = self.relation.total or self.relation.columns
        if any(column.trust is Trust.CLOSE or column.family is Family.MAP for column in total):
            return None
        readable = self.scalars.scope.readable()
        first = self._random.sample(readable, min(len(readable), self._random.randrange(0, 3)))
        texts = dict.fromkeys(column.sql for column in (*first, *total))
        return ", ".join(
            text + self._random.choice(("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
            for text in texts
        )

    def _distinct_on(self) -> Query | None:
        groups, order = self._groups(2), self._total_order()
        if not groups or order is None:
            return None
        self.scalars.used.add("distinct on")
        on = ", ".join(group.sql for group in groups)
        text, columns = self._name_outputs([output.loosen(Trust.EQUAL) for output in self._outputs(3)])
        form = self._form(f"SELECT DISTINCT ON ({on}) {text}", f" ORDER BY {on}, {order}")
        return Query(form.text(), columns, (), self.relation.rows, is_limited=True, form=form)

    def _top(self) -> Query | None:
        """Rows ordered by columns that need not be shown, and limited."""
        order = self._total_order()
        if order is None:
            return None
        self.scalars.used.add("order by, limit")
        outputs = [output.loosen(Trust.EQUAL) for output in self._outputs(4)]
        text, columns = self._name_outputs(outputs)
        limit = f"LIMIT {self._random.choice((0, 1, 2, 5, 10, 50))}" + self._random.choice(
            ("", "", " OFFSET 1", " OFFSET 7")
        )
        form = self._form(f"SELECT {text}", f" ORDER BY {order} {limit}")
        return Query(
            form.text(),
            columns,
            self._places(outputs, self.relation.total),
            50,
            is_limited=True,
            ordered=tuple(range(len(columns))),
            keys=self._keys(outputs),
            form=form,
        )

    def _counted_query(self) -> Query:
        """How many rows a LIMIT without an order leaves."""
        self.scalars.used.add("limit without order")
        column = self._random.choice(self.relation.columns).sql
        inner = (
            f"{self._form(f'SELECT {column} AS c').text()} LIMIT {self._random.choice((0, 1, 5, 1000))}"
            + self._random.choice(("", " OFFSET 3"))
        )
        return Query(
            f"SELECT count(*) AS n FROM ({inner}) AS limited",
            (Expression("", Family.INTEGER, name="n"),),
            (0,),
            1,
        )


def _is_compared(value: Expression) -> bool:
    """Whether a value is compared with literals."""
    return value.trust < Trust.CLOSE and value.family in SIMPLE
