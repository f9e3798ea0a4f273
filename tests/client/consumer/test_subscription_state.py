"""What a consumer wants and was given, without any network."""

import re
from types import MappingProxyType

import hypothesis.strategies as st
import pytest
from hypothesis import given

from barnabas_client.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.consumer.partition_state import PartitionState, Position, PositionPhase
from barnabas_client.consumer.subscription_state import SubscriptionKind, SubscriptionState
from barnabas_client.errors import IllegalStateError, UsageError
from barnabas_protocol.ids import TopicPartition

PARTITIONS = [TopicPartition("t", number) for number in range(5)]


def cluster(*names: str, internal: str = "") -> ClusterMetadata:
    topics = {
        name: TopicMetadata(
            name=name,
            is_internal=name == internal,
            partitions={0: PartitionMetadata(partition=0, leader_id=1)},
        )
        for name in names
    }
    return ClusterMetadata(topics=MappingProxyType(topics))


def test_the_kinds_exclude_each_other_until_unsubscribe() -> None:
    """CON-2: names, pattern and assigned partitions never mix."""
    state = SubscriptionState()
    state.subscribe_names(["a"])
    with pytest.raises(IllegalStateError):
        state.assign_manually(PARTITIONS)
    with pytest.raises(IllegalStateError):
        state.subscribe_pattern(re.compile("a"))
    state.unsubscribe()
    assert state.kind is SubscriptionKind.NONE
    state.assign_manually(PARTITIONS)
    with pytest.raises(IllegalStateError):
        state.subscribe_names(["a"])
    with pytest.raises(IllegalStateError):
        state.assign_from_group(PARTITIONS)


@pytest.mark.parametrize("names", [[""], [" "], [None], "topic"])
def test_names_that_are_none_are_refused(names: list[str]) -> None:
    """CON-2: a null or blank name is an error, and changes nothing."""
    state = SubscriptionState()
    with pytest.raises(UsageError):
        state.subscribe_names(names)
    assert state.kind is SubscriptionKind.NONE


def test_a_pattern_takes_whole_names_and_leaves_internal_topics_out() -> None:
    """As in Java the pattern matches the whole name; `exclude_internal_topics` is the default."""
    state = SubscriptionState()
    state.subscribe_pattern(re.compile("(__)?log.*"))
    picture = cluster("logs", "blogs", "__log", internal="__log")
    assert state.update_matching(picture)
    assert state.topics == {"logs"}
    assert not state.update_matching(picture)
    everything = SubscriptionState(exclude_internal_topics=False)
    everything.subscribe_pattern(re.compile("(__)?log.*"))
    everything.update_matching(picture)
    assert everything.topics == {"logs", "__log"}


@given(st.lists(st.sets(st.sampled_from(PARTITIONS)), max_size=8))
def test_a_partition_that_stays_keeps_its_state(assignments: list[set[TopicPartition]]) -> None:
    """A rebalance moves no position of what it leaves here; each change has its version."""
    state = SubscriptionState()
    state.subscribe_names(["t"])
    before: dict[TopicPartition, PartitionState] = {}
    for number, assignment in enumerate(assignments):
        version = state.assignment_version
        state.mark_pending_revocation(before)
        state.assign_from_group(assignment)
        assert (state.assignment_version > version) == (assignment != before.keys())
        assert state.assigned.keys() == assignment
        for partition, known in state.assigned.items():
            assert not known.is_pending_revocation
            if partition in before:
                assert known is before[partition]
            else:
                assert known.phase is PositionPhase.UNKNOWN
                known.seek(number)
        before = dict(state.assigned)
    assert all(one.phase is PositionPhase.READY for one in state.assigned.values())


def test_positions_are_those_of_all_partitions_that_have_one() -> None:
    """CON-8: a commit of what was handed out; also while a position is being validated."""
    state = SubscriptionState()
    state.assign_manually(PARTITIONS[:4])
    one, two, three, four = (state.assigned[partition] for partition in PARTITIONS[:4])
    one.seek(5)
    two.seek(7, 2)
    two.see_leader_epoch(3)
    three.request_reset()
    assert state.positions() == {
        PARTITIONS[0]: OffsetAndMetadata(5),
        PARTITIONS[1]: OffsetAndMetadata(7, 2),
    }
    assert two.phase is PositionPhase.VALIDATING
    assert (four.phase, four.position) == (PositionPhase.UNKNOWN, None)


def test_only_a_position_with_an_epoch_is_validated_and_only_under_a_new_leader() -> None:
    """KIP-320: without the epoch of the record before there is nothing to compare."""
    state = PartitionState()
    state.seek(5)
    assert not state.see_leader_epoch(1)
    state.advance(6, 1)
    assert not state.see_leader_epoch(1)
    assert state.see_leader_epoch(2)
    assert not state.is_fetchable
    assert not state.complete_validation(Position(5, 1)), "the answer to another question"
    assert state.complete_validation(Position(6, 1))
    assert state.is_fetchable
    assert not state.see_leader_epoch(2)
