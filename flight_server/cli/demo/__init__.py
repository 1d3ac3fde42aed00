"""The demo: the music charts of Kafka Streams' Interactive Queries example, on Spark and livestate.

Every part is a process of its own, as in production: a generator that writes play events, the Spark job that
counts them, the host that serves the counts, and the display, which only asks SQL over Flight.
"""
