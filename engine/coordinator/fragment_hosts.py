"""Where fragments run: on this host without a call, and on the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from engine.cluster.fragments import FragmentRequest, FragmentRows
from engine.cluster.reports import HostName
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.exec.fragment_executor import FragmentExecutor
from engine.exec.query_result import QueryResult
from engine.model.schema import Epoch, GroupName


class FragmentHosts:
    """All hosts of a deployment, asked alike. Safe for threads.

    Args:
        cluster: The hosts.
        executor: Runs fragments on this one.
    """

    def __init__(self, cluster: DeploymentHosts, executor: FragmentExecutor) -> None:
        self._cluster = cluster
        self._executor = executor

    def run(self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool]) -> FragmentRows:
        """Begin a fragment on a host, as `Peers.run`.

        Args:
            host: Which; this one, too.
            request: The fragment.
            cancelled: Tells, from any thread, whether nobody waits for it any more.

        Raises:
            LivestateError: What the host said, by its kind.
        """
        if host == self._cluster.here:
            return _LocalRows(self._executor.execute(request, cancelled))
        return self._cluster.peers.run(host, request, cancelled)

    def hold(self, host: HostName, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """Have a host keep epochs readable, as `Peers.hold`; this one, too."""
        if host == self._cluster.here:
            self._executor.hold(epochs, seconds)
        else:
            self._cluster.peers.hold(host, epochs, seconds)


class _LocalRows:
    """A fragment on this host, as those of other hosts are seen."""

    def __init__(self, result: QueryResult) -> None:
        self._result = result
        self.schema = result.schema
        self.metadata: Mapping[str, Any] = vars(result.metadata)
        self.nbytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._result:
            self.nbytes += batch.nbytes
            yield batch

    def close(self) -> None:
        self._result.close()
