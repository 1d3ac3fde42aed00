"""A Spark session on this machine, as tests and benchmarks start it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from spark_pipeline import recommended_settings

QUICK_SETTINGS = {
    # The quick compiler alone: a test run is over before the optimising one pays off.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Nor does code that Spark makes and compiles for a few rows: a twelfth of all that tests take.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Of sessions for tests."""


def start_session(
    name: str, scratch: Path, master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session with the settings that livestate recommends.

    Args:
        name: What it is called.
        scratch: A directory for all that Spark writes beside the data.
        master: Where it runs.
        settings: Further settings.

    Returns:
        The session, which whoever started it stops.
    """
    # Python workers run what this process runs, not whichever python3 is on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(master).appName(name)
    all_settings = {
        **recommended_settings(),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
        **(settings or {}),
    }
    for setting, value in all_settings.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()
