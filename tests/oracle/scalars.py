"""Random typed scalar expressions over the columns in scope."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.oracle.kinds import NUMBERS, SIMPLE, Expression, Family, Trust, text_literal
from tests.oracle.values import WORDS

_DATES = ("1969-12-31", "1970-01-01", "1970-02-28", "2024-02-29", "2024-03-01")
_TIMES = ("00:00:00", "01:00:00", "12:00:00", "23:59:59.999999")
_INTERVALS = (
    *("1 day", "24 hours", "1 month", "30 days", "0 days", "-1 day", "90 minutes", "1 year 2 days"),
    *("1.5 days", "0.5 hours"),
)
_LITERALS: dict[Family, Callable[[Random], str]] = {
    Family.INTEGER: lambda random: str(random.choice((0, 1, 2, 3, 5, 7, 10, -1, -3, 12, 60))),
    Family.DECIMAL: lambda random: random.choice(
        ("0.5", "1.25", "0.00", "-2.5", "10.1", "3.0", ".5", "-.25")
    ),
    Family.FLOAT: lambda random: random.choice(
        (
            "1.5e0",
            "0e0",
            "-2.25e0",
            "CAST('nan' AS DOUBLE)",
            "CAST('inf' AS DOUBLE)",
            "CAST(-0.0 AS DOUBLE)",
            "0.125e0",
        )
    ),
    Family.TEXT: lambda random: text_literal(random.choice(WORDS)),
    Family.BLOB: lambda random: random.choice(
        ("CAST('a' AS BLOB)", "CAST('' AS BLOB)", "CAST('\\xFF' AS BLOB)", "x'61'", "X'ff'", "x''")
    ),
    Family.BOOLEAN: lambda random: random.choice(("TRUE", "FALSE")),
    Family.DATE: lambda random: random.choice(
        (
            f"DATE '{random.choice(_DATES)}'",
            f"DATE '{random.choice(_DATES)}'",
            "current_date",
            "(today() - 1)",
        )
    ),
    Family.TIMESTAMP: lambda random: random.choice(
        (
            f"TIMESTAMP '{random.choice(_DATES)} 0{random.randrange(3)}:00:00'",
            f"TIMESTAMP '{random.choice(_DATES)} 0{random.randrange(3)}:00:00'",
            "current_localtimestamp()",
            "(localtimestamp - INTERVAL 1 DAY)",
        )
    ),
    Family.TIMESTAMPTZ: lambda random: random.choice(
        (
            f"TIMESTAMPTZ '{random.choice(_DATES)} 00:00:00+0{random.randrange(3)}'",
            "now()",
            "current_timestamp",
            "(now() - INTERVAL 1 HOUR)",
        )
    ),
    Family.TIME: lambda random: f"TIME '{random.choice(_TIMES)}'",
    Family.INTERVAL: lambda random: f"INTERVAL '{random.choice(_INTERVALS)}'",
}
_TYPES = {
    Family.INTEGER: "BIGINT",
    Family.DECIMAL: "DECIMAL(18,4)",
    Family.FLOAT: "DOUBLE",
    Family.TEXT: "VARCHAR",
    Family.BLOB: "BLOB",
    Family.BOOLEAN: "BOOLEAN",
    Family.DATE: "DATE",
    Family.TIMESTAMP: "TIMESTAMP",
    Family.TIMESTAMPTZ: "TIMESTAMPTZ",
    Family.TIME: "TIME",
    Family.INTERVAL: "INTERVAL",
}


_OTHER_TYPES: dict[Family, tuple[str, ...]] = {
    Family.INTEGER: (
        "CAST({0} AS DOUBLE)",
        "(CAST({0} AS DOUBLE) + 0.5)",
        "CAST({0} AS DECIMAL(38,2))",
        "(CAST({0} AS DECIMAL(38,2)) - 0.25)",
    ),
    Family.DECIMAL: ("CAST({0} AS DOUBLE)", "(CAST({0} AS DOUBLE) + 0.004)"),
    Family.FLOAT: ("CAST({0} AS DOUBLE)", "(CAST({0} AS DOUBLE) + 0.001)"),
    Family.DATE: (
        "CAST({0} AS TIMESTAMP)",
        "(CAST({0} AS TIMESTAMP) + INTERVAL 12 HOUR)",
        "CAST({0} AS TIMESTAMPTZ)",
    ),
    Family.TIMESTAMP: ("CAST({0} AS DATE)", "CAST({0} AS TIMESTAMPTZ)"),
    Family.TIMESTAMPTZ: ("CAST({0} AS DATE)", "CAST({0} AS TIMESTAMP)"),
}
"""Values of types that a column does not have but is compared with."""
_COMPUTED: dict[Family, tuple[str, ...]] = {
    Family.INTEGER: ("({0} + 1 - 1)", "CAST({0} AS BIGINT)", "abs({0})", "({0} * 1.0)", "({0} / 1)"),
    Family.DECIMAL: ("({0} + 0.5 - 0.5)", "round({0}, 1)", "(0 - {0})"),
    Family.FLOAT: ("({0} + 0.5)", "abs({0})"),
    Family.TEXT: ("({0} || '')", "lower({0})", "concat('a', {0})", "CAST({0} AS VARCHAR)"),
    Family.DATE: (
        "({0} + 1)",
        "({0} - INTERVAL 1 DAY)",
        "({0} + INTERVAL 12 HOUR)",
        "(now() - (current_timestamp - {0}))",
        "(now() - INTERVAL 90 MINUTE)",
    ),
    Family.TIMESTAMP: (
        "({0} - INTERVAL 1 DAY)",
        "date_trunc('day', {0})",
        "(now() - (localtimestamp - {0}))",
        "ago(INTERVAL 1 MONTH)",
    ),
    Family.TIMESTAMPTZ: ("({0} - INTERVAL 1 DAY)", "date_trunc('day', now())", "ago(INTERVAL 1 DAY)"),
}
"""What the engine computes of a literal before rows are read."""


_MARK = re.compile("\ue000(\\d+)\ue001")


@dataclass(frozen=True)
class Sample:
    """A literal that a column is compared with. It stands in a text as a mark, which can be filled otherwise.

    Attributes:
        literal: Its text.
        column: The column.
    """

    literal: str
    column: Expression


def put_samples(sql: str, samples: Sequence[Sample], others: Mapping[int, str] | None = None) -> str:
    """A text with values in place of its marks.

    Args:
        sql: The text.
        samples: What was marked.
        others: What stands there instead of a literal, by the number of its mark.
    """

    def value(found: re.Match[str]) -> str:
        number = int(found[1])
        return (others or {}).get(number, samples[number].literal)

    return _MARK.sub(value, sql) if samples else sql


def marks_of(sql: str) -> list[int]:
    """The numbers of a text's marks, once each."""
    return [int(number) for number in dict.fromkeys(_MARK.findall(sql))]


