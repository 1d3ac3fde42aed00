"""The demo: the pipeline `music_charts` with a screen.

Every part is a process of its own, as in production: the pipeline's generator of play events, its Spark job,
the host that serves the counts, and the display, which only asks SQL over Flight.
"""
