"""What others watch a host by: a small HTTP port with probes and metrics.

It serves no rows, and changes nothing.
"""
