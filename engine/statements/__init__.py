"""What is kept of a text: the statement that is ready, its columns' names, and what it was bound with.

Never runs a statement.
"""
