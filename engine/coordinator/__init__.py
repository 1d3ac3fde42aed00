"""How one host answers a statement over several: routes, fragments sent out, rows gathered, merges.

Never reads partitions by itself, nor knows how bytes travel between hosts.
"""
