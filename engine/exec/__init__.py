"""One statement over the partitions of this host: kernels for what needs no engine, the engine for the rest.

Never asks another host, and knows stores through `engine.scan` alone.
"""
