"""Writes events to Kafka topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from engine.errors import Unavailable
from spark_pipeline.pipelines.json_rows import json_rows
from spark_pipeline.pipelines.pipeline import Topic

_PATIENCE_SECONDS = 30.0
_PIECE_MESSAGES = 50_000
"""What is handed to the producer at once; its queue holds 100,000 by default."""


class KafkaFeed:
    """Messages in Kafka: the key is the topic's key column as text, the value a JSON object. What was written
    is acknowledged, once each.

    Args:
        bootstrap: Where brokers are.
    """

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 2}
        )
        self._failures: list[str] = []

    def write(self, topic: Topic, events: pa.Table) -> None:
        """See `Feed`.

        Raises:
            Unavailable: The broker did not take all of them.
        """
        self.send(topic.name, events[topic.key].cast(pa.string()).to_pylist(), json_rows(events).to_pylist())

    def send(self, topic: str, keys: Sequence[str], values: Sequence[str | None]) -> None:
        """Send messages; one without a value is a tombstone of its key in a compacted topic.

        Args:
            topic: Name of the topic.
            keys: A key for each message.
            values: As many values.

        Raises:
            Unavailable: The broker did not take all of them.
        """
        messages = [
            {"key": key} if value is None else {"key": key, "value": value}
            for key, value in zip(keys, values, strict=True)
        ]
        for start in range(0, len(messages), _PIECE_MESSAGES):
            piece = messages[start : start + _PIECE_MESSAGES]
            queued = self._producer.produce_batch(topic, piece, on_delivery=self._note_delivery)
            left = self._producer.flush(_PATIENCE_SECONDS)
            if queued < len(piece) or left or self._failures:
                reason = self._failures[0] if self._failures else "it does not answer"
                raise Unavailable(f"The Kafka broker did not take all events of {topic}: {reason}.")

    def _note_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error.str())


def create_topic(
    bootstrap: str, name: str, partitions: int = 2, settings: Mapping[str, str] | None = None
) -> None:
    """Create a topic, unless it is there.

    Args:
        bootstrap: Where brokers are.
        name: Name of the topic.
        partitions: How many partitions it has.
        settings: Such as `{"cleanup.policy": "compact"}`.

    Raises:
        Unavailable: The broker does not answer, or refuses.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    try:
        if name not in admin.list_topics(timeout=_PATIENCE_SECONDS).topics:
            (created,) = admin.create_topics(
                [NewTopic(name, partitions, 1, config=dict(settings or {}))]
            ).values()
            created.result(_PATIENCE_SECONDS)
    except (KafkaException, TimeoutError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else "it does not answer"
        raise Unavailable(f"The Kafka broker did not create the topic {name}: {reason}.") from error
