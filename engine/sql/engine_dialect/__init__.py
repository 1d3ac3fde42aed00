"""DuckDB's dialect as DuckDB has it; `dialect` says why, and has the order of the steps."""

from engine.sql.engine_dialect.dialect import EngineDialect

__all__ = ["EngineDialect"]
