"""What Spark's executors load of livestate: nothing that only a host needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORBIDDEN = ("duckdb", "sqlglot", "rocksdict", "adbc_driver_flightsql", "prompt_toolkit", "rich")
ROOMS = (
    "engine.service",
    "engine.coordinator",
    "engine.exec",
    "engine.sql",
    "engine.plan",
    "engine.statements",
)
_LOADED = "import sys, {}; print('\\n'.join(sys.modules))"


def loaded_modules(module: str) -> set[str]:
    """What a fresh interpreter has loaded once it has a module."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(module)], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module", ["spark_pipeline.reader", "spark_pipeline.sink", "flight_server.client.connection"]
)
def test_the_spark_side_loads_nothing_of_a_host(module: str) -> None:
    found = loaded_modules(module)
    assert "flight_server.client.connection" in found
    assert found.isdisjoint({*FORBIDDEN, *ROOMS})
    rooms = {".".join(name.split(".")[:2]) for name in found if name.startswith("flight_server.")}
    assert rooms == {"flight_server.client", "flight_server.wire"}
