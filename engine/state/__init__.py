"""Partition state: RocksDB holding sorted columnar segments, delete vectors and versions. The only user of
rocksdict.
"""
