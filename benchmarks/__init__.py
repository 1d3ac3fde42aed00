"""Benchmarks: one workload a module. `python -m benchmarks --list` says what there is, README.md what they
measured.
"""

NAMES = (
    "apply",
    "group_by",
    "point_lookup",
    "many_keys",
    "small_statements",
    "to_pandas",
    "memory",
    "restart",
    "merge_store",
    "merged_cache",
    "windows",
    "spark_job",
    "spark_reader",
    "visibility",
    "clients",
    "landing",
    "large_epoch",
    "large_state",
    "key_streams",
    "many_groups",
    "dashboard",
    "security",
    "tpch",
    "distributed",
)
"""Modules that are benchmarks, in the order in which they run and are shown."""
