"""Processes of Python that livestate starts, and their end."""
