"""The command line: the top floor, may use everything."""
