"""How fast 10,000 keys are looked up by one statement, among 10 M rows.

    python -m benchmarks many_keys

Three statements, each time for other random keys: one IN list of 10,000 numbers, a join with a VALUES list of
them, and `= ANY(?)` with one list as the parameter. Each through the query service in this process, and as
one call of a plain Flight client to a host process. The time includes all of it, from the text (some 200 kB)
to the last row in Arrow.

Checked: count and sums of the rows of every timed call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

from benchmarks.local_store import local_store
from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess
from benchmarks.setting import Setting
from benchmarks.timing import Spent, median_cpu, median_wall, milliseconds, stopwatch
from benchmarks.workload import KEYS, STORE, Expected, Numbers, check, key_values
from engine.service import QueryService

LOOKED_UP = 10_000
REPETITIONS = 15
TARGET = 5e5


@dataclass(frozen=True)
class Question:
    """A statement that asks for keys.

    Attributes:
        name: What it is called.
        text: Makes the statement of the keys.
        by_parameter: Whether the keys are its one parameter.
    """

    name: str
    text: Callable[[Sequence[int]], str]
    by_parameter: bool = False


QUESTIONS = (
    Question("IN list", lambda keys: f"SELECT * FROM {STORE} WHERE song_id IN ({', '.join(map(str, keys))})"),
    Question(
        "join with VALUES",
        lambda keys: f"SELECT p.* FROM {STORE} p JOIN (VALUES {_values(keys)}) w(k) ON p.song_id = w.k",
    ),
    Question("= ANY(?)", lambda keys: f"SELECT * FROM {STORE} WHERE song_id = ANY(?)", by_parameter=True),
)


def _values(keys: Sequence[int]) -> str:
    return ", ".join(f"({key})" for key in keys)


def run(setting: Setting) -> Iterator[Figure]:
    """Keys a second of each statement, here and over Flight."""
    with local_store(setting.directory, setting.scale_number(KEYS)) as store:
        expected = store.expected
        with closing(QueryService(store.follower)) as service:
            yield from _figures(
                "query service",
                lambda question, keys: _ask_service(service, question, keys),
                expected,
                setting,
            )
    with (
        HostProcess(setting.directory, str(setting.directory / "changelog")) as host,
        flight.connect(host.uri) as client,
    ):
        host.wait_until_settled()
        yield from _figures(
            "Flight", lambda question, keys: _ask_host(client, question, keys), expected, setting
        )


def _ask_service(service: QueryService, question: Question, keys: Sequence[int]) -> pa.Table:
    parameters = pa.record_batch([pa.array([keys])], ["1"]) if question.by_parameter else None
    return service.execute(question.text(keys), parameters).read_all()


def _ask_host(client: flight.FlightClient, question: Question, keys: Sequence[int]) -> pa.Table:
    text = question.text(keys)
    ticket = json.dumps({"sql": text, "parameters": [keys]}) if question.by_parameter else text
    return client.do_get(flight.Ticket(ticket.encode())).read_all()


Ask = Callable[[Question, Sequence[int]], pa.Table]


def _figures(where: str, ask: Ask, expected: Expected, setting: Setting) -> Iterator[Figure]:
    random = np.random.default_rng(5)
    times: dict[str, list[Spent]] = {question.name: [] for question in QUESTIONS}
    for _ in range(REPETITIONS + 1):
        for question in QUESTIONS:
            numbers = random.choice(expected.keys, LOOKED_UP, replace=False, shuffle=True)
            keys = key_values(numbers).to_pylist()
            with stopwatch() as spent:
                answer = ask(question, keys)
            times[question.name].append(spent)
            _check(question, answer, numbers, expected)
    for name, (first, *settled) in times.items():
        note = (
            f"{milliseconds(median_wall(settled)):.1f} ms a call, {milliseconds(median_cpu(settled)):.1f} ms "
            "CPU of this process; "
            f"the first call {milliseconds(first.wall):.0f} ms"
        )
        yield Figure(
            "many_keys",
            f"{name}, {where}",
            LOOKED_UP / median_wall(settled),
            "keys/s",
            TARGET,
            True,
            note,
            setting.scale,
        )


def _check(question: Question, answer: pa.Table, numbers: Numbers, expected: Expected) -> None:
    found = answer.num_rows, pc.sum(answer["listens"]).as_py(), pc.sum(answer["score"]).as_py()
    check(question.name, found, expected.checksum(numbers))
