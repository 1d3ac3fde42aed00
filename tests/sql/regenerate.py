"""Write the golden answers anew, from plain DuckDB over plain rows: `python -m tests.sql.regenerate`. Review
the difference.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from engine.duckdb.results import conversion, result_schema
from tests.sql.fixture_files import DIRECTORY, answer_of, read, write
from tests.sql.stores import live_tables
from tests.support.oracle import expected_answer


def main() -> None:
    tables = live_tables()
    for path in sorted(DIRECTORY.glob("*.sql")):
        fixtures = []
        for fixture in read(path):
            found = expected_answer(fixture.sql, tables)
            schema = result_schema(found.schema)
            convert = conversion(found.schema, schema)
            answer = pa.Table.from_batches([convert(batch) for batch in found.to_batches()], schema)
            fixtures.append(replace(fixture, answer=answer_of(answer, is_ordered=fixture.is_ordered)))
        write(path, fixtures)


if __name__ == "__main__":
    main()
