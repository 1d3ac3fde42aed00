"""The Spark side: a job's micro-batches become epochs of the changelog. `LiveStateSink` is the way in,
`write_store` the one for back-fills.

Never knows how hosts keep or answer what is written: it reads through Flight, as any client.

Where Spark runs on a cluster, livestate must be installed on its executors too, and the changelog must be
reachable from there.
"""

from flight_server.client.connection_options import ConnectionOptions
from spark_pipeline import merged
from spark_pipeline.backfill import write_store
from spark_pipeline.outputs import StoreOutput
from spark_pipeline.reader import LiveStateSource, register
from spark_pipeline.settings import recommended_settings
from spark_pipeline.sink import LiveStateSink

__all__ = [
    "ConnectionOptions",
    "LiveStateSink",
    "LiveStateSource",
    "StoreOutput",
    "merged",
    "recommended_settings",
    "register",
    "write_store",
]
