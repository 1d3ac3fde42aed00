"""Rows as jobs make them before they are appended to a changelog.

Never writes them, nor needs Spark.
"""
