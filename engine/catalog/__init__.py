"""The tables of SHOW and DESCRIBE, made of what stores and hosts say of themselves.

Never reads the rows of a store.
"""
