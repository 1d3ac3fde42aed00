"""Reports on the wire: what a host says of itself to the others, as JSON with a format version.

```json
{"format": 2, "host": "a", "changelog": "6f0c…", "started": 1789000000000000, "number": 17,
 "groups": {"plays": {"readable": [[41, 1789000000000000, 0], [42, 1789000000100000, 1]], "newest_known": 43,
 "unread_since": 1789000000200000,
                      "looked_at": 1789000000300000, "building": [40, 43, null], "problem": "",
                      "digests": ["3f…", "a0…"], "building_bytes": [2000, 600, 40.5],
                      "catching_up": null}},
 "stores": {"plays": {"partitions": [0, 3, 4], "rows": 10, "bytes": 200, "segments": 3, "stored_rows": 12,
 "since": 1, "rebuilding": [], "columns": {"song": [1.0, 90.0, "AAECAw=="]}}}}
```

The fields are those of `engine.cluster.reports`; `readable` has epochs, each with the time of its commit and
its generation. Times are microseconds since 1970 UTC. `building` (epoch, target and snapshot, or null) and
`problem` may be left out: nothing that decides about an answer depends on them. So may what older versions
do not say: `digests` of the epochs in `readable`; how many bytes `building` has done, has left and does a
second; `catching_up` (epoch, target, snapshot, and these bytes); `past`, epochs with time, generation and
digest; and `columns`, which are sent once until something is new: smallest and largest number, and a sketch
(`engine.model.distinct_sketch`), each or null. `"draining": true` stands in the report of a host that is
about to stop. `started` tells one life of a host from the next, `number` counts the reports of one life.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

from engine.cluster.reports import (
    ColumnReport,
    GroupReport,
    HostName,
    HostReport,
    Progress,
    ReadableEpoch,
    StoreReport,
)
from engine.errors import InvalidInput
from engine.model.distinct_sketch import sketch_of_text, sketch_text
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName
from flight_server.wire.json_bodies import parse_json

FORMAT = 2
"""Format 1 had no generations."""
MAX_REPORT_BYTES = 64 << 20
MAX_REPORT_VALUES = 1 << 18
_DIGEST = re.compile("[0-9a-f]{0,128}")
_COUNTS = ("rows", "bytes", "segments", "stored_rows")
_STORE_FIELDS = ("partitions", *_COUNTS, "since", "rebuilding")


@dataclass(frozen=True)
class SentReport:
    """A report, and what tells it from those before it.

    Attributes:
        report: The report.
        changelog: Identity of the changelog that the host follows.
        started: When the host started, microseconds since 1970 UTC.
        number: How many reports it made before this one.
    """

    report: HostReport
    changelog: str
    started: int
    number: int

    def to_bytes(self) -> bytes:
        """The bytes that `parse_report` reads back."""
        report = self.report
        document = {
            "format": FORMAT,
            "host": report.host,
            "changelog": self.changelog,
            "started": self.started,
            "number": self.number,
            **({"draining": True} if report.is_draining else {}),
            "groups": {name: _group_document(group) for name, group in report.groups.items()},
            "stores": {name: _store_document(store) for name, store in report.stores.items()},
        }
        return json.dumps(document, separators=(",", ":")).encode()


def _store_document(store: StoreReport) -> Mapping[str, Any]:
    document = {field: getattr(store, field) for field in _STORE_FIELDS}
    if store.columns is not None:
        document["columns"] = {
            name: (each.low, each.high, None if each.sketch is None else sketch_text(each.sketch))
            for name, each in store.columns.items()
        }
    return document


def _group_document(group: GroupReport) -> Mapping[str, Any]:
    readable = [(each.epoch, each.committed_at, each.generation) for each in group.readable]
    past = [(each.epoch, each.committed_at, each.generation, each.digest) for each in group.past]
    building = (
        None
        if group.building is None
        else (group.building.epoch, group.building.target, group.building.snapshot)
    )
    return {
        "readable": readable,
        "newest_known": group.newest_known,
        "unread_since": group.unread_since,
        "looked_at": group.looked_at,
        "building": building,
        "problem": group.problem,
        "digests": [each.digest for each in group.readable],
        "building_bytes": None if group.building is None else _bytes(group.building),
        "catching_up": None
        if (progress := group.catching_up) is None
        else (progress.epoch, progress.target, progress.snapshot, *_bytes(progress)),
        "past": past,
    }


def _bytes(progress: Progress) -> tuple[int, int | None, float | None]:
    return progress.bytes_done, progress.bytes_left, progress.bytes_per_second


def parse_report(data: bytes) -> SentReport:
    """A report that another host sent.

    Args:
        data: What `SentReport.to_bytes` made.

    Returns:
        The report.

    Raises:
        InvalidInput: The bytes are none, or of a format that this host does not know.
    """
    try:
        document = parse_json(data, MAX_REPORT_BYTES, MAX_REPORT_VALUES)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("The body of livestate.report is not the JSON of a report.") from error
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise InvalidInput("The body of livestate.report is not the JSON of a report.")
    if document["format"] != FORMAT:
        raise InvalidInput(
            f"The report has format {document['format']}, and this host reads {FORMAT}: run one version of "
            "livestate on all hosts."
        )
    try:
        return _sent_report(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput("The report of a host lacks a field, or has one of the wrong type.") from error


def _sent_report(document: Mapping[str, Any]) -> SentReport:
    groups = {GroupName(_text(name)): _group(group) for name, group in document["groups"].items()}
    stores = {StoreName(_text(name)): _store(store) for name, store in document["stores"].items()}
    host, is_draining = HostName(_text(document["host"])), _flag(document.get("draining", False))
    report = HostReport(host, groups, stores, is_draining)
    return SentReport(
        report, _text(document["changelog"]), _number(document["started"]), _number(document["number"])
    )


def _group(document: Mapping[str, Any]) -> GroupReport:
    digests = document.get("digests") or [""] * len(document["readable"])
    readable = tuple(
        ReadableEpoch(Epoch(_number(epoch)), _number(moment), _number(generation), _digest(digest))
        for (epoch, moment, generation), digest in zip(document["readable"], digests, strict=True)
    )
    past = tuple(
        ReadableEpoch(Epoch(_number(epoch)), _number(moment), _number(generation), _digest(digest))
        for epoch, moment, generation, digest in document.get("past", ())
    )
    for epochs in (readable, past):
        if any(
            before.epoch >= after.epoch or before.generation > after.generation
            for before, after in pairwise(epochs)
        ):
            raise ValueError(epochs)
    unread_since, building = document["unread_since"], document.get("building")
    building_bytes, catching_up = document.get("building_bytes"), document.get("catching_up")
    return GroupReport(
        readable,
        Epoch(_number(document["newest_known"])),
        None if unread_since is None else _number(unread_since),
        _number(document["looked_at"]),
        None if building is None else _progress(*building, *(building_bytes or ())),
        _text(document.get("problem", "")),
        None if catching_up is None else _progress(*catching_up),
        past,
    )


def _progress(
    epoch: object,
    target: object,
    snapshot: object,
    bytes_done: object = 0,
    bytes_left: object = None,
    bytes_per_second: object = None,
) -> Progress:
    return Progress(
        Epoch(_number(epoch)),
        Epoch(_number(target)),
        None if snapshot is None else Epoch(_number(snapshot)),
        _number(bytes_done),
        None if bytes_left is None else _number(bytes_left),
        _bound(bytes_per_second),
    )


def _store(document: Mapping[str, Any]) -> StoreReport:
    counts = {name: _number(document[name]) for name in _COUNTS}
    since, rebuilding = Epoch(_number(document["since"])), _partitions(document["rebuilding"])
    columns = document.get("columns")
    return StoreReport(
        _partitions(document["partitions"]),
        **counts,
        since=since,
        rebuilding=rebuilding,
        columns=None if columns is None else {_text(name): _column(*each) for name, each in columns.items()},
    )


def _column(low: object, high: object, sketch: object) -> ColumnReport:
    return ColumnReport(_bound(low), _bound(high), None if sketch is None else sketch_of_text(_text(sketch)))


def _bound(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(value)
    return float(value)


def _partitions(numbers: Iterable[object]) -> tuple[PartitionId, ...]:
    partitions = tuple(PartitionId(_number(partition)) for partition in numbers)
    if any(before >= after for before, after in pairwise(partitions)):
        raise ValueError(partitions)
    return partitions


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _digest(value: object) -> str:
    text = _text(value)
    if not _DIGEST.fullmatch(text):
        raise ValueError(value)
    return text


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(value)
    return value
