"""The tables of SHOW and DESCRIBE."""
