"""The plays of the demo in a Kafka topic, counted again by a plain consumer."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.json as pj
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from engine.errors import Unavailable
from flight_server.cli.demo.recount import TOPIC, Recount

PARTITIONS = 2
_PATIENCE_SECONDS = 30.0
_READ_MESSAGES = 10_000
_COUNTED = pa.schema(
    [("song_id", pa.int64()), ("duration_seconds", pa.int32()), ("event_time", pa.timestamp("us", "UTC"))]
)


@contextmanager
def _broker_asked(what: str) -> Iterator[None]:
    """What Kafka's client raises meanwhile becomes a sentence of what the broker did not do."""
    try:
        yield
    except (KafkaException, TimeoutError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else "it does not answer"
        raise Unavailable(f"The Kafka broker did not {what}: {reason}.") from error


class TopicRecount(Recount):
    """Counts the messages of the topic, each once; the broker drops old ones itself.

    Args:
        bootstrap: Where the broker is.
        songs: The catalogue, `song_id` counting from 1.
        patience_seconds: How long to wait for the broker.
    """

    def __init__(self, bootstrap: str, songs: pa.Table, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        super().__init__(songs)
        self._patience_seconds = patience_seconds
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "recount",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self._consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in self._next])

    def advance(self) -> None:
        """Count all messages that the topic has by now.

        Raises:
            Unavailable: The broker does not answer, or refuses.
        """
        ends = {partition: self._end(partition) for partition in self._next}
        while any(self._next[partition] < end for partition, end in ends.items()):
            with _broker_asked("give the plays"):
                messages = self._consumer.consume(_READ_MESSAGES, timeout=0.05)
            values = [self._value(message) for message in messages]
            if values:
                lines = io.BytesIO(b"\n".join(values))
                self.count(
                    pj.read_json(
                        lines,
                        parse_options=pj.ParseOptions(
                            explicit_schema=_COUNTED, unexpected_field_behavior="ignore"
                        ),
                    )
                )

    def _end(self, partition: int) -> int:
        with _broker_asked("say how many plays there are"):
            _, end = self._consumer.get_watermark_offsets(
                TopicPartition(TOPIC, partition), self._patience_seconds
            )
        return end

    def _value(self, message: Message) -> bytes:
        error, partition, offset, value = (
            message.error(),
            message.partition(),
            message.offset(),
            message.value(),
        )
        if error is not None or partition is None or offset is None or not isinstance(value, bytes):
            raise Unavailable(
                "The Kafka broker did not give a play: "
                f"{'it is no message' if error is None else error.str()}."
            )
        self._next[partition] = offset + 1
        return value

    def drop(self, visible: int) -> None:
        """The broker does it."""
