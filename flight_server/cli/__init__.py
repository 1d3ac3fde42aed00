"""The command line: the top floor, which may use everything.

No other room imports it.
"""
