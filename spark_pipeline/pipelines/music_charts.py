"""The music charts: plays per song and per genre, kept live. `python -m spark_pipeline.pipelines.music_charts --help`.

    plays (a directory of Parquet files, growing)      songs (a Parquet file)
        │                                                 │
        ▼                                                 ├──► store songs (song_id: title, artist, genre)
    plays of 30 s or more, with their genre  ◄────────────┘
        │  each play counts twice: for its song and for its genre
        ▼
    one stateful aggregation by (song_id, genre), where one of the two is null
        │  update mode: the counts that changed
        ▼
    store song_plays (song_id: plays, last_played) and store genre_plays (genre: plays, last_played), one commit

One aggregation rather than one query for each store: both stores then change in the same epoch, so whoever reads them
together finds that the plays of all songs and the plays of all genres add up to the same number, always. Spark also does
one batch where two queries would do two, side by side on the same cores. Deriving the genre's counts from the song's
would need all songs of the genre in each batch.

Counts live in Spark's state, which survives a restart in the checkpoint; the stores show them.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it
from pyspark.sql.streaming.query import StreamingQuery

from spark_pipeline import LiveStateSink, StoreOutput, recommended_settings, write_store

GROUP = "charts"
SHORTEST_PLAY_SECONDS = 30
PLAY_COLUMNS = "song_id bigint, user_id bigint, duration_seconds int, event_time timestamp"
_STOP_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class ChartsOptions:
    """Where the job reads and writes.

    Attributes:
        plays: Directory of Parquet files of play events, columns `PLAY_COLUMNS`; new files are picked up as they appear.
        songs: Parquet file of `song_id`, `title`, `artist`, `genre`.
        changelog: URI of the changelog.
        checkpoint: Directory of the streaming query's checkpoint.
        notify: Flight URIs of hosts to tell of each commit.
    """

    plays: str
    songs: str
    changelog: str
    checkpoint: str
    notify: Sequence[str] = ()


def count_plays(plays: DataFrame, songs: DataFrame) -> DataFrame:
    """Count plays per song and per genre, in one aggregation.

    Args:
        plays: Play events, `PLAY_COLUMNS`.
        songs: The catalogue; plays of songs that it lacks do not count.

    Returns:
        `song_id`, `genre`, `plays` (bigint), `last_played` (timestamp): a row for each song, with a null genre, and one for each
        genre, with a null song_id. Plays of less than 30 seconds do not count.
    """
    counted = plays.where(F.col("duration_seconds") >= SHORTEST_PLAY_SECONDS).join(F.broadcast(songs.select("song_id", "genre")), "song_id")
    song = F.struct("song_id", F.lit(None).cast("string").alias("genre"))
    genre = F.struct(F.lit(None).cast("bigint").alias("song_id"), "genre")
    return (
        counted.select("event_time", F.explode(F.array(song, genre)).alias("chart"))
        .groupBy("chart.song_id", "chart.genre")
        .agg(F.count(F.lit(1)).alias("plays"), F.max("event_time").alias("last_played"))
    )


def _song_plays(batch: DataFrame) -> DataFrame:
    return batch.where("song_id IS NOT NULL").drop("genre")


def _genre_plays(batch: DataFrame) -> DataFrame:
    return batch.where("genre IS NOT NULL").drop("song_id")


def start_charts(spark: SparkSession, options: ChartsOptions) -> StreamingQuery:
    """Write the songs, and start counting plays.

    Args:
        spark: The session.
        options: Where to read and write.

    Returns:
        The running query.

    Raises:
        LivestateError: A store exists and is another one, or the changelog cannot be reached.
    """
    songs = spark.read.parquet(options.songs).select("song_id", "title", "artist", "genre")
    write_store(songs, changelog=options.changelog, store="songs", key=["song_id"], path="driver", notify=options.notify)
    plays = spark.readStream.schema(PLAY_COLUMNS).parquet(options.plays)
    sink = LiveStateSink(
        changelog=options.changelog,
        group=GROUP,
        stores=[
            StoreOutput("song_plays", key=["song_id"], query=_song_plays),
            StoreOutput("genre_plays", key=["genre"], query=_genre_plays, partitions=1),
        ],
        path="driver",
        notify=options.notify,
    )
    return (
        count_plays(plays, songs)
        .writeStream.queryName("music_charts")
        .outputMode("update")
        .option("checkpointLocation", options.checkpoint)
        .foreachBatch(sink)
        .start()
    )


def session() -> SparkSession:
    """A local session that is set up for small batches in quick succession."""
    settings = {
        **recommended_settings(),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        # Files of a few hundred rows are read several to a task.
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": "1",
        # The quick compiler and collector pay for batches of some thousand rows, and leave the cores to the rest.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = SparkSession.builder.master("local[2]").appName("livestate music charts")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class _Stop:
    """Handles SIGTERM and Ctrl-C: at once while the job starts, in order when it counts."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.counting = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.asked.set()
        if not self.counting:
            # The JVM ends with its parent.
            raise SystemExit(0)


def main(arguments: Sequence[str]) -> int:
    """Run the job until SIGTERM or Ctrl-C.

    Args:
        arguments: The command line, without the program.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="python -m spark_pipeline.pipelines.music_charts", description="Count plays per song and per genre.")
    parser.add_argument("--plays", required=True, help="directory of Parquet files of play events")
    parser.add_argument("--songs", required=True, help="Parquet file of the songs")
    parser.add_argument("--changelog", required=True, help="URI of the changelog")
    parser.add_argument("--checkpoint", required=True, help="directory of the checkpoint")
    parser.add_argument("--notify", action="append", default=[], help="Flight URI of a host to tell of each commit; repeatable")
    options = ChartsOptions(**vars(parser.parse_args(arguments)))
    stop = _Stop()
    # Before the session starts, and again after: PySpark sets a handler of Ctrl-C that cancels jobs only.
    signal.signal(signal.SIGTERM, stop)
    spark = session()
    signal.signal(signal.SIGINT, stop)
    query = start_charts(spark, options)
    stop.counting = True
    failure = run_until(stop.asked, spark, query)
    if failure is not None:
        sys.stderr.write(f"{failure}\n")
    return 0 if failure is None else 1


def run_until(stopping: threading.Event, spark: SparkSession, query: StreamingQuery) -> str | None:
    """Let a query run, and stop it and its session.

    Args:
        stopping: Ends the wait.
        spark: The session.
        query: The running query.

    Returns:
        Why the query ended by itself; None if it was told to.
    """
    try:
        while query.isActive and not stopping.wait(_STOP_POLL_SECONDS):
            pass
        failure = None if stopping.is_set() else f"The streaming query ended: {query.exception()}"
        query.stop()
        spark.stop()
    except Py4JError:
        # A SIGTERM to the whole process group, as some supervisors send it, ends the JVM as well.
        return None if stopping.is_set() else "The JVM of the job ended unexpectedly."
    return failure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
