"""The jars of a Kafka broker, and of what Spark needs for topics: where they are, and how they come there.
`kafka.xml`, a project of Maven's, names them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

from engine.errors import InvalidInput, Unavailable

JARS_VARIABLE = "LIVESTATE_KAFKA_JARS"
CONNECTOR_JARS = ("spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "commons-pool2", "kafka-clients")
PROJECT = Path(__file__).with_name("kafka.xml")
_POM = "{http://maven.apache.org/POM/4.0.0}"
_SHOWN_CHARACTERS = 300


def jars_place() -> Path:
    """Where the jars are looked for: as the variable LIVESTATE_KAFKA_JARS says, else beside this Python."""
    return Path(os.environ.get(JARS_VARIABLE) or Path(sys.prefix, "share", "livestate", "kafka"))


def jars_directory() -> Path | None:
    """Where the jars are; None if they are not there."""
    place = jars_place()
    return place if any(place.glob("kafka_*.jar")) else None


def needed_jars_directory() -> Path:
    """Where the jars are.

    Raises:
        Unavailable: They are not on this machine.
    """
    place = jars_directory()
    if place is None:
        raise Unavailable(
            "The jars of Kafka are not on this machine: `livestate kafka` fetches them with Maven, or says "
            f"how to; if they are in another directory, name it in {JARS_VARIABLE}."
        )
    return place


def connector_jars() -> list[str]:
    """The jars that a Spark session needs for `format("kafka")`, as a value of `spark.jars` lists them.

    Raises:
        Unavailable: They are not on this machine.
    """
    place = needed_jars_directory()
    return [str(jar) for name in CONNECTOR_JARS for jar in sorted(place.glob(f"{name}*.jar"))]


def maven_coordinates() -> list[str]:
    """What is fetched, as `group:artifact:version`; and what that depends on, but for Spark's own."""
    project = ET.parse(PROJECT).getroot()  # noqa: S314  the file is one of this package
    return [
        ":".join(str(each.findtext(f"{_POM}{part}")) for part in ("groupId", "artifactId", "version"))
        for each in project.iter(f"{_POM}dependency")
    ]


def fetch_jars(directory: Path) -> int:
    """Have Maven fetch the jars.

    Args:
        directory: Where they go. It has all of them or is as it was.

    Returns:
        How many there are.

    Raises:
        Unavailable: Maven is not there, or could not fetch them.
        InvalidInput: The directory cannot be written.
    """
    maven = shutil.which("mvn")
    if maven is None:
        coordinates = "\n".join(f"  {each}" for each in maven_coordinates())
        raise Unavailable(
            "Maven (mvn) was not found, and the jars come from a repository of Maven's: install it, or have "
            "another machine run `livestate kafka --directory DIR` and copy DIR; or fetch these with what "
            f"they depend on, and name their directory in {JARS_VARIABLE}:\n{coordinates}"
        )
    directory = directory.absolute()  # Maven takes a relative one as of its project
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as scratch:
            jars = _copy_dependencies(maven, Path(scratch))
            shutil.rmtree(directory, ignore_errors=True)
            jars.rename(directory)
    except OSError as error:
        raise InvalidInput(f"The jars cannot be written to {directory}: {error.strerror}.") from error
    return len(list(directory.glob("*.jar")))


def _copy_dependencies(maven: str, scratch: Path) -> Path:
    # Maven keeps files of its own beside the project.
    project = Path(shutil.copy(PROJECT, scratch / "pom.xml"))
    command = [maven, "--quiet", "--batch-mode", "-Dstyle.color=never", "--file", str(project)]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    done = subprocess.run(  # noqa: S603  the command is made here
        [*command, f"-DoutputDirectory={scratch / 'jars'}"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = next((line for line in done.stdout.splitlines() if "ERROR" in line), "it said nothing")
        raise Unavailable(f"Maven could not fetch the jars: {said[:_SHOWN_CHARACTERS].rstrip('.')}.")
    return scratch / "jars"
