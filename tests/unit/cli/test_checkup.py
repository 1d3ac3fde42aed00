"""What the doctor says to facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.changelog.probe import ChangelogProbe
from flight_server.cli.checkup import (
    Finding,
    HostFacts,
    Level,
    changelog_findings,
    directory_findings,
    host_findings,
    worst_level,
)
from flight_server.wire.diagnosis_messages import DirectoryFacts, HostDiagnosis, PeerFacts

GIB = 1 << 30
DIRECTORY = DirectoryFacts("700", "", 0.002, 50 * GIB, 100 * GIB)
URI = "grpc+tls://10.0.0.7:8815"
WELL = HostDiagnosis(
    "a",
    0,
    {"livestate": "1.0", "duckdb": "2.0"},
    ready=True,
    partitions=16,
    open_files=300,
    open_files_limit=65_536,
    memory_bytes=GIB,
    memory_limit_bytes=16 * GIB,
    memory_budget_bytes=3 * GIB,
    data=DIRECTORY,
    peers={"b": PeerFacts(URI, "", 0.001)},
)
FACTS = HostFacts(URI, "", WELL, "", 0.01, "", 90 * 86_400.0)


def _levels(findings: list[Finding], check: str) -> list[Level]:
    return [each.level for each in findings if each.check == check]


def test_a_deployment_that_is_well_has_nothing_to_do() -> None:
    findings = host_findings({"a": FACTS, "b": FACTS})
    assert worst_level(findings) is Level.OK
    assert not any(each.advice for each in findings)
    checks = {"reachable", "TLS", "ready", "fsync", "permissions", "disk", "open files", "memory", "clock"}
    assert checks | {"versions"} == {each.check for each in findings}


def test_the_files_are_those_that_the_host_says_its_partitions_take() -> None:
    few = replace(FACTS, diagnosis=replace(WELL, partitions=8_000, needed_files=12_000))
    many = replace(FACTS, diagnosis=replace(WELL, partitions=8_000, needed_files=66_000))
    assert {each.level for each in host_findings({"a": few})} == {Level.OK}
    assert worst_level(host_findings({"a": many})) is Level.FAIL


@pytest.mark.parametrize(
    ("facts", "check", "level"),
    [
        (replace(FACTS, problem="nobody listens", diagnosis=None), "reachable", Level.FAIL),
        (replace(FACTS, diagnosis=None, refusal="Who are you?"), "access", Level.FAIL),
        (replace(FACTS, diagnosis=None, silence="Forbidden."), "self-report", Level.WARN),
        (replace(FACTS, tls_problem="expired", tls_seconds=None), "TLS", Level.FAIL),
        (replace(FACTS, tls_seconds=6.9 * 86_400), "TLS", Level.FAIL),
        (replace(FACTS, tls_seconds=20 * 86_400.0), "TLS", Level.WARN),
        (replace(FACTS, diagnosis=replace(WELL, ready=False)), "ready", Level.WARN),
        (replace(FACTS, diagnosis=replace(WELL, partitions=8_000)), "open files", Level.WARN),
        (replace(FACTS, diagnosis=replace(WELL, open_files_limit=512)), "open files", Level.FAIL),
        (replace(FACTS, diagnosis=replace(WELL, memory_limit_bytes=2 * GIB)), "memory", Level.FAIL),
        (replace(FACTS, diagnosis=replace(WELL, memory_budget_bytes=15 * GIB)), "memory", Level.WARN),
        (replace(FACTS, diagnosis=replace(WELL, peers={"b": PeerFacts(URI, "no")})), "reachable", Level.FAIL),
        (replace(FACTS, clock_offset=-2.0), "clock", Level.WARN),
        (replace(FACTS, clock_offset=60.0), "clock", Level.FAIL),
        (replace(FACTS, diagnosis=replace(WELL, versions={"livestate": "0.9"})), "versions", Level.WARN),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(facts: HostFacts, check: str, level: Level) -> None:
    findings = host_findings({"a": FACTS, "b": facts})
    wrong = [each for each in findings if each.level is not Level.OK]
    assert {each.check for each in wrong} == {check}
    assert worst_level(findings) is level
    assert all(each.advice for each in wrong)


def test_clocks_are_compared_between_hosts() -> None:
    findings = host_findings(
        {"a": replace(FACTS, clock_offset=-0.4), "b": FACTS, "c": replace(FACTS, clock_offset=0.4)}
    )
    said = [each for each in findings if each.check == "clock"]
    assert [each.level for each in said] == [Level.WARN, Level.OK]
    assert said[0].message == "The clock of c is 0.80 s ahead of that of a, the most between two hosts."


@pytest.mark.parametrize(
    ("facts", "levels"),
    [
        (DIRECTORY, {"fsync": Level.OK, "permissions": Level.OK, "disk": Level.OK}),
        (replace(DIRECTORY, mode="755"), {"permissions": Level.WARN}),
        (replace(DIRECTORY, fsync_seconds=0.2), {"fsync": Level.WARN}),
        (replace(DIRECTORY, free_bytes=10 * GIB), {"disk": Level.WARN}),
        (replace(DIRECTORY, free_bytes=GIB), {"disk": Level.FAIL}),
        (replace(DIRECTORY, problem="It cannot be written: Read-only file system."), {"data": Level.FAIL}),
        (DirectoryFacts(problem="It cannot be read: No such file or directory."), {"data": Level.FAIL}),
    ],
)
def test_directories(facts: DirectoryFacts, levels: dict[str, Level]) -> None:
    found = {each.check: each.level for each in directory_findings("x", facts)}
    assert levels.items() <= found.items()


def test_changelogs() -> None:
    well = ChangelogProbe((), 0.02, 5_000_000, 5_000_000)
    assert {each.level for each in changelog_findings("s3://b", well)} == {Level.OK}
    for probe, level in (
        (replace(well, faults=("It overwrites.",)), Level.FAIL),
        (replace(well, create_seconds=3.0), Level.WARN),
        (replace(well, clock=65_000_000), Level.FAIL),
    ):
        assert worst_level(changelog_findings("s3://b", probe)) is level


def test_clocks_that_agree_have_no_sign_of_behind() -> None:
    probe = ChangelogProbe((), 0.02, 5_000_000, 5_001_000)
    said = [each.message for each in changelog_findings("s3://b", probe) if each.check == "clock"]
    assert said == ["Its clock is +0.0 s from that of this machine."]


def test_a_group_that_does_not_get_on_fails() -> None:
    stuck = replace(FACTS, diagnosis=replace(WELL, ready=False, problems={"music": "Epoch 2 is damaged."}))
    (found,) = [each for each in host_findings({"a": stuck}) if each.check == "stores"]
    assert (found.level, found.where) == (Level.FAIL, "a")
    assert found.message == "Store group music does not get on: Epoch 2 is damaged."
