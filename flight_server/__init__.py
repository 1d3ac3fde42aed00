"""The host process: Flight SQL, the command line and what belongs to a server."""
