"""A client of a host, over Flight.

Never knows what a host does with a call.
"""
