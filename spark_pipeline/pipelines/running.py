"""A pipeline's job as a process: its Spark session, and an end in order."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkRuntimeError, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from engine.errors import Unavailable
from engine.processes.children import python_environment
from engine.processes.signal_event import SignalEvent
from spark_pipeline import recommended_settings

_POLL_SECONDS = 0.25
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_NO_JAVA = "JAVA_GATEWAY_EXITED"
_PLAN = "\n=== Streaming Query ==="
_LINES_OF_JAVA = "\n\tat "
_RAISED = re.compile(r"^(?:engine|pyspark)\.errors\.[\w.]+: (.+)$", re.MULTILINE)
"""The last line of a traceback: what a batch was refused with, or what Spark says of it."""
_JAVA_FAILED = ("An error occurred while calling ", "JVM stacktrace:")
"""One of these is in what PySpark says where a call of Python's ended in Java, ahead of all its causes."""
_CAUSE = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)+[\w$]+: (.+)$", re.MULTILINE)
_CODES = re.compile(r"^\[[A-Z_.]+\] | SQLSTATE: \w+$")
_LOGGERS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
)
"""Of those who log why a batch failed, on hundreds of lines: it is told when the query has ended."""
LOCAL_MASTER = "local[2]"
_SETTINGS = {
    # Plans of batches of some thousand rows are not worth planning again with what their stages made.
    "spark.sql.adaptive.enabled": "false",
    # Files of a few hundred rows are read several to a task.
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": "1",
    "spark.log.level": "ERROR",
}
_LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # The quick compiler and collector pay for batches of some thousand rows, and leave the cores to the rest.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Of a master that is this process."""


class Stop:
    """Handles SIGTERM and Ctrl-C: at once before there is a JVM, and in order from then on.

    Attributes:
        asked: Whether one of them came.
        in_order: Whether a JVM has been started, or is about to be.
    """

    def __init__(self) -> None:
        self.asked = SignalEvent()
        self.in_order = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        self.asked.set()
        if not self.in_order:
            raise SystemExit(0)

    def listen(self) -> None:
        """Take them from now on."""
        for number in _STOP_SIGNALS:
            signal.signal(number, self)


class _Shield:
    """Keeps SIGTERM and Ctrl-C from processes that are forked while it is up, and from all that these start.

    A supervisor sends them to every process of a job, a terminal to every process of a group. A JVM and
    Python workers that end on their own account fail whatever the job has under way, with a traceback each.
    Without, they go on until the job has ended in order, and end with it in any case: their standard input is
    a pipe of their parent. A signal that is ignored when a program starts stays so in Java, and one that is
    blocked in Python, whatever handlers it sets.
    """

    def __init__(self) -> None:
        self.is_up = False
        # PySpark starts the JVM with a function for the child to call, and so this is called there, too.
        os.register_at_fork(after_in_child=self._keep_off)

    def _keep_off(self) -> None:
        if self.is_up:
            for number in _STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)

    def __enter__(self) -> None:
        self.is_up = True

    def __exit__(self, *raised: object) -> None:
        self.is_up = False


_shield = _Shield()


def start_session(
    stop: Stop, name: str, master: str = LOCAL_MASTER, given: Mapping[str, str] | None = None
) -> SparkSession:
    """A session that is set up for small batches in quick succession.

    Args:
        stop: Waits from now on for whoever asks it to until the session can be ended in order. A JVM whose
            parent goes while it starts may go on without it.
        name: What it is called.
        master: Spark's master, as `spark-submit --master` takes it.
        given: Settings of Spark's, by name; they win over those that are made here.

    Raises:
        Unavailable: Java is missing or too old, or the master cannot be reached.
    """
    stop.in_order = True
    with ThreadPoolExecutor(1) as thread:
        # In the main thread PySpark would set a handler of Ctrl-C of its own, which cancels jobs only.
        return thread.submit(_start_session, name, master, given or {}).result()


