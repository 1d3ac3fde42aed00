"""How each aggregate is computed in two phases: what every host computes of its rows, and how that is merged.

| aggregates | partial | merge |
|---|---|---|
| sum, min, max, bool_and, bool_or, bit_and, bit_or, bit_xor, product, any_value, fsum | itself | itself |
| count, count_if, regr_count | itself | sum, as the same type |
| avg of numbers | sum and count | sum of sums / sum of counts |
| stddev, variance, sem, covar, corr, regr | count, means, central moments | the engine's own combination of such states |
| arg_min, arg_max without ORDER BY | itself, and the value that it is chosen by | itself |
| first, last, any_value with ORDER BY | itself over {value, sort keys} | itself |
| string_agg, list without ORDER BY | itself | itself over strings; the lists one after the other |
| count, sum, avg and others of different values only | the argument as one more key | itself, over the rows of partial rows |
| everything else that needs all values at once | list of the (different) arguments | itself, over the elements |

A partial value is NULL where a host has no value: no row, or none that FILTER lets through. Every merge
passes over NULL, so hosts without rows, and rows of the merge that hold elements of lists, change nothing.

The merges keep types: a sum of HUGEINT is HUGEINT, of DECIMAL(38, s) is DECIMAL(38, s), of DOUBLE is DOUBLE,
and these are the types that sums of integers, decimals and floats have. What is merged by the aggregate
itself has the aggregate's own type. Sums of floats, and what is made of them, may differ in the last bits by
the order of addition, as they do on one machine between one thread and several.

ORDER BY inside an aggregate matters to first, last, any_value, arg_min, arg_max, string_agg, list and the
quantiles' WITHIN GROUP alone; others drop it. DISTINCT does not matter to aggregates that a repeated value cannot change; they
drop it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from engine.plan.logical.movable import has_columns, is_movable
from engine.plan.logical.trees import conjunction, text
from engine.plan.split.aggregate_calls import AggregateCall, call_of, filter_aggregate
from engine.plan.split.numeric import is_number
from engine.plan.split.partials import NotSplitError, PartialRows
from engine.sql.functions import function_name

Entry = Callable[[AggregateCall, PartialRows], exp.Expr]

_MOST_KEY_NODES = 200
"""Of what different values are ordered by, which takes a text of each part to find the values in."""

_OF_DIFFERENT_VALUES = frozenset(
    {
        "approx_distinct",
        "avg",
        "bitwise_xor_agg",
        "count",
        "count_if",
        "entropy",
        "favg",
        "fsum",
        "group_concat",
        "kahan_sum",
        "mean",
        "median",
        "product",
        "sem",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "sum",
        "sumkahan",
        "variance",
        "variance_pop",
    }
)
"""Aggregates that pass over NULL, so that of different values each may be a row of the merge."""


def merged_aggregate(node: exp.Expr, parts: PartialRows) -> exp.Expr | None:
    """An aggregate in the merge.

    Args:
        node: A node of the SELECT that is not the function of a window.
        parts: Takes what hosts compute for it.

    Returns:
        What stands for it in the merge; None if the node is no aggregate.

    Raises:
        NotSplitError: No entry of this module says how to split it.
    """
    call = call_of(node)
    if call is None:
        return None
    entry = _ENTRIES.get(call.name)
    movable = (
        *call.arguments,
        *(_strip_collations(key.this) for key in call.order),
        *([call.filter] if call.filter is not None else []),
    )
    if (
        entry is None
        or call.nulls_are_kept
        or not all(_is_star(call, each) or is_movable(each) for each in movable)
    ):
        raise NotSplitError
    return entry(call, parts)


def _is_star(call: AggregateCall, argument: exp.Expr) -> bool:
    return (
        isinstance(call.function, exp.Count)
        and type(argument) is exp.Star
        and not argument.args.get("except_")
    )


def _strip_collations(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Collate):
        node = node.this
    return node


def _copy(node: exp.Expr) -> exp.Expr:
    return node.copy()


def _function(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _cast(node: exp.Expr, type_name: str) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(type_name, dialect="duckdb"))


def _struct(**fields: exp.Expr) -> exp.Expr:
    return exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(name), expression=value) for name, value in fields.items()
        ]
    )


def _field(node: exp.Expr, name: str) -> exp.Expr:
    return _function("struct_extract", node, exp.Literal.string(name))


def _plain_call(call: AggregateCall) -> exp.Expr:
    """The call as a host runs it, without DISTINCT and ORDER BY."""
    return filter_aggregate(call.with_arguments(_copy, modifiers=False), call.filter)


def _condition(call: AggregateCall, *present: exp.Expr) -> exp.Expr | None:
    """Holds for the rows that a call is about and in which some expressions are not NULL; None
    for all rows.
    """
    own = [call.filter.copy()] if call.filter is not None else []
    return conjunction([*own, *(_is_present(each.copy()) for each in present)])


def _count_of(call: AggregateCall) -> exp.Expr:
    """How many rows a call is about."""
    return filter_aggregate(exp.Count(this=exp.Star(), big_int=True), call.filter)


def _is_present(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=node, expression=exp.Null()))


def _arguments(call: AggregateCall, count: int) -> tuple[exp.Expr, ...]:
    found = call.arguments
    if len(found) != count:
        raise NotSplitError
    return found


def _merge_by_itself(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """The aggregate of aggregates: it is associative, and a NULL changes nothing.

    The smallest of the hosts' smallest values is the smallest of all, a sum of sums is the sum, and so on.
    """
    _arguments(call, 1)
    value = parts.value(_plain_call(call))
    return call.with_arguments(lambda _: value, modifiers=False)


def _merge_by_itself_or_rows(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """As `_merge_by_itself`; of different values only, hosts send these, since one value may be on several
    hosts. In an order a sum of floats is another one than out of it.
    """
    return gather_arguments(call, parts) if call.is_distinct or call.order else _merge_by_itself(call, parts)


def _extreme_value(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """The smallest or largest value; with a second argument n the n such values as a list.

    Each host then sends its n: no other value of it can be among the n of all.
    """
    if len(call.arguments) == 1:
        return _merge_by_itself(call, parts)
    if call.is_distinct or call.order or len(call.arguments) != 2 or has_columns(call.arguments[1]):
        return gather_arguments(call, parts)
    rows = parts.rows(_plain_call(call))
    first = call.arguments[0]
    return filter_aggregate(
        call.with_arguments(
            lambda argument: rows.value if argument is first else argument.copy(), modifiers=False
        ),
        rows.condition,
    )


def _count(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """Counts add up; over no partial row at all the sum is NULL where the count is 0."""
    if call.is_distinct:
        return gather_arguments(call, parts)
    total = exp.Coalesce(
        this=exp.Sum(this=parts.value(_plain_call(call))), expressions=[exp.Literal.number(0)]
    )
    return _cast(total, "UINTEGER" if call.name == "regr_count" else "BIGINT")


def _count_if(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """count_if is the engine's sum of its condition: a HUGEINT, and NULL over no values."""
    if call.is_distinct:
        return gather_arguments(call, parts)
    _arguments(call, 1)
    return exp.Sum(this=parts.value(_plain_call(call)))


