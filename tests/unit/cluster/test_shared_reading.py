"""Replicas share what is read, the same way each time, and others take the part of a host that is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.cluster.assignment import Assignment
from engine.cluster.reports import HostName
from engine.cluster.shared_reading import share_numbers
from engine.model.schema import PartitionId

A, B, C = HostName("a"), HostName("b"), HostName("c")
EIGHT = [PartitionId(number) for number in range(8)]


def test_no_replica_reads_more_than_its_share() -> None:
    preferred = [(A, B)] * 6 + [(B, A)] * 2
    held = {A: EIGHT, B: EIGHT}
    assert share_numbers(EIGHT, held, preferred) == {A: (0, 1, 2, 3), B: (4, 5, 6, 7)}
    assert share_numbers(EIGHT[:1], held, preferred) == {A: (0,)}
    assert share_numbers([EIGHT[7]], held, preferred) == {B: (7,)}


def test_the_other_replica_reads_what_a_lost_one_should() -> None:
    preferred = [(A, B), (B, C), (C, A), (A, C), (B, A), (C, B)]
    numbers = EIGHT[:6]
    held = {host: [number for number in numbers if host in preferred[number]] for host in (A, B, C)}
    assert share_numbers(numbers, held, preferred) == {A: (0, 3), B: (1, 4), C: (2, 5)}
    del held[A]
    assert share_numbers(numbers, held, preferred) == {B: (0, 1, 4), C: (2, 3, 5)}


@given(
    st.sets(st.sampled_from("abcdefg").map(HostName), min_size=1, max_size=7),
    st.integers(1, 3),
    st.integers(1, 40),
    st.data(),
)
def test_all_is_read_once_by_hosts_that_can(
    hosts: set[HostName], replication: int, count: int, data: st.DataObject
) -> None:
    assignment = Assignment(tuple(sorted(hosts)), replication)
    order = assignment.order(count)
    numbers = data.draw(st.sets(st.integers(0, count - 1).map(PartitionId), min_size=1))
    held = {host: [number for number in numbers if host in order[number][:replication]] for host in hosts}
    found = share_numbers(numbers, held, order)
    assert sorted(number for read in found.values() for number in read) == sorted(numbers)
    assert all(set(read) <= set(held[host]) for host, read in found.items())
    assert found == share_numbers(
        sorted(numbers, reverse=True), dict(sorted(held.items(), reverse=True)), order
    )
    first = {host: sum(order[number][0] == host for number in numbers) for host in hosts}
    assert max(map(len, found.values())) <= max(*first.values(), -(-len(numbers) // len(hosts)))
