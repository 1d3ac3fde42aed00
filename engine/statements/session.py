"""What a client chose for its statements."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.read_point import NEWEST, ReadPoint


@dataclass(frozen=True)
class Session:
    """What a client chose for its statements.

    Attributes:
        dialect: sqlglot's name of the SQL dialect.
        timeout_seconds: Time-out of statements, if it is shorter than the service's; None for the service's.
        read_point: Which epochs statements may read.
        user: The client's name.
    """

    dialect: str = "duckdb"
    timeout_seconds: float | None = None
    read_point: ReadPoint = NEWEST
    user: str = "anybody"

    def time_limit(self, most_seconds: float | None) -> float | None:
        """Seconds that a statement may take; None for no limit.

        Args:
            most_seconds: What any statement may take; None for no limit.
        """
        limits = (self.timeout_seconds, most_seconds)
        return min((limit for limit in limits if limit is not None), default=None)


DEFAULT_SESSION = Session()