def _avg(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """The engine's average of integers, decimals and floats is a DOUBLE: the sum of the values over their
    number, both exact but for floats.

    Averages of dates and times have no sums, so their values are gathered; so are those whose type is not
    known.
    """
    (argument,) = _arguments(call, 1)
    if call.is_distinct or call.order or not is_number(argument):
        return gather_arguments(call, parts)
    exact = call.name != "favg"
    total = exp.Sum(this=argument.copy()) if exact else _function("fsum", argument.copy())
    sums = parts.value(filter_aggregate(total, call.filter))
    counts = parts.value(filter_aggregate(exp.Count(this=argument.copy(), big_int=True), call.filter))
    return exp.Paren(
        this=exp.Div(
            this=exp.Sum(this=sums) if exact else _function("fsum", sums), expression=exp.Sum(this=counts)
        )
    )


def _first(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """Without an order any row may be the first; a host without rows has none, though, and its NULL must not
    be taken for a value.

    With an order each host's first row is its first by that order, and the first of these is the first of
    all.
    """
    (argument,) = _arguments(call, 1)
    ignores_nulls = any(isinstance(wrapper, exp.IgnoreNulls) for wrapper in call.wrappers)
    if call.order and call.is_distinct:
        return gather_arguments(call, parts)
    if not call.order:
        value = parts.value(_plain_call(call))
        chosen = call.with_arguments(lambda _: value, modifiers=False)
        return (
            chosen
            if ignores_nulls
            else filter_aggregate(
                chosen, exp.GT(this=parts.value(_count_of(call)), expression=exp.Literal.number(0))
            )
        )
    keys = {f"k{number}": key for number, key in enumerate(call.order)}
    row = _struct(
        v=argument.copy(), **{name: _strip_collations(key.this).copy() for name, key in keys.items()}
    )
    condition = _condition(call, *([argument] if ignores_nulls else []))
    function = call.with_arguments(lambda given: row if given is argument else given.copy(), modifiers=True)
    value = parts.value(filter_aggregate(function, condition))
    fields = {id(_strip_collations(key.this)): name for name, key in keys.items()}
    chosen = call.with_arguments(
        lambda given: _field(value.copy(), "v" if given is argument else fields[id(given)]), modifiers=True
    )
    return filter_aggregate(chosen, _is_present(value.copy()))


def _arg_extreme(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """Each host sends its choice, and the value that it is chosen by: the extreme one of the rows that take
    part.

    arg_min and arg_max pass over rows whose argument is NULL; those that end in _null do not. All pass over
    rows whose value is NULL, but those that end in _nulls_last, which take them if there is nothing else. With
    an ORDER BY, the first by that has the choice of rows with equal values.
    """
    if len(call.arguments) != 2 or call.order:
        return gather_arguments(call, parts)
    argument, by = call.arguments
    keeps_nulls = "_null" in call.name
    extreme = exp.Max if "max" in call.name else exp.Min
    condition = _condition(call, *([] if keeps_nulls else [argument]))
    choice = parts.value(_plain_call(call))
    value = parts.value(filter_aggregate(extreme(this=by.copy()), condition))
    made = call.with_arguments(lambda given: choice if given is argument else value, modifiers=False)
    if not call.name.endswith("_nulls_last"):
        return made
    return filter_aggregate(made, exp.GT(this=parts.value(_count_of(call)), expression=exp.Literal.number(0)))


def _string_agg(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """Without an order strings may be joined in any; joining joined strings by the same separator is the
    same, and passes over NULL too.
    """
    first, *others = call.arguments
    if call.is_distinct or call.order or any(has_columns(other) for other in others):
        return gather_arguments(call, parts)
    value = parts.value(_plain_call(call))
    return call.with_arguments(
        lambda argument: value if argument is first else argument.copy(), modifiers=False
    )


def _list(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """Without an order lists may be put together in any; a list of no rows is NULL, as is that of hosts
    without any.
    """
    _arguments(call, 1)
    if call.is_distinct or call.order:
        return gather_arguments(call, parts)
    value = parts.value(filter_aggregate(_function("list", call.arguments[0].copy()), call.filter))
    return _function("flatten", filter_aggregate(_function("list", value), _is_present(value.copy())))


def _is_row(value: exp.Expr) -> bool:
    """Whether the engine takes a value for several where rows are grouped by it: in the rows of another
    grouping set it is then a row of NULLs, and not NULL.
    """
    inner = value.unnest()
    return isinstance(inner, exp.Tuple) or (isinstance(inner, exp.Func) and function_name(inner) == "row")


def gather_arguments(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """Hosts send the arguments of every row in a list, and the merge runs the very same call over the
    elements of all lists.

    Nothing is lost but the order of rows, which means nothing without ORDER BY; its keys are sent with the
    arguments. The FILTER is applied by the hosts. A DISTINCT call gets from each host the different arguments
    only; what several hosts have is the merge's to find. Where it passes over NULL, they are no list, but one
    more key of partial rows, which is NULL where the FILTER does not hold: rows can be sent in pieces, and
    the merge can leave them on disk.
    """
    leaves = _leaves(call)
    if not leaves:
        raise NotSplitError
    names = {leaf: f"v{number}" for number, leaf in enumerate(leaves)}
    alone = len(leaves) == 1
    row = (
        next(iter(leaves.values())).copy()
        if alone
        else _struct(**{names[leaf]: node.copy() for leaf, node in leaves.items()})
    )
    is_set = call.is_distinct or call.name == "approx_distinct"
    if is_set and alone and call.name in _OF_DIFFERENT_VALUES:
        # Within an expression a row is one value.
        where = exp.true() if call.filter is None and _is_row(row) else call.filter
        value = parts.distinct_value(_value_where(row, where))
        return call.with_arguments(
            lambda argument: _with_parts(argument, dict.fromkeys(names, value)), modifiers=True
        )
    gathered = filter_aggregate(
        _function("list", exp.Distinct(expressions=[row]) if is_set else row), call.filter
    )
    rows = parts.rows(gathered, 0 if is_set or call.filter is not None else len(leaves))

    elements = {
        leaf: rows.value if alone else _field(rows.value.copy(), name) for leaf, name in names.items()
    }
    return filter_aggregate(
        call.with_arguments(lambda argument: _with_parts(argument, elements), modifiers=True), rows.condition
    )


def _leaves(call: AggregateCall) -> Mapping[str, exp.Expr]:
    """What a call reads of a row, by its text: the arguments, and what they are ordered by. The engine orders
    different values only by what is made of them.
    """
    found: dict[str, exp.Expr] = {}

    def note(argument: exp.Expr) -> exp.Expr:
        if has_columns(argument):
            found.setdefault(text(argument), argument)
        return exp.Null()

    call.with_arguments(note, modifiers=True)
    arguments = {text(each): each for each in call.arguments if has_columns(each)}
    if not call.is_distinct or not arguments:
        return found
    nothing = dict.fromkeys(arguments, exp.Null())
    keys = [each for key, each in found.items() if key not in arguments]
    if sum(1 for each in keys for _ in each.walk()) > _MOST_KEY_NODES or any(
        has_columns(_with_parts(each, nothing)) for each in keys
    ):
        raise NotSplitError
    return arguments


def _with_parts(node: exp.Expr, parts: Mapping[str, exp.Expr]) -> exp.Expr:
    """A copy of an expression with other parts, which are found by the texts of those before."""

    def part(child: exp.Expr) -> exp.Expr:
        other = None if isinstance(child, exp.Identifier) else parts.get(text(child))
        return child if other is None else other.copy()

    return node.transform(part) if has_columns(node) else node.copy()


def _value_where(value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """A value, and NULL where a condition does not hold."""
    return value if condition is None else exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def _moments(count: exp.Expr, mean: exp.Expr, squares: exp.Expr) -> exp.Expr:
    return _struct(count=count.copy(), mean=mean.copy(), dsquared=squares.copy())


def _nan_unless_finite(value: exp.Expr) -> exp.Expr:
    """0 for a finite number, and NaN for another one: its deviation from itself."""
    return exp.paren(exp.Sub(this=value.copy(), expression=value.copy()))


def _state_mean(argument: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """The mean of the values where a condition holds, as states have it: NaN where it is not finite, as the
    engine's own is once another value has followed.
    """
    mean = filter_aggregate(_function("favg", argument.copy()), condition)
    return exp.Add(this=mean, expression=_nan_unless_finite(mean))


def _combine_states(name: str, arguments: int, state: exp.Expr, count: exp.Expr) -> exp.Expr:
    """The result of an aggregate from the states of hosts that have values.

    The engine combines states as it does those of its threads, by the formulas of Chan, Golub and LeVeque
    ("Updating formulae and a pairwise algorithm for computing sample variances", 1979): means and central
    moments, never differences of large sums.
    """
    types = exp.Array(expressions=[exp.Literal.string("DOUBLE") for _ in range(arguments)])
    states = _function("to_aggregate_state", state, exp.Literal.string(name), types)
    present = exp.GT(this=count.copy(), expression=exp.Literal.number(0))
    return _function("finalize", filter_aggregate(_function("combine_aggr", states), present))


def _deviation_entry(name: str) -> Entry:
    """The entry of an aggregate of one column's mean and squared deviations."""

    def entry(call: AggregateCall, parts: PartialRows) -> exp.Expr:
        (argument,) = _arguments(call, 1)
        if call.is_distinct or call.order:
            return gather_arguments(call, parts)
        count = exp.Count(this=argument.copy(), big_int=True)
        sent = parts.value(filter_aggregate(count, call.filter))
        mean = parts.value(_state_mean(argument, call.filter))
        # The variance over all values is the mean of their squared deviations.
        squares: exp.Expr = exp.Mul(
            this=filter_aggregate(exp.VariancePop(this=argument.copy()), call.filter),
            expression=filter_aggregate(count.copy(), call.filter),
        )
        if name == "sem":
            # Of a single value that is not finite the variance is 0, but the deviation from itself NaN.
            own_mean = filter_aggregate(_function("favg", argument.copy()), call.filter)
            squares = exp.Add(this=squares, expression=_nan_unless_finite(own_mean))
        return _combine_states(
            name, 1, _moments(_cast(sent.copy(), "UBIGINT"), mean, parts.value(squares)), sent
        )

    return entry


class _Pairs:
    """Moments of the pairs of two arguments that are both not NULL, as hosts send them.

    Args:
        call: The call, with arguments y and x.
        parts: Takes what hosts compute.
    """

    def __init__(self, call: AggregateCall, parts: PartialRows) -> None:
        self._y, self._x = _arguments(call, 2)
        self._call = call
        self._parts = parts

    def _value(self, aggregate: exp.Expr, argument: exp.Expr | None = None) -> exp.Expr:
        """A mean or a sum of squares over the pairs: `argument` is the one that the aggregate does not look
        at.
        """
        return filter_aggregate(
            aggregate, _condition(self._call, *([argument] if argument is not None else []))
        )

    @property
    def _pairs(self) -> exp.Expr:
        return self._value(exp.RegrCount(this=self._y.copy(), expression=self._x.copy()))

    @property
    def sent_count(self) -> exp.Expr:
        """The column with their number."""
        return self._parts.value(self._pairs)

    @property
    def count(self) -> exp.Expr:
        """Their number, as states hold it."""
        return _cast(self.sent_count, "UBIGINT")

    @property
    def mean_x(self) -> exp.Expr:
        """Mean of x."""
        return self._parts.value(_state_mean(self._x, _condition(self._call, self._y)))

    @property
    def mean_y(self) -> exp.Expr:
        """Mean of y."""
        return self._parts.value(_state_mean(self._y, _condition(self._call, self._x)))

    @property
    def x(self) -> exp.Expr:
        """State of x: number, mean, squared deviations."""
        squares = exp.Mul(
            this=self._value(exp.VariancePop(this=self._x.copy()), self._y), expression=self._pairs
        )
        return _moments(self.count, self.mean_x, self._parts.value(squares))

    @property
    def y(self) -> exp.Expr:
        """State of y."""
        squares = exp.Mul(
            this=self._value(exp.VariancePop(this=self._y.copy()), self._x), expression=self._pairs
        )
        return _moments(self.count, self.mean_y, self._parts.value(squares))

    @property
    def pair_state(self) -> exp.Expr:
        """State of the pairs: number, means, products of deviations."""
        covariance = self._value(exp.CovarPop(this=self._y.copy(), expression=self._x.copy()))
        products = exp.Mul(this=covariance, expression=self._pairs)
        return _struct(
            count=self.count, meanx=self.mean_x, meany=self.mean_y, co_moment=self._parts.value(products)
        )

    @property
    def correlation(self) -> exp.Expr:
        """State of the correlation."""
        return _struct(cov_pop=self.pair_state, dev_pop_x=self.x, dev_pop_y=self.y)

    @property
    def slope(self) -> exp.Expr:
        """State of the slope."""
        return _struct(cov_pop=self.pair_state, var_pop=self.x)

    @property
    def intercept(self) -> exp.Expr:
        """State of the intercept."""
        sums = {"sum_x": self.mean_x, "sum_y": self.mean_y}
        products = {name: exp.Mul(this=mean, expression=self.sent_count) for name, mean in sums.items()}
        return _struct(count=self.count, **products, slope=self.slope)


_PAIR_STATES: dict[str, Callable[[_Pairs], exp.Expr]] = {
    "covar_pop": lambda pairs: pairs.pair_state,
    "covar_samp": lambda pairs: pairs.pair_state,
    "corr": lambda pairs: pairs.correlation,
    "regr_slope": lambda pairs: pairs.slope,
    "regr_intercept": lambda pairs: pairs.intercept,
    "regr_r2": lambda pairs: _struct(corr=pairs.correlation, var_pop_x=pairs.x, var_pop_y=pairs.y),
    "regr_sxx": lambda pairs: _struct(count=pairs.count, var_pop=pairs.x),
    "regr_syy": lambda pairs: _struct(count=pairs.count, var_pop=pairs.y),
    "regr_sxy": lambda pairs: _struct(count=pairs.count, cov_pop=pairs.pair_state),
}
"""State of each aggregate of pairs, laid out as the engine's EXPORT_STATE shows it."""


def _merge_pairs(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """Aggregates of pairs, from their counts, means and central moments."""
    if call.is_distinct or call.order:
        return gather_arguments(call, parts)
    pairs = _Pairs(call, parts)
    return _combine_states(call.name, 2, _PAIR_STATES[call.name](pairs), pairs.sent_count)


def _regression_mean(call: AggregateCall, parts: PartialRows) -> exp.Expr:
    """The mean of one argument over the pairs: a sum of floats over a number."""
    y, x = _arguments(call, 2)
    if call.is_distinct or call.order:
        return gather_arguments(call, parts)
    wanted, other = (x, y) if call.name == "regr_avgx" else (y, x)
    condition = _condition(call, other)
    sums = parts.value(filter_aggregate(exp.Sum(this=_cast(wanted.copy(), "DOUBLE")), condition))
    counts = parts.value(filter_aggregate(exp.Count(this=wanted.copy(), big_int=True), condition))
    return exp.Paren(this=exp.Div(this=exp.Sum(this=sums), expression=exp.Sum(this=counts)))


_ENTRIES: dict[str, Entry] = {
    **dict.fromkeys(
        ("sum", "bitwise_xor_agg", "product", "fsum", "kahan_sum", "sumkahan"), _merge_by_itself_or_rows
    ),
    **dict.fromkeys(("logical_and", "logical_or", "bitwise_and_agg", "bitwise_or_agg"), _merge_by_itself),
    **dict.fromkeys(("min", "max"), _extreme_value),
    **dict.fromkeys(("count", "count_star", "regr_count"), _count),
    **dict.fromkeys(("avg", "mean", "favg"), _avg),
    **dict.fromkeys(("first", "last", "any_value", "arbitrary"), _first),
    **dict.fromkeys(
        ("arg_max", "arg_min", "arg_max_null", "arg_min_null", "arg_max_nulls_last", "arg_min_nulls_last"),
        _arg_extreme,
    ),
    **dict.fromkeys(
        (
            "median",
            "mode",
            "quantile",
            "percentile_cont",
            "percentile_disc",
            "approx_quantile",
            "reservoir_quantile",
        ),
        gather_arguments,
    ),
    **dict.fromkeys(
        (
            "histogram",
            "histogram_exact",
            "entropy",
            "kurtosis",
            "kurtosis_pop",
            "skewness",
            "mad",
            "approx_distinct",
        ),
        gather_arguments,
    ),
    **{name: _deviation_entry(name) for name in ("stddev", "stddev_samp", "stddev_pop", "variance", "sem")},
    **dict.fromkeys(("regr_avgx", "regr_avgy"), _regression_mean),
    **dict.fromkeys(_PAIR_STATES, _merge_pairs),
    "variance_pop": _deviation_entry("var_pop"),
    "count_if": _count_if,
    "group_concat": _string_agg,
    "array_agg": _list,
}
"""What is done for each aggregate, by sqlglot's name of it."""
