"""Fixtures of the whole test suite."""

from __future__ import annotations

import gc
import multiprocessing.util
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.junkdrawer import gc_cumulative_time
from xdist.remote import Producer

from tests.support.reproduction import EXPLORE, choose_hypothesis_seed, how_to_run
from tests.support.scheduling import ModuleScheduling, sort_by_scope
from tests.support.seeds import forget_seeds
from tests.support.spark_classes import ARCHIVE, use_archive
from tests.support.temporary_files import choose_temporary_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same examples each time, however slow the machine; LIVESTATE_EXPLORE=1 looks for new ones, and prints
# what it fails on.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("explore" if os.environ.get(EXPLORE) else "repeatable")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before Hypothesis looks at its seed, and pytest for a place for files."""
    choose_hypothesis_seed(config)
    choose_temporary_root()
    use_archive()
    # Shells start what runs in the background with it ignored, and so would be all processes of tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    """Hypothesis counts how long garbage collections take, in a function of Python, for the sake of deadlines
    that no test has. Work of a long text that is abandoned during one would end there, and fail another test.
    """
    before = gc.callbacks.copy()
    gc_cumulative_time()
    gc.callbacks[:] = before


def pytest_report_header() -> str | None:
    """A run without `make test` may lack what it makes."""
    return None if ARCHIVE.is_file() else "without a file of Spark's classes, which `make test` makes: slower"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ModuleScheduling:
    """Modules stay whole in a run with several workers, and are begun in the order of the collection."""
    config.option.loadscopereorder = False
    return ModuleScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One worker begins with Spark, the others with what takes longest of everything else."""
    if hasattr(config, "workerinput"):
        sort_by_scope(items)


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: garbage collection need not look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """What is left at the end of the process is collected."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seeds belong to one test."""
    forget_seeds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """A verb that a test calls in this process may handle signals from then on, and a Spark session does."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails says how to run it alone."""
    report = yield
    if report.failed:
        report.sections.append(("Run it alone", how_to_run(item)))
    return report


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is written to no directory of a test is beside them, and goes with them."""
    # The one of this process's children goes when the process ends, later than those of tests.
    multiprocessing.util.get_temp_dir()
    directory = str(tmp_path_factory.mktemp("files"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", directory)
        patch.setattr(tempfile, "tempdir", directory)
        yield


@pytest.fixture(scope="session", autouse=True)
def lost_interrupts() -> Iterator[None]:
    """As in a host, it is no error where what ends the work of a long text comes up in a finaliser, which may
    be that of anything.
    """
    from engine.statements.deep_stack import ignore_lost_interrupts  # noqa: PLC0415  as below

    before = sys.unraisablehook
    ignore_lost_interrupts()
    yield
    sys.unraisablehook = before


@pytest.fixture(scope="session", autouse=True)
def idle_workers() -> Iterator[None]:
    """As many processes for statements wait for the next one as four hosts keep: those that tests have in one
    process share them, and would start one and end one with nearly each statement.
    """
    from engine.duckdb import worker_pool  # noqa: PLC0415  a run's first process has no use for the engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_pool, "MAX_IDLE", 4 * worker_pool.MAX_IDLE)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a test run, started by the first test that asks for it."""
    from spark_pipeline.kafka_jars import connector_jars, jars_directory  # noqa: PLC0415  as below
    from tests.support.spark_session import QUICK_SETTINGS, start_session  # noqa: PLC0415  pyspark takes half a second to import, and most tests do without

    settings = {
        "spark.driver.memory": "2g",
        **QUICK_SETTINGS,
        # Small, so that a test can exceed it.
        "spark.driver.maxResultSize": "32m",
        # Not on the class path: the file of Spark's classes is one of its class path, and of no other.
        "spark.jars": ",".join(connector_jars() if jars_directory() is not None else []),
    }
    # Two cores, and two attempts for each task.
    session = start_session("livestate-tests", tmp_path_factory.mktemp("spark"), "local[2,2]", settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where clients of a real Kafka broker connect: the one of a test run, started by the first test that
    asks for it.
    """
    from spark_pipeline.kafka_broker import KafkaBroker  # noqa: PLC0415  as above
    from spark_pipeline.kafka_jars import jars_directory  # noqa: PLC0415  as above

    if jars_directory() is None:
        pytest.skip("the jars of Kafka are not on this machine: make kafka, which needs Maven")
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap
