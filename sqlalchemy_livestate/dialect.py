"""The dialect: connections by ADBC, and reflection by `information_schema`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from sqlalchemy import exc, pool, text, types
from sqlalchemy.engine import URL, default

from sqlalchemy_livestate.addresses import driver_options
from sqlalchemy_livestate.compiler import (
    LivestateCompiler,
    LivestateDDLCompiler,
    LivestateIdentifierPreparer,
    LivestateTypeCompiler,
)
from sqlalchemy_livestate.types import Binary, Integer, Interval, type_of

MAIN = "main"
_AUTOCOMMIT = "AUTOCOMMIT"
_VERSION = re.compile(r"\d+")
_LOST = re.compile(
    r"UNAVAILABLE|[Cc]onnection (?:closed|refused|reset)|The log-in [a-z ]{1,30}: log in again"
)
"""What says that a new connection may do better: a log-in ends, and each connection has its own."""
_NAMES = "SELECT table_name FROM information_schema.tables WHERE table_schema = :schema ORDER BY table_name"
_SCHEMAS = (
    "SELECT schema_name FROM information_schema.schemata WHERE catalog_name = current_database() "
    "ORDER BY schema_name"
)
_COLUMNS = (
    "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
    "WHERE table_schema = :schema AND table_name = :table ORDER BY ordinal_position"
)
_KEY = (
    "SELECT constraint_name, column_name FROM information_schema.key_column_usage "
    "WHERE table_schema = :schema AND table_name = :table ORDER BY ordinal_position"
)


class LivestateDialect(default.DefaultDialect):
    """livestate, over Arrow Flight SQL. It only reads, and each statement stands alone."""

    name = "livestate"
    driver = "adbc"
    statement_compiler = LivestateCompiler
    ddl_compiler = LivestateDDLCompiler
    type_compiler = LivestateTypeCompiler
    type_compiler_cls = LivestateTypeCompiler
    preparer = LivestateIdentifierPreparer
    colspecs = {  # noqa: RUF012  as SQLAlchemy's own dialects have it
        types.LargeBinary: Binary,
        types.Integer: Integer,
        types.Interval: Interval,
    }
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_alter = False
    supports_sequences = False
    supports_default_values = False
    supports_comments = False
    supports_is_distinct_from = True
    div_is_floordiv = False
    postfetch_lastrowid = False
    default_paramstyle = "qmark"
    max_identifier_length = 200

    # Connections

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The driver."""
        return import_module("adbc_driver_flightsql.dbapi")

    @classmethod
    def dbapi(cls) -> ModuleType:  # type: ignore[override] # SQLAlchemy 1.4 has the driver by this name
        """The driver, for SQLAlchemy 1.4."""
        return cls.import_dbapi()

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        """How connections are kept."""
        return pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of the driver's `connect`.

        Args:
            url: Where the host is, and how it is reached.

        Raises:
            ArgumentError: It does not say so.
        """
        uri, options = driver_options(url)
        return [uri], {"db_kwargs": dict(options), "autocommit": True}

    def get_isolation_level_values(self, dbapi_connection: Any) -> Sequence[Any]:
        """Each statement stands alone."""
        return [_AUTOCOMMIT]

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """Each statement stands alone."""
        return _AUTOCOMMIT

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Nothing to do: each statement stands alone anyway."""

    def do_begin(self, dbapi_connection: Any) -> None:
        """Nothing to do: there are no transactions."""

    do_commit = do_rollback = do_begin

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the host answers."""
        with dbapi_connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchall()
        return True

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Whether an error says that the host is gone, or that the connection's log-in has ended."""
        return isinstance(e, self.import_dbapi().Error) and _LOST.search(str(e)) is not None

    # What there is

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        found = connection.execute(text("SELECT version()")).scalar()
        return tuple(int(number) for number in _VERSION.findall(str(found)))

    def _get_default_schema_name(self, connection: Any) -> str:
        return MAIN

    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        """The schemas: that of stores, and that of histories where a store has one."""
        return _values(connection, _SCHEMAS)

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The stores."""
        return _values(connection, _NAMES, schema=schema or MAIN)

    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """There are no views."""
        return []

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Whether there is a store of this name."""
        return table_name in self.get_table_names(connection, schema, **kw)

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """The columns of a store, in order.

        Raises:
            NoSuchTableError: There is no such store.
        """
        found = _rows(connection, _COLUMNS, schema=schema or MAIN, table=table_name)
        if not found:
            raise exc.NoSuchTableError(table_name)
        return [
            {
                "name": name,
                "type": type_of(kind),
                "nullable": is_nullable == "YES",
                "default": None,
                "comment": None,
                "autoincrement": False,
            }
            for name, kind, is_nullable in found
        ]

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """The key of a store.

        Raises:
            NoSuchTableError: There is no such store.
        """
        found = _rows(connection, _KEY, schema=schema or MAIN, table=table_name)
        if not found:
            raise exc.NoSuchTableError(table_name)
        return {"constrained_columns": [column for _, column in found], "name": found[0][0]}

    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """There are none, nor are there indexes, other constraints or comments.

        Raises:
            NoSuchTableError: There is no such store.
        """
        if not self.has_table(connection, table_name, schema, **kw):
            raise exc.NoSuchTableError(table_name)
        return []

    get_indexes = get_unique_constraints = get_check_constraints = get_foreign_keys

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Stores have no comment.

        Raises:
            NoSuchTableError: There is no such store.
        """
        self.get_foreign_keys(connection, table_name, schema, **kw)
        return {"text": None}


def _rows(connection: Any, sql: str, **values: str) -> Sequence[Any]:
    found: Sequence[Any] = connection.execute(text(sql), values).fetchall()
    return found


def _values(connection: Any, sql: str, **values: str) -> list[str]:
    return [row[0] for row in _rows(connection, sql, **values)]
