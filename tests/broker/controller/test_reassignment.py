"""Reassignments: begun, replaced, cancelled, completed, listed, refused with Kafka's words."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from barnabas_broker.controller import elections
from barnabas_broker.controller.partition_change import Assignment, completed
from barnabas_broker.controller.partitions import NewPartitions, create_partitions
from barnabas_broker.controller.reassignment import (
    TOO_MANY_CHANGES,
    Reassigned,
    alter,
    list_ongoing,
    retarget,
)
from barnabas_broker.metadata.image import NO_LEADER, RESOURCE_BROKER, MetadataImage, PartitionImage
from barnabas_broker.metadata.records import BrokerStateRecord, ConfigRecord, FeatureRecord
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.support.partition_images import (
    SETTINGS,
    applied,
    cluster,
    directory,
    partition,
    state_of,
    with_topic,
)
from tests.support.simulated_random import SimulatedRandom


def reassigned(
    image: MetadataImage,
    replicas: Sequence[int] | None,
    *,
    index: int = 0,
    topic: str = "t",
    may_change_factor: bool = True,
) -> tuple[MetadataImage, KafkaError | None]:
    records, (result,) = alter(
        image,
        [Reassigned(topic, index, replicas)],
        SETTINGS,
        may_change_factor=may_change_factor,
    )
    assert (result.topic, result.partition) == (topic, index)
    return applied(image, records), result.error


def done(image: MetadataImage, replicas: Sequence[int] | None) -> PartitionImage:
    after, error = reassigned(image, replicas)
    assert error is None
    return state_of(after)


def refusal(
    image: MetadataImage, replicas: Sequence[int] | None, **where: int | str | bool
) -> tuple[ErrorCode, str | None]:
    after, error = reassigned(image, replicas, **where)  # type: ignore[arg-type]
    assert after == image
    assert error is not None
    return error.code, error.message


def test_a_broker_that_is_to_go_for_good_keeps_what_it_has_and_gets_no_more() -> None:
    leaving = ConfigRecord(RESOURCE_BROKER, "2", "metadata.member.leaving", "true")
    image = applied(with_topic(cluster(range(4)), partition((0, 2))), [leaving])
    assert set(done(image, (2, 1)).replicas) == {0, 1, 2}
    image = applied(with_topic(cluster(range(4)), partition((0, 1))), [leaving])
    code, message = refusal(image, (0, 2))
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert message.endswith("broker 2, which is to go for good.")


def test_replicas_are_the_wanted_and_the_leaving_while_new_ones_catch_up() -> None:
    """LEAD-10: the leader and the ISR stay, and nothing raises the leader epoch yet."""
    image = with_topic(cluster(range(6)), partition([0, 1, 2]))
    state = done(image, [5, 4, 2])
    assert state.replicas == (5, 4, 2, 0, 1)
    assert (state.adding_replicas, state.removing_replicas) == ((4, 5), (0, 1))
    assert (state.isr, state.leader) == ((0, 1, 2), 0)
    assert (state.leader_epoch, state.partition_epoch) == (5, 10)
    assert state.target_replicas == (5, 4, 2)


def test_another_order_is_in_force_at_once() -> None:
    """LEAD-10: nobody has to catch up; the leader is moved by a preferred election, if at all."""
    image = with_topic(cluster(range(3)), partition([0, 1, 2]))
    state = done(image, [2, 1, 0])
    assert (state.replicas, state.leader, state.leader_epoch) == ((2, 1, 0), 0, 5)
    assert not state.is_reassigning


def test_replicas_that_are_not_needed_go_at_once_if_all_others_are_in_sync() -> None:
    """LEAD-10: removing a replica raises the leader epoch; the leader is from the new ones."""
    image = with_topic(cluster(range(3)), partition([0, 1, 2]))
    state = done(image, [1, 2])
    assert (state.replicas, state.isr, state.leader) == ((1, 2), (1, 2), 1)
    assert (state.leader_epoch, state.partition_epoch) == (6, 10)
    assert done(image, [0, 1]).leader_epoch == 6


def test_replicas_stay_while_the_remaining_are_not_all_in_sync() -> None:
    """LEAD-10: the ISR does not shrink because the replicas do."""
    image = with_topic(cluster(range(3)), partition([0, 1, 2], [0, 1]))
    state = done(image, [1, 2])
    assert (state.replicas, state.removing_replicas, state.isr) == ((1, 2, 0), (0,), (0, 1))


def test_the_target_that_is_in_force_changes_nothing() -> None:
    """LEAD-10: nor does asking again for what is under way."""
    image = with_topic(cluster(range(4)), partition([0, 1, 2]))
    assert reassigned(image, [0, 1, 2]) == (image, None)
    begun, _ = reassigned(image, [3, 1, 2])
    assert reassigned(begun, [3, 1, 2]) == (begun, None)


def test_a_cancelled_reassignment_goes_back_to_the_old_replicas() -> None:
    """LEAD-10: added ones are gone, from the ISR as well; a leader among them is replaced."""
    moving = partition([4, 3, 0, 1], [0, 4], 4, adding=[3, 4], removing=[0, 1])
    state = done(with_topic(cluster(range(5)), moving), None)
    assert (state.replicas, state.isr, state.leader) == ((0, 1), (0,), 0)
    assert not state.is_reassigning
    assert (state.leader_epoch, state.partition_epoch) == (6, 10)


def test_a_cancellation_that_would_lose_records_is_refused() -> None:
    """LEAD-10: only added replicas are in sync; unclean elections have to be allowed for it."""
    moving = partition([3, 0, 1], [3], 3, adding=[3], removing=[0, 1])
    assert refusal(with_topic(cluster(range(4)), moving), None) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Unable to revert partition assignment for t:0 because it would require an unclean "
        "leader election.",
    )
    state = done(with_topic(cluster(range(4)), moving, unclean=True), None)
    assert (state.replicas, state.isr, state.leader) == ((0, 1), (0,), 0)
    state = done(with_topic(cluster([1, 3], fenced=[0]), moving, unclean=True), None)
    assert (state.replicas, state.isr, state.leader) == ((0, 1), (1,), 1)


def test_another_target_is_measured_against_the_replicas_of_before() -> None:
    """KIP-455: what only the earlier target wanted is dropped; cancelling forgets both."""
    image = with_topic(cluster(range(6)), partition([0, 1]))
    image, _ = reassigned(image, [2, 3])
    image, _ = reassigned(image, [4, 1])
    state = state_of(image)
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == (
        (4, 1, 0),
        (4,),
        (0,),
    )
    state = done(image, None)
    assert (set(state.replicas), state.isr, state.is_reassigning) == ({0, 1}, (0, 1), False)


def test_going_back_by_naming_the_old_replicas_is_cancelling() -> None:
    """KIP-455."""
    image = with_topic(cluster(range(6)), partition([0, 1]))
    begun, _ = reassigned(image, [2, 3])
    state = done(begun, [1, 0])
    assert (state.replicas, state.isr, state.is_reassigning) == ((1, 0), (0, 1), False)


def test_an_abandoned_replica_stays_until_the_end_if_it_is_in_sync() -> None:
    """LEAD-10: it may be the last one with all records; it goes when the reassignment does."""
    moving = partition([2, 0, 1], [2], 2, adding=[2], removing=[0, 1])
    image = with_topic(cluster(range(4)), moving)
    state = done(image, [3])
    assert state.replicas == (3, 0, 1, 2)
    assert (state.isr, state.leader) == ((2,), 2)
    assert (state.adding_replicas, state.removing_replicas) == ((3, 2), (0, 1, 2))
    assert retarget(state, (3,)) == Assignment((3, 0, 1, 2), (3, 2), (0, 1, 2))
    assert retarget(state, (0, 1)) == Assignment((0, 1, 2), (2,), (2,))


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_abandoned_replica_stays_that_may_be_the_only_one_with_all_records(
    is_clean: bool,
) -> None:
    """LEAD-7: also where it has left the ISR, as the last member, and nobody leads."""
    moving = partition([2, 0, 1], [], NO_LEADER, adding=[2], removing=[0, 1])
    known = {"eligible_leader_replicas" if is_clean else "last_known_elr": (2,)}
    image = with_topic(cluster(range(2), fenced=[2, 3]), replace(moving, **known))
    image = applied(
        image,
        [
            FeatureRecord("barnabas.version", 2),
            ConfigRecord(RESOURCE_BROKER, "", "min.insync.replicas", "2"),
        ],
    )
    state = done(image, [3])
    assert state.replicas == (3, 0, 1, 2)
    assert getattr(state, next(iter(known))) == (2,)


@pytest.mark.parametrize(
    ("replicas", "adding", "removing", "isr", "expected"),
    [
        ((0, 1, 2), (), (), (0, 1, 2), ((0, 1, 2), (0, 1, 2))),
        ((3, 1, 2, 0), (3,), (0,), (0, 1, 2), None),
        ((3, 1, 2, 0), (3,), (0,), (0, 1, 2, 3), ((3, 1, 2), (1, 2, 3))),
        ((3, 1, 2, 0), (3,), (0,), (3,), ((3, 1, 2), (3,))),
        ((0, 1, 3), (3,), (), (0,), None),
        ((0, 1, 3), (3,), (), (0, 3), ((0, 1, 3), (0, 3))),
        ((0, 1), (), (1,), (1,), None),
        ((0, 1), (), (1,), (0,), ((0,), (0,))),
        # Five replicas become four: only two of those that remain are in sync.
        ((2, 3, 4, 5, 0, 1), (5,), (0, 1), (0, 1, 5), None),
        ((2, 3, 4, 5, 0, 1), (5,), (0, 1), (2, 3, 4, 5), ((2, 3, 4, 5), (2, 3, 4, 5))),
        ((3, 0, 1, 2), (3, 2), (0, 1, 2), (2, 3), ((3,), (3,))),
    ],
)
def test_a_reassignment_is_complete_when_the_wanted_replicas_are_in_sync(
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    isr: tuple[int, ...],
    expected: tuple[tuple[int, ...], tuple[int, ...]] | None,
) -> None:
    """LEAD-10: Kafka's rule."""
    assert completed(Assignment(replicas, adding, removing), isr) == expected


