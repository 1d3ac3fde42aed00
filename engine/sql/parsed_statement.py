"""A statement that was parsed, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from engine.model.catalog_names import SCHEMA
from engine.sql.text import SourceText


class StatementClass(Enum):
    """What a statement asks for."""

    QUERY = "query"
    EXPLAIN = "explain"
    EXPLAIN_ANALYZE = "explain analyze"
    DESCRIBE = "describe"
    SHOW_TABLES = "show tables"
    SHOW_STORES = "show stores"
    SHOW_HOSTS = "show hosts"
    SHOW_SCHEMAS = "show schemas"
    SHOW_DATABASES = "show databases"
    SHOW_ALL_TABLES = "show all tables"
    USE = "use"


@dataclass(frozen=True)
class ParsedStatement:
    """A statement that was checked to do nothing but read.

    Attributes:
        statement_class: What it asks for.
        source: The text of `tree`, for places in errors.
        tree: The query (SELECT, VALUES, set operation, SUMMARIZE) or the table to describe; None for SHOW.
            Never changed.
        is_json: Whether an EXPLAIN is to be one JSON value.
        shown_schema: The schema whose tables SHOW TABLES is about.
    """

    statement_class: StatementClass
    source: SourceText
    tree: exp.Expr | None
    is_json: bool = False
    shown_schema: str = SCHEMA
