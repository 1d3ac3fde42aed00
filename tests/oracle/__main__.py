"""Random queries over random stores, on a cluster and on plain DuckDB: `python -m tests.oracle --queries
50000`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.oracle.metamorphic import RELATIONS
from tests.oracle.restricted import restricted_system
from tests.oracle.run import Plan, print_progress, run
from tests.oracle.systems import cluster_system, split_system
from tests.oracle.wire import wire_system

SYSTEMS = {
    "cluster": cluster_system,
    "wire": wire_system,
    "split": split_system,
    "restricted": restricted_system,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--queries", type=int, default=1000, help="how many queries")
    parser.add_argument(
        "--seed", type=int, help="seed of the first query; by default one that no run had before"
    )
    parser.add_argument("--hosts", type=int, help="how many hosts; by default 1 to 4, as each dataset says")
    parser.add_argument("--minutes", type=float, help="stop after so many minutes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="ask the query of one seed only")
    parser.add_argument(
        "--system",
        choices=SYSTEMS,
        default="cluster",
        help="a whole cluster, the same over Flight, the splitting of statements alone, or a cluster of "
        "which a part may be seen",
    )
    parser.add_argument("--most-findings", type=int, default=20, help="stop after so many differences")
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        help="how many processes share the work; by default one a core",
    )
    parser.add_argument("--partitions", type=int, help="how many partitions each store has")
    parser.add_argument(
        "--metamorphic",
        nargs="?",
        type=int,
        const=len(RELATIONS),
        default=0,
        metavar="WAYS",
        help="ask each query in so many other ways, too, that must not matter; by default in all that apply",
    )
    parser.add_argument(
        "--layouts", action="store_true", help="ask each query of 1 or 3 hosts and 1, 5 or 64 partitions, too"
    )
    parser.add_argument(
        "--no-shrink", action="store_true", help="do not look for smaller queries that differ"
    )
    options = parser.parse_args()
    if options.metamorphic and options.system == "split":
        parser.error("--metamorphic needs a whole cluster")
    first = options.seed if options.seed is not None else time.time_ns() // 1_000_000_000 * 1000
    plan = Plan(
        first=first if options.replay is None else options.replay,
        queries=options.queries if options.replay is None else 1,
        hosts=options.hosts,
        seconds=None if options.minutes is None else options.minutes * 60,
        most_findings=options.most_findings,
        shrink=not options.no_shrink,
        processes=1 if options.replay is not None else options.processes,
        relations=options.metamorphic,
        partitions=options.partitions,
        layouts=options.layouts,
    )
    print(f"seeds from {plan.first}", file=sys.stderr)
    stats = run(
        plan,
        SYSTEMS[options.system],
        lambda finding: print("\n" + finding.describe() + "\n", flush=True),
        print_progress,
    )
    print("\n" + stats.summary())
    return 1 if stats.differences else 0


if __name__ == "__main__":
    sys.exit(main())
