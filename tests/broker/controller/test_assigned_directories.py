"""Where brokers say that their replicas are, and what that means for who leads (KIP-858)."""

from barnabas_broker.controller.directories import assign_directories, assign_replicas
from barnabas_broker.metadata.image import NO_LEADER
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from tests.support.partition_images import (
    TOPIC_ID,
    applied,
    cluster,
    directory,
    partition,
    registered,
    state_of,
    with_topic,
)

FIRST = TopicPartition("t", 0)


def test_a_directory_is_noted_and_nothing_else_changes() -> None:
    """KIP-858: a reassignment under way is kept, and the leader stays in its epoch."""
    moving = partition([2, 0, 1], [0, 1], adding=[2], removing=[0])
    image = applied(cluster(range(3)), [registered(2, directories=2)])
    image = with_topic(image, moving)
    after = applied(image, assign_directories(image, 2, {FIRST: directory(2, 1)})[0])
    state = state_of(after)
    assert state.directories == (directory(2, 1), ZERO_UUID, ZERO_UUID)
    assert (state.adding_replicas, state.removing_replicas) == ((2,), (0,))
    assert (state.leader, state.isr, state.leader_epoch) == (0, (0, 1), 5)
    assert state.partition_epoch == 10
    assert assign_directories(after, 2, {FIRST: directory(2, 1)}) == ([], None)


def test_a_partition_whose_replica_is_found_in_another_directory_has_a_leader_again() -> None:
    """KIP-858, REG-7: nobody led it while its directory was not among those registered."""
    lost = partition([0], [0], leader=NO_LEADER, directories=[directory(0, 7)])
    image = with_topic(cluster([0]), lost)
    records, codes = assign_replicas(image, 0, 100, {(TOPIC_ID, 0): directory(0)})
    state = state_of(applied(image, records))
    assert codes == {(TOPIC_ID, 0): ErrorCode.NONE}
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (0, 6, 10)
    assert state.directories == (directory(0),)


def test_a_replica_put_into_a_directory_that_has_failed_meanwhile_does_not_lead() -> None:
    """KIP-858: the report and the failure may cross."""
    image = with_topic(cluster([0, 1]), partition([0, 1]), partition([0]))
    failed = directory(0, 5)
    asked = {(TOPIC_ID, 0): failed, (TOPIC_ID, 1): failed}
    after = applied(image, assign_replicas(image, 0, 100, asked)[0])
    assert (state_of(after, 0).leader, state_of(after, 0).isr) == (1, (1,))
    assert (state_of(after, 1).leader, state_of(after, 1).isr) == (NO_LEADER, (0,))


def test_replicas_that_are_not_the_brokers_are_refused() -> None:
    """KIP-858: with Kafka's errors, each on its own."""
    image = with_topic(cluster([0, 1]), partition([0]))
    place = directory(1)
    asked = {(TOPIC_ID, 0): place, (TOPIC_ID, 1): place, (bytes(16), 0): place}
    records, codes = assign_replicas(image, 1, 101, asked)
    assert records == []
    assert list(codes.values()) == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
