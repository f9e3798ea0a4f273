"""Who has which partition, in little memory (`placements`)."""

from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription
from barnabas_console.cluster.placements import Placement, Placements


def topic(name: str, *leaders: int | None) -> TopicDescription:
    """A topic on brokers 0 and 1; without a leader only broker 1 is in sync."""
    partitions = {
        number: PartitionDescription(
            partition=number,
            leader_id=leader,
            replica_ids=(0, 1),
            in_sync_replica_ids=(1,) if leader is None else (0, 1),
        )
        for number, leader in enumerate(leaders)
    }
    return TopicDescription(name=name, partitions=partitions, is_internal=False)


def test_a_broker_holds_what_it_has_a_replica_of() -> None:
    """CON-111."""
    placements = Placements()
    placements.add(topic("a", 0, None))
    placements.add(topic("Bills", 1))
    assert placements.held_by(0) == [
        ("a", 0, Placement(0, (0, 1), (0, 1))),
        ("a", 1, Placement(None, (0, 1), (1,))),
        ("Bills", 0, Placement(1, (0, 1), (0, 1))),
    ]
    assert [held[0] for held in placements.held_by(1, "bill")] == ["Bills"]
    assert placements.held_by(2) == []


def test_equal_placements_are_one_object() -> None:
    """CON-174: thirty thousand partitions have a few."""
    placements = Placements()
    placements.add(topic("a", 0, 1))
    placements.add(topic("b", 1, 0))
    held = {(name, number): one for name, number, one in placements.held_by(0)}
    assert held["a", 0] is held["b", 1]


def test_partitions_that_are_not_told_of_are_left_out() -> None:
    placements = Placements()
    whole = topic("a", 0, 0)
    part = {1: whole.partitions[1]}
    placements.add(TopicDescription(name="a", partitions=part, is_internal=False))
    assert [(name, number) for name, number, _ in placements.held_by(0)] == [("a", 1)]
