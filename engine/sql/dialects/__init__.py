"""What statements of other dialects mean, said in the engine's."""
