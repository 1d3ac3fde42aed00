"""Calls of Flight as bytes, so that any bytes can be sent, and what a host answers.

Flight's own client makes only messages that make sense.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import pyarrow as pa

from engine.duckdb.worker_messages import lack_of_memory
from flight_server.wire.boundary import ERROR_TRAILER
from flight_server.wire.protobuf_fields import field_places

SERVICE = "/arrow.flight.protocol.FlightService/"
STREAMED_UP = frozenset({"DoPut", "DoExchange", "Handshake"})
"""RPCs to which several messages can be sent."""
MOST_BYTES = 4 << 20
"""Of an answer; who has read so much goes away."""
_HEADER, _BODY = 2, 1000
"""Numbers of fields of a FlightData."""
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("SingleThreadedUnaryStream", 1),
)


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        kind: Which generator has made it.
        seed: What it made it of.
        about: What it is, in some words.
        rpc: Name of the RPC.
        messages: Protobuf messages that are sent, as bytes.
        headers: Names and values.
    """

    kind: str
    seed: int
    about: str
    rpc: str
    messages: tuple[bytes, ...]
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all messages."""
        return sum(map(len, self.messages))

    def write(self, file: Path, why: str) -> None:
        """Keep the call for `read`.

        Args:
            file: Where.
            why: What came of it.
        """
        document = {
            "why": why,
            "kind": self.kind,
            "seed": self.seed,
            "about": self.about,
            "rpc": self.rpc,
            "headers": self.headers,
            "preview": [message[:2000].decode(errors="backslashreplace") for message in self.messages],
            "messages": [base64.b64encode(message).decode() for message in self.messages],
        }
        file.write_text(json.dumps(document, indent=1), encoding="utf-8")

    @staticmethod
    def read(file: Path) -> Call:
        """The call that `write` has kept."""
        document = json.loads(file.read_text(encoding="utf-8"))
        return Call(
            document["kind"],
            document["seed"],
            document["about"],
            document["rpc"],
            tuple(map(base64.b64decode, document["messages"])),
            tuple((name, value) for name, value in document["headers"]),
        )


@dataclass(frozen=True)
class Answer:
    """What came of a call.

    Attributes:
        code: Name of gRPC's status; `OK` also where the client has read enough and gone away.
        details: gRPC's message.
        trailer: The host's own word on a failure; None where it has said nothing.
        messages: What was read.
    """

    code: str
    details: str = ""
    trailer: str | None = None
    messages: tuple[bytes, ...] = ()

    @property
    def rows(self) -> int | None:
        """How many rows the messages bring; None where they are no stream of Arrow's, or not a whole one."""
        stream = bytearray()
        for message in self.messages:
            parts = {each.number: message[each.begin : each.end] for each in field_places(message)}
            header = parts.get(_HEADER, b"")
            header += bytes(-len(header) % 8)
            stream += b"\xff\xff\xff\xff" + len(header).to_bytes(4, "little") + header + parts.get(_BODY, b"")
        try:
            with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
                return len(reader.read_all())
        except (pa.ArrowException, OSError):
            return None


class Caller:
    """A connection of its own. Not safe for threads.

    Args:
        uri: Of the host.
        token: What it presents, unless a call presents something itself; empty: nothing.
    """

    def __init__(self, uri: str, token: str = "") -> None:
        self._headers = (("authorization", f"Bearer {token}"),) if token else ()
        self._channel = grpc.insecure_channel(uri.removeprefix("grpc://"), options=CHANNEL_OPTIONS)

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def send(self, call: Call, seconds: float) -> Answer:
        """Make a call.

        Args:
            call: Any.
            seconds: How long it may take.
        """
        headers = call.headers
        if "authorization" not in dict(headers):
            headers = (*headers, *self._headers)
        if call.rpc in STREAMED_UP:
            invoke = self._channel.stream_stream(SERVICE + call.rpc)
            sent = invoke(iter(call.messages), timeout=seconds, metadata=headers)
        else:
            invoke = self._channel.unary_stream(SERVICE + call.rpc)
            sent = invoke(b"".join(call.messages), timeout=seconds, metadata=headers)
        size, messages = 0, list[bytes]()
        try:
            for message in sent:
                messages.append(message)
                size += len(message)
                if size > MOST_BYTES:
                    sent.cancel()
                    break
            return Answer("OK", messages=tuple(messages))
        except grpc.RpcError as error:
            trailer = next(
                (value for name, value in error.trailing_metadata() or () if name == ERROR_TRAILER), None
            )
            text = trailer.decode(errors="replace") if isinstance(trailer, bytes) else trailer
            return Answer(error.code().name, error.details() or "", text, tuple(messages))


