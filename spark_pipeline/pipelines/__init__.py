"""Ready-made jobs: events, the stores that they keep up to date, and questions; a pipeline is a file.

The sink and the reader never import them.
"""
