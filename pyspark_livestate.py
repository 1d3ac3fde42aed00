"""Where Spark finds the data source `livestate` by itself.

It imports all modules whose names begin with `pyspark_`, and registers their `DefaultSource`
(`pyspark.sql.worker.lookup_data_sources`).
"""

from spark_pipeline.reader import LiveStateSource as DefaultSource

__all__ = ["DefaultSource"]
