"""What a host says of itself to `livestate doctor`: JSON with a format, read by older and newer versions as
far as both know it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from engine.errors import InvalidInput

FORMAT = 1
DIAGNOSE_ACTION = "livestate.diagnose"


@dataclass(frozen=True)
class DirectoryFacts:
    """How a directory stands.

    Attributes:
        mode: Its rights, as `chmod` takes them: `700`.
        problem: Why it cannot be written; empty if it can.
        fsync_seconds: How long it takes to write a small file and make it last; the middle of a few tries.
        free_bytes: What is free on its disk.
        total_bytes: How large that is.
    """

    mode: str = ""
    problem: str = ""
    fsync_seconds: float = 0.0
    free_bytes: int = 0
    total_bytes: int = 0


@dataclass(frozen=True)
class PeerFacts:
    """What a host finds when it calls another one at its advertised address.

    Attributes:
        uri: The address.
        problem: Why that host does not answer; empty if it does.
        seconds: How long its answer took.
    """

    uri: str
    problem: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class HostDiagnosis:
    """What a host says of itself.

    Attributes:
        host: Its name; empty where it belongs to no deployment.
        clock: The time by its clock, microseconds since 1970 UTC.
        versions: Of livestate, Python and the libraries that matter, by name.
        ready: Whether it has caught up with the changelog once.
        partitions: How many partitions it holds.
        open_files: How many files it has open.
        open_files_limit: How many it may have; negative for no limit.
        needed_files: How many its partitions may take, beside others; 0 where an older version does not say.
        memory_bytes: What it takes of memory.
        memory_limit_bytes: What the machine, or its control group, has for it.
        memory_budget_bytes: What its options let queries and caches take.
        data: Its data directory.
        peers: The other hosts, by name.
        problems: What keeps store groups from getting on, by group; those that get on are not named.
    """

    host: str
    clock: int
    versions: Mapping[str, str] = field(default_factory=dict)
    ready: bool = False
    partitions: int = 0
    open_files: int = 0
    open_files_limit: int = -1
    needed_files: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    memory_budget_bytes: int = 0
    data: DirectoryFacts = field(default_factory=DirectoryFacts)
    peers: Mapping[str, PeerFacts] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The bytes that `parse_diagnosis` reads back."""
        return json.dumps({"format": FORMAT, **asdict(self)}).encode()


def parse_diagnosis(data: bytes) -> HostDiagnosis:
    """What a host said of itself.

    Args:
        data: What `HostDiagnosis.to_bytes` made, in this version or another one.

    Raises:
        InvalidInput: It is none, or of a format that this version does not know.
    """
    damaged = InvalidInput("What the host says of itself cannot be read: it may be of another version.")
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise InvalidInput(
                f"What the host says of itself has format {document['format']}, and this version reads "
                f"{FORMAT}: use the host's version of livestate."
            )
        known = _known_fields(HostDiagnosis, document)
        known["data"] = DirectoryFacts(**_known_fields(DirectoryFacts, document.get("data", {})))
        known["peers"] = {
            name: PeerFacts(**_known_fields(PeerFacts, each))
            for name, each in document.get("peers", {}).items()
        }
        return HostDiagnosis(**known)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged from error


def _known_fields(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in document.items() if name in names}
