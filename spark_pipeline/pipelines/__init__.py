"""Ready-made jobs."""
