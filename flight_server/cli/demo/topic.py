"""The plays of the demo as a Kafka topic: made, written, and counted again by a plain consumer."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from engine.errors import Unavailable
from flight_server.cli.demo.recount import Recount

TOPIC = "plays"
PARTITIONS = 2
_PATIENCE_SECONDS = 30.0
_READ_MESSAGES = 10_000
_SETTINGS = {"retention.ms": "600000", "segment.bytes": "67108864"}
"""A demo without end must not fill the disk; ten minutes are far more than the job is ever behind."""
_COUNTED = pa.schema(
    [("song_id", pa.int64()), ("duration_seconds", pa.int32()), ("event_time", pa.timestamp("us", "UTC"))]
)


def create_plays_topic(bootstrap: str, patience_seconds: float = _PATIENCE_SECONDS) -> None:
    """Create the topic, so that a job can subscribe to it before there is a play.

    Args:
        bootstrap: Where the broker is: `host:port`.
        patience_seconds: How long to wait for it.

    Raises:
        Unavailable: The broker does not answer, or refuses.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    with _broker_asked(f"create the topic {TOPIC}"):
        (created,) = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=_SETTINGS)]).values()
        created.result(patience_seconds)


@contextmanager
def _broker_asked(what: str) -> Iterator[None]:
    """What Kafka's client raises meanwhile becomes a sentence of what the broker did not do."""
    try:
        yield
    except (KafkaException, TimeoutError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else "it does not answer"
        raise Unavailable(f"The Kafka broker did not {what}: {reason}.") from error


class PlaysProducer:
    """Sends play events, each once.

    Args:
        bootstrap: Where the broker is.
    """

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 2}
        )
        self._failures: list[str] = []

    def __call__(self, number: int, events: pa.Table) -> None:
        """Send events, and wait until the broker has them.

        Args:
            number: How many times it was called before, counting from 1; unused.
            events: As `Plays.draw` gives them.

        Raises:
            Unavailable: The broker did not take all of them.
        """
        times = events.set_column(
            events.schema.get_field_index("event_time"),
            "event_time",
            pc.strftime(events["event_time"], "%Y-%m-%dT%H:%M:%SZ"),
        )
        messages = [{"key": str(event["song_id"]), "value": json.dumps(event)} for event in times.to_pylist()]
        self._producer.produce_batch(TOPIC, messages, on_delivery=self._delivered)
        if self._producer.flush(_PATIENCE_SECONDS) or self._failures:
            raise Unavailable(
                "The Kafka broker did not take all plays: "
                f"{self._failures[0] if self._failures else 'it does not answer'}."
            )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error.str())


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
            values = [self._taken(message) for message in messages]
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

    def _taken(self, message: Message) -> bytes:
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
