"""What stores are: definitions, kinds, columns and their types, partitioning, retention, migrations, and
which epochs a query wants.

Never does I/O, and knows no other room.
"""
