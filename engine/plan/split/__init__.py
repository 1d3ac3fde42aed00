"""Splits a statement over hosts, SQL to SQL: what every host runs over its partitions, and what the
coordinator makes of it. A rule is a file, with the argument why it is right.

Never knows which hosts there are, or how many.
"""
