"""What splitting must know of functions: which are aggregates, and which are not the same everywhere."""

from __future__ import annotations

from sqlglot import exp

from engine.sql.functions import function_name

AGGREGATES = frozenset(
    {
        "any_value",
        "approx_count_distinct",
        "approx_quantile",
        "approx_top_k",
        "arbitrary",
        "arg_max",
        "arg_max_null",
        "arg_max_nulls_last",
        "arg_min",
        "arg_min_null",
        "arg_min_nulls_last",
        "argmax",
        "argmin",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitstring_agg",
        "bool_and",
        "bool_or",
        "combine_aggr",
        "corr",
        "count",
        "count_if",
        "count_star",
        "countif",
        "covar_pop",
        "covar_samp",
        "decimal_average",
        "entropy",
        "favg",
        "first",
        "fsum",
        "group_concat",
        "histogram",
        "histogram_exact",
        "kahan_sum",
        "kurtosis",
        "kurtosis_pop",
        "last",
        "list",
        "listagg",
        "lttb",
        "mad",
        "max",
        "max_by",
        "mean",
        "median",
        "min",
        "min_by",
        "mode",
        "product",
        "quantile",
        "quantile_cont",
        "quantile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "reservoir_quantile",
        "sem",
        "skewness",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "sum_no_overflow",
        "sumkahan",
        "var_pop",
        "var_samp",
        "variance",
        "variant_group_object",
        "weighted_avg",
        "geomean",
        "geometric_mean",
        "json_group_object",
        "json_group_array",
        "json_group_structure",
        "variant_group_array",
        "wavg",
        "grouping",
        "grouping_id",
    }
)
"""DuckDB's aggregates, and its macros that have one inside."""

VOLATILE = frozenset(
    {
        "random",
        "uuid",
        "uuidv4",
        "uuidv7",
        "gen_random_uuid",
        "setseed",
        "setval",
        "nextval",
        "currval",
        "stats",
        "error",
        "alias",
        "vector_type",
        "write_log",
        "sleep_ms",
        "getvariable",
        "now",
        "current_date",
        "current_time",
        "current_timestamp",
        "localtime",
        "localtimestamp",
        "current_localtime",
        "current_localtimestamp",
        "today",
        "ago",
        "get_current_time",
        "get_current_timestamp",
        "transaction_timestamp",
        "current_query",
        "current_query_id",
        "current_schema",
        "current_schemas",
        "current_database",
        "current_setting",
        "current_connection_id",
        "current_transaction_id",
        "txid_current",
        "in_search_path",
    }
)
"""Functions whose value is not their arguments' alone, in DuckDB's words those that are not CONSISTENT;
`alias` gives the name of its argument.
"""

_VOLATILE_NODES = (
    exp.Rand,
    exp.Randn,
    exp.Uuid,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.CurrentTimestamp,
    exp.CurrentTimestampLTZ,
    exp.Localtime,
    exp.Localtimestamp,
)
_NOT_OVER_ROWS = (
    exp.Grouping,
    exp.GroupingId,
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.PercentRank,
    exp.CumeDist,
    exp.Ntile,
    exp.Lag,
    exp.Lead,
    exp.NthValue,
)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate function, or a macro of one; as a window's function it is none, which
    its parent says.

    Args:
        node: Any node.

    Returns:
        True for the call itself, not for what is around it (FILTER, WITHIN GROUP), nor for GROUPING, which
        looks at no rows. `any_value(x)` and its like are known by name, in whatever class the parser puts
        them.
    """
    if isinstance(node, _NOT_OVER_ROWS):
        return False
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Func) and function_name(node) in AGGREGATES)


def is_volatile(node: exp.Expr) -> bool:
    """Whether a node's value may differ between hosts or between calls though its arguments are the same.

    Args:
        node: Any node.

    Returns:
        True for random numbers, clocks and the like; `age` with one argument reads the clock too.
    """
    if isinstance(node, _VOLATILE_NODES):
        return True
    if not isinstance(node, exp.Func):
        return False
    name = function_name(node)
    return name in VOLATILE or (name == "age" and len(node.expressions) == 1)
