"""DuckDB, locked down: the only user of it.

Gets SQL and Arrow, and knows nothing of stores on disk, the changelog or hosts.
"""
