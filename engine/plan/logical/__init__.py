"""The logical plan: a statement whose names are certain, with every condition as near to the stores as it may
stand. `resolve` makes it, and `rewrites` has what betters it, in one tuple.

Never knows partitions or hosts: pruning and splitting read the same plan.
"""
