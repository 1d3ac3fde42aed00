"""What SQL calls the place where all stores are."""

from __future__ import annotations

CATALOG = "livestate"
SCHEMA = "main"
