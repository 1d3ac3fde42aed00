"""The real JDBC driver, if it is on this machine; the test fetches nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "jdbc" / "Queries.java"
METADATA = PROGRAM.with_name("Metadata.java")
READINGS = PROGRAM.with_name("Readings.java")
FETCH = "mvn dependency:get -Dartifact=org.apache.arrow:flight-sql-jdbc-driver:18.3.0"
ANSWERS = """\
rows (1, one, 10) (2, two, 20) (3, three, 30)
again (200000)
types (1, -5, 0.5, 12345.678, Ærø 🎵, true, 2024-05-17, 2024-05-17 12:30:15.123456) (2, null, null, null, null, null, null, null)
bound (one) (three)
bound again (two)
decimal (1)
integers (2.6, 2024-05-20)
product livestate true false " true 200
catalogs (livestate)
table types (TABLE)
tables [main.songs]
columns [id:BIGINT, tiny:TINYINT, unsigned:UBIGINT, single:FLOAT, amount:DECIMAL(12,3), name:VARCHAR, raw:BLOB, flag:BOOLEAN, day:DATE, \
moment:TIMESTAMP, instant:TIMESTAMP WITH TIME ZONE, tags:VARCHAR[], counts:MAP(VARCHAR, BIGINT), point:STRUCT("x" BIGINT, "y" VARCHAR)]
key song_id 1
refused false true
spark (two)
user (3)
activity running SHOW STATEMENTS
sessions true
cancel true
"""
TOLD = """\
called true []
schemas [main]
tables [Odd 100%_name, big, songs, typed]
columns [amount:DECIMAL(12,3):12:3]
key [song_id:1:songs_song_id_pkey]
keys []
functions 25 21 17 4
names falsefalse"
id of main.typed BIGINT 19 0 truetruefalsefalse
amount of main.typed DECIMAL 12 3 truetruefalsefalse
name of main.typed VARCHAR 0 0 truetruetruefalse
moment of main.typed TIMESTAMP 26 6 truetruefalsefalse
more of null.null DECIMAL 14 3 truetruefalsefalse
session anybody main true
"""


def _driver() -> Path | None:
    if "LIVESTATE_JDBC_DRIVER" in os.environ:
        return Path(os.environ["LIVESTATE_JDBC_DRIVER"])
    repository = Path.home() / ".m2" / "repository" / "org" / "apache" / "arrow" / "flight-sql-jdbc-driver"
    return max(repository.glob("*/flight-sql-jdbc-driver-*.jar"), default=None)


def java_command(program: Path, uri: str, zone: str = "UTC") -> list[str]:
    """The command that runs a program with the driver; skips the test where there is none.

    Args:
        program: One source file.
        uri: The host that it asks.
        zone: Time zone of its machine.
    """
    java, driver = shutil.which("java"), _driver()
    if java is None or driver is None:
        pytest.skip(
            f"the JDBC driver is not on this machine: {FETCH}, or say where it is in LIVESTATE_JDBC_DRIVER"
        )
    options = [
        # It is over before the optimising compiler pays off.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        f"-Duser.timezone={zone}",
        "-Dstdout.encoding=UTF-8",
        "-Dfile.encoding=UTF-8",
    ]
    return [java, *options, "-cp", str(driver), str(program), uri.removeprefix("grpc://")]


def test_jdbc_asks_binds_and_browses(uri: str) -> None:
    answer = subprocess.run(java_command(PROGRAM, uri), capture_output=True, check=False, timeout=120)
    assert answer.stdout.decode() == ANSWERS, answer.stderr.decode()


def test_jdbc_has_all_metadata_that_tools_ask_for(uri: str) -> None:
    answer = subprocess.run(java_command(METADATA, uri), capture_output=True, check=False, timeout=120)
    assert answer.stdout.decode() == TOLD, answer.stderr.decode()
    assert answer.returncode == 0, answer.stderr.decode()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_values_are_read_as_the_docs_say(uri: str, zone: str) -> None:
    """The driver's other ways shift times by the machine's zone, take unsigned integers for signed ones, and
    have no dates beyond the year 9999. A Statement has each column of an empty result twice.
    """
    answer = subprocess.run(java_command(READINGS, uri, zone), capture_output=True, check=False, timeout=120)
    assert answer.stdout.decode() == (
        "18446744073709551615 200 2024-05-17 2024-05-17 00:30:15.123456 2024-05-17T00:30:15.123456 "
        '2024-05-17T10:30:15Z 10:11:12.5 [1,2] ["2024-05-17"] 18446744073709551560 false infinity '
        '["18446744073709551615"]\n'
        "2 false\n"
    ), answer.stderr.decode()
