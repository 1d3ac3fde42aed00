"""Random and hostile bytes for a host, while another client looks keys up: `python -m tests.fuzz --inputs
100000`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.access import guarded_hosts
from tests.fuzz.calls import Call, Caller, fault
from tests.fuzz.host import MemoryWatch, fuzzed_host
from tests.fuzz.run import KINDS, PATIENCE_SECONDS, Plan, print_progress, run
from tests.support.quick_directory import quick_directory


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="how many inputs")
    parser.add_argument(
        "--seed", type=int, help="seed of the first input; by default one that no run had before"
    )
    parser.add_argument(
        "--kind", choices=KINDS, action="append", help="by default all, the cheap ones more often"
    )
    parser.add_argument("--longest", type=int, default=17 << 20, help="characters of the longest text")
    parser.add_argument("--threads", type=int, default=8, help="clients at once")
    parser.add_argument("--minutes", type=float, help="stop after so many minutes")
    parser.add_argument("--most-findings", type=int, default=50, help="stop after so many findings")
    parser.add_argument(
        "--late-seconds", type=float, default=15.0, help="an answer that takes longer is a finding"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("fuzz-findings"),
        help="where inputs of findings go, and each minute the summary so far",
    )
    parser.add_argument(
        "--caller",
        choices=("anybody", "role", "stranger"),
        default="anybody",
        help="of an open host; a role that sees a part, whose answers are compared with those of a host "
        "without the rest; or somebody who presents nothing",
    )
    parser.add_argument("--replay", type=Path, metavar="FILE", help="send the input of one finding only")
    options = parser.parse_args()
    if options.replay is not None:
        return replay(Call.read(options.replay))
    plan = Plan(
        first=options.seed if options.seed is not None else time.time_ns() // 1_000_000_000 * 1000,
        inputs=options.inputs,
        kinds=options.kind or KINDS,
        longest=options.longest,
        threads=options.threads,
        seconds=None if options.minutes is None else options.minutes * 60,
        most_findings=options.most_findings,
        late_seconds=options.late_seconds,
        directory=options.out,
        is_stranger=options.caller == "stranger",
    )
    print(f"seeds from {plan.first}", file=sys.stderr)
    with quick_directory() as directory:
        if options.caller == "anybody":
            with fuzzed_host(directory) as host:
                results = run(plan, host, print_progress)
        else:
            with guarded_hosts(directory) as guarded:
                results = run(plan, guarded.host, print_progress, guarded)
    for finding in results.findings:
        print(finding.describe())
    print("\n" + results.summary())
    return 1 if results.findings else 0


def replay(call: Call) -> int:
    """Send one input to a new host, and say what it does."""
    with quick_directory() as directory, fuzzed_host(directory) as host, MemoryWatch(host) as memory:
        time.sleep(0.5)
        before, begun, caller = memory.now, time.monotonic(), Caller(host.uri)
        answer = caller.send(call, PATIENCE_SECONDS)
        seconds = time.monotonic() - begun
        caller.close()
        time.sleep(0.2)
        print(f"{call.rpc}, {call.size:,} bytes: {call.about}")
        print(f"{answer.code} {answer.details[:500]} {answer.trailer}, {len(answer.messages)} messages")
        print(
            f"{seconds:.2f} s, memory from {before} to {memory.peak} MiB, "
            f"its largest worker {memory.peak_of_worker}; exit status {host.exit_status}"
        )
        print(f"fault: {fault(call, answer)}")
        print(host.said[-3000:])
        return int(host.exit_status is not None or fault(call, answer) is not None)


if __name__ == "__main__":
    sys.exit(main())
