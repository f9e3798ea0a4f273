"""The ISR, as leaders propose it: what is accepted, what is refused and with which error."""

from dataclasses import replace

import pytest

from barnabas_broker.controller.isr import alter_partitions
from barnabas_broker.metadata.image import MetadataImage, PartitionImage
from barnabas_broker.metadata.records import BrokerStateRecord
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from tests.support.partition_images import (
    TOPIC_ID,
    applied,
    cluster,
    directory,
    partition,
    state_of,
    with_topic,
)


def proposal(
    members: dict[int, int] | list[int],
    *,
    index: int = 0,
    leader_epoch: int = 5,
    partition_epoch: int = 9,
    recovery: int = 0,
) -> AlterPartitionRequestPartitionData:
    """A proposed ISR: with broker epochs as version 3 has it, or without as version 2."""
    with_epochs = members.items() if isinstance(members, dict) else ()
    return AlterPartitionRequestPartitionData(
        partition_index=index,
        leader_epoch=leader_epoch,
        new_isr=members if isinstance(members, list) else [],
        new_isr_with_epochs=[
            BrokerState(broker_id=node_id, broker_epoch=epoch) for node_id, epoch in with_epochs
        ],
        leader_recovery_state=recovery,
        partition_epoch=partition_epoch,
    )


def alter(
    image: MetadataImage,
    leader: int,
    *proposals: AlterPartitionRequestPartitionData,
    topic_id: bytes = TOPIC_ID,
) -> tuple[MetadataImage, list[AlterPartitionResponsePartitionData]]:
    asked = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=list(proposals))
    records, (answer,) = alter_partitions(image, leader, 100 + leader, [asked])
    assert answer.topic_id == topic_id
    return applied(image, records), answer.partitions


def error_of(
    image: MetadataImage, leader: int, asked: AlterPartitionRequestPartitionData
) -> ErrorCode:
    after, (answer,) = alter(image, leader, asked)
    if answer.error_code == ErrorCode.INELIGIBLE_REPLICA:
        known, state = state_of(image), state_of(after)
        assert state == replace(known, partition_epoch=known.partition_epoch + 1)
    else:
        assert after == image
    return ErrorCode(answer.error_code)


TWO_IN_SYNC = partition([0, 1, 2], [0, 1])


@pytest.mark.parametrize(
    ("members", "isr"),
    [
        ({0: 100, 1: 101, 2: 102}, (0, 1, 2)),
        ({0: 100, 2: 102}, (0, 2)),
        ({0: 100}, (0,)),
        ({0: 100, 1: -1, 2: 102}, (0, 1, 2)),
        ([0], (0,)),
    ],
)
def test_a_leader_expands_and_shrinks_the_isr(
    members: dict[int, int] | list[int], isr: tuple[int, ...]
) -> None:
    """KIP-497: the answer is the new state; the leader epoch does not rise for it."""
    image = with_topic(cluster([0, 1, 2]), TWO_IN_SYNC)
    after, (answer,) = alter(image, 0, proposal(members))
    state = state_of(after)
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == (isr, 0, 5, 10)
    assert answer == AlterPartitionResponsePartitionData(
        partition_index=0, leader_id=0, leader_epoch=5, isr=list(isr), partition_epoch=10
    )