def test_each_replica_keeps_its_directory_and_new_ones_get_the_only_one() -> None:
    """NODE-8: the list of directories goes with the list of replicas."""
    places = [directory(0), directory(1, 5)]
    image = with_topic(cluster(range(4)), partition([0, 1], directories=places))
    state = done(image, [2, 1])
    assert state.replicas == (2, 1, 0)
    assert state.directories == (directory(2), directory(1, 5), directory(0))
    reverted = done(applied(image, alter(image, [Reassigned("t", 0, [2, 1])], SETTINGS)[0]), None)
    assert (reverted.replicas, reverted.directories) == ((1, 0), (directory(1, 5), directory(0)))


def test_directories_of_a_completed_reassignment_are_those_of_its_replicas() -> None:
    """NODE-8, LEAD-10."""
    image = with_topic(
        cluster(range(3)),
        partition([0, 1, 2], directories=[directory(node) for node in range(3)]),
    )
    state = done(image, [2, 1])
    assert (state.replicas, state.directories) == ((2, 1), (directory(2), directory(1)))


PREFIX = "The manual partition assignment includes"


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ([], f"{PREFIX} an empty replica list."),
        ([0, 9], f"{PREFIX} broker 9, but no such broker is registered."),
        ([0, -1], f"{PREFIX} broker -1, but no such broker is registered."),
        ([0, 1, 0], f"{PREFIX} the broker 0 more than once."),
    ],
)
def test_bad_targets_are_refused(replicas: list[int], message: str) -> None:
    """LEAD-10: INVALID_REPLICA_ASSIGNMENT, in Kafka's words."""
    image = with_topic(cluster(range(3)), partition([0, 1]))
    assert refusal(image, replicas) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def test_a_fenced_broker_may_be_a_target() -> None:
    """LEAD-10: it catches up when it comes back."""
    image = with_topic(cluster([0, 1], fenced=[2]), partition([0, 1]))
    assert done(image, [0, 2]).adding_replicas == (2,)