def session_settings(master: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a pipeline's session.

    Args:
        master: Spark's master.
        given: Settings that win.
    """
    local = _LOCAL_SETTINGS if master.startswith("local") else {}
    return {**recommended_settings(), **_SETTINGS, **local, **given}


def _start_session(name: str, master: str, given: Mapping[str, str]) -> SparkSession:
    if master.startswith("local"):
        # Python workers run what this process runs, not whichever python3 is on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # They get the variables of the JVM, which gets those of this process.
    os.environ.update(python_environment())
    builder = SparkSession.builder.master(master).appName(f"livestate {name}")
    for setting, value in session_settings(master, given).items():
        builder = builder.config(setting, value)
    try:
        with _shield:
            return _without_traces(builder.getOrCreate())
    except PySparkRuntimeError as error:
        if error.getCondition() != _NO_JAVA:
            raise
        raise Unavailable(
            "Spark did not start: it needs Java 17 or newer, and settings that it knows; install a JDK, set "
            "JAVA_HOME, or correct --master and --spark-conf."
        ) from error
    except Py4JJavaError as error:
        reason = str(error.java_exception.getMessage()).partition("\n")[0].rstrip(".")
        raise Unavailable(f"Spark did not start with the master {master}: {reason}.") from error


def _without_traces(spark: SparkSession) -> SparkSession:
    """A session whose driver does not log why a batch failed."""
    machine = spark._jvm  # noqa: SLF001
    assert machine is not None
    logging = machine.org.apache.logging.log4j
    for name in _LOGGERS:
        logging.core.config.Configurator.setLevel(name, logging.Level.OFF)
    return spark


def run_until(
    stop: Stop, query: StreamingQuery, duration: float | None, look: Callable[[float], None]
) -> None:
    """Let a query run until it is to stop, its time is over, or it ends by itself.

    Args:
        stop: Ends the wait.
        query: The running query.
        duration: Seconds from now; None for ever.
        look: Called several times a second, with the seconds since the start.
    """
    start = time.monotonic()
    while query.isActive and not stop.asked.wait(_POLL_SECONDS):
        seconds = time.monotonic() - start
        if duration is not None and seconds >= duration:
            return
        look(seconds)


def end(stop: Stop, spark: SparkSession, query: StreamingQuery, *, catch_up: bool) -> str | None:
    """Stop a query and its session.

    Args:
        stop: Whether somebody asked for it, who then does not wait for long.
        spark: The session.
        query: The query.
        catch_up: Whether it is to process what is there before, unless somebody asked it to stop.

    Returns:
        Why the query had ended by itself; None if it had not.
    """
    try:
        if catch_up and query.isActive and not stop.asked.is_set():
            query.processAllAvailable()
        failure = None if stop.asked.is_set() or query.isActive else _end_message(query.exception())
        # What a batch has under way fails, and Spark would log that as errors.
        spark.sparkContext.setLogLevel("OFF")
        query.stop()
        spark.stop()
    except Py4JError:
        # A SIGTERM to the whole process group, as some supervisors send it, ends the JVM as well.
        return None if stop.asked.is_set() else "The JVM of the job ended unexpectedly."
    except StreamingQueryException as error:
        return _end_message(error)
    return failure


def _end_message(error: BaseException | None) -> str:
    return f"The streaming query ended: {failure_reason(error)}"


def failure_reason(error: BaseException | None) -> str:
    """Why a query has failed, or could not start, without the lines of Java and Python that it passed.

    Args:
        error: What Spark raised, or what it says of its query.
    """
    # Behind the reason Spark lists offsets and the plan.
    text = str(error).partition(_PLAN)[0]
    reason = text.partition(_LINES_OF_JAVA)[0].rstrip()
    reasons = _RAISED.findall(reason)
    if not reasons and any(words in reason for words in _JAVA_FAILED):
        reasons = _CAUSE.findall(text)
    return _CODES.sub("", reasons[-1].rstrip()) if reasons else reason
