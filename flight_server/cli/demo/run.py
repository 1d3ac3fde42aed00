"""The course of a demo: start everything, watch, stop the generator, and check the counts."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np
import pyarrow as pa
from rich.console import Console

from engine.errors import DeadlineExceeded, InvalidInput, LivestateError, Unavailable
from engine.processes.signal_event import SignalEvent
from engine.processes.supervisor import ChildProcess, Supervisor
from flight_server.cli.demo.measure import ChartRow, Measurements, Observation, Observer, Percentiles, answers
from flight_server.cli.demo.recount import TOPIC, FileRecount, Recount
from flight_server.cli.demo.requirements import check_kafka, check_spark
from flight_server.cli.demo.screen import View, open_screen
from flight_server.cli.demo.summary import Outcome, print_summary
from flight_server.cli.render import terminal
from flight_server.client.client import Client
from flight_server.host.ports import free_ports

HOST = "127.0.0.1"
PORT = 8815
TICK_SECONDS = 0.1
CHART_SECONDS = 0.25
START_SECONDS = 120.0
CATCH_UP_SECONDS = 30.0
LAST_SECONDS = 5.0
WARM_UP_SECONDS = 5.0
"""Spark compiles its first batches; what is measured meanwhile does not count."""
RATE_SECONDS = 5.0
BROKER_SERVES = "Kafka serves"
"""How the broker's process says that clients can connect."""
TOPIC_SECONDS = 600
"""How long messages stay in the topic. A demo without end must not fill the disk; ten minutes are far more
than the job is ever behind.
"""
PIPELINE = "music_charts"
_VERBS = ("-m", "flight_server.cli.main")


@dataclass(frozen=True)
class DemoOptions:
    """What the user asked for.

    Attributes:
        duration: Seconds from the first chart to the end; None runs until Ctrl-C.
        rate: Play events a second.
        hosts: How many host processes serve together.
        port: Port of the host, or of the first; None takes 8815, or a free one.
        keep: Directory in which everything stays; None uses a temporary one.
        seed: Of the songs and the events.
        kafka: The plays go through a Kafka topic rather than files.
    """

    duration: float | None = None
    rate: int = 6000
    hosts: int = 1
    port: int | None = None
    keep: Path | None = None
    seed: int = 1
    kafka: bool = False

    @property
    def warm_up(self) -> float:
        """Seconds at the start whose measurements do not count: a third of a short demo at most."""
        return WARM_UP_SECONDS if self.duration is None else min(WARM_UP_SECONDS, self.duration / 3)


@dataclass(frozen=True)
class Place:
    """Where a demo keeps its files.

    Attributes:
        root: The directory of all of them.
    """

    root: Path

    @property
    def plays(self) -> Path:
        """The generated events."""
        return self.root / TOPIC

    @property
    def logs(self) -> Path:
        """What the processes said."""
        return self.root / "logs"


@contextmanager
def _place(keep: Path | None) -> Iterator[Place]:
    """A directory for the demo. A temporary one goes when the demo ends; its logs stay when it fails."""
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise InvalidInput("The directory to keep the demo in is not empty: name a new one.")
    place = Place(keep.absolute() if keep is not None else Path(tempfile.mkdtemp(prefix="livestate-demo-")))
    for directory in (place.plays, place.logs):
        directory.mkdir(parents=True, exist_ok=True)
    failed = True
    try:
        yield place
        failed = False
    finally:
        if keep is None:
            _remove(place, with_logs=not failed)


def _remove(place: Place, *, with_logs: bool) -> None:
    if with_logs:
        shutil.rmtree(place.root)
        return
    for entry in place.root.iterdir():
        if entry != place.logs:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


@contextmanager
def _stop_signals() -> Iterator[SignalEvent]:
    """Ctrl-C and SIGTERM ask for an orderly end; the second one ends at once."""
    stopping = SignalEvent()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_demo(options: DemoOptions, console: Console | None = None) -> bool:
    """Run the demo.

    Args:
        options: What the user asked for.
        console: Where to show it; standard output by default.

    Returns:
        Whether the stores held exactly what a plain recount of the events gives; also True when the user
        ended it before the first chart.

    Raises:
        Unavailable: Spark cannot run here, or a process ended; the message says where its log is.
        DeadlineExceeded: Something did not start, or did not catch up, in time.
        InvalidInput: The directory to keep everything in is not empty.
    """
    check_spark()
    with _stop_signals() as stopping, _place(options.keep) as place, Supervisor(place.logs) as children:
        demo = Demo(options, place, children, stopping, console or terminal())
        try:
            return demo.run()
        except LivestateError:
            # Who ends all processes of the demo at once leaves nobody to be asked for the counts.
            if not (stopping.is_set() and children.wait_for_exit(LAST_SECONDS)):
                raise
            demo.console.print("Stopped together with its processes: the counts were not checked.")
            return True


