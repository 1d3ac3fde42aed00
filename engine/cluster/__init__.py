"""Which host holds which partition, which epoch a query reads, and who answers: decisions on values.

Never does I/O, starts a thread or reads a clock.
"""
