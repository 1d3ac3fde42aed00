"""A fragment on its way to a host: what a coordinator asks of a peer, and what it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from engine.access.principal import EngineLimit
from engine.access.scope import Scope
from engine.cluster.reports import HostName, HostReport, HostStatus
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName


@dataclass(frozen=True)
class FragmentRequest:
    """A statement over some partitions of stores, each store group at one epoch.

    Attributes:
        sql: One SELECT in DuckDB's dialect; its tables are stores by name, and `inputs`.
        epochs: The epoch of every store group that it reads.
        partitions: The partitions of every store that it reads, ascending; the host must hold all of them, or
            it refuses.
        parameters: One row with a column a parameter of `sql`, named `1`, `2`, …; None for no parameters.
        inputs: Rows that the statement reads as tables of these names.
        timeout_seconds: Time that it may take until its last batch is read; None for no limit.
        generations: How many amendments of a group are in effect at its epoch, and so what its stores are to
            the statement; 0 for groups that are not named.
        digests: As `ReadableEpoch.digest` of the epochs, where they are known: a host that has another
            history by now refuses.
        complete_until: Until when the epochs are known to lack no commit, microseconds since 1970 UTC; 0
            where that is not known. It is for the metadata.
        scope: What exists for whom it is run; None: everything.
        engine_limit: What the engine may take for whom it is run; None: as much as for anybody.
    """

    sql: str
    epochs: Mapping[GroupName, Epoch]
    partitions: Mapping[StoreName, tuple[PartitionId, ...]]
    parameters: pa.RecordBatch | None = None
    inputs: Mapping[str, pa.Table] = field(default_factory=dict)
    timeout_seconds: float | None = None
    generations: Mapping[GroupName, int] = field(default_factory=dict)
    digests: Mapping[GroupName, str] = field(default_factory=dict)
    complete_until: int = 0
    scope: Scope | None = None
    engine_limit: EngineLimit | None = None


class FragmentRows(Protocol):
    """The rows of a fragment, read once by one thread."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the host read: `QueryMetadata` as its JSON object."""

    @property
    def nbytes(self) -> int:
        """Arrow bytes of the batches so far, as they travelled."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, as they arrive.

        Raises:
            LivestateError: The fragment failed underway, by its kind.
        """

    def close(self) -> None:
        """Tell the host that no more rows are wanted. May be called again, and from another thread, whose
        read then ends with an error.
        """


class Peers(Protocol):
    """The other hosts, as a coordinator sees them. Safe for threads."""

    def reports(self) -> Mapping[HostName, HostReport]:
        """The newest report of every host that is alive, this one among them. Cheap: nothing is asked of
        anybody.
        """

    def host_statuses(self) -> Mapping[HostName, HostStatus]:
        """What is known of every host, those that are not alive as well."""

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        """Begin a fragment on another host; returns when its schema is there.

        Args:
            host: Which.
            request: The fragment.
            cancelled: Tells, from any thread, whether nobody waits for the schema any more; asked until this
                returns. None: somebody does.

        Raises:
            Cancelled: Nobody waits any more.
            Unavailable: The host does not answer, or does not hold what is asked at that epoch; the message
                names host, store, partition and epochs.
            LivestateError: What the host said, by its kind.
        """

    def hold(self, host: HostName, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """Have another host keep epochs readable for some time from now, as `StoreSource.hold`.

        Raises:
            LivestateError: It does not, or does not answer.
        """

    def wait_for_change(self, timeout_seconds: float) -> bool:
        """Wait until a report is newer than what `reports` gave this thread last; False after the
        time-out.
        """
