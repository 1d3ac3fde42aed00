"""livestate as pip users have it: a wheel, beside the packages of some extras and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, PathDistribution, distribution
from pathlib import Path
from zipfile import Path as PathInZip
from zipfile import ZipFile

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SOURCES = ("engine", "flight_server", "spark_pipeline", "sqlalchemy_livestate")
FILES = ("pyspark_livestate.py", "pyproject.toml", "README.md", "LICENSE")


def build_wheel(directory: Path) -> Path:
    """Build the wheel from a copy of the sources, without a network.

    Args:
        directory: For the copy and the wheel.

    Returns:
        The wheel.
    """
    copy = directory / "source"
    for name in SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, copy / name)
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(directory)]
    _pip("wheel", *options, str(copy))
    (wheel,) = directory.glob("livestate-*.whl")
    return wheel


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def wheel_requirements(wheel: Path) -> list[Requirement]:
    """What the wheel says that it needs, with the extras that need it."""
    with ZipFile(wheel) as archive:
        (record,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        found = PathDistribution(PathInZip(archive, f"{record}/"))
        return [Requirement(text) for text in found.requires or ()]


def packages_for(requirements: Iterable[Requirement], extras: Iterable[str]) -> set[str]:
    """The distributions that pip would install besides livestate.

    Args:
        requirements: Of livestate's wheel.
        extras: The extras that are asked for.
    """
    known = {"livestate": list(requirements)}
    found: set[tuple[str, str]] = set()
    to_do = [("livestate", extra) for extra in ("", *extras)]
    while to_do:
        name, extra = to_do.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        if name not in known:
            known[name] = [Requirement(text) for text in distribution(name).requires or ()]
        for needed in known[name]:
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                to_do += [(needed.name, each) for each in ("", *needed.extras)]
    return {name for name, _ in found} - {"livestate"}


@dataclass(frozen=True)
class Environment:
    """An environment in which the wheel is installed.

    Attributes:
        root: Where it is.
    """

    root: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.root / "bin" / "python"

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables of a shell in which it is active."""
        path = os.pathsep.join([str(self.root / "bin"), os.environ["PATH"]])
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return {**kept, "PATH": path, "VIRTUAL_ENV": str(self.root)}

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command in it.

        Args:
            command: Program and arguments; the program is one of the environment, or any other.
            cwd: Where.
        """
        return subprocess.run(
            command, cwd=cwd, env=self.variables, capture_output=True, text=True, check=False, timeout=120
        )


def make_environment(root: Path, wheel: Path, extras: Iterable[str]) -> Environment:
    """Make an environment with the wheel, and links to what its extras need in this one.

    Args:
        root: Where; made.
        wheel: The wheel.
        extras: The extras that are asked for.
    """
    venv.create(root, symlinks=True)
    environment = Environment(root)
    (packages,) = root.glob("lib/python*/site-packages")
    for name in packages_for(wheel_requirements(wheel), extras):
        with suppress(PackageNotFoundError):
            for entry in _entries(name):
                if not (packages / entry.name).exists():
                    (packages / entry.name).symlink_to(entry)
    _pip("--python", str(environment.python), "install", "--no-deps", "--no-index", str(wheel))
    return environment


def _entries(name: str) -> Iterator[Path]:
    """Files and directories of a distribution, as they stand in `site-packages`."""
    installed = distribution(name)
    tops = {file.parts[0] for file in installed.files or () if file.parts[0] not in {"..", "__pycache__"}}
    return (Path(str(installed.locate_file(top))) for top in sorted(tops))
