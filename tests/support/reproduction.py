"""What a failed test says about itself: its seeds, and the command that runs it and nothing else."""

from __future__ import annotations

import os
import shlex
from random import SystemRandom

import pytest

from tests.support.seeds import used_seeds

EXPLORE = "LIVESTATE_EXPLORE"
"""Set to anything, tests look for new examples."""
_SEEDS = 2**32


def choose_hypothesis_seed(config: pytest.Config) -> None:
    """A run that looks for new examples begins with one seed, which whatever fails can name.

    Args:
        config: Of the run; a seed on the command line stays.
    """
    if os.environ.get(EXPLORE) and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SystemRandom().randrange(_SEEDS))


def how_to_run(test: pytest.Item) -> str:
    """The command that runs a test alone, and the seeds that it has used.

    Args:
        test: A test that has failed.
    """
    command = [".venv/bin/python", "-m", "pytest", shlex.quote(test.nodeid)]
    if os.environ.get(EXPLORE):
        command = [f"{EXPLORE}=1", *command, f"--hypothesis-seed={test.config.option.hypothesis_seed}"]
    seeds = ", ".join(map(repr, used_seeds()))
    return " ".join(command) + (f"\nseeds: {seeds}" if seeds else "")
