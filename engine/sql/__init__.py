"""SQL text to bound statement: parse, check, and tie names to stores. Errors show their place in the text.

Never reads rows, does I/O or knows a host.
"""
