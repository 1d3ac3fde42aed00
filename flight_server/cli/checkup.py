"""What `livestate doctor` makes of what it has found: pure functions from facts to findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from engine.changelog.probe import ChangelogProbe
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.quantities import human_bytes
from engine.replica.open_files import FILES_A_PARTITION, OTHER_FILES
from flight_server.wire.diagnosis_messages import DirectoryFacts, HostDiagnosis

CLOCK_WARN, CLOCK_FAIL = 0.5, 5.0
"""Seconds between clocks: ages, `max_staleness` and `--max-lag` are wrong by as much."""
DISK_WARN, DISK_FAIL = 0.15, 0.05
"""The part of a disk that is free."""
FSYNC_WARN = 0.05
"""Seconds: each epoch waits for at least one."""
CREATE_WARN = 1.0
"""Seconds: each commit waits for one."""
DAYS_WARN, DAYS_FAIL = 30, 7
"""Until a certificate ends."""
MEMORY_WARN = 0.8
"""The part of the memory that queries and caches may take: segments, RocksDB and buffers come on top."""
FILES_WARN = 0.8
_SECONDS_A_DAY = 86_400
_LIBRARIES = ("python", "pyarrow", "duckdb", "rocksdict", "sqlglot", "obstore", "numpy")


class Level(Enum):
    """How a finding stands."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One line of the checkup.

    Attributes:
        level: How it stands.
        check: What was looked at.
        where: On which host, directory or changelog.
        message: What was found.
        advice: What to do; empty where nothing is to be done.
    """

    level: Level
    check: str
    where: str
    message: str
    advice: str = ""


@dataclass(frozen=True)
class HostFacts:
    """What was found of a host from here.

    Attributes:
        uri: Its advertised address.
        problem: Why it does not answer here; empty if it does.
        diagnosis: What it says of itself; None if it does not.
        silence: Why it says nothing of itself; empty if it does.
        clock_offset: How far its clock is ahead of the one here, seconds; None where that is not known.
        tls_problem: Why its certificate is not good; empty if it is, or there is none.
        tls_seconds: How long the certificate is good; None where there is none, or it is not good.
        refusal: Why it does not let in whoever calls; empty if it does.
    """

    uri: str
    problem: str = ""
    diagnosis: HostDiagnosis | None = None
    silence: str = ""
    clock_offset: float | None = None
    tls_problem: str = ""
    tls_seconds: float | None = None
    refusal: str = ""


def host_findings(hosts: Mapping[str, HostFacts]) -> list[Finding]:
    """What is to be said of hosts.

    Args:
        hosts: What was found, by name.
    """
    found: list[Finding] = []
    for name, facts in hosts.items():
        found += _reachability(name, facts)
        found += _tls(name, facts)
    for name, facts in hosts.items():
        if facts.diagnosis is not None:
            found += _host_findings(name, facts.diagnosis)
    return [*found, *_clocks(hosts), *_versions(hosts)]


def _reachability(name: str, facts: HostFacts) -> Iterator[Finding]:
    if facts.problem:
        yield Finding(
            Level.FAIL,
            "reachable",
            name,
            f"This machine does not reach it at {facts.uri}: {facts.problem}",
            "See that it runs, that a firewall lets its port through, and that its address in the deployment "
            "file is one that others can dial.",
        )
        return
    yield Finding(Level.OK, "reachable", name, f"This machine reaches it at {facts.uri}.")
    if facts.refusal:
        yield Finding(
            Level.FAIL,
            "access",
            name,
            f"It does not let you in: {facts.refusal}",
            "Call as somebody whom the hosts know: --token-file, --user, or --certificate and --key, signed "
            "by what the security file names under certificates.authorities.",
        )
        return
    if facts.diagnosis is None:
        yield Finding(
            Level.WARN,
            "self-report",
            name,
            f"It says nothing of itself: {facts.silence}",
            "Call as somebody with the role operator, on hosts of this version.",
        )
        return
    for peer, found in sorted(facts.diagnosis.peers.items()):
        if found.problem:
            yield Finding(
                Level.FAIL,
                "reachable",
                f"{name} → {peer}",
                f"Host {name} does not reach host {peer} at {found.uri}: {found.problem}",
                f"See that the address of {peer} in the deployment file of {name} is one that {name} can "
                "dial, and that both have the same token and trust each other's certificates.",
            )
        else:
            took = f"{found.seconds * 1000:.0f} ms"
            yield Finding(Level.OK, "reachable", f"{name} → {peer}", f"It answers in {took} at {found.uri}.")


def _tls(name: str, facts: HostFacts) -> Iterator[Finding]:
    advice = (
        "Give the host a certificate that is good for its address (--tls-certificate), and start it again."
    )
    if facts.tls_problem:
        yield Finding(Level.FAIL, "TLS", name, facts.tls_problem, advice)
    elif facts.tls_seconds is not None:
        days = int(facts.tls_seconds // _SECONDS_A_DAY)
        level = Level.FAIL if days < DAYS_FAIL else Level.WARN if days < DAYS_WARN else Level.OK
        message = f"Its certificate is good for its address, and for {days} more days."
        yield Finding(level, "TLS", name, message, "" if level is Level.OK else advice)


def _host_findings(name: str, said: HostDiagnosis) -> Iterator[Finding]:
    if said.ready:
        yield Finding(Level.OK, "ready", name, "It has caught up with the changelog.")
    else:
        yield Finding(
            Level.WARN,
            "ready",
            name,
            "It has not caught up with the changelog since it was started.",
            "Wait, and look at `livestate hosts`: it says how far it is, and what keeps it.",
        )
    for group, problem in sorted(said.problems.items()):
        yield Finding(
            Level.FAIL,
            "stores",
            name,
            f"Store group {group} does not get on: {problem}",
            "Waiting does not help by itself; docs/trouble.md has what to do for each of these sentences.",
        )
    yield from directory_findings(name, said.data)
    yield _open_files(name, said)
    yield _memory(name, said)


def directory_findings(where: str, facts: DirectoryFacts) -> Iterator[Finding]:
    """What is to be said of a data directory.

    Args:
        where: Whose it is, or where.
        facts: How it stands.

    Yields:
        Findings.
    """
    if facts.problem:
        yield Finding(
            Level.FAIL,
            "data",
            where,
            f"The data directory cannot be used. {facts.problem}",
            "Give it to the user that the host runs as, and see that its disk has room and is not mounted "
            "read-only.",
        )
    else:
        slow = facts.fsync_seconds > FSYNC_WARN
        yield Finding(
            Level.WARN if slow else Level.OK,
            "fsync",
            where,
            f"A small file is on its disk after {facts.fsync_seconds * 1000:.1f} ms.",
            "Each epoch waits for that: put the data directory on a local disk." if slow else "",
        )
    if facts.mode:
        is_open = bool(int(facts.mode, 8) & 0o077)
        yield Finding(
            Level.WARN if is_open else Level.OK,
            "permissions",
            where,
            f"The data directory has the rights {facts.mode}.",
            "Rows are nobody else's business: chmod 700." if is_open else "",
        )
    if facts.total_bytes:
        free = facts.free_bytes / facts.total_bytes
        level = Level.FAIL if free < DISK_FAIL else Level.WARN if free < DISK_WARN else Level.OK
        yield Finding(
            level,
            "disk",
            where,
            f"{human_bytes(facts.free_bytes)} of {human_bytes(facts.total_bytes)} are free ({free:.0%}).",
            ""
            if level is Level.OK
            else "Make room, or use a larger disk: a host that has none stops to follow.",
        )


def _open_files(name: str, said: HostDiagnosis) -> Finding:
    files = said.needed_files or said.partitions * FILES_A_PARTITION
    needed = max(files + OTHER_FILES, said.open_files)
    limit = said.open_files_limit
    if limit < 0:
        return Finding(Level.OK, "open files", name, f"{said.open_files:,} are open; there is no limit.")
    level = Level.FAIL if needed > limit else Level.WARN if needed > FILES_WARN * limit else Level.OK
    return Finding(
        level,
        "open files",
        name,
        f"{said.open_files:,} are open, {said.partitions:,} partitions may take {needed:,}; the limit is "
        f"{limit:,}.",
        "" if level is Level.OK else "Raise the limit: ulimit -n, or LimitNOFILE of a systemd unit.",
    )


def _memory(name: str, said: HostDiagnosis) -> Finding:
    budget, limit = said.memory_budget_bytes, said.memory_limit_bytes
    if not limit:
        return Finding(Level.OK, "memory", name, f"It takes {human_bytes(said.memory_bytes)}.")
    level = Level.FAIL if budget > limit else Level.WARN if budget > MEMORY_WARN * limit else Level.OK
    return Finding(
        level,
        "memory",
        name,
        f"It takes {human_bytes(said.memory_bytes)}, queries and caches may take {human_bytes(budget)}, and "
        f"there is {human_bytes(limit)}.",
        "" if level is Level.OK else "Lower --memory or --cache: what else a host needs comes on top.",
    )


def _clocks(hosts: Mapping[str, HostFacts]) -> list[Finding]:
    offsets = {name: facts.clock_offset for name, facts in hosts.items() if facts.clock_offset is not None}
    if not offsets:
        return []
    behind, ahead = min(offsets, key=lambda name: offsets[name]), max(offsets, key=lambda name: offsets[name])
    found = []
    if len(offsets) > 1:
        apart = offsets[ahead] - offsets[behind]
        words = (
            f"The clock of {ahead} is {apart:.2f} s ahead of that of {behind}, the most between two hosts."
        )
        found.append(_clock_finding(", ".join(offsets), apart, words))
    farthest = max(offsets, key=lambda name: abs(offsets[name]))
    away = offsets[farthest]
    side = "ahead of" if away > 0 else "behind"
    words = f"The clock of {farthest} is {abs(away):.2f} s {side} that of this machine."
    found.append(_clock_finding("this machine", abs(away), words))
    return found


def _clock_finding(where: str, apart: float, message: str) -> Finding:
    level = Level.FAIL if apart > CLOCK_FAIL else Level.WARN if apart > CLOCK_WARN else Level.OK
    advice = (
        "Run a time service (chrony, systemd-timesyncd): ages and limits of staleness are wrong by as much."
    )
    return Finding(level, "clock", where, message, "" if level is Level.OK else advice)


def _versions(hosts: Mapping[str, HostFacts]) -> Iterator[Finding]:
    said = {name: facts.diagnosis.versions for name, facts in hosts.items() if facts.diagnosis is not None}
    if not said:
        return
    names = ", ".join(said)
    yield _version_finding(names, "livestate", said, "Run one version of livestate on all hosts.")
    different = [each for each in _LIBRARIES if len(_hosts_by_version(each, said)) > 1]
    for library in different:
        yield _version_finding(names, library, said, f"Install the same {library} on all hosts.")
    if not different:
        yield Finding(Level.OK, "versions", names, "Python and the libraries are the same on all hosts.")


def _version_finding(where: str, package: str, said: Mapping[str, Mapping[str, str]], advice: str) -> Finding:
    found = _hosts_by_version(package, said)
    if len(found) == 1:
        return Finding(Level.OK, "versions", where, f"{package} {next(iter(found))}.")
    words = "; ".join(f"{version} on {', '.join(names)}" for version, names in sorted(found.items()))
    return Finding(Level.WARN, "versions", where, f"{package} differs: {words}.", advice)


def _hosts_by_version(package: str, said: Mapping[str, Mapping[str, str]]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for name, versions in said.items():
        found.setdefault(versions.get(package, "none"), []).append(name)
    return found


def changelog_findings(where: str, probe: ChangelogProbe) -> Iterator[Finding]:
    """What is to be said of the place of a changelog.

    Args:
        where: Its URI.
        probe: What was tried.

    Yields:
        Findings.
    """
    for fault in probe.faults:
        yield Finding(
            Level.FAIL,
            "changelog",
            where,
            fault,
            "No changelog can be kept there: use a store with conditional writes and consistent listings.",
        )
    if not probe.faults:
        yield Finding(
            Level.OK,
            "changelog",
            where,
            "Of several who create an object one does, and listings have it at once.",
        )
    slow = probe.create_seconds > CREATE_WARN
    yield Finding(
        Level.WARN if slow else Level.OK,
        "changelog",
        where,
        f"An object is created in {probe.create_seconds * 1000:.0f} ms.",
        "Each commit waits for that: keep jobs and changelog in one region." if slow else "",
    )
    apart = (probe.clock - probe.asked_at) / MICROSECONDS_PER_SECOND
    told = round(apart, 1) + 0.0  # which has no sign where it is nothing
    # Some stores tell full seconds alone.
    yield _clock_finding(
        where, max(0.0, abs(apart) - 1.0), f"Its clock is {told:+.1f} s from that of this machine."
    )


def worst_level(findings: Iterable[Finding]) -> Level:
    """The worst of findings."""
    order = list(Level)
    return max((each.level for each in findings), key=order.index, default=Level.OK)
