"""A host process: its options, launcher, ports and signals."""
