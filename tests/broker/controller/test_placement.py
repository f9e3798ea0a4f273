"""Placement: golden values, and the properties that must hold for any cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.controller.placement import (
    PlacementBroker,
    interleave_racks,
    place,
    place_by_rack,
    place_evenly,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.support.simulated_random import SimulatedRandom


def test_replicas_follow_the_golden_values_without_racks() -> None:
    """TOP-9."""
    assert place_evenly([0, 1, 2], 6, 3, 2, 2) == [
        (2, 0, 1),
        (0, 1, 2),
        (1, 2, 0),
        (2, 1, 0),
        (0, 2, 1),
        (1, 0, 2),
    ]
    assert place_evenly([2, 5, 8], 2, 3, 2, 2) == [(8, 2, 5), (2, 5, 8)]
    assert place_evenly([0, 1, 2, 3, 4], 10, 3, 0, 0) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_replicas_follow_the_golden_values_with_racks() -> None:
    """TOP-10: three racks of three, then uneven ids."""
    brokers = [PlacementBroker(node, f"r{1 + node // 3}") for node in range(9)]
    assert place_by_rack(brokers, 12, 3, 0, 0) == [
        (0, 3, 6),
        (3, 6, 1),
        (6, 1, 4),
        (1, 4, 7),
        (4, 7, 2),
        (7, 2, 5),
        (2, 5, 8),
        (5, 8, 0),
        (8, 0, 3),
        (0, 4, 7),
        (3, 7, 2),
        (6, 2, 5),
    ]
    racks = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}
    brokers = [PlacementBroker(node, rack) for node, rack in racks.items()]
    assert place_by_rack(brokers, 12, 3, 0, 0) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
        (3, 2, 0),
        (1, 0, 3),
        (5, 3, 1),
        (4, 1, 5),
        (2, 5, 4),
    ]


def test_brokers_are_interleaved_rack_by_rack() -> None:
    """TOP-10: racks by name, brokers by id; a rack that is used up is passed over."""
    racks = {node: f"r{1 + node // 3}" for node in range(9)}
    assert interleave_racks(racks) == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    assert interleave_racks({0: "b", 1: "a", 2: "a", 3: "a"}) == [1, 0, 2, 3]


@given(
    rack_sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    data=st.data(),
    seed=st.integers(0, 1 << 20),
)
def test_replicas_are_spread_over_brokers_and_racks(
    rack_sizes: list[int], data: st.DataObject, seed: int
) -> None:
    """TOP-12: distinct brokers; racks distinct if there are enough, else each is used."""
    names = [f"r{rack}" for rack, size in enumerate(rack_sizes) for _ in range(size)]
    brokers = [PlacementBroker(node, rack) for node, rack in enumerate(names)]
    factor = data.draw(st.integers(1, len(brokers)))
    count = data.draw(st.integers(1, 3 * len(brokers)))
    for replicas in place(brokers, count, factor, SimulatedRandom(seed)):
        assert len(set(replicas)) == factor
        assert len({names[node] for node in replicas}) == min(factor, len(rack_sizes))


@given(broker_count=st.integers(1, 8), count=st.integers(1, 40), seed=st.integers(0, 1 << 20))
def test_leaders_differ_by_at_most_one_per_broker(broker_count: int, count: int, seed: int) -> None:
    """TOP-12."""
    brokers = [PlacementBroker(node, None) for node in range(broker_count)]
    placed = place(brokers, count, 1, SimulatedRandom(seed))
    leaders = [sum(replicas[0] == node for replicas in placed) for node in range(broker_count)]
    assert max(leaders) - min(leaders) <= 1


def test_fenced_brokers_only_fill_up_and_never_lead() -> None:
    """TOP-12."""
    brokers = [PlacementBroker(0, None), PlacementBroker(1, None, fenced=True)]
    assert place(brokers, 3, 1, SimulatedRandom()) == [(0,)] * 3
    assert place(brokers, 3, 2, SimulatedRandom()) == [(0, 1)] * 3


@pytest.mark.parametrize(
    "brokers",
    [
        [],
        [PlacementBroker(0, None)],
        [PlacementBroker(0, None, True), PlacementBroker(1, None, True)],
    ],
    ids=["none", "too few", "all fenced"],
)
def test_too_few_brokers_are_a_replication_factor_error(brokers: list[PlacementBroker]) -> None:
    """TOP-3, TOP-12."""
    with pytest.raises(KafkaError) as raised:
        place(brokers, 1, 2, SimulatedRandom())
    assert raised.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_brokers_without_a_rack_count_as_one_rack() -> None:
    """TOP-11."""
    brokers = [PlacementBroker(0, "a"), PlacementBroker(1, None), PlacementBroker(2, None)]
    for replicas in place(brokers, 6, 2, SimulatedRandom()):
        assert 0 in replicas


def test_cordoned_brokers_get_replicas_only_where_too_few_others_are_left() -> None:
    """VOL-4, KIP-1066: and then as the last of a partition's, never as preferred leaders."""
    brokers = [PlacementBroker(node, None, cordoned=node in (1, 3)) for node in range(4)]
    placed = place(brokers, 12, 2, SimulatedRandom(1))
    assert {node for replicas in placed for node in replicas} == {0, 2}
    placed = place(brokers, 12, 3, SimulatedRandom(1))
    assert all(set(replicas[:2]) == {0, 2} and replicas[2] in (1, 3) for replicas in placed)
    everybody = [broker._replace(cordoned=True) for broker in brokers]
    assert len(place(everybody, 12, 3, SimulatedRandom(1))) == 12
