"""A directory that has files with the names of modules, as anybody's may: what is imported from there ends
its process.
"""

from __future__ import annotations

from pathlib import Path

_NAMES = (
    "engine",
    "flight_server",
    "spark_pipeline",
    "pyspark_livestate",
    "json",
    "logging",
    "random",
    "click",
    "numpy",
    "pyarrow",
    "pyspark",
    "rich",
)


def decoy_modules(directory: Path) -> Path:
    """Put them into a directory, which is made.

    Args:
        directory: The directory.

    Returns:
        It.
    """
    directory.mkdir()
    for name in _NAMES:
        (directory / f"{name}.py").write_text(f"raise SystemExit('This is not the module {name}.')\n")
    return directory