@dataclass(frozen=True)
class Scope:
    """What an expression may read.

    Attributes:
        columns: Columns of the FROM clause.
        outer: Columns of queries around it.
    """

    columns: tuple[Expression, ...]
    outer: tuple[Expression, ...] = ()

    def readable(self, family: Family | None = None, trust: Trust = Trust.EQUAL) -> list[Expression]:
        """Columns of a family (None: of any simple one) that are determined at least so surely."""
        families = SIMPLE if family is None else (family,)
        return [column for column in self.columns if column.family in families and column.trust <= trust]


@dataclass
class Scalars:
    """Makes expressions.

    Attributes:
        random: Where chance comes from.
        scope: What may be read.
        is_reckless: Make what can overflow, too.
        used: Features that were used; added to.
        parameters: Values of the statement's parameters, as literals, added to; None for a statement without.
        marked: Literals that stand as marks in texts, added to; None to have them stand there themselves.
    """

    random: Random
    scope: Scope
    is_reckless: bool = False
    used: set[str] = field(default_factory=set)
    parameters: list[str] | None = None
    marked: list[Sample] | None = None

    # ---- leaves

    def literal(self, family: Family) -> Expression:
        text = _LITERALS[family](self.random)
        if self.parameters is not None and family not in _MADE and self.random.random() < 0.3:
            return Expression(self._parameter(f"CAST({text} AS {_TYPES[family]})"), family)
        return Expression(text, family)

    def _parameter(self, value: str) -> str:
        assert self.parameters is not None
        self.parameters.append(value)
        return f"${len(self.parameters)}"

    def place(self) -> str:
        """A place in a list or a text, or a key of a map: a literal, a parameter, or computed."""
        self.used.add("place")
        literal = self.random.choice(("1", "2", "-1", "0"))
        if self.random.random() < 0.4:
            return literal
        if self.parameters is not None and self.random.random() < 0.5:
            return self._parameter(f"CAST({literal} AS {self.random.choice(('BIGINT', 'INTEGER'))})")
        # A column as it stands, where there is one: its type decides what planning may take it for.
        found = self.column(Family.INTEGER, tame=True)
        return literal if found is None else self.random.choice(("{}", "{} % 3", "abs({})")).format(found.sql)

    def null(self, family: Family) -> Expression:
        return Expression(f"CAST(NULL AS {_TYPES[family]})", family)

    def column(self, family: Family, *, tame: bool = False, trust: Trust = Trust.EQUAL) -> Expression | None:
        """A column of the FROM clause; now and then one of a query around."""
        found = [column for column in self.scope.readable(family, trust) if column.is_tame or not tame]
        around = [
            column
            for column in self.scope.outer
            if column.family is family and column.trust <= trust and (column.is_tame or not tame)
        ]
        if around and (not found or self.random.random() < 0.15):
            self.used.add("correlated")
            return self.random.choice(around)
        return self.random.choice(found) if found else None

    def leaf(self, family: Family, *, tame: bool = False, trust: Trust = Trust.EQUAL) -> Expression:
        """A column, or else a literal."""
        if self.random.random() < 0.04:
            return self.null(family)
        found = (
            self.column(family, tame=tame and not self.is_reckless, trust=trust)
            if self.random.random() < 0.85
            else None
        )
        if found is None and family in _MADE and self.random.random() < 0.7:
            # No store has columns of these types.
            return _MADE[family](self, 0)
        if found is not None and family is Family.TEXT and not tame and self.random.random() < 0.15:
            return Expression(f"({found.sql})[{self.place()}]", family)
        return found or self.literal(family)

    def sample(self, column: Expression) -> str:
        """A literal to compare a column with: most often of a value that is there."""
        if column.family in _LITERALS and (not column.samples or self.random.random() < 0.15):
            return self._mark(_LITERALS[column.family](self.random), column)
        found = self.random.choice(column.samples)
        if column.family in _COMPUTED and column.is_tame and self.random.random() < 0.15:
            self.used.add("computed constant")
            return self.random.choice(_COMPUTED[column.family]).format(found)
        if self.parameters is None or not column.kind or self.random.random() < 0.5:
            return self._mark(found, column)
        if column.family in _OTHER_TYPES and self.random.random() < 0.5:
            self.used.add("parameter of another type")
            return self._parameter(self.random.choice(_OTHER_TYPES[column.family]).format(found))
        return self._parameter(f"CAST({found} AS {column.kind})")

    def _mark(self, text: str, column: Expression) -> str:
        if self.marked is None:
            return text
        self.marked.append(Sample(text, column))
        return f"\ue000{len(self.marked) - 1}\ue001"

    # ---- expressions

    def any(self, depth: int, families: Sequence[Family] = SIMPLE) -> Expression:
        """An expression of some family, most often of one that has columns."""
        there = [family for family in families if self.scope.readable(family)]
        return self.expression(
            self.random.choice(there if there and self.random.random() < 0.9 else families), depth
        )

    def expression(
        self, family: Family, depth: int, *, tame: bool = False, trust: Trust = Trust.EQUAL
    ) -> Expression:
        """An expression of a family.

        Args:
            family: The family.
            depth: How deep it may nest.
            tame: Whether it must be small enough for arithmetic.
            trust: How surely it must be determined.
        """
        if depth <= 0 or self.random.random() < 0.45:
            return self.leaf(family, tame=tame, trust=trust)
        if self.random.random() < 0.3:
            return self._choice(family, depth, tame=tame, trust=trust)
        made = _COMPOSERS[family](self, depth - 1)
        return (
            made
            if made.trust <= trust and (made.is_tame or not tame)
            else self.leaf(family, tame=tame, trust=trust)
        )

    def _choice(self, family: Family, depth: int, *, tame: bool, trust: Trust) -> Expression:
        """CASE, COALESCE, NULLIF: of every family."""
        first, second = (self.expression(family, depth - 1, tame=tame, trust=trust) for _ in range(2))
        merged = self.merge(first, second)
        kind = self.random.randrange(4)
        if kind == 0:
            return replace(merged, sql=f"coalesce({first.sql}, {second.sql})")
        if kind == 1 and first.trust is Trust.EXACT:
            return replace(first, sql=f"nullif({first.sql}, {second.sql})", kind="", name="")
        condition = self.condition(depth - 1)
        otherwise = f" ELSE {second.sql}" if kind == 2 else ""
        self.used.add("case")
        return replace(merged, sql=f"CASE WHEN {condition} THEN {first.sql}{otherwise} END")

    def merge(self, *parts: Expression) -> Expression:
        """What is known of a value that is one of these."""
        return Expression(
            "",
            parts[0].family,
            "",
            max(part.trust for part in parts),
            all(part.is_tame for part in parts),
            tuple(s for part in parts for s in part.samples),
        )

    def condition(self, depth: int) -> str:
        """A small condition, for CASE and FILTER; `tests.oracle.conditions` makes the large ones."""
        column = self.column(self.random.choice(SIMPLE))
        if column is None or self.random.random() < 0.1:
            columns = self.scope.readable()
            if not columns:
                return self.random.choice(("TRUE", "FALSE", "NULL"))
            column = self.random.choice(columns)
        if column.family is Family.BOOLEAN and self.random.random() < 0.5:
            return column.sql
        match self.random.randrange(4):
            case 0:
                return f"{column.sql} IS {self.random.choice(('', 'NOT '))}NULL"
            case 1 if depth > 0:
                return (
                    f"({self.condition(depth - 1)} {self.random.choice(('AND', 'OR'))} "
                    f"{self.condition(depth - 1)})"
                )
            case _:
                return (
                    f"({column.sql} {self.random.choice(('=', '<>', '<', '<=', '>', '>='))} "
                    f"{self.sample(column)})"
                )


