"""The engine: stores, changelog, partition state, SQL. Knows neither Spark nor Arrow Flight."""
