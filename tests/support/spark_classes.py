"""The classes of Spark in a file, as the Java machine has them in memory: those that tests start map it, and
are there in half the time. `make test` has it made, once; without it tests are as right, and take longer.

Run as `python -m tests.support.spark_classes`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "share" / "livestate" / "spark.jsa"
_OPTIONS = "SPARK_SUBMIT_OPTS"
# Of another Java, or of other jars, the file means nothing: the machine goes without it, and need not say so.
_QUIETLY = "-Xlog:disable"
_QUICKLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def use_archive() -> None:
    """Have all Java machines that Spark starts for this process, and for those that it starts, map the file,
    if it is there and nobody has chosen options for them.
    """
    if ARCHIVE.is_file():
        os.environ.setdefault(_OPTIONS, f'{_QUIETLY} "-XX:SharedArchiveFile={ARCHIVE}"')


def main() -> None:
    """Use most of what tests use, and keep the classes."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    made = ARCHIVE.with_suffix(".new")
    os.environ[_OPTIONS] = f'{_QUICKLY} {_QUIETLY} "-XX:ArchiveClassesAtExit={made}"'
    from spark_pipeline import LiveStateSink  # noqa: PLC0415  tests without Spark do without its imports
    from tests.spark.streams import PATHS, FileStream, drain  # noqa: PLC0415  as above
    from tests.support.spark_session import start_session  # noqa: PLC0415  as above

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        session = start_session("classes", directory / "spark")
        stream = FileStream(session, directory / "plays", "song STRING, at TIMESTAMP, plays INT")
        stream.add([{"song": "a", "at": "2024-01-01T00:00:00Z", "plays": 1}])
        stream.add([{"song": "b", "at": "2024-01-01T00:01:00Z", "plays": 2}])
        for path in PATHS:
            sink = LiveStateSink(
                changelog=(directory / path).as_uri(), store="plays", key=["song"], path=path
            )
            counted = stream.frame().withWatermark("at", "1 hour").groupBy("song").sum("plays")
            drain(counted.toDF("song", "plays"), sink, directory / f"{path}-checkpoint")
        session.createDataFrame([("a", 1)], "song STRING, n INT").write.parquet(str(directory / "rows"))
        session.read.parquet(str(directory / "rows")).join(
            session.createDataFrame([("a",)], "song STRING"), "song"
        ).collect()
        gateway = session.sparkContext._gateway
        assert gateway is not None
        session.stop()
        gateway.shutdown()
        # It ends when nobody can talk to it any more, and writes the file then.
        gateway.proc.stdin.close()
        gateway.proc.wait()
    made.replace(ARCHIVE)


if __name__ == "__main__":
    main()
