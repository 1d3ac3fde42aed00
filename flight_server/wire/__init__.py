"""Bytes ↔ values: messages, tickets, fragments, reports, errors at the boundary.

Never does I/O.
"""
