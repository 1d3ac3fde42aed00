"""TPC-H: the 22 queries over stores, on one host and on several, against plain DuckDB."""
