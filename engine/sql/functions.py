"""Which functions a statement may call.

Scalar and aggregate functions are allowed unless they read settings, files, secrets or the catalog, run SQL
from a string, or keep state between statements. Table functions are refused unless they only turn their
arguments into rows.
"""

from __future__ import annotations

import re

from sqlglot import exp

from engine.model.names import fold

TABLE_FUNCTIONS = frozenset(
    {"range", "generate_series", "unnest", "json_each", "json_tree", "repeat", "repeat_row"}
)

SESSION_FUNCTIONS = {
    "version": "version",
    "current_version": "version",
    "current_database": "database",
    "current_catalog": "database",
    "current_schema": "schema",
    **dict.fromkeys(("user", "current_user", "session_user", "current_role"), "user_name"),
}
"""Functions without arguments that tell something of the session, and the column of
`engine.sql.catalog_tables.SESSION` that has it.
"""
ROW_MAKING_FUNCTIONS = frozenset({"explode", "unnest", "generate_subscripts", "regexp_split_to_table"})
"""Functions that make several rows of one, wherever an expression may stand."""
_REFUSED = re.compile(
    r"""
    getenv | current_setting | getvariable | version | current_version | glob | (?:read|parquet|sniff)_.*
    | (?:session_|current_)?user | current_(?:role|catalog|database|schemas?|query|query_id|connection_id|transaction_id)
    | txid_current | in_search_path
    | duckdb_.* | pragma_.* | pg_(?!size_pretty|typeof).* | has_.*_privilege.* | (?:col|obj|shobj)_description | inet_.* | which_secret
    | query | query_table | json_(?:execute_serialized_sql|serialize_.*|deserialize_.*) | .*_scan
    | nextval | currval | lastval | setval | setseed | write_log | parse_duckdb_log_message | checkpoint | force_checkpoint
    # Operators in the form of functions are called with types that they are not made for: some end the
    # process.
    | .*[^a-z0-9_].*
    | sleep_ms | __.* | livestate_.* | get_block_size | index_key
    """,
    re.VERBOSE,
)


def function_name(node: exp.Func) -> str:
    """The name of a function as a person writes it.

    Args:
        node: A call.

    Returns:
        The name in lower case.
    """
    name = node.name if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) else node.sql_name()
    return fold(str(name))


def session_column(node: exp.Expr) -> str | None:
    """What a call tells of the session.

    Args:
        node: Any node.

    Returns:
        A column of `engine.sql.catalog_tables.SESSION`; None where the node tells nothing of the session, and
        where it has arguments.
    """
    if not isinstance(node, exp.Func) or next(node.iter_expressions(), None) is not None:
        return None
    return SESSION_FUNCTIONS.get(function_name(node))


def is_refused(name: str) -> bool:
    """Whether a statement must not call a function.

    Args:
        name: Name of a scalar or aggregate function in lower case.

    Returns:
        True where the function reaches beyond its arguments.
    """
    return _REFUSED.fullmatch(name) is not None
