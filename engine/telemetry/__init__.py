"""What is told of what a program does: ids of statements, lines of its log, spans of a trace.

Lowest room of the engine: everybody may use it, and it knows nobody.
"""
