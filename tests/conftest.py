"""Fixtures of the whole test suite."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a test run, started by the first test that asks for it."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  pyspark takes half a second to import, and most tests do without

    from spark_pipeline import recommended_settings  # noqa: PLC0415  it imports pyspark

    # Python workers run what the tests run, not whichever python3 is on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    scratch = tmp_path_factory.mktemp("spark")
    # Two cores, and two attempts for each task.
    builder = SparkSession.builder.master("local[2,2]").appName("livestate-tests")
    settings = {
        **recommended_settings(),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        # The quick compiler alone: a test run is over before the optimising one pays off.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # Small, so that a test can exceed it.
        "spark.driver.maxResultSize": "32m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
