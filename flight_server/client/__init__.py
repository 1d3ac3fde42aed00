"""One Flight client and one set of options, for the command line, the other hosts, Spark and the benchmarks.

`connection` and `connection_options` know neither SQL nor tickets: Spark's executors load them alone. Never
plans, never keeps state of a host.
"""
