"""The calls of Flight SQL: each is read, checked, and handed to the query service.

Never plans or runs a statement by itself.
"""
