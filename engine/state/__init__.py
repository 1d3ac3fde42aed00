"""One partition: sorted columnar segments, delete vectors and versions, kept in RocksDB or in memory.

Never sees SQL or the changelog. The only room that imports rocksdict.
"""
