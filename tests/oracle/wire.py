"""A cluster that is asked over Flight, as clients do that nobody here wrote, and as livestate's own does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
from adbc_driver_manager import Error
from adbc_driver_manager.dbapi import Connection
from pyarrow import flight

from engine.cluster.reports import HostName
from engine.errors import LivestateError
from flight_server.server.server import LivestateServer
from flight_server.wire.tickets import Statement
from tests.oracle.datasets import Dataset
from tests.oracle.systems import Answer, ClusterSystem, System, as_any_client, cluster_in, system_over

STOP_SECONDS = 5.0


class WireSystem:
    """Asks hosts over the network what it also asks them directly: what comes must be the same.

    Args:
        direct: The hosts, asked directly.
        uris: Where each of them listens.
    """

    def __init__(self, direct: ClusterSystem, uris: Mapping[HostName, str]) -> None:
        self._direct = direct
        self._flight = {host: flight.connect(uri) for host, uri in uris.items()}
        self._adbc = {host: flight_sql.connect(uri, autocommit=True) for host, uri in uris.items()}

    def close(self) -> None:
        """Let go of the connections."""
        for connection in (*self._flight.values(), *self._adbc.values()):
            connection.close()

    def answer(
        self, sql: str, literals: Sequence[str], parameters: pa.RecordBatch | None, seed: int
    ) -> Answer:
        """As `System.answer`.

        Raises:
            AssertionError: One way answers, and the other does not.
        """
        random = Random(f"wire {seed}")
        host = random.choice(list(self._flight))
        try:
            answer = self._direct.answer(sql, literals, parameters, seed)
        except LivestateError:
            with _expect_refusal(sql):
                _ask_plainly(self._flight[host], sql, parameters)
            raise
        table = None
        if random.random() < 0.5:
            table = _ask_adbc(self._adbc[host], sql, as_any_client(parameters, random))
        if table is None:
            table = _ask_plainly(self._flight[host], sql, parameters)
        schema = pa.schema([pa.field(field.name, field.type) for field in table.schema])
        # Drivers have no schema without metadata; that of a column is checked elsewhere.
        return replace(answer, table=pa.Table.from_arrays(table.columns, schema=schema))


@contextmanager
def _expect_refusal(sql: str) -> Iterator[None]:
    try:
        yield
    except (flight.FlightError, pa.ArrowException, KeyError, NotImplementedError):
        return
    raise AssertionError(f"answered over Flight, and refused without: {sql}")


def _ask_plainly(client: flight.FlightClient, sql: str, values: pa.RecordBatch | None) -> pa.Table:
    """One DoGet, whose ticket is the text, or has the values beside it."""
    ticket = sql.encode() if values is None else Statement(sql).bind(values).to_bytes()
    return client.do_get(flight.Ticket(ticket)).read_all()


def _ask_adbc(connection: Connection, sql: str, values: pa.RecordBatch | None) -> pa.Table | None:
    """A statement that is prepared, and then run with its values; None where that is refused before the types
    of these are known.
    """
    with connection.cursor() as cursor:
        try:
            cursor.execute(sql, values)
            table: pa.Table = cursor.fetch_arrow_table()
        except Error as error:
            if values is None or "inconsistent" in str(error):
                raise AssertionError(f"refused over ADBC, and answered without: {error}") from error
            return None
        return table


@contextmanager
def wire_system(dataset: Dataset) -> Iterator[System]:
    """`WireSystem` over a dataset."""
    with ExitStack() as resources:
        cluster = resources.enter_context(cluster_in(dataset))
        uris = {}
        for host, service in cluster.services.items():
            server = LivestateServer("grpc://127.0.0.1:0", service, lambda _: None)
            resources.callback(server.stop, STOP_SECONDS)
            uris[host] = f"grpc://127.0.0.1:{server.port}"
        system = WireSystem(resources.enter_context(system_over(cluster)), uris)
        resources.callback(system.close)
        yield system
