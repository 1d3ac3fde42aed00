"""What a host says of a result, beside its rows."""

from __future__ import annotations

METADATA_KEY = b"livestate"
"""Schema metadata of every result: the query's metadata as JSON (epochs read, their age, partitions read and
pruned). ADBC and JDBC drop it.
"""
