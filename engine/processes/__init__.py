"""Processes of Python that livestate starts, and their end.

Never knows what they do.
"""
