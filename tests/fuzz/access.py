"""Hosts that ask who calls: a stranger learns nothing, and a role that sees a part learns no more than there
were if the rest did not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from flight_server.cli.credentials import add_token
from flight_server.client.secret_files import write_secret
from tests.fuzz.calls import Answer, Call, fault, outcome
from tests.fuzz.host import HOST_OPTIONS, ROWS, rows
from tests.support.host_processes import HostProcess, host_processes

VISIBLE = ("k", "a", "b")
_VISIBLE_BELOW = 500
"""What `a` is in a row that may be seen, and `k` but for its thousands."""
_ROLE = f"""
[security]
tokens = "tokens.toml"
peer_token = "host"
[roles.part]
stores = ["t"]
columns = ["k", "a", "b"]
rows = "a < {_VISIBLE_BELOW}"
"""
_OF_THE_MOMENT = frozenset({"DeadlineExceeded", "Cancelled", "Unavailable", "LimitExceeded"})
"""Kinds of errors that depend on how busy a host is."""
_WITHOUT_IDENTITY = frozenset({"UNAUTHENTICATED"})
_FLIGHTS_OWN = frozenset({"INVALID_ARGUMENT", "UNIMPLEMENTED", "INTERNAL", "RESOURCE_EXHAUSTED", "UNKNOWN"})
"""What Flight says to what is no message, before it asks who calls; and `UNKNOWN` where a host breaks off."""
_NOW = re.compile(rf"{datetime.now(UTC):%Y-%m-%d}[ T]\d\d:\d\d:\d\d[.\d]*")
"""What `now()` gives, which an error may quote."""
_OVERFLOWN = re.compile(r"(?<=Overflow in )[\w ]+\(.*\)")
"""How errors quote numbers of a row."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class GuardedHosts:
    """Two hosts of which callers see the same.

    Attributes:
        host: Holds more than the role may see.
        permitted: Holds the rest alone.
        token: Of the role, good for both.
    """

    host: HostProcess
    permitted: HostProcess
    token: str


@contextmanager
def guarded_hosts(directory: Path) -> Iterator[GuardedHosts]:
    """Start both for the length of the block.

    Args:
        directory: For changelogs, data and credentials.
    """
    token = add_token(directory / "tokens.toml", "ann", ["part"], {}, None)
    peer = add_token(directory / "tokens.toml", "host", ["peer"], {}, None)
    write_secret(directory / "host", peer.encode())
    security = directory / "security.toml"
    security.write_text(_ROLE, encoding="utf-8")
    with (
        _host(directory / "more", security, peer) as host,
        _host(directory / "permitted", security, peer, is_permitted=True) as permitted,
    ):
        yield GuardedHosts(host, permitted, token)


@contextmanager
def _host(
    directory: Path, security: Path, token: str, *, is_permitted: bool = False
) -> Iterator[HostProcess]:
    directory.mkdir()
    uri = (directory / "changelog").as_uri()
    changelog = Changelog.open(uri)
    table = rows()
    if is_permitted:
        table = table.select(list(VISIBLE)).filter([_is_visible(number) for number in range(ROWS)])
    append_table(changelog, define_store("t", table.schema, ["k"], partitions=2), table)
    if not is_permitted:
        append_table(changelog, define_store("u", rows().schema, ["k"], partitions=2), rows().slice(0, 40))
    options = [*HOST_OPTIONS, "--security", str(security)]
    with host_processes(directory, uri, "a", options=options, token=token) as hosts:
        yield hosts["a"]


def stranger_fault(call: Call, answer: Answer) -> str | None:
    """What is wrong with an answer to somebody who proves nothing; None for nothing."""
    if answer.trailer is None:
        if answer.code in _WITHOUT_IDENTITY:
            return None
        if answer.code in _FLIGHTS_OWN and not answer.messages:
            return fault(call, answer) if answer.code != "UNKNOWN" else None
        return f"a stranger got {answer.code}, {len(answer.messages)} messages: {answer.details[:200]}"
    return None if outcome(answer) == "Unauthenticated" else f"a stranger was told {answer.trailer[:300]}"


def difference(answer: Answer, permitted: Sequence[Answer]) -> str | None:
    """What an answer says that no answer does which should be the same; None where one does.

    Args:
        answer: Of the host that holds more.
        permitted: Of the one that does not, to the same call: more than one, as it is chance which row an
            error quotes, or how many of them are a sample.
    """
    wanted = [_lasting_parts(each) for each in permitted if not _is_of_the_moment(each)]
    if _is_of_the_moment(answer) or not wanted:
        return None
    said = _lasting_parts(answer)
    return None if said in wanted else f"tells what is hidden: {said!r} in place of {wanted[0]!r}"


def _is_of_the_moment(answer: Answer) -> bool:
    # Beyond a soft limit gRPC takes headers now and then.
    return outcome(answer) in _OF_THE_MOMENT or answer.code == "RESOURCE_EXHAUSTED"


def _lasting_parts(answer: Answer) -> tuple[object, ...]:
    """What of an answer is the same each time: of rows how many there are, in whatever batches they come; of
    an error every byte but the time of day and values that may be seen.
    """
    if answer.code == "OK":
        rows = answer.rows
        return (answer.code, f"{len(answer.messages)} messages" if rows is None else f"{rows} rows")
    if answer.trailer is None:
        return (answer.code, answer.details)
    said = json.loads(answer.trailer)
    message = _NOW.sub("(now)", said["message"])
    return (answer.code, said["kind"], _OVERFLOWN.sub(_masked_numbers, message))


def _masked_numbers(found: re.Match[str]) -> str:
    """What an error says of numbers, without those of rows that may be seen."""
    return _NUMBER.sub(lambda number: "(number)" if _is_visible(int(number[0])) else number[0], found[0])


def _is_visible(number: int) -> bool:
    return number % 1000 < _VISIBLE_BELOW
