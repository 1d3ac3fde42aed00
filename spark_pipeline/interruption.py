"""Stopping a query in the middle of a batch, quietly.

`StreamingQuery.stop` cancels the batch's Spark job and interrupts the thread that runs it. Python sees that
as a `Py4JJavaError`, whose text has Java's whole stack trace; when it leaves `foreachBatch`, Spark looks in
that text, with a regular expression that recurses for each character, for the words that tell an interruption
from a failure (`StreamExecution.PROXY_ERROR` in Spark's sources), and dies of a `StackOverflowError` with
thousands of lines on the console. The same words in a short text are understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.java_gateway import JavaObject, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from engine.errors import Cancelled

_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
_WORDS = "py4j.protocol.Py4JJavaError: An error occurred while calling it"
_CANCELLED_JOB = "SPARK_JOB_CANCELLED"
_MAX_CAUSES = 20


@contextmanager
def quiet_stop(spark: SparkSession, batch_name: str) -> Iterator[None]:
    """Make the errors of Spark actions that the query's stop caused short, so that Spark takes them for what
    they are.

    Args:
        spark: Any session.
        batch_name: What messages call the batch.

    Raises:
        Cancelled: Instead of such an error.
    """
    try:
        yield
    except Py4JJavaError as error:
        if not is_interruption(error, spark):
            raise
        raise Cancelled(f"The query was stopped during {batch_name}. {_WORDS}: {_INTERRUPTIONS[0]}") from None


def is_interruption(error: Py4JJavaError, spark: SparkSession) -> bool:
    """Whether the stop of a query made a Spark action fail.

    Args:
        error: What the action raised.
        spark: Any session.

    Returns:
        Whether the error or a cause of it says that its thread was interrupted or its job cancelled.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001  the classes and conditions of Java errors are known to the gateway alone
    cause: JavaObject | None = error.java_exception
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return False
        if any(is_instance_of(gateway, cause, name) for name in _INTERRUPTIONS):
            return True
        if (
            is_instance_of(gateway, cause, "org.apache.spark.SparkThrowable")
            and cause.getCondition() == _CANCELLED_JOB
        ):
            return True
        cause = cause.getCause()
    return False
