"""Execution over Arrow: the engine (DuckDB), kernels for what needs no engine, deadlines and results."""