_LIST_FORMS = (
    "len(range({0}))",
    "list_sum(generate_series({0}))::BIGINT",
    "list_sum(list_transform(range({0}), lambda e: e + {1}))::BIGINT",
    "len(list_transform(range({0}), lambda e: repeat('ab', e::INTEGER))[-1])",
    "list_reduce(generate_series({0}), lambda e, f: e + f)",
    "len([e FOR e IN range({0}) IF e > {1}])",
)
"""Values from a list of so many elements; those with lambdas capture another value."""


_PREFIX_FORMS = (
    *("(~ ~{})", "(- -{})", "(-(~{}))", "(~(-{}))", "(~{} + 1)", "(3 - ~{})", "(~{} & 7)"),
    *("(~{} * 2 - 1)", "(- - -{})"),
)


def _wide(part: Expression) -> str:
    return f"CAST({part.sql} AS BIGINT)"


def _integer(make: Scalars, depth: int) -> Expression:
    kind = make.random.randrange(15)
    if kind < 6:
        return _arithmetic(make, depth, kind)
    if kind == 14:
        operand = _wide(make.expression(Family.INTEGER, depth, tame=True))
        return Expression(make.random.choice(_PREFIX_FORMS).format(operand), Family.INTEGER)
    sources = {
        6: (Family.TEXT, ("length({})", "strlen({})", "ascii({})")),
        7: (Family.DATE, ("year({})", "month({})", "day({})", "dayofweek({})", "dayofyear({})")),
        8: (Family.BOOLEAN, ("CAST({} AS INTEGER)",)),
        9: (
            Family.TIMESTAMP,
            (
                "extract(hour FROM {})",
                "extract(minute FROM {})",
                "extract(year FROM {})",
                "extract('day' FROM {})",
                "date_part('month', {})",
            ),
        ),
    }
    if kind in sources:
        family, forms = sources[kind]
        return Expression(
            make.random.choice(forms).format(
                make.expression(family, depth if family is Family.TEXT else 0).sql
            ),
            Family.INTEGER,
        )
    if kind == 10:
        nested = [column for column in make.scope.columns if column.family is Family.LIST]
        if not nested:
            wide = _wide(make.expression(Family.INTEGER, 0, tame=True))
            return Expression(f"MAP {{1: 5, 2: {wide}, -1: 7}}[{make.place()}]", Family.INTEGER)
        listed = make.random.choice(nested).sql
        form = make.random.choice(("len({0})", "length(CAST(({0})[{1}] AS VARCHAR))"))
        return Expression(form.format(listed, make.place()), Family.INTEGER)
    if kind == 11:
        operand = make.random.choice(
            (
                str(make.random.randrange(6)),
                f"(abs(CAST({make.expression(Family.INTEGER, 0, tame=True).sql} AS INTEGER)) % 5)",
            )
        )
        return Expression(f"CAST({operand}! AS BIGINT)", Family.INTEGER)
    if kind == 12:
        size = f"least(greatest({_wide(make.expression(Family.INTEGER, 0, tame=True))}, 0), 9)"
        text = make.random.choice(_LIST_FORMS)
        if "lambda" in text or " FOR " in text:
            make.used.add("lambda")
        captured = _wide(make.expression(Family.INTEGER, 0, tame=True))
        return Expression(text.format(size, captured), Family.INTEGER)
    left, right = (make.expression(Family.INTEGER, depth, tame=True) for _ in range(2))
    return Expression(
        f"{make.random.choice(('greatest', 'least'))}({_wide(left)}, {_wide(right)})", Family.INTEGER
    )


