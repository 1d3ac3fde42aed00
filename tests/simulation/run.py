"""Run the simulation, a line for each seed that tells what happened.

    python -m tests.simulation.run --seeds 10000 --first 1

Ends with 1 where something is wrong. A seed that fails says the same each time it is run.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import traceback

from tests.simulation.world import World

SEEDS_AT_ONCE = 100


def main() -> int:
    """Run some seeds; how many of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=1, help="the first seed; 1 by default")
    parser.add_argument("--seeds", type=int, default=100, help="how many; 100 by default")
    parser.add_argument("--quiet", action="store_true", help="no lines of seeds that are right")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    failed = 0
    gc.freeze()
    gc.disable()  # a tenth of the time; what is left in cycles goes now and then
    for seed in range(options.first, options.first + options.seeds):
        if seed % SEEDS_AT_ONCE == 0:
            gc.collect()
            print(f"{seed - options.first} seeds, {failed} wrong", file=sys.stderr, flush=True)
        world = World(seed)
        outcome = "right"
        try:
            world.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is said of the seed
            failed += 1
            outcome = f"WRONG: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            traceback.print_exc()
        if not options.quiet or outcome != "right":
            happened = ", ".join(f"{count} {what}" for what, count in sorted(world.counts.items()) if count)
            print(f"seed {seed}: {outcome}; {happened}", flush=True)
    print(f"{options.seeds} seeds, {failed} wrong")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
