"""Random aggregates whose value does not depend on the order of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.oracle.kinds import LOOSE, NUMBERS, SIMPLE, Expression, Family, Trust
from tests.oracle.scalars import Scalars

FINITE = "CASE WHEN isfinite({0}) THEN {0} END"


@dataclass(frozen=True)
class Aggregates:
    """Makes aggregates.

    Attributes:
        scalars: Makes their arguments.
        total: Columns that no two rows have in common; empty where rows may be equal.
        groups: What rows of a group have in common.
    """

    scalars: Scalars
    total: tuple[Expression, ...] = ()
    groups: tuple[Expression, ...] = ()

    def make(self, *, windowed: bool = False) -> Expression:
        """An aggregate; `windowed`: one that DuckDB takes with OVER, without an order of its own."""
        random = self.scalars.random
        choices = _WINDOWED if windowed else _ALL
        while True:
            made = random.choice(choices)(self)
            if made is not None:
                break
        if random.random() < 0.18 and made.sql.endswith(")"):
            self.scalars.used.add("filter")
            made = replace(made, sql=f"{made.sql} FILTER (WHERE {self.scalars.condition(1)})")
        if not windowed and random.random() < 0.04 and self.reads(made):
            # It is of this SELECT all the same.
            self.scalars.used.add("aggregate in a subquery")
            made = replace(made, sql=f"(SELECT {made.sql})")
        return replace(made, name="")

    def argument(
        self, families: Sequence[Family] = SIMPLE, *, tame: bool = False, trust: Trust = Trust.EQUAL
    ) -> Expression | None:
        """A column of some family, most often, or an expression of it."""
        random = self.scalars.random
        found = [
            column
            for column in self.scalars.scope.readable(None, trust)
            if column.family in families and (column.is_tame or not tame)
        ]
        if not found and random.random() < 0.7:
            return None
        if found and random.random() < 0.7:
            column = random.choice(found)
            if column.family is Family.TEXT and random.random() < 0.15:
                return Expression(f"({column.sql})[{self.scalars.place()}]", Family.TEXT)
            return column
        family = random.choice(found).family if found else random.choice(families)
        return self.scalars.expression(family, 2, tame=tame, trust=trust)

    def reads(self, value: Expression) -> bool:
        """Whether an expression reads a column: an aggregate cannot be ordered by a literal."""
        return any(
            column.sql in value.sql for column in (*self.scalars.scope.columns, *self.scalars.scope.outer)
        )

    def order(self, first: Expression, *, descending: bool | None = None) -> str:
        """An ORDER BY in which rows that tie have the same value of an expression."""
        random = self.scalars.random
        parts = []
        other = self.argument()
        if other is not None and self.reads(other) and random.random() < 0.7:
            parts.append(other.sql)
        ordered = [*parts, first.sql]
        return ", ".join(
            part + random.choice(("", "", " DESC", " DESC NULLS FIRST", " NULLS FIRST")) for part in ordered
        )


_Maker = Callable[[Aggregates], Expression | None]


def _count_rows(make: Aggregates) -> Expression:
    make.scalars.used.add("count")
    return Expression(
        make.scalars.random.choice(("count(*)", "count(*)", "count()")), Family.INTEGER, "BIGINT"
    )


def _count(make: Aggregates) -> Expression | None:
    value = make.argument()
    make.scalars.used.add("count")
    return value and Expression(f"count({value.sql})", Family.INTEGER, "BIGINT")


def _count_distinct(make: Aggregates) -> Expression | None:
    value = make.argument()
    make.scalars.used.add("count distinct")
    return value and Expression(f"count(DISTINCT {value.sql})", Family.INTEGER, "BIGINT")


def _count_distinct_twice(make: Aggregates) -> Expression | None:
    """The same values, written in two ways."""
    value = make.argument()
    make.scalars.used.add("count distinct")
    if value is None:
        return None
    other = make.scalars.random.choice(("({0})", "row({0}, {0})", "(({0}), {0})", "coalesce(({0}))"))
    counts = f"count(DISTINCT {value.sql}) - 3 * count(DISTINCT {other.format(value.sql)})"
    return Expression(counts, Family.INTEGER, "BIGINT")


def _sum(make: Aggregates) -> Expression | None:
    value = make.argument(NUMBERS, tame=True)
    make.scalars.used.add("sum")
    return value and Expression(f"sum({value.sql})", value.family, trust=_trust_of_sum(value))


def _trust_of_sum(value: Expression) -> Trust:
    return max(value.trust, Trust.EQUAL if value.family in LOOSE else Trust.EXACT)


def _wild_sum(make: Aggregates) -> Expression | None:
    value = make.argument((Family.INTEGER,))
    make.scalars.used.add("sum")
    return value and Expression(f"sum({value.sql})", Family.INTEGER, is_tame=False)


def _sum_distinct(make: Aggregates) -> Expression | None:
    value = make.argument(NUMBERS, tame=True)
    make.scalars.used.add("sum distinct")
    return value and Expression(f"sum(DISTINCT {value.sql})", value.family, trust=_trust_of_sum(value))


def _average(make: Aggregates) -> Expression | None:
    value = make.argument(NUMBERS, tame=True)
    make.scalars.used.add("avg")
    distinct = make.scalars.random.choice(("", "", "", "DISTINCT "))
    return value and Expression(
        f"{make.scalars.random.choice(('avg', 'avg', 'mean'))}({distinct}{value.sql})",
        Family.FLOAT,
        trust=Trust.CLOSE,
    )


def _extreme(make: Aggregates) -> Expression | None:
    value = make.argument()
    make.scalars.used.add("min, max")
    return value and replace(
        value,
        sql=f"{make.scalars.random.choice(('min', 'max'))}({value.sql})",
        trust=_trust_of_sum(value),
        kind="",
        is_tame=value.is_tame,
    )


def _nested_extreme(make: Aggregates) -> Expression | None:
    value = make.argument()
    make.scalars.used.add("min, max of n")
    return value and Expression(
        f"{make.scalars.random.choice(('min', 'max'))}({value.sql}, {make.scalars.random.choice((1, 2, 3))})",
        Family.LIST,
        trust=_trust_of_sum(value),
    )


def _boolean(make: Aggregates) -> Expression | None:
    value = make.argument((Family.BOOLEAN,))
    make.scalars.used.add("bool_and, bool_or")
    return value and Expression(
        f"{make.scalars.random.choice(('bool_and', 'bool_or'))}({value.sql})", Family.BOOLEAN
    )


def _count_if(make: Aggregates) -> Expression:
    make.scalars.used.add("count_if")
    return Expression(
        f"{make.scalars.random.choice(('count_if', 'countif'))}({make.scalars.condition(1)})", Family.INTEGER
    )


def _bits(make: Aggregates) -> Expression | None:
    value = make.argument((Family.INTEGER,))
    make.scalars.used.add("bit_and, bit_or, bit_xor")
    return value and Expression(
        f"{make.scalars.random.choice(('bit_and', 'bit_or', 'bit_xor'))}({value.sql})",
        Family.INTEGER,
        is_tame=False,
    )


def _any_value(make: Aggregates) -> Expression | None:
    make.scalars.used.add("any_value")
    plain = [group for group in make.groups if group.family in SIMPLE and group.trust <= Trust.EQUAL]
    if not plain:
        return None
    group = make.scalars.random.choice(plain)
    return replace(
        group,
        sql=f"{make.scalars.random.choice(('any_value', 'first', 'last', 'arbitrary'))}({group.sql})",
        trust=_trust_of_sum(group),
        kind="",
    )


def _first(make: Aggregates) -> Expression | None:
    value = make.argument()
    make.scalars.used.add("first, last")
    if value is None or not make.reads(value):
        return None
    return replace(
        value,
        sql=(
            f"{make.scalars.random.choice(('first', 'last', 'any_value'))}({value.sql} ORDER BY "
            f"{make.order(value)})"
        ),
        trust=_trust_of_sum(value),
        kind="",
    )


def _arg_extreme(make: Aggregates) -> Expression | None:
    """By a key that no two rows have in common, or by a row that holds the value itself: rows that tie have
    the same value. Or in an order, whose first row has the choice of those that tie.
    """
    value, by = make.argument(), make.argument()
    if value is None or by is None:
        return None
    make.scalars.used.add("arg_min, arg_max")
    name = make.scalars.random.choice(("arg_min", "arg_max", "min_by", "max_by"))
    if make.scalars.random.random() < 0.3 and make.reads(value) and make.reads(by):
        return replace(
            value,
            sql=f"{name}({value.sql}, {by.sql} ORDER BY {make.order(value)})",
            trust=max(_trust_of_sum(value), by.trust),
            kind="",
        )
    if len(make.total) == 1 and make.scalars.random.random() < 0.7:
        return replace(
            value, sql=f"{name}({value.sql}, {make.total[0].sql})", trust=_trust_of_sum(value), kind=""
        )
    return replace(
        value, sql=f"{name}({value.sql}, ({by.sql}, {value.sql}))", trust=_trust_of_sum(value), kind=""
    )


def _list(make: Aggregates) -> Expression | None:
    value = make.argument()
    make.scalars.used.add("list")
    if value is None or not make.reads(value):
        return None
    if make.scalars.random.random() < 0.3:
        first = make.scalars.random.choice(("", "", f"({value.sql}) IS NULL, "))
        order = make.scalars.random.choice(("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
        return Expression(
            f"list(DISTINCT {value.sql} ORDER BY {first}{value.sql}{order})",
            Family.LIST,
            trust=_trust_of_sum(value),
        )
    return Expression(
        f"{make.scalars.random.choice(('list', 'array_agg'))}({value.sql} ORDER BY {make.order(value)})",
        Family.LIST,
        trust=_trust_of_sum(value),
    )


def _string_agg(make: Aggregates) -> Expression | None:
    value = make.argument((Family.TEXT,), trust=Trust.EXACT)
    make.scalars.used.add("string_agg")
    separator = make.scalars.random.choice(("','", "''", "' | '"))
    name = make.scalars.random.choice(("string_agg", "group_concat", "listagg"))
    distinct = make.scalars.random.random() < 0.2
    if value is None or not make.reads(value):
        return None
    made_of_it = make.scalars.random.choice(("", f"length({value.sql}), "))
    order = f"{made_of_it}{value.sql}" if distinct else make.order(value)
    return Expression(
        f"{name}({'DISTINCT ' if distinct else ''}{value.sql}, {separator} ORDER BY {order})", Family.TEXT
    )


def _spread(make: Aggregates) -> Expression | None:
    value = make.argument(NUMBERS, tame=True)
    make.scalars.used.add("stddev, variance")
    names = (
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "var_pop",
        "var_samp",
        "variance",
        "sem",
        "skewness",
        "kurtosis",
        "kurtosis_pop",
    )
    return value and Expression(
        f"{make.scalars.random.choice(names)}({_finite(value)})", Family.FLOAT, trust=Trust.CLOSE
    )


def _finite(value: Expression) -> str:
    return FINITE.format(value.sql) if value.family is Family.FLOAT else value.sql


def _pair(make: Aggregates) -> Expression | None:
    first, second = make.argument(NUMBERS, tame=True), make.argument(NUMBERS, tame=True)
    make.scalars.used.add("covariance, correlation, regression")
    names = (
        "covar_pop",
        "covar_samp",
        "corr",
        "regr_slope",
        "regr_intercept",
        "regr_count",
        "regr_avgx",
        "regr_avgy",
        "regr_sxx",
        "regr_sxy",
        "regr_r2",
    )
    if first is None or second is None:
        return None
    return Expression(
        f"{make.scalars.random.choice(names)}({_finite(first)}, {_finite(second)})",
        Family.FLOAT,
        trust=Trust.CLOSE,
    )


def _quantile(make: Aggregates) -> Expression | None:
    value = make.argument(NUMBERS, tame=True)
    make.scalars.used.add("quantiles")
    if value is None:
        return None
    name = make.scalars.random.choice(
        (
            "median({})",
            "quantile_cont({}, 0.25)",
            "quantile_disc({}, 0.5)",
            "quantile_disc({}, [0.1, 0.9])",
            "mad({})",
        )
    )
    return Expression(name.format(value.sql), Family.LIST if "[" in name else Family.FLOAT, trust=Trust.CLOSE)


def _approximate(make: Aggregates) -> Expression | None:
    value = make.argument((Family.INTEGER, Family.TEXT, Family.DATE))
    make.scalars.used.add("approx_count_distinct")
    return value and Expression(f"approx_count_distinct({value.sql})", Family.INTEGER, "BIGINT")


def _histogram(make: Aggregates) -> Expression | None:
    value = make.argument((Family.INTEGER, Family.TEXT, Family.BOOLEAN, Family.DATE))
    make.scalars.used.add("histogram")
    return value and Expression(f"histogram({value.sql})", Family.MAP)


def _others(make: Aggregates) -> Expression | None:
    value = make.argument((Family.INTEGER,), tame=True)
    make.scalars.used.add("product, entropy, fsum")
    if value is None:
        return None
    name = make.scalars.random.choice(
        (
            "entropy({})",
            "fsum({})",
            "favg({})",
            "product(CASE WHEN {} BETWEEN 1 AND 3 THEN 2 END)",
            "kahan_sum({})",
        )
    )
    return Expression(name.format(value.sql), Family.FLOAT, trust=Trust.CLOSE)


_WINDOWED: tuple[_Maker, ...] = (
    _count_rows,
    _count,
    _sum,
    _average,
    _extreme,
    _boolean,
    _bits,
    _count_distinct,
)
_ALL: tuple[_Maker, ...] = (
    _count_rows,
    _count_rows,
    _count,
    _count,
    _count_distinct,
    _count_distinct_twice,
    _sum,
    _sum,
    _wild_sum,
    _sum_distinct,
    _average,
    _average,
    _extreme,
    _extreme,
    _extreme,
    _nested_extreme,
    _boolean,
    _count_if,
    _bits,
    _any_value,
    _first,
    _arg_extreme,
    _list,
    _string_agg,
    _spread,
    _pair,
    _quantile,
    _approximate,
    _histogram,
    _others,
)
