"""What stores are: definitions, kinds, columns and their types, partitioning, retention, migrations, and
which epochs a query may read.

Never does I/O, and knows no other room but the errors.
"""
