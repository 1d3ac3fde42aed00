"""Which host holds which partition, which epoch a query reads, and who answers: decisions on values, without
I/O.
"""
