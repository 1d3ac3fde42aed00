"""A Kafka broker of one node, for tests and demos: `livestate broker --help`.

It is Apache Kafka itself, in KRaft mode: broker and controller in one process, on loopback, without a
password. Its jars are fetched once by `livestate kafka` (`kafka_jars.py`); nothing is downloaded here.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from engine.errors import DeadlineExceeded, Unavailable
from engine.processes.signal_event import SignalEvent
from engine.processes.supervisor import ChildProcess
from spark_pipeline.addresses import LOOPBACK, free_port
from spark_pipeline.kafka_jars import needed_jars_directory

PORT = 9092
START_SECONDS = 90.0
_POLL_SECONDS = 0.05
_MEMORY = "256m"
_SEGMENT_BYTES = 64 << 20


class KafkaBroker:
    """One broker; a context that starts and stops it. It ends with this process, too, however that does.

    Args:
        directory: For its data and what it says; what a broker left there before is served again.
        port: Where clients connect; a free one by default.
        retention_seconds: How long messages stay; as Kafka has it by default, which is a week.

    Attributes:
        bootstrap: Where clients connect, as their `bootstrap.servers` wants it.
    """

    def __init__(
        self, directory: Path, port: int | None = None, retention_seconds: int | None = None
    ) -> None:
        self._directory = directory
        self._retention_seconds = retention_seconds
        self._port, self._controller_port = (port or free_port()), free_port()
        self._process: ChildProcess | None = None
        self.bootstrap = f"{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Start it, for the first time or again, and wait until clients can connect.

        Raises:
            Unavailable: Java or the jars are missing, the port is taken, or it ended; the message says why.
            DeadlineExceeded: It did not come up in time.
        """
        if _listens(self._port):
            raise Unavailable(
                f"Something else serves {self.bootstrap} already: stop it, or choose another port."
            )
        settings = self._write_settings()
        if not (self._directory / "data" / "meta.properties").exists():
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
            formatting = self._java(
                "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={settings}"
            )
            formatting.process.wait()
            formatting.stop()
        self._process = self._java("kafka.Kafka", str(settings))
        with ExitStack() as unless_started:
            unless_started.callback(self.stop)
            self._wait(self._process)
            unless_started.pop_all()

    def stop(self) -> None:
        """End it; what it has stays in the directory."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def check(self) -> None:
        """Make sure that it runs.

        Raises:
            Unavailable: It has ended.
        """
        if self._process is None or self._process.has_ended():
            said = self._process.last_line() if self._process is not None else ""
            raise Unavailable(f"The Kafka broker has ended{said}.")

    def __enter__(self) -> KafkaBroker:
        self.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _java(self, *command: str) -> ChildProcess:
        home = os.environ.get("JAVA_HOME")
        java = shutil.which(Path(home, "bin", "java") if home else "java")
        if java is None:
            raise Unavailable(
                "Kafka needs Java 17 or newer, and none was found: install a JDK or set JAVA_HOME."
            )
        # It starts in half the time with the quick compiler, and needs little memory.
        options = [
            f"-Xmx{_MEMORY}",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ]
        program = [java, *options, "-cp", f"{needed_jars_directory()}/*", *command]
        return ChildProcess.start("The Kafka broker", program, self._directory / "broker.log")

    def _write_settings(self) -> Path:
        """Its `server.properties`; the names are those of Kafka's documentation."""
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{LOOPBACK}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self._directory / "data",
            # One node keeps one copy of everything.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            # A topic that a job subscribes to before it is filled has to be there.
            "auto.create.topics.enable": "true",
            "num.partitions": 2,
        }
        if self._retention_seconds is not None:
            settings["log.retention.ms"] = self._retention_seconds * 1000
            # Messages go a segment at a time.
            settings["log.segment.bytes"] = _SEGMENT_BYTES
        (self._directory / "data").mkdir(parents=True, exist_ok=True)
        file = self._directory / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        return file

    def _wait(self, process: ChildProcess) -> None:
        """The broker listens once it has its metadata and can answer."""
        deadline = time.monotonic() + START_SECONDS
        while not _listens(self._port):
            if process.has_ended():
                raise Unavailable(f"The Kafka broker ended when it was to start{process.last_line()}.")
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"The Kafka broker did not start within {START_SECONDS:.0f} seconds.")
            time.sleep(_POLL_SECONDS)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def run_broker(
    port: int = PORT,
    data: Path | None = None,
    topics: Sequence[str] = (),
    retention_seconds: int | None = None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C, and say where it is.

    Args:
        port: Where clients connect.
        data: Directory in which topics stay; None for a temporary one.
        topics: Topics to have from the start.
        retention_seconds: How long messages stay; as Kafka has it by default, which is a week.

    Raises:
        Unavailable: It could not start, or has ended.
        DeadlineExceeded: It did not come up in time.
    """
    stopping = SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stopping.set())
    with tempfile.TemporaryDirectory(prefix="livestate-kafka-") as temporary:
        directory = data or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        with KafkaBroker(directory, port, retention_seconds) as broker:
            _create_topics(broker, topics)
            sys.stdout.write(f"Kafka serves {broker.bootstrap}\n")
            sys.stdout.flush()
            while not stopping.wait(1.0):
                broker.check()


def _create_topics(broker: KafkaBroker, names: Sequence[str]) -> None:
    if names:
        from spark_pipeline.pipelines.kafka_feed import create_topic  # noqa: PLC0415  only who has topics made needs Kafka's client

        for name in names:
            create_topic(broker.bootstrap, name)