def test_what_does_not_exist_is_not_reassigned() -> None:
    """LEAD-10: in Kafka's words."""
    image = with_topic(cluster(range(3)), partition([0, 1]))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(image, [0], topic="u") == (unknown, "Unable to find a topic named u.")
    for index in (1, -1):
        message = f"Unable to find partition t:{index}."
        assert refusal(image, [0], index=index) == (unknown, message)


def test_nothing_to_cancel_is_an_error() -> None:
    """LEAD-10: NO_REASSIGNMENT_IN_PROGRESS."""
    image = with_topic(cluster(range(3)), partition([0, 1]))
    assert refusal(image, None) == (
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        "No partition reassignment is in progress.",
    )


def test_the_number_of_replicas_changes_only_if_it_may() -> None:
    """KIP-860: while a reassignment runs, its target counts; cancelling is always allowed."""
    image = with_topic(cluster(range(4)), partition([0, 1]))
    assert refusal(image, [0, 1, 2], may_change_factor=False) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 2 to 3",
    )
    begun, error = reassigned(image, [2, 3], may_change_factor=False)
    assert error is None
    assert reassigned(begun, [1, 3], may_change_factor=False)[1] is None
    assert refusal(begun, [1, 2, 3, 0], may_change_factor=False)[0] == (
        ErrorCode.INVALID_REPLICATION_FACTOR
    )
    assert reassigned(begun, None, may_change_factor=False)[1] is None