@dataclass
class Demo:
    """One demo underway.

    Attributes:
        options: What the user asked for.
        place: Where the files are.
        children: The processes.
        stopping: Set when the user wants it to end.
        console: Where to show it.
        measured: What was measured so far.
        random: Chooses the songs that are looked up.
        bootstrap: Where the Kafka broker is, if there is one.
    """

    options: DemoOptions
    place: Place
    children: Supervisor
    stopping: SignalEvent
    console: Console
    measured: Measurements = field(default_factory=Measurements)
    random: np.random.Generator = field(default_factory=np.random.default_rng)
    bootstrap: str | None = field(default=None, init=False)

    def run(self) -> bool:
        """All of it; see `run_demo`."""
        first = self.options.port or free_ports(HOST, PORT, self.options.hosts)[0]
        uris = [f"grpc://{HOST}:{first + number}" for number in range(self.options.hosts)]
        uri = uris[0]
        if self.options.kafka and not self._start_broker():
            return True
        self._start_hosts(first)
        self._start_job(uris)
        with Client(uri) as client:
            observer = Observer(client)
            if not (
                self._wait("the host", lambda: answers(client.health)) and self._wait_for_job(observer, uri)
            ):
                return True
            songs = observer.songs()
            recount = self._recount(songs)
            generator = self._start_generator()
            if not self._wait("the first chart", lambda: answers(observer.look)):
                return True
            self._watch(observer, recount, songs.num_rows, uri)
            self.children.stop(generator)
            recount.advance()
            outcome = self._outcome(observer, recount)
        print_summary(self.console, outcome)
        return outcome.passed

    def _start_hosts(self, port: int) -> None:
        command = [
            *_VERBS,
            "serve",
            "--changelog",
            str(self.place.root / "changelog"),
            "--data",
            str(self.place.root / "data"),
        ]
        several = ["--processes", str(self.options.hosts)] if self.options.hosts > 1 else []
        self.children.start(
            "The host", [sys.executable, *command, "--address", HOST, "--port", str(port), *several]
        )

    def _start_broker(self) -> bool:
        """Start the broker with its topic; False if the user has enough."""
        check_kafka()
        port = free_ports(HOST, 0, 1)[0]
        command = [
            *_VERBS,
            "broker",
            "--port",
            str(port),
            "--data",
            str(self.place.root / "kafka"),
            "--topic",
            TOPIC,
            "--retention",
            str(TOPIC_SECONDS),
        ]
        broker = self.children.start("The Kafka broker", [sys.executable, *command])
        if not self._wait(
            "the Kafka broker", lambda: BROKER_SERVES in broker.log.read_text(errors="replace")
        ):
            return False
        self.bootstrap = f"{HOST}:{port}"
        return True

    def _start_job(self, uris: list[str]) -> None:
        source = "files" if self.bootstrap is None else "kafka"
        command = [
            *_VERBS,
            "pipeline",
            PIPELINE,
            "--source",
            source,
            *self._events(),
            "--no-feed",
        ]
        command += ["--seed", str(self.options.seed), "--checkpoint", str(self.place.root / "checkpoint")]
        command += ["--changelog", (self.place.root / "changelog").as_uri()]
        command += [argument for uri in uris for argument in ("--notify", uri)]
        # A job that does not end in time is killed, and leaves what it has there.
        scratch = self.place.root / "spark"
        scratch.mkdir()
        self.children.start(
            "The Spark job",
            [sys.executable, *command],
            {
                "SPARK_LOCAL_DIRS": str(scratch),
                "TMPDIR": str(scratch),
                "PYSPARK_PYTHON": sys.executable,
            },
        )

    def _events(self) -> list[str]:
        """Where the plays are, as the pipelines' commands take it."""
        if self.bootstrap is None:
            return ["--directory", str(self.place.root)]
        return ["--bootstrap", self.bootstrap]

    def _start_generator(self) -> ChildProcess:
        command = [*_VERBS, "feed", PIPELINE, *self._events()]
        command += ["--rate", str(self.options.rate), "--seed", str(self.options.seed)]
        return self.children.start("The generator", [sys.executable, *command])

    def _recount(self, songs: pa.Table) -> Recount:
        if self.bootstrap is None:
            return FileRecount(self.place.plays, songs)
        # Only this way needs Kafka's client.
        from flight_server.cli.demo.topic import TopicRecount  # noqa: PLC0415

        return TopicRecount(self.bootstrap, songs)

    def _wait_for_job(self, observer: Observer, uri: str) -> bool:
        """Say how to connect, and wait for the job's first stores; False if the user has enough."""
        # Lines that can be pasted: the terminal may wrap them, and nothing else.
        self.console.print(connection_help(uri), soft_wrap=True)
        return self._wait("the Spark job, which takes some 10 seconds", lambda: answers(observer.songs))

    def _wait(self, what: str, there: Callable[[], bool]) -> bool:
        """Wait for a part to come up; False if the user has enough."""
        deadline = time.monotonic() + START_SECONDS
        with self.console.status(f"Waiting for {what} ..."):
            while not there():
                self._check_children()
                if time.monotonic() > deadline:
                    raise DeadlineExceeded(
                        f"The demo waited {START_SECONDS:.0f} seconds for {what}; the logs are in "
                        f"{self.place.logs}."
                    )
                if self.stopping.wait(TICK_SECONDS):
                    self.console.print("Stopped before the first chart.")
                    return False
        return True

    def _check_children(self) -> None:
        failure = self.children.failure()
        if failure is not None:
            raise Unavailable(failure)

    def _watch(self, observer: Observer, recount: Recount, songs: int, uri: str) -> None:
        """Look, measure and show until the time is over or the user ends it."""
        started = time.monotonic()
        rates = _Rate()
        charts: list[ChartRow] = []
        next_chart = 0.0
        with open_screen(self.console) as screen:
            while not self.stopping.wait(TICK_SECONDS):
                self._check_children()
                seconds = time.monotonic() - started
                if self.options.duration is not None and seconds >= self.options.duration:
                    return
                recount.advance()
                seen = self._measure(observer, songs, seconds)
                recount.drop(seen.plays)
                if seconds >= next_chart:
                    next_chart = seconds + CHART_SECONDS
                    charts, took = observer.charts()
                    self._keep(seconds, self.measured.chart_query, took)
                    screen.show(
                        self._view(
                            uri, seconds, recount.events, rates.update(seconds, recount.events), seen, charts
                        )
                    )

    def _measure(self, observer: Observer, songs: int, seconds: float) -> Observation:
        seen = observer.look()
        assert seen is not None, "there was a play before, and plays do not vanish"
        self.measured.looks += 1
        self.measured.torn += not seen.whole
        self._keep(seconds, self.measured.freshness, seen.freshness)
        self._keep(seconds, self.measured.lookup, observer.lookup(int(self.random.integers(1, songs + 1))))
        return seen

    def _keep(self, seconds: float, samples: list[float], sample: float) -> None:
        if seconds >= self.options.warm_up:
            samples.append(sample)

    def _view(
        self, uri: str, seconds: float, events: int, rate: float, seen: Observation, charts: list[ChartRow]
    ) -> View:
        return View(
            uri=uri,
            seconds=seconds,
            duration=self.options.duration,
            events=events,
            events_per_second=rate,
            epoch=seen.epoch,
            freshness=seen.freshness,
            freshness_percentiles=Percentiles.from_samples(self.measured.freshness),
            chart_query=Percentiles.from_samples(self.measured.chart_query),
            lookup=Percentiles.from_samples(self.measured.lookup),
            charts=charts,
        )

    def _outcome(self, observer: Observer, recount: Recount) -> Outcome:
        """Wait until all events are counted, and compare every count."""
        deadline = time.monotonic() + CATCH_UP_SECONDS
        with self.console.status("Checking the counts ..."):
            while (
                (seen := observer.look()) is not None
                and seen.plays < recount.counted
                and time.monotonic() < deadline
            ):
                self._check_children()
                time.sleep(TICK_SECONDS)
        songs, genres = observer.counts()
        assert seen is not None, "there was a play before, and plays do not vanish"
        return Outcome(
            seconds=recount.seconds,
            warm_up=self.options.warm_up,
            events=recount.events,
            counted=recount.counted,
            epoch=seen.epoch,
            measured=self.measured,
            songs=len(songs),
            genres=len(genres),
            wrong_songs=differences(songs, recount.per_song()),
            wrong_genres=differences(genres, recount.per_genre()),
            kept=self.options.keep,
        )


class _Rate:
    """Events a second over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def update(self, seconds: float, events: int) -> float:
        """The rate, given how many events there are now."""
        self._seen.append((seconds, events))
        while seconds - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        first_seconds, first_events = self._seen[0]
        return (events - first_events) / (seconds - first_seconds) if seconds > first_seconds else 0.0


def differences(found: dict[int, int] | dict[str, int], expected: dict[int, int] | dict[str, int]) -> int:
    """How many keys have another count, or are in one of the two only."""
    return len(set(found.items()) ^ set(expected.items()))


def connection_help(uri: str) -> str:
    """How to ask the demo's stores from elsewhere, ready to paste."""
    return f"""\
Connect to {uri} while it runs:
    import adbc_driver_flightsql.dbapi as flight_sql
    with flight_sql.connect("{uri}") as connection, connection.cursor() as cursor:
        print(cursor.execute("SELECT * FROM genre_plays ORDER BY plays DESC").fetch_df())
or: livestate sql --uri {uri}
"""
