"""Rendezvous hashing: the same everywhere, spread out, and nothing moves that need not."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cluster.assignment import Assignment, held_partitions, rank_hosts, replicas
from engine.cluster.reports import HostName
from engine.model.schema import PartitionId, define_store

HOSTS = tuple(HostName(f"host-{number}") for number in range(4))
host_lists = st.lists(st.text(min_size=1, max_size=8).map(HostName), min_size=1, max_size=7, unique=True)
counts = st.sampled_from([1, 2, 3, 8, 64])


def numbers(count: int) -> list[PartitionId]:
    return [PartitionId(number) for number in range(count)]


def test_the_assignment_never_changes() -> None:
    """Hosts of different versions of livestate must agree, and a restart must find its partitions: these are
    golden.
    """
    assert [HOSTS.index(rank_hosts(number, 8, HOSTS)[0]) for number in numbers(8)] == [1, 1, 3, 0, 0, 2, 2, 1]


@given(host_lists, counts, st.integers(1, 3))
def test_it_depends_on_the_names_alone(hosts: list[HostName], count: int, replication: int) -> None:
    for number in numbers(count):
        assert replicas(number, count, hosts, replication) == replicas(
            number, count, sorted(hosts), replication
        )


@given(host_lists, counts, st.integers(1, 8))
def test_every_partition_is_held_as_often_as_asked(
    hosts: list[HostName], count: int, replication: int
) -> None:
    held = Counter(number for host in hosts for number in held_partitions(host, count, hosts, replication))
    assert held == Counter(dict.fromkeys(numbers(count), min(replication, len(hosts))))


@given(host_lists, st.text(min_size=1, max_size=8).map(HostName), counts, st.integers(1, 3))
def test_a_host_that_comes_takes_and_nothing_else_moves(
    hosts: list[HostName], new: HostName, count: int, replication: int
) -> None:
    """Read backwards: what a host that goes had falls to others, and nothing else moves."""
    before = [host for host in hosts if host != new]
    for number in numbers(count):
        old, now = (
            replicas(number, count, before, replication),
            replicas(number, count, [*before, new], replication),
        )
        kept = [host for host in now if host != new]
        assert kept == list(old[: len(kept)])
        assert len(old) - len(kept) == (new in now and len(before) >= replication)


def test_partitions_are_spread() -> None:
    for hosts in (HOSTS, HOSTS[:3], HOSTS[:2]):
        for count in (64, 512, 4096):
            shares = Counter(rank_hosts(number, count, hosts)[0] for number in numbers(count))
            fair = count / len(hosts)
            # Four standard deviations of independent choices.
            assert all(
                abs(shares[host] - fair) <= 4 * (fair * (1 - 1 / len(hosts))) ** 0.5 for host in hosts
            ), shares


def test_stores_with_equally_many_partitions_share_hosts() -> None:
    assignment = Assignment(HOSTS, 2)
    one, other = (
        define_store(name, pa.schema([("k", pa.int64())]), ["k"], partitions=16) for name in ("one", "other")
    )
    for host in HOSTS:
        assert (
            assignment.held_partitions(host, one)
            == assignment.held_partitions(host, other)
            == held_partitions(host, 16, HOSTS, 2)
        )
    assert all(assignment.replicas(one, number) == replicas(number, 16, HOSTS, 2) for number in numbers(16))
    assert all(set(order) == set(HOSTS) for order in assignment.order(16))


@pytest.mark.parametrize(
    ("hosts", "count", "replication", "shares"),
    [
        ("abc", 8, 2, [8, 7, 1]),
        ("abc", 64, 2, [44, 40, 44]),
        ("12", 8, 1, [1, 7]),
        ("12", 64, 1, [28, 36]),
    ],
)
def test_shares_are_those_of_the_page_on_many_hosts(
    hosts: str, count: int, replication: int, shares: list[int]
) -> None:
    names = [HostName(name) for name in hosts]
    assert [len(held_partitions(name, count, names, replication)) for name in names] == shares