# ---- what is sent: the messages of format/Flight.proto


def varint(number: int) -> bytes:
    """A number as protobuf writes it; one below 0 as if it had 64 bits."""
    number %= 1 << 64
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def field(number: int, value: bytes | int) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def ticket(body: bytes) -> bytes:
    """A Ticket."""
    return field(1, body)


def descriptor(command: bytes) -> bytes:
    """A FlightDescriptor of a command."""
    return field(1, 2) + field(2, command)


def action(name: str, body: bytes) -> bytes:
    """An Action."""
    return field(1, name.encode()) + field(2, body)


def flight_data(
    header: bytes = b"", body: bytes = b"", command: bytes | None = None, metadata: bytes = b""
) -> bytes:
    """A FlightData: an IPC message without its length, its body, the descriptor in the first of a stream."""
    return (
        (b"" if command is None else field(1, descriptor(command)))
        + (field(_HEADER, header) if header else b"")
        + (field(3, metadata) if metadata else b"")
        + (field(_BODY, body) if body else b"")
    )


def flight_stream(ipc_messages: Sequence[bytes], command: bytes) -> Iterator[bytes]:
    """The messages of an upload.

    Args:
        ipc_messages: The schema, and what comes behind it, each with the 8 bytes of its length before.
        command: Of the descriptor.
    """
    for place, message in enumerate(ipc_messages):
        size = int.from_bytes(message[4:8], "little")
        yield flight_data(message[8 : 8 + size], message[8 + size :], command if place == 0 else None)


# ---- what is right

KINDS = frozenset(
    {
        "InvalidInput",
        "NotFound",
        "Unsupported",
        "Unauthenticated",
        "Forbidden",
        "Unavailable",
        "DeadlineExceeded",
        "Cancelled",
        "LimitExceeded",
    }
)
"""Kinds of errors that a client's bytes may lead to."""
_INSIDE = re.compile(
    r"Traceback|\.py\b|\.cc\b|\.cpp\b|site-packages|incident|please report|0x[0-9a-f]{8}|<class"
)
_END_OF_LACK = lack_of_memory().message.rpartition(": ")[2]
"""The advice of an error that is fair where a process lacks memory; the host's log tells when one crashed."""
_LIMITS_OF_GRPC = ("RESOURCE_EXHAUSTED",)


def fault(call: Call, answer: Answer) -> str | None:
    """What is wrong with an answer.

    Args:
        call: What was sent.
        answer: What came.

    Returns:
        A few words; None for rows, or for an error such as hosts may give.
    """
    if answer.code == "OK":
        return None
    if answer.trailer is None:
        if answer.code == "DEADLINE_EXCEEDED":
            return "stalled"
        if answer.code == "UNAVAILABLE":
            return "lost"
        said = f"{answer.code}: {answer.details}"
        if _INSIDE.search(answer.details):
            return f"says too much: {said}"
        # Flight itself refuses what is no message, before the host sees it.
        return None if call.kind == "wire" or answer.code in _LIMITS_OF_GRPC else f"not its own word: {said}"
    try:
        said = json.loads(answer.trailer)
        kind, message = said["kind"], said["message"]
    except (ValueError, KeyError, TypeError):
        return f"a trailer that cannot be read: {answer.trailer[:200]!r}"
    if kind not in KINDS:
        return f"failed with {kind}: {message}"
    found = _INSIDE.search(message.removesuffix(_END_OF_LACK))
    if found is not None and not any(found[0].encode() in each for each in call.messages):
        return f"says too much: {message}"
    return None


def outcome(answer: Answer) -> str:
    """A word for the summary."""
    if answer.code == "OK":
        return "rows"
    if answer.trailer is None:
        return f"Flight's {answer.code}"
    try:
        return str(json.loads(answer.trailer)["kind"])
    except (ValueError, KeyError, TypeError):
        return "unreadable"
