"""What pip installs: one wheel, with as much beside it as a role needs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from flight_server.cli.extras import EXTRAS, HOST
from tests.support.decoys import decoy_modules
from tests.support.installed_wheel import (
    ROOT,
    SOURCES,
    Environment,
    build_wheel,
    make_environment,
    packages_for,
    wheel_requirements,
)
from tests.support.waiting import wait_until

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_VERBS = """
import click, sys
from flight_server.cli.main import main
for name in main.commands:
    main.main([name, "--help"], prog_name="livestate", standalone_mode=False)
"""
_CLIENT = """
import importlib, pkgutil, flight_server.client
for module in pkgutil.iter_modules(flight_server.client.__path__):
    importlib.import_module(f"flight_server.client.{module.name}")
import flight_server.cli.prompt, flight_server.cli.load, flight_server.cli.backup
import flight_server.cli.hosts, flight_server.cli.migrate, flight_server.cli.verify
import engine.producers.partial_rows
"""
# What tasks on executors run: the sink's and the reader's functions, and Spark's search for data sources.
_TASKS = """
import sys
sys.modules["pandas"] = None
import pyspark_livestate
import spark_pipeline.preaggregation, spark_pipeline.reader, spark_pipeline.transfer
print("\\n".join({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("client"), wheel, [])


@pytest.fixture(scope="module")
def host(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("host"), wheel, ["host"])


@pytest.fixture(scope="module")
def job(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("job"), wheel, ["spark"])


def test_roles_get_what_they_need(wheel: Path) -> None:
    requirements = wheel_requirements(wheel)
    alone = packages_for(requirements, [])
    assert {"click", "pyarrow", "obstore", "prompt-toolkit"} <= alone
    hosts = {"argon2-cffi", "duckdb", "pyjwt", "rocksdict", "sqlglot"}
    assert alone.isdisjoint(hosts | {"pyspark", "pandas", "adbc-driver-flightsql", "confluent-kafka"})
    assert hosts <= packages_for(requirements, ["host"])
    of_jobs = packages_for(requirements, ["kafka"])
    assert {"pyspark", "confluent-kafka"} <= of_jobs
    assert of_jobs.isdisjoint(hosts)


def test_the_wheel_has_all_files(client: Environment) -> None:
    packaging = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert packaging["find"]["include"] == [f"{room}*" for room in SOURCES]
    sources = {
        path.relative_to(ROOT)
        for room in SOURCES
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    (packages,) = client.root.glob("lib/python*/site-packages")
    assert not [path for path in sources if not (packages / path).exists()]
    assert (packages / "pyspark_livestate.py").exists()


def test_a_client_has_the_command_line_and_no_host(client: Environment, tmp_path: Path) -> None:
    here = decoy_modules(tmp_path / "decoys")
    for module in (*HOST.modules, "pyspark", "pandas"):
        assert client.run("python", "-P", "-c", f"import {module}", cwd=here).returncode == 1
    shown = client.run("python", "-P", "-c", _VERBS, cwd=here)
    assert shown.returncode == 0, shown.stderr
    loaded = client.run("python", "-P", "-c", _CLIENT, cwd=here)
    assert loaded.returncode == 0, loaded.stderr
    serving = client.run("livestate", "serve", "--changelog", "c", "--data", "d", cwd=here)
    assert serving.returncode == 1
    assert serving.stderr == (
        "Error: `livestate serve` needs the host's packages: pip install 'livestate[host]'.\n"
    )
    assert not (here / "d").exists()


def test_extras_name_all_modules(wheel: Path) -> None:
    """A package that is missing is told by the extra that has it."""
    modules: dict[str, set[str]] = {}
    for module, distributions in packages_distributions().items():
        for name in distributions:
            modules.setdefault(name.lower().replace("_", "-"), set()).add(module)
    for extra in EXTRAS.values():
        named = {
            needed.name.lower()
            for needed in wheel_requirements(wheel)
            if needed.name not in {"livestate", "pandas"}  # which verbs hide, and Spark itself asks for
            and needed.marker is not None
            and needed.marker.evaluate({"extra": extra.name})
        }
        assert all(modules[name] & set(extra.modules) for name in named), extra


def test_tasks_import_little(job: Environment, tmp_path: Path) -> None:
    found = job.run("python", "-P", "-c", _TASKS, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    loaded = set(found.stdout.split())
    assert {"engine", "spark_pipeline", "pyspark", "pyarrow", "numpy", "obstore"} <= loaded
    others = {"click", "datasketches", "google", "prompt_toolkit", "pygments", "rich"}
    assert loaded.isdisjoint({*others, *HOST.modules})


@contextmanager
def _serve(command: str, environment: Environment, cwd: Path) -> Iterator[str]:
    """Start a host by a line of the README, on any free port."""
    words = [*command.split(), "--port", "0"]
    with (
        (cwd / "said").open("w") as said,
        subprocess.Popen(words, cwd=cwd, env=environment.variables, stdout=said, stderr=said) as process,
    ):
        try:
            address = re.compile(r" at (grpc://[^\s,]+)")
            wait_until(
                lambda: process.poll() is not None or address.search((cwd / "said").read_text()) is not None
            )
            found = address.search((cwd / "said").read_text())
            assert found is not None, (cwd / "said").read_text()
            yield found[1]
        finally:
            process.terminate()
            process.wait(60)


def test_the_first_page_is_true(host: Environment, client: Environment, tmp_path: Path) -> None:
    """The commands of the README, in a directory of a user's that has files with the names of modules."""
    here = decoy_modules(tmp_path / "decoys")
    page = (ROOT / "README.md").read_text().partition("## Two minutes")[2].partition("\n## ")[0]
    first, *asked = _BLOCK.findall(page)
    lines = first[1].rstrip().split("\n")
    assert lines[0].startswith("pip install '.[host]'")
    assert lines[-1].startswith("livestate serve ")
    done = host.run("bash", "-ec", "\n".join(lines[1:-1]), cwd=here)
    assert done.returncode == 0, done.stderr
    with _serve(lines[-1], host, here) as uri:
        for (language, commands), (_, answer) in zip(asked[::2], asked[1::2], strict=True):
            assert language == "sh"
            *preparation, question = commands.rstrip().split("\n")
            prepared = client.run("bash", "-ec", "\n".join(preparation), cwd=here)
            assert prepared.returncode == 0, prepared.stderr

            def answers(question: str = question, answer: str = answer) -> bool:
                shown = client.run("bash", "-ec", f"LIVESTATE_URI={uri} {question}", cwd=here)
                return shown.stdout.split() == answer.split()

            wait_until(answers)
    # A host whose processes it starts itself, too.
    several = "livestate serve --changelog changelog --data hosts --processes 2"
    with _serve(several, host, here) as uri:
        counted = client.run("livestate", "sql", "SELECT count(*) FROM songs", "--uri", uri, cwd=here)
        assert counted.stdout.split()[-1] == "5", counted.stderr
