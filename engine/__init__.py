"""The engine: stores, their changelog, the state of partitions, SQL over it.

Never knows Spark or Arrow Flight.
"""
