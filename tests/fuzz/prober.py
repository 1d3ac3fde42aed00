"""Looks keys up, one after the other, and says how long they took for each line that it reads: `python -m
tests.fuzz.prober URI [TOKEN]`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from random import Random

import pyarrow as pa
from pyarrow import flight

from flight_server.client.connection import CHANNEL_OPTIONS, FLIGHT_FAILURES
from flight_server.wire.tickets import Statement
from tests.fuzz.host import ROWS, SO_FAR, rows

PAUSE_SECONDS = 0.005
CALL_SECONDS = 60.0
MOST_FAILURES = 20


class Lookups:
    """Looks keys up in a thread.

    Args:
        uri: Of the host.
        token: What it presents; empty: nothing. Who presents something sees less: no texts.
    """

    def __init__(self, uri: str, token: str = "") -> None:
        self._uri = uri
        self._token = token
        self._lock = threading.Lock()
        self._seconds: list[float] = []
        self._failures: list[str] = []
        self._expected = rows()

    def run(self) -> None:
        """Look keys up without end."""
        client = self._connect()
        headers = [(b"authorization", f"Bearer {self._token}".encode())] if self._token else []
        column, count = ("a", 500) if self._token else ("s", ROWS)
        options, random = flight.FlightCallOptions(timeout=CALL_SECONDS, headers=headers), Random(1)
        statement = Statement(f"SELECT k, {column} FROM t WHERE k = ?")
        while True:
            key = random.randrange(count)
            bound = statement.bind(pa.record_batch([pa.array([key])], ["1"]))
            begun = time.perf_counter()
            try:
                found = client.do_get(flight.Ticket(bound.to_bytes()), options).read_all().to_pylist()
                failure = (
                    None
                    if found == [{"k": key, column: self._expected[column][key].as_py()}]
                    else f"key {key}: {found}"
                )
            except FLIGHT_FAILURES as error:
                failure = f"{type(error).__name__}: {str(error)[:300]}"
                client = self._connect()
            with self._lock:
                if failure is None:
                    self._seconds.append(time.perf_counter() - begun)
                elif len(self._failures) < MOST_FAILURES:
                    self._failures.append(failure)
            time.sleep(PAUSE_SECONDS)

    def _connect(self) -> flight.FlightClient:
        return flight.connect(self._uri, generic_options=list(CHANNEL_OPTIONS))

    def report(self, *, so_far: bool = False) -> str:
        """What there was since the last report, as JSON.

        Args:
            so_far: Whether the next one is of this, too.
        """
        with self._lock:
            seconds, failures = sorted(self._seconds), self._failures
            if not so_far:
                self._seconds, self._failures = [], []

        def percentile(part: float) -> float:
            return round(1000 * seconds[int(part * (len(seconds) - 1))], 2) if seconds else 0.0

        return json.dumps(
            {
                "lookups": len(seconds),
                "p50": percentile(0.5),
                "p99": percentile(0.99),
                "p999": percentile(0.999),
                "worst": percentile(1.0),
                "failures": failures,
            }
        )


def main() -> None:
    lookups = Lookups(*sys.argv[1:])
    threading.Thread(target=lookups.run, daemon=True).start()
    for line in sys.stdin:
        print(lookups.report(so_far=line.strip() == SO_FAR), flush=True)


if __name__ == "__main__":
    main()
