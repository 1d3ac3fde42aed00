"""Splits a statement over hosts, SQL to SQL: what every host runs over its partitions, and what the
coordinator makes of it.
"""
