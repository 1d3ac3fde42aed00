"""What changes is told from what repeats, by a clock that the test passes in."""

from __future__ import annotations

import logging

from engine.telemetry.changes import MOST_KEYS, Crossing, Repeats, Threshold
from engine.telemetry.log_lines import RepeatFilter


def test_a_threshold_is_crossed_once_and_not_with_each_swing_around_it() -> None:
    threshold = Threshold(30.0, 15.0)
    told = [threshold.update(value) for value in (0, 30, 31, 29, 16, 40, 15, 14, 31)]
    over, back = Crossing.OVER, Crossing.BACK
    assert told == [None, None, over, None, None, None, back, None, over]


def test_the_first_of_a_kind_is_told_and_others_are_counted_until_it_was_quiet() -> None:
    repeats = Repeats(60.0)
    assert repeats.note("full", 0.0) == 0
    assert [repeats.note("full", float(second)) for second in range(1, 60)] == [None] * 59
    assert repeats.note("other", 30.0) == 0
    assert repeats.note("full", 60.0) == 59
    assert repeats.note("full", 61.0) is None
    assert repeats.note("full", 200.0) == 1


def test_kinds_beyond_the_most_are_forgotten() -> None:
    repeats = Repeats(60.0)
    for number in range(MOST_KEYS + 1):
        assert repeats.note(str(number), 0.0) == 0
    assert repeats.note("0", 1.0) == 0, "the first has made room"
    assert repeats.note(str(MOST_KEYS), 1.0) is None


def test_a_log_has_one_of_the_records_that_say_the_same() -> None:
    now = 0.0
    passed = RepeatFilter(lambda: now)
    kinds: list[str | None] = ["refusal", "refusal", None, None, "other"]
    records = [_record(kind) for kind in kinds]
    assert [passed.filter(each) for each in records] == [True, False, True, True, True]
    now = 100.0
    last = _record("refusal")
    assert passed.filter(last)
    assert last.getMessage() == "no 7 (1 more like it before.)"


def _record(kind: str | None) -> logging.LogRecord:
    record = logging.LogRecord("engine", logging.WARNING, "", 0, "no %d", (7,), None)
    if kind is not None:
        record.repeats = kind
    return record