def test_each_partition_of_a_request_succeeds_or_fails_alone() -> None:
    """LEAD-10: and one that is named twice is changed twice."""
    image = with_topic(cluster(range(4)), partition([0, 1]), partition([0, 1]))
    asked = [
        Reassigned("t", 0, [2, 1]),
        Reassigned("t", 5, [2, 1]),
        Reassigned("t", 1, [3, 1]),
        Reassigned("t", 0, None),
    ]
    records, results = alter(image, asked, SETTINGS)
    after = applied(image, records)
    assert [result.error is None for result in results] == [True, False, True, True]
    assert state_of(after).replicas == (1, 0)
    assert state_of(after).partition_epoch == 11
    assert [item.partition for item in list_ongoing(after)] == [1]


def test_too_much_at_once_is_refused_as_a_whole() -> None:
    """CTL-8: one request is one batch of the metadata log."""
    image = with_topic(cluster(range(4)), partition([0, 1]))
    with pytest.raises(KafkaError) as raised:
        alter(image, [Reassigned("t", 0, [0])] * 10_001, SETTINGS)
    assert raised.value.code == ErrorCode.POLICY_VIOLATION
    assert raised.value.message == TOO_MANY_CHANGES


def test_progress_is_listed_for_all_topics_or_for_those_asked_for() -> None:
    """LEAD-10: unknown topics and partitions are left out."""
    moving = partition([2, 0], [0], adding=[2], removing=[0])
    image = with_topic(cluster(range(3)), partition([0, 1]), moving)
    image = with_topic(image, moving, partition([0, 1]), name="u")
    assert list_ongoing(image) == [("t", 1, moving), ("u", 0, moving)]
    asked = [("u", [0, 1, 7, -1]), ("v", [0])]
    assert list_ongoing(image, asked) == [("u", 0, moving)]
    assert list_ongoing(image, []) == []


def test_a_reassignment_goes_on_without_its_leader() -> None:
    """LEAD-10: all of its state is in the partition."""
    image = with_topic(cluster(range(5)), partition([0, 1]))
    image, _ = reassigned(image, [3, 4])
    records = elections.broker_fenced(image, 0, SETTINGS)
    image = applied(image, [BrokerStateRecord(0, 100, True, False), *records])
    state = state_of(image)
    assert (state.leader, state.isr, state.adding_replicas) == (1, (1,), (3, 4))


def test_a_reassignment_of_a_leaderless_partition_elects_no_empty_replica() -> None:
    """LEAD-2, LEAD-10: not even where unclean elections are allowed."""
    lost = partition([0], [0], leader=NO_LEADER)
    image = with_topic(cluster([1], fenced=[0]), lost, unclean=True)
    state = done(image, [1])
    assert (state.leader, state.isr, state.replicas) == (NO_LEADER, (0,), (1, 0))


def test_topics_do_not_grow_while_they_are_reassigned() -> None:
    """TOP-13: REASSIGNMENT_IN_PROGRESS."""
    image = with_topic(cluster(range(3)), partition([0, 1]))
    begun, _ = reassigned(image, [0, 2])
    grown = [NewPartitions(name="t", count=2)]
    records, (result,) = create_partitions(begun, grown, random=SimulatedRandom(1))
    assert records == []
    assert result.error is not None
    assert result.error.code == ErrorCode.REASSIGNMENT_IN_PROGRESS
    _, (result,) = create_partitions(image, grown, random=SimulatedRandom(1))
    assert result.error is None


def test_a_leader_that_is_moved_away_leaves_to_a_replica_with_room() -> None:
    """VOL-4: whoever stays leads, unless its disk fills up and another one's does not."""
    replicas = [0, 1, 2]
    directories = [directory(node) for node in replicas]
    image = with_topic(cluster(replicas), partition(replicas, directories=directories))
    for full, leader in ((set(), 1), ({1}, 2), ({1, 2}, 1)):
        cordoned = [directory(node) for node in full]
        asked = [Reassigned("t", 0, [1, 2])]
        (record,), _ = alter(image, asked, SETTINGS, cordoned=cordoned)
        assert (record.leader, record.replicas) == (leader, (1, 2))
