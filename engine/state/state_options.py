"""How partition state is laid out and how much memory it may take."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
MEMTABLE_SHARE = 4
"""RocksDB's memtables take one part in so many of what the cache takes: a host of little memory writes them
out sooner.
"""
LEAST_MEMTABLE_BYTES = 16 * MIB
"""What they take beside a small cache."""


@dataclass(frozen=True)
class StateOptions:
    """Settings of all partition stores of a host.

    Attributes:
        cache_bytes: Arrow bytes of decoded columns that stay in memory.
        block_rows: Rows of a block at the most.
        block_bytes: Bytes of one column of one block to aim at. rocksdict holds the GIL while it copies a
            value, so values stay small.
        paged_rows: Rows of a segment from which on its key column is stored in pages.
        page_bytes: Bytes of a page to aim at: what is smaller than RocksDB's least blob is read in less time.
        fan_out: How many segments of one size class are merged into one.
        dead_share: Share of dead rows in a segment from which it is rewritten.
        merge_bytes: Arrow bytes that one merge reads at the most; a column of a segment stays below the 2 GiB
            of an Arrow string array.
        apply_bytes: Arrow bytes of an epoch's rows that a partition sorts and searches at once, if they come
            in several batches: a larger epoch takes less memory beside itself, and no column of it comes near
            the 2 GiB either.
        write_buffer_bytes: RocksDB memtables of one partition.
        total_write_buffer_bytes: RocksDB memtables of all partitions of a host together, at the most; less
            beside a small cache.
    """

    cache_bytes: int = 1024 * MIB
    block_rows: int = 64 * KIB
    block_bytes: int = 512 * KIB
    paged_rows: int = 256 * KIB
    page_bytes: int = 2 * KIB
    fan_out: int = 8
    dead_share: float = 0.45
    merge_bytes: int = 1024 * MIB
    apply_bytes: int = 64 * MIB
    write_buffer_bytes: int = 32 * MIB
    total_write_buffer_bytes: int = 128 * MIB

    @property
    def memtable_bytes(self) -> int:
        """What RocksDB's memtables take together until one is written out."""
        beside_cache = max(self.cache_bytes // MEMTABLE_SHARE, LEAST_MEMTABLE_BYTES)
        return min(self.total_write_buffer_bytes, beside_cache)
