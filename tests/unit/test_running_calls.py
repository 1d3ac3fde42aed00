"""Executions, and whether their clients still want them."""

from __future__ import annotations

import pytest

from engine.access.principal import ANYBODY
from flight_server.server import running_calls
from flight_server.server.audit import AuditedCall
from flight_server.server.running_calls import SECONDS_BETWEEN_QUESTIONS, Calls


class _Context:
    """What a call knows of its client."""

    def __init__(self) -> None:
        self.is_gone = False
        self.questions = 0

    def peer(self) -> str:
        return ""

    def is_cancelled(self) -> bool:
        self.questions += 1
        return self.is_gone


class _Time:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_grpc_is_asked_now_and_then_whether_a_client_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, context = _Time(), _Context()
    monkeypatch.setattr(running_calls, "time", clock)
    call = Calls().begin(b"", context)
    assert not any(call.is_cancelled() for _ in range(10))
    assert context.questions == 0
    clock.now += 2 * SECONDS_BETWEEN_QUESTIONS
    assert not any(call.is_cancelled() for _ in range(10))
    assert context.questions == 1
    context.is_gone = True
    clock.now += 2 * SECONDS_BETWEEN_QUESTIONS
    assert all(call.is_cancelled() for _ in range(10))
    assert context.questions == 2


def test_grpc_is_asked_a_few_times_a_second_however_often_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interpreter waits for each answer."""
    clock, context = _Time(), _Context()
    monkeypatch.setattr(running_calls, "time", clock)
    call = Calls().begin(b"", context)
    for _ in range(1000):
        clock.now += 0.001
        call.is_cancelled()
    assert 1 <= context.questions <= 5


def test_what_is_cancelled_by_its_id_is_known_at_once() -> None:
    context = _Context()
    call = Calls().begin(b"", context)
    call.cancel()
    assert call.is_cancelled()
    assert context.questions == 0


def test_a_call_whose_line_cannot_be_written_is_over_all_the_same() -> None:
    class _Broken(AuditedCall):
        def end(self) -> None:
            raise OSError("no line")

    calls, context = Calls(), _Context()
    call = calls.begin(b"", context, _Broken(None, "statement", ANYBODY, context))
    with pytest.raises(OSError, match="no line"):
        call.end()
    assert len(calls) == 0
