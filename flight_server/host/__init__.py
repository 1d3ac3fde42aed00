"""A host process: its options, launcher, ports and signals.

Never looks into a statement.
"""
