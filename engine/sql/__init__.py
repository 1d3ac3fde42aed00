"""SQL text to bound statement: parse, check, and tie names to stores. Errors point at their place in the
text.
"""
