"""A host's copy of what a changelog holds: store groups that follow it, the epochs that can be read, and
snapshots.

Never sees SQL.
"""
