"""DuckDB, locked down: the only user of it.

Gets SQL and Arrow, and never knows stores on disk, the changelog or hosts.
"""
