"""Hosts and their clients: Flight SQL, the other hosts of a deployment, the host process, the command line.

Never knows Spark.
"""
