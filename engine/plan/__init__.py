"""From bound statements to what is read and how: pure functions on frozen nodes.

Never does I/O, reads a clock or knows a host.
"""
