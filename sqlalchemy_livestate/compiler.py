"""From SQLAlchemy's expressions to livestate's SQL, which is DuckDB's; and refusals of what would write."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, NoReturn

from sqlalchemy import exc, types
from sqlalchemy.sql import compiler

READ_ONLY = "livestate answers queries alone: rows come from the jobs that write to its changelog."


_RESERVED = (
    "anti asof at by cast concurrently cross describe full glob ilike inner isnull join lambda "
    "lateral left like map natural notnull outer pivot pivot_longer pivot_wider positional qualify "
    "returning right semi show similar struct summarize tablesample try_cast unpack unpivot variadic window"
)
"""Words that DuckDB reserves beside those that SQLAlchemy knows."""


class LivestateCompiler(compiler.SQLCompiler):
    """Writes queries."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """LIMIT and OFFSET, each without the other where the other is not asked for."""
        parts = (("LIMIT", select._limit_clause), ("OFFSET", select._offset_clause))  # noqa: SLF001 - SQLAlchemy's own way
        return "".join(
            f"\n {word} {self.process(clause, **kw)}" for word, clause in parts if clause is not None
        )

    def get_select_precolumns(self, select: Any, **kw: Any) -> str:
        """DISTINCT, of all columns or of some."""
        some = select._distinct_on  # noqa: SLF001 - SQLAlchemy's own way
        return f"DISTINCT {self._on(some, **kw)} " if some else super().get_select_precolumns(select, **kw)

    def visit_postgresql_distinct_on(self, distinct_on: Any, **kw: Any) -> str:
        """The columns of a DISTINCT, as SQLAlchemy 2.1 has them beside it."""
        return self._on(distinct_on._distinct_on, **kw)  # noqa: SLF001 - likewise

    def _on(self, columns: Any, **kw: Any) -> str:
        return f"ON ({', '.join(self.process(each, **kw) for each in columns)})"

    def render_literal_value(self, value: Any, type_: Any) -> str:
        """A value in the text. What is not finite would be a name, and a decimal with an exponent is a number
        of floating point.
        """
        if isinstance(value, float | Decimal) and not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE)"
        if isinstance(value, Decimal):
            return f"{value:f}"
        return super().render_literal_value(value, type_)

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        """What stands in the brackets of `IN :values` where there are none."""
        return f"SELECT {', '.join('NULL' for _ in element_types or [None])} WHERE 1 <> 1"

    def visit_floordiv_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """`column // …`, of whole numbers without a detour by floating point."""
        sides = binary.left, binary.right
        if not all(each.type._type_affinity is types.Integer for each in sides):  # noqa: SLF001 - likewise
            return str(super().visit_floordiv_binary(binary, operator, **kw))  # type: ignore[no-untyped-call]
        # The engine cuts off, and Python goes to the next lower number. Parameters are counted as they are
        # written, so that each side is written anew.
        a, b, c, d, e, f = (f"({self.process(each, **kw)})" for _ in range(3) for each in sides)
        return f"({a} // {b} - CAST({c} % {d} <> 0 AND ({e} < 0) <> ({f} < 0) AS INTEGER))"

    def visit_now_func(self, fn: Any, **kw: Any) -> str:
        """The time of the statement, with its zone."""
        return "now()"

    def visit_date_trunc_func(self, fn: Any, **kw: Any) -> str:
        """A time cut down; the unit stands in the text, as what a parameter is called has no type."""
        unit, *moment = fn.clauses
        parts = [self.process(unit, **{**kw, "literal_binds": True})]
        return f"{fn.name}({', '.join([*parts, *(self.process(each, **kw) for each in moment)])})"

    visit_date_part_func = visit_date_trunc_func

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """`column.regexp_match(…)`, which finds the pattern anywhere."""
        arguments = [self.process(binary.left, **kw), self.process(binary.right, **kw)]
        flags = binary.modifiers.get("flags")
        if flags is not None:
            arguments.append(self.render_literal_value(flags, types.String()))
        return f"regexp_matches({', '.join(arguments)})"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Its opposite."""
        return f"NOT {self.visit_regexp_match_op_binary(binary, operator, **kw)}"

    def visit_bitwise_xor_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """`column.bitwise_xor(…)`; `^` is a power."""
        return f"xor({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def visit_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """`column.ilike(…)`."""
        escape = binary.modifiers.get("escape")
        found = f"{self.process(binary.left, **kw)} ILIKE {self.process(binary.right, **kw)}"
        return (
            found if escape is None else f"{found} ESCAPE {self.render_literal_value(escape, types.String())}"
        )

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Its opposite."""
        return f"NOT ({self.visit_ilike_op_binary(binary, operator, **kw)})"

    def _refuse(self, *_: Any, **kw: Any) -> NoReturn:
        raise exc.CompileError(READ_ONLY)

    visit_insert = visit_update = visit_delete = _refuse

    def for_update_clause(self, select: Any, **kw: Any) -> NoReturn:
        """Refuse to lock rows.

        Raises:
            CompileError: Always.
        """
        raise exc.CompileError("livestate locks no rows: leave FOR UPDATE out.")


class LivestateDDLCompiler(compiler.DDLCompiler):
    """Refuses all that would make or change tables."""

    def _refuse(self, *_: Any, **kw: Any) -> NoReturn:
        raise exc.CompileError(READ_ONLY)

    visit_create_table = visit_drop_table = visit_create_schema = visit_drop_schema = _refuse
    visit_create_index = visit_drop_index = visit_create_sequence = visit_drop_sequence = _refuse
    visit_create_view = visit_drop_view = visit_add_constraint = visit_drop_constraint = _refuse
    visit_set_table_comment = visit_set_column_comment = _refuse


class LivestateTypeCompiler(compiler.GenericTypeCompiler):
    """Writes types, where DuckDB's names mean something else."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        """Python's floats have 64 bits, DuckDB's FLOAT has 32."""
        return "FLOAT" if type_.precision is not None and type_.precision <= 24 else "DOUBLE"

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        """A time without a zone."""
        return self.visit_TIMESTAMP(type_, **kw)

    def visit_INTERVAL(self, type_: Any, **kw: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        """A time span."""
        return "INTERVAL"

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        """A time, maybe with a zone."""
        return "TIMESTAMP WITH TIME ZONE" if getattr(type_, "timezone", False) else "TIMESTAMP"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        """A list."""
        return f"{self.process(type_.item_type, **kw)}[]"


class LivestateIdentifierPreparer(compiler.IdentifierPreparer):
    """Knows which names need quotation marks."""

    reserved_words = compiler.RESERVED_WORDS | set(_RESERVED.split())
