"""Waiting for hosts that may not have what they are asked for yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.errors import Corrupt, LivestateError, Unavailable
from engine.scan import BuildingError
from tests.support.waiting import wait_until_served


@pytest.mark.parametrize("refusal", [Unavailable("not yet"), BuildingError("not yet")])
def test_what_is_not_there_yet_is_waited_for(refusal: LivestateError) -> None:
    answers: Iterator[LivestateError | bool] = iter([refusal, False, refusal, True])

    def ask() -> bool:
        answer = next(answers)
        if isinstance(answer, LivestateError):
            raise answer
        return answer

    wait_until_served(ask)
    assert next(answers, None) is None


def test_another_error_is_one_at_once() -> None:
    def ask() -> bool:
        raise Corrupt("damaged")

    with pytest.raises(Corrupt, match="damaged"):
        wait_until_served(ask)


def test_who_waits_in_vain_is_told_the_last_refusal() -> None:
    def ask() -> bool:
        raise Unavailable("there is no changelog")

    with pytest.raises(AssertionError, match="did not come about") as caught:
        wait_until_served(ask, timeout_seconds=0)
    assert isinstance(caught.value.__cause__, Unavailable)
