"""The verbs of the command line. They import click alone before they run."""
