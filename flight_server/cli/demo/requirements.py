"""What the demo needs on this machine beside livestate: PySpark, Java, and Kafka's client."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from engine.errors import Unavailable
from flight_server.cli.extras import HOST, KAFKA, SPARK, check_extra

OLDEST_JAVA = 17


def check_spark() -> None:
    """Make sure that a Spark job can start here.

    Raises:
        Unavailable: A package of livestate's extras, or Java 17 or newer, is missing.
    """
    check_extra(SPARK, "The demo")
    check_extra(HOST, "The demo")
    version = java_version()
    if version is None:
        raise Unavailable(
            f"The demo runs a Spark job, which needs Java {OLDEST_JAVA} or newer, and none was found: "
            "install a JDK or set JAVA_HOME."
        )
    if version < OLDEST_JAVA:
        raise Unavailable(
            f"The demo runs a Spark job, which needs Java {OLDEST_JAVA} or newer; Java {version} was found: "
            "set JAVA_HOME to a newer one."
        )


def check_kafka() -> None:
    """Make sure that Kafka's client for Python is there.

    Raises:
        Unavailable: It is missing.
    """
    check_extra(KAFKA, "The demo with --kafka")


def java_version() -> int | None:
    """The main version of the Java that Spark will use; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java") if home else "java")
    if java is None:
        return None
    try:
        said = subprocess.run(  # noqa: S603  the program is the Java that Spark would run
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else None
