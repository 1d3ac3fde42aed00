"""What Apache Superset knows of livestate beside its dialect: how times are cut down, and written.

Superset finds it by an entry point, `superset.db_engine_specs`. Nothing else imports it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import types
from superset.db_engine_specs.base import BaseEngineSpec

_UNITS = {
    "PT1S": "second",
    "PT1M": "minute",
    "PT1H": "hour",
    "P1D": "day",
    "P1W": "week",
    "P1M": "month",
    "P3M": "quarter",
    "P1Y": "year",
}
"""Units of time by their ISO 8601 durations."""


class LivestateEngineSpec(BaseEngineSpec):  # type: ignore[misc] # Superset is not installed where types are checked
    """livestate for Superset."""

    engine = "livestate"
    engine_name = "livestate"
    default_driver = "adbc"
    sqlalchemy_uri_placeholder = "livestate://host:8815"
    supports_file_upload = False
    allows_alias_to_source_column = True
    _time_grain_expressions: Mapping[str | None, str] = {
        None: "{col}",
        **{duration: f"DATE_TRUNC('{unit}', {{col}})" for duration, unit in _UNITS.items()},
    }

    @classmethod
    def epoch_to_dttm(cls) -> str:
        """An expression for seconds since 1970 as a time."""
        return "to_timestamp({col})"

    @classmethod
    def convert_dttm(
        cls, target_type: str, dttm: dt.datetime, db_extra: dict[str, Any] | None = None
    ) -> str | None:
        """A time as a literal.

        Args:
            target_type: The type of the column that it is compared with.
            dttm: The time.
            db_extra: Not used.
        """
        wanted = cls.get_sqla_column_type(target_type)
        if isinstance(wanted, types.Date):
            return f"DATE '{dttm.date().isoformat()}'"
        if isinstance(wanted, types.DateTime | types.TIMESTAMP):
            return f"TIMESTAMP '{dttm.isoformat(sep=' ', timespec='microseconds')}'"
        return None
