"""Splits a statement over hosts, SQL to SQL: what every host runs over its partitions, and what the
coordinator makes of it. `rules` has the rules in their order, `planner` tries them, and the modules beside
them are what rules share.
"""