def _arithmetic(make: Scalars, depth: int, kind: int) -> Expression:
    if kind == 5:
        left = make.expression(Family.INTEGER, depth)
        text = f"({left.sql} {make.random.choice(('%', '//'))} {make.random.choice((2, 3, 5, 7))})"
        return Expression(text, Family.INTEGER, is_tame=left.is_tame)
    left = make.expression(Family.INTEGER, depth, tame=True)
    if kind < 3:
        right = make.expression(Family.INTEGER, depth, tame=True)
        return Expression(
            f"({_wide(left)} {make.random.choice('+-')} {_wide(right)})",
            Family.INTEGER,
        )
    if kind == 3:
        return Expression(f"({_wide(left)} * {make.random.choice((2, 3, -1, 10))})", Family.INTEGER)
    return Expression(f"{make.random.choice(('abs', 'sign'))}({_wide(left)})", Family.INTEGER)


def _decimal(make: Scalars, depth: int) -> Expression:
    left = make.expression(Family.DECIMAL, depth, tame=True)
    match make.random.randrange(5):
        case 0:
            right = make.expression(Family.DECIMAL, 0, tame=True)
            return Expression(f"({left.sql} {make.random.choice('+-')} {right.sql})", Family.DECIMAL)
        case 1:
            return Expression(f"round({left.sql}, {make.random.choice((0, 1))})", Family.DECIMAL)
        case 2:
            return Expression(
                f"CAST({make.expression(Family.INTEGER, 0, tame=True).sql} AS DECIMAL(12,2))", Family.DECIMAL
            )
        case 3:
            return Expression(f"abs({left.sql})", Family.DECIMAL)
        case _:
            return Expression(f"(-{left.sql})", Family.DECIMAL)


