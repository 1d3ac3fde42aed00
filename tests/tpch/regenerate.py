"""Writes the plans of all queries to `explain/`, after a look at what changed.

python -m tests.tpch.regenerate
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.tpch.cluster import load_tables, tpch_cluster
from tests.tpch.plans import HOSTS, KEPT, kept_file, plan_text
from tests.tpch.stores import queries


def main() -> None:
    """Write every plan, and say which are not what they were."""
    KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = load_tables(Path(scratch))
        with tpch_cluster(source, Path(scratch) / "hosts", HOSTS) as cluster:
            for name, sql in queries().items():
                file, text = kept_file(name), plan_text(cluster, sql)
                if not file.exists() or file.read_text() != text:
                    file.write_text(text)
                    print(f"{name} has another plan")


if __name__ == "__main__":
    main()
