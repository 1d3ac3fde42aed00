"""Events aggregated by key, asked on any host, and answered by the one that holds the key: the cross-node
article on Kafka Streams.

    readings (sensor_id, value, event_time)
        │  each batch aggregated by sensor, the store folds it in
        ▼
    store sensor_readings (sensor_id: readings, total, smallest, largest, last_seen)

With Kafka Streams each instance answers for its own keys, and the application writes the server that finds
the others. Here every host takes every question: one about a single sensor goes to the host that holds its
partition, one about all sensors to all hosts, and each answers at one epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_pipeline import StoreOutput, merged
from spark_pipeline.pipelines.draws import Draws
from spark_pipeline.pipelines.pipeline import Pipeline, Question, Topic

SENSORS = 1_000
EVENTS_PER_SECOND = 100.0


def _readings(draws: Draws) -> Mapping[str, Any]:
    return {
        "sensor_id": draws.integers("sensor", SENSORS),
        "value": draws.integers("value", 2_001) - 1_000,
        "event_time": draws.times(EVENTS_PER_SECOND, late_share=0.05, late_seconds=60),
    }


PIPELINE = Pipeline(
    name="event_counts",
    summary="Events aggregated by key: asked on any host, answered by the one that holds the key.",
    topics=[
        Topic(
            "readings",
            "sensor_id bigint, value bigint, event_time timestamp",
            key="sensor_id",
            make=_readings,
        )
    ],
    frame=lambda streams, _: streams["readings"],
    stores=[
        StoreOutput(
            "sensor_readings",
            key=["sensor_id"],
            kind=merged.columns(
                readings=merged.count(),
                total=merged.sum("value"),
                smallest=merged.min("value"),
                largest=merged.max("value"),
                last_seen=merged.max("event_time"),
            ),
        )
    ],
    questions=[
        Question(
            "One sensor",
            "SELECT readings, total, smallest, largest, last_seen FROM sensor_readings WHERE sensor_id = 42",
        ),
        Question(
            "All readings",
            (
                "SELECT CAST(sum(readings) AS BIGINT) AS readings, CAST(sum(total) AS BIGINT) AS total FROM "
                "sensor_readings"
            ),
        ),
        Question(
            "The busiest sensors",
            (
                "SELECT sensor_id, readings, last_seen FROM sensor_readings ORDER BY readings DESC, "
                "sensor_id LIMIT 5"
            ),
        ),
    ],
)