def _float(make: Scalars, depth: int) -> Expression:
    left = make.expression(Family.FLOAT, depth, tame=True)
    match make.random.randrange(7):
        case 0 | 1:
            right = make.leaf(Family.FLOAT, tame=True)
            return Expression(
                f"({left.sql} {make.random.choice('+-')} {right.sql})",
                Family.FLOAT,
                trust=max(left.trust, right.trust),
            )
        case 2:
            return Expression(
                f"({left.sql} {make.random.choice(('* 2', '* 0.5', '/ 2'))})", Family.FLOAT, trust=left.trust
            )
        case 3:
            top, bottom = make.expression(Family.INTEGER, 0, tame=True), make.random.choice((3, 7, 10))
            return Expression(f"({top.sql} / {bottom})", Family.FLOAT, is_tame=False)
        case 4:
            return Expression(f"sqrt(abs({left.sql}))", Family.FLOAT, is_tame=False, trust=left.trust)
        case 5:
            return Expression(
                f"CAST({make.expression(Family.INTEGER, depth, tame=True).sql} AS DOUBLE)", Family.FLOAT
            )
        case _:
            return Expression(
                f"{make.random.choice(('floor', 'ceil', 'abs', 'round'))}({left.sql})",
                Family.FLOAT,
                trust=left.trust,
            )


