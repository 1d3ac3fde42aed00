"""The packages that verbs need beyond `pip install livestate`, and what is said where they are missing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import click

from engine.errors import Unavailable
from flight_server.cli.failures import show_failures


@dataclass(frozen=True)
class Extra:
    """An extra of the package.

    Attributes:
        name: As `pip install 'livestate[name]'` takes it.
        words: What its packages are, in a message.
        modules: The names by which they are imported.
    """

    name: str
    words: str
    modules: tuple[str, ...]

    def sentence(self, what: str) -> str:
        """What to do to have them.

        Args:
            what: What needs them.
        """
        return f"{what} needs {self.words}: pip install 'livestate[{self.name}]'."


HOST = Extra(
    "host",
    "the host's packages",
    ("argon2", "cryptography", "dateutil", "duckdb", "jwt", "prometheus_client", "rocksdict", "sqlglot"),
)
SPARK = Extra("spark", "Spark's packages", ("pyspark",))
KAFKA = Extra("kafka", "Kafka's client", ("confluent_kafka",))
EXTRAS: Mapping[str, Extra] = {extra.name: extra for extra in (HOST, SPARK, KAFKA)}


def check_extra(extra: Extra, what: str) -> None:
    """See that the packages of an extra are installed, before anything is begun that needs them.

    Args:
        extra: The extra.
        what: What needs them.

    Raises:
        Unavailable: One of them is not.
    """
    if any(find_spec(module) is None for module in extra.modules):
        raise Unavailable(extra.sentence(what))


class Verbs(click.Group):
    """The verbs of the command, which fail in one way. One that imports what is not installed says which
    extra has it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line.

        Args:
            ctx: As click has it.
            args: The arguments; Python has half of a surrogate pair for each byte that is no text.

        Returns:
            Those that are left for the verb.

        Raises:
            UsageError: An argument is no text.
        """
        for argument in args:
            if any("\ud800" <= letter <= "\udfff" for letter in argument):
                raise click.UsageError(
                    f"The argument {argument!a} is no text in {sys.getfilesystemencoding()}: give it in "
                    "UTF-8, and set a locale that has UTF-8, such as LC_ALL=C.UTF-8."
                )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb.

        Args:
            ctx: The command line.

        Raises:
            ClickException: A package of an extra is missing.
        """
        try:
            with show_failures():
                return super().invoke(ctx)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            extra = next((extra for extra in EXTRAS.values() if missing in extra.modules), None)
            if extra is None:
                raise
            raise click.ClickException(extra.sentence(f"`livestate {ctx.invoked_subcommand}`")) from error