def test_a_proposal_of_what_is_so_changes_nothing() -> None:
    """REP-8: a retry whose answer was lost is answered with the state as it is."""
    image = with_topic(cluster([0, 1, 2]), TWO_IN_SYNC)
    after, (answer,) = alter(image, 0, proposal({0: 100, 1: 101}))
    assert after == image
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [0, 1], 9)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (proposal([0, 1], index=4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (proposal([0, 1], index=-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (proposal([0, 1], leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (proposal([0, 1], partition_epoch=10), ErrorCode.NOT_CONTROLLER),
        (proposal([0, 1], leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal([0, 1], leader_epoch=4, partition_epoch=8), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal([0, 1], partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal([0, 3]), ErrorCode.INVALID_REQUEST),
        (proposal([0, 0, 1]), ErrorCode.INVALID_REQUEST),
        (proposal([1, 2]), ErrorCode.INVALID_REQUEST),
        (proposal([]), ErrorCode.INVALID_REQUEST),
        (proposal([0], recovery=1), ErrorCode.INVALID_REQUEST),
        (proposal({0: 100, 2: 5}), ErrorCode.INELIGIBLE_REPLICA),
        (proposal({0: 99, 2: 102}), ErrorCode.INELIGIBLE_REPLICA),
        # Who joins must have fetched under an epoch that its leader names.
        (proposal({0: 100, 1: 101, 2: -1}), ErrorCode.INELIGIBLE_REPLICA),
        (proposal([0, 1, 2]), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_bad_proposals_are_refused(
    asked: AlterPartitionRequestPartitionData, error: ErrorCode
) -> None:
    """REP-8, KIP-497, KIP-903: with Kafka's errors, in Kafka's order."""
    image = with_topic(cluster([0, 1, 2, 3]), TWO_IN_SYNC)
    assert error_of(image, 0, asked) == error


def test_only_the_leader_may_propose() -> None:
    """KIP-497."""
    image = with_topic(cluster([0, 1, 2]), TWO_IN_SYNC)
    assert error_of(image, 1, proposal([0, 1, 2])) == ErrorCode.INVALID_REQUEST


def test_brokers_that_are_fenced_or_leaving_may_not_join() -> None:
    """KIP-841, STOP-6: nor ones that are not registered."""
    one_in_sync = partition([0, 1, 2, 3], [0])
    image = with_topic(cluster([0], fenced=[1], shutting_down=[2]), one_in_sync)
    for node_id in (1, 2, 3):
        assert error_of(image, 0, proposal([0, node_id])) == ErrorCode.INELIGIBLE_REPLICA


def test_what_was_refused_is_not_granted_when_a_copy_of_it_comes_late() -> None:
    """REP-8: its leader has given it up, and may have committed without the replica since."""
    image = with_topic(cluster([0, 1], fenced=[2]), TWO_IN_SYNC)
    asked = proposal({0: 100, 1: 101, 2: 102})
    refused, (answer,) = alter(image, 0, asked)
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
    unfenced = applied(refused, [BrokerStateRecord(2, 102, False, False)])
    assert error_of(unfenced, 0, asked) == ErrorCode.INVALID_UPDATE_VERSION


def test_unknown_topics_are_told_apart_from_unknown_partitions() -> None:
    """KIP-497: a topic that was deleted is known by its id alone."""
    image = with_topic(cluster([0]), TWO_IN_SYNC)
    _, (answer,) = alter(image, 0, proposal([0]), topic_id=b"another topic-id")
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("node_id", "epoch", "error"),
    [(0, 99, ErrorCode.STALE_BROKER_EPOCH), (7, 107, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_an_old_incarnation_of_a_broker_changes_nothing(
    node_id: int, epoch: int, error: ErrorCode
) -> None:
    """REG-4."""
    with pytest.raises(KafkaError) as raised:
        alter_partitions(cluster([0]), node_id, epoch, [])
    assert raised.value.code == error


def test_one_request_changes_many_partitions_each_on_its_own() -> None:
    """REP-8: batched; a second word on the same partition is an old one."""
    image = with_topic(cluster([0, 1, 2]), TWO_IN_SYNC, TWO_IN_SYNC, partition([1, 0]))
    after, answers = alter(
        image,
        0,
        proposal([0], index=0),
        proposal({0: 100, 1: 101, 2: 102}, index=1),
        proposal([0], index=2),
        proposal([0, 1], index=0),
    )
    assert [answer.error_code for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]
    assert [state_of(after, index).isr for index in range(3)] == [(0,), (0, 1, 2), (1, 0)]


def moved(state: PartitionImage) -> tuple[tuple[int, ...], tuple[int, ...], int, bool]:
    return state.replicas, state.isr, state.leader, state.is_reassigning


def test_the_last_replica_that_catches_up_completes_the_reassignment() -> None:
    """LEAD-10: old replicas leave the ISR and the assignment; the leader epoch rises."""
    moving = partition([0, 3, 1, 2], [0, 1, 2], adding=[3], removing=[1, 2])
    image = with_topic(cluster([0, 1, 2, 3]), moving)
    after, (answer,) = alter(image, 0, proposal({0: 100, 1: 101, 2: 102, 3: 103}))
    # It loses more replicas than it gains: all that remain have to be in sync, and are.
    assert moved(state_of(after)) == ((0, 3), (0, 3), 0, False)
    assert (answer.error_code, answer.leader_epoch, answer.partition_epoch) == (0, 6, 10)


def test_a_leader_that_completes_its_own_removal_is_told_of_the_next_one() -> None:
    """LEAD-3, LEAD-10: NEW_LEADER_ELECTED, although the change is made."""
    moving = partition([4, 3, 0], [0, 3], 0, adding=[3, 4], removing=[0])
    image = with_topic(cluster([0, 3, 4]), moving)
    after, (answer,) = alter(image, 0, proposal({0: 100, 3: 103, 4: 104}))
    assert moved(state_of(after)) == ((4, 3), (3, 4), 4, False)
    assert (answer.error_code, answer.isr) == (ErrorCode.NEW_LEADER_ELECTED, [])


def test_a_reassignment_waits_for_all_added_replicas() -> None:
    """LEAD-10."""
    moving = partition([3, 4, 0], [0], 0, adding=[3, 4], removing=[0])
    image = with_topic(cluster([0, 3, 4]), moving)
    after, _ = alter(image, 0, proposal({0: 100, 4: 104}))
    assert moved(state_of(after)) == ((3, 4, 0), (0, 4), 0, True)


def test_the_leader_that_stays_for_want_of_another_moves_when_one_has_caught_up() -> None:
    """STOP-4, STOP-6: a drain ends as soon as it can, without a gap in the leadership."""
    image = with_topic(cluster([1, 2], shutting_down=[0]), partition([0, 1, 2], [0]))
    after, (answer,) = alter(image, 0, proposal({0: 100, 2: 102}))
    assert (state_of(after).leader, state_of(after).isr) == (2, (2,))
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED


def test_who_takes_over_from_a_leader_that_stops_has_room_if_any_does() -> None:
    """VOL-4: also where the change of the ISR is what makes another replica the leader."""
    replicas = [0, 1, 2]
    directories = [directory(node) for node in replicas]
    state = partition(replicas, [0], directories=directories)
    image = with_topic(cluster([1, 2], shutting_down=[0]), state)
    asked = AlterPartitionRequestTopicData(
        topic_id=TOPIC_ID, partitions=[proposal({0: 100, 1: 101, 2: 102})]
    )
    for full, leader in ((set(), 1), ({1}, 2), ({1, 2}, 1)):
        cordoned = [directory(node) for node in full]
        (record,), _ = alter_partitions(image, 0, 100, [asked], cordoned)
        assert record.leader == leader