def _text(make: Scalars, depth: int) -> Expression:
    left = make.expression(Family.TEXT, depth)
    match make.random.randrange(9):
        case 0:
            text = f"({left.sql} || {make.expression(Family.TEXT, 0).sql})"
        case 7:
            other = make.expression(Family.TEXT, 0).sql
            made = make.random.choice(
                (
                    "repeat({}, 2)",
                    "lpad({}, 4, '.')",
                    "rpad({}, 6, 'ab')",
                    "concat_ws('-', {}, {})",
                    "format('<{{}}>', {})",
                    "printf('%s!', {})",
                    "(json_object('c d', {}) ->> 'c d')",
                    "(json_object('c d', {}) ->> '$.\"c d\"')",
                    "(json_object('c d', {}) ->> '\"c d\"')",
                    "CAST((json_object('c d', {}) -> 'c' || ' d') AS VARCHAR)",
                )
            )
            text = make.random.choice(
                (made, "regexp_replace({}, '[a-m]', '*', 'g')", "array_to_string([{}, {}], ',')")
            ).format(left.sql, other)
        case 1:
            text = (
                f"substr({left.sql}, {make.random.choice((1, 2, -1))}, {make.random.choice((1, 2))})"
                if make.random.random() < 0.5
                else f"({left.sql})[{make.place()}]"
            )
        case 2:
            text = f"replace({left.sql}, 'a', {text_literal(make.random.choice(WORDS))})"
        case 3:
            return Expression(
                f"CAST({make.expression(make.random.choice(NUMBERS), 0, trust=Trust.EXACT).sql} AS VARCHAR)",
                Family.TEXT,
            )
        case 4:
            family = make.random.choice((Family.DATE, Family.BOOLEAN, Family.TIMESTAMP))
            return Expression(f"CAST({make.expression(family, 0).sql} AS VARCHAR)", Family.TEXT)
        case 5:
            text = f"concat({left.sql}, '-', {make.expression(Family.INTEGER, 0).sql})"
        case 6:
            structs = [column for column in make.scope.columns if column.family is Family.STRUCT]
            if structs:
                return Expression(f"({make.random.choice(structs).sql}).y", Family.TEXT)
            text = f"trim({left.sql})"
        case _:
            text = f"{make.random.choice(('lower', 'upper', 'trim', 'reverse'))}({left.sql})"
    return Expression(text, Family.TEXT)


