"""The calls of Flight SQL."""
