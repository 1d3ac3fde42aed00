"""The other hosts of a deployment."""
