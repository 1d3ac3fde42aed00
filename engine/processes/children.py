"""Processes of Python that this one starts, and that find livestate's modules where this one did."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

SAFE_PATH = "PYTHONSAFEPATH"
"""Set, Python looks for modules where they are installed, and not in the directory that it was started in."""


def python_environment() -> Mapping[str, str]:
    """Variables of a process that runs Python, and of those that it starts.

    `python -m` looks for modules in the current directory first: a file `engine.py` or `json.py` that
    somebody has there would be taken for livestate's or Python's own.
    """
    environment = {**os.environ, SAFE_PATH: "1"}
    root = str(Path(__file__).parents[2])
    if root not in sys.path[1:]:
        # Not installed: this process found the modules in the very directory that the others pass over.
        environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return environment
