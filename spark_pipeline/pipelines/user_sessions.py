"""User sessions, the first exercise of the guide to Kafka Streams' state stores: thirty idle minutes end one.

    activity (user_id, page, event_time), some of it hours late
        │  each batch grouped into fragments of sessions
        ▼
    store sessions (user_id, session_start: session_end, events, last_page), by user on one partition

The store joins fragments that lie no further apart than the gap, so a session is there while it lasts, and a
late event that falls between two of them makes one of both. `session_end` is the last activity: a session
goes on if it is less than the gap ago.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.model.kinds import Session
from spark_pipeline import StoreOutput, merged
from spark_pipeline.pipelines.draws import Draws, words
from spark_pipeline.pipelines.pipeline import Pipeline, Question, Topic

USERS = 200
PAGES = ("account", "basket", "help", "home", "offers", "product", "search")
GAP_MICROSECONDS = 30 * 60 * 1_000_000
EVENTS_PER_SECOND = 0.05
_BLOCK_EVENTS = 100
_ACTIVE_USERS = 10
_NEXT_USERS = 3


def _activity(draws: Draws) -> Mapping[str, Any]:
    # In each block a few users are active, some of whom were in the block before.
    first = draws.numbers // _BLOCK_EVENTS * _NEXT_USERS
    return {
        "user_id": (first + draws.integers("user", _ACTIVE_USERS)) % USERS,
        "page": words(draws.integers("page", len(PAGES)), PAGES),
        "event_time": draws.times(EVENTS_PER_SECOND, late_share=0.1, late_seconds=7_200),
    }


PIPELINE = Pipeline(
    name="user_sessions",
    summary="User sessions that 30 idle minutes end: start, count, last activity, active now.",
    topics=[
        Topic("activity", "user_id bigint, page string, event_time timestamp", key="user_id", make=_activity)
    ],
    frame=lambda streams, _: streams["activity"],
    stores=[
        StoreOutput(
            "sessions",
            key=["user_id"],
            kind=Session(
                GAP_MICROSECONDS,
                merged.named_columns(events=merged.count(), last_page=merged.last("page", by="event_time")),
            ),
            time="event_time",
        )
    ],
    questions=[
        Question(
            "One user's sessions",
            (
                "SELECT session_start, session_end, events, last_page FROM sessions WHERE user_id = 42 "
                "ORDER BY session_start DESC LIMIT 10"
            ),
        ),
        Question(
            "Active now, which is when the newest event was",
            """SELECT user_id, session_start, session_end AS last_activity, events FROM sessions
               WHERE session_end > (SELECT max(session_end) - INTERVAL 30 MINUTES FROM sessions) ORDER BY user_id""",
        ),
        Question(
            "One user's session at noon of the first day",
            """SELECT session_start, session_end, events FROM sessions WHERE user_id = 68
               AND session_start <= TIMESTAMPTZ '2026-01-01 12:00:00+00' AND session_end >= TIMESTAMPTZ '2026-01-01 12:00:00+00'""",
        ),
        Question(
            "The busiest sessions",
            """SELECT user_id, session_start, events, date_diff('second', session_start, session_end) AS seconds FROM sessions
               ORDER BY events DESC, user_id, session_start LIMIT 5""",
        ),
    ],
)