def _boolean(make: Scalars, depth: int) -> Expression:
    return Expression(f"({make.condition(depth)})", Family.BOOLEAN)


def _date(make: Scalars, depth: int) -> Expression:
    left = make.expression(Family.DATE, 0, tame=True)
    match make.random.randrange(3):
        case 0:
            return Expression(
                f"({left.sql} {make.random.choice('+-')} {make.random.choice((1, 7, 31))})", Family.DATE
            )
        case 1:
            return Expression(
                f"CAST(date_trunc('{make.random.choice(('month', 'year', 'week'))}', {left.sql}) AS DATE)",
                Family.DATE,
            )
        case _:
            return Expression(
                f"CAST({make.expression(Family.TIMESTAMP, 0, tame=True).sql} AS DATE)", Family.DATE
            )


def _timestamp(make: Scalars, depth: int) -> Expression:
    left = make.expression(Family.TIMESTAMP, 0, tame=True)
    match make.random.randrange(5):
        case 0:
            unit = make.random.choice(("1 HOUR", "1 DAY", "1 MONTH", "90 MINUTE"))
            return Expression(f"({left.sql} {make.random.choice('+-')} INTERVAL {unit})", Family.TIMESTAMP)
        case 1:
            return Expression(
                f"date_trunc('{make.random.choice(('hour', 'day', 'month'))}', {left.sql})", Family.TIMESTAMP
            )
        case 2:
            return Expression(
                f"({left.sql} {make.random.choice('+-')} {make.expression(Family.INTERVAL, 0).sql})",
                Family.TIMESTAMP,
            )
        case 3:
            return Expression(
                f"({make.expression(Family.DATE, 0, tame=True).sql} + {make.expression(Family.TIME, 0).sql})",
                Family.TIMESTAMP,
            )
        case _:
            return Expression(
                f"CAST({make.expression(Family.DATE, 0, tame=True).sql} AS TIMESTAMP)", Family.TIMESTAMP
            )


def _time(make: Scalars, depth: int) -> Expression:
    make.used.add("time")
    if make.random.random() < 0.7:
        return Expression(f"CAST({make.expression(Family.TIMESTAMP, 0).sql} AS TIME)", Family.TIME)
    return Expression(
        f"({make.literal(Family.TIME).sql} {make.random.choice('+-')} INTERVAL 90 MINUTE)", Family.TIME
    )


def _interval(make: Scalars, depth: int) -> Expression:
    make.used.add("interval")
    left, right = (
        make.expression(Family.TIMESTAMP, 0, tame=True),
        make.expression(Family.TIMESTAMP, 0, tame=True),
    )
    match make.random.randrange(4):
        case 0:
            text = f"({left.sql} - {right.sql})"
        case 1:
            text = f"age({left.sql}, {right.sql})"
        case 2:
            text = f"to_days(CAST({make.expression(Family.INTEGER, 0, tame=True).sql} AS INTEGER))"
        case _:
            text = f"({make.literal(Family.INTERVAL).sql} * {make.random.choice((0, 2, -1))})"
    return Expression(text, Family.INTERVAL)


def _plain(family: Family) -> Callable[[Scalars, int], Expression]:
    return lambda make, depth: make.leaf(family)


_COMPOSERS: dict[Family, Callable[[Scalars, int], Expression]] = {
    Family.INTEGER: _integer,
    Family.DECIMAL: _decimal,
    Family.FLOAT: _float,
    Family.TEXT: _text,
    Family.BLOB: _plain(Family.BLOB),
    Family.BOOLEAN: _boolean,
    Family.DATE: _date,
    Family.TIMESTAMP: _timestamp,
    Family.TIMESTAMPTZ: _plain(Family.TIMESTAMPTZ),
    Family.TIME: _time,
    Family.INTERVAL: _interval,
}
_MADE = {Family.TIME: _time, Family.INTERVAL: _interval}
