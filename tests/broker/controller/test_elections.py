"""Elections when brokers come, go or lose a disk: who leads, who is in sync, what epochs rise."""

from dataclasses import replace

import pytest

from barnabas_broker.controller import elections, leader_balance
from barnabas_broker.metadata.image import (
    NO_LEADER,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
)
from barnabas_broker.metadata.records import BrokerStateRecord, ConfigRecord, FeatureRecord
from tests.support.partition_images import (
    SETTINGS,
    applied,
    cluster,
    directory,
    partition,
    registered,
    state_of,
    with_topic,
)

UNCLEAN = "unclean.leader.election.enable"


def fenced(image: MetadataImage, node_id: int) -> MetadataImage:
    records = elections.broker_fenced(image, node_id, SETTINGS)
    state = BrokerStateRecord(node_id, 100 + node_id, True, False)
    return applied(image, [state, *records])


def unfenced(image: MetadataImage, node_id: int) -> MetadataImage:
    records = elections.broker_unfenced(image, node_id, SETTINGS)
    state = BrokerStateRecord(node_id, 100 + node_id, False, False)
    return applied(image, [state, *records])


def shutting_down(image: MetadataImage, node_id: int) -> MetadataImage:
    records = elections.broker_shutting_down(image, node_id, SETTINGS)
    state = BrokerStateRecord(node_id, 100 + node_id, False, True)
    return applied(image, [state, *records])


def assert_state(
    state: PartitionImage, leader: int, isr: set[int], leader_epoch: int, partition_epoch: int
) -> None:
    assert (state.leader, set(state.isr)) == (leader, isr)
    assert (state.leader_epoch, state.partition_epoch) == (leader_epoch, partition_epoch)


def test_the_first_live_replica_in_assignment_order_that_is_in_sync_takes_over() -> None:
    """LEAD-1: the order of the ISR list is irrelevant; LEAD-6: both epochs rise by one."""
    image = with_topic(cluster([0, 1, 2, 3]), partition([3, 2, 1, 0], [0, 1, 2, 3], leader=3))
    assert_state(state_of(fenced(image, 3)), 2, {0, 1, 2}, 6, 10)


def test_a_replica_whose_disk_fills_up_is_elected_last() -> None:
    """VOL-4: it would refuse producers; but it is better than nobody."""
    replicas = [0, 1, 2]
    directories = [directory(node) for node in replicas]
    image = with_topic(cluster(replicas), partition(replicas, directories=directories))
    for full, leader in (({1}, 2), ({1, 2}, 1), (set(), 1)):
        cordoned = [directory(node) for node in full]
        records = elections.broker_fenced(image, 0, SETTINGS, cordoned)
        assert [record.leader for record in records] == [leader]
        records = elections.broker_shutting_down(image, 0, SETTINGS, cordoned)
        assert [record.leader for record in records] == [leader]
        records = elections.directory_offline(image, 0, [directory(0)], SETTINGS, cordoned)
        assert [record.leader for record in records] == [leader]


def test_an_election_without_a_clean_replica_looks_at_records_first_and_then_at_room() -> None:
    """VOL-4: unclean elections, by themselves and on demand."""
    replicas = [0, 1, 2]
    directories = [directory(node) for node in replicas]
    state = partition(replicas, [0], leader=NO_LEADER, directories=directories)
    image = with_topic(cluster([1, 2], fenced=[0]), state)
    name = next(iter(image.topics.by_name))
    image = applied(image, [ConfigRecord(RESOURCE_TOPIC, name, UNCLEAN, "true")])
    for full, leader in (({1}, 2), ({1, 2}, 1), ({2}, 1)):
        cordoned = [directory(node) for node in full]
        (record,), _ = elections.elect_offline(image, SETTINGS, cordoned=cordoned)
        assert record.leader == leader
        (record,), _ = leader_balance.elect_leaders(image, 1, [(name, 0)], cordoned=cordoned)
        assert record.leader == leader
    # Broker 1 was the last with all records.
    image = with_topic(cluster([1, 2], fenced=[0]), replace(state, isr=(), last_known_elr=(1,)))
    minimum = ConfigRecord(RESOURCE_BROKER, "", "min.insync.replicas", "2")
    image = applied(image, [FeatureRecord("barnabas.version", 2), minimum])
    cordoned = [directory(1)]
    (record,), _ = leader_balance.elect_leaders(image, 1, [(name, 0)], cordoned=cordoned)
    assert record.leader == 1


def test_a_replica_out_of_sync_is_passed_over() -> None:
    """LEAD-1: alive *and* in the ISR."""
    image = with_topic(cluster([0, 1, 2]), partition([0, 1, 2], [0, 2]))
    assert_state(state_of(fenced(image, 0)), 2, {2}, 6, 10)


def test_a_fenced_follower_leaves_the_isr_and_the_leader_stays_in_its_epoch() -> None:
    """REG-5, LEAD-6: no needless moves; only the partition epoch rises."""
    image = with_topic(cluster([0, 1, 2]), partition([0, 1, 2]))
    assert_state(state_of(fenced(image, 1)), 0, {0, 2}, 5, 10)


def test_a_broker_that_holds_nothing_changes_nothing() -> None:
    """LEAD-6: what does not change gets no record."""
    image = with_topic(cluster([0, 1, 2, 3]), partition([0, 1, 2]), partition([1, 2, 0], [1, 2]))
    assert elections.broker_fenced(image, 3, SETTINGS) == []
    assert [record.partition for record in elections.broker_fenced(image, 0, SETTINGS)] == [0]


def test_the_last_member_stays_in_the_isr_of_a_partition_without_leader() -> None:
    """LEAD-2: without unclean elections there is no leader, and the ISR is kept."""
    image = with_topic(cluster([0, 1, 2]), partition([0, 1, 2], [0]))
    assert_state(state_of(fenced(image, 0)), NO_LEADER, {0}, 6, 10)


def test_an_unclean_election_makes_the_first_live_replica_the_whole_isr() -> None:
    """LEAD-2: only where the topic allows it."""
    image = with_topic(cluster([0, 1, 2]), partition([0, 1, 2], [0]), unclean=True)
    assert_state(state_of(fenced(image, 0)), 1, {1}, 6, 10)


def test_an_unclean_election_is_not_held_while_a_member_of_the_isr_lives() -> None:
    """LEAD-2: it is the last resort."""
    image = with_topic(cluster([0, 1, 2]), partition([0, 1, 2], [0, 2]), unclean=True)
    assert_state(state_of(fenced(image, 0)), 2, {2}, 6, 10)


def test_an_unclean_election_prefers_replicas_that_were_not_just_added() -> None:
    """LEAD-2, LEAD-10: one that a reassignment has added may not have a single record."""
    image = with_topic(
        cluster([0, 1, 2, 3]),
        partition([3, 1, 0], [0], adding=[3], removing=[0]),
        unclean=True,
    )
    state = state_of(fenced(image, 0))
    assert (state.leader, state.isr) == (1, (1,))


def test_a_returning_broker_leads_what_nobody_leads_and_only_that() -> None:
    """REG-7: it must be in the ISR, and a valid leader is kept."""
    image = with_topic(
        cluster([1, 2], fenced=[0]),
        partition([0, 1, 2], [0], leader=NO_LEADER),
        partition([0, 1, 2], [1], leader=1),
        partition([0, 3], [3], leader=NO_LEADER),
    )
    after = unfenced(image, 0)
    assert_state(state_of(after, 0), 0, {0}, 6, 10)
    assert state_of(after, 1) == state_of(image, 1)
    assert state_of(after, 2) == state_of(image, 2)


def test_a_returning_broker_may_be_elected_uncleanly() -> None:
    """REG-7, LEAD-2."""
    image = with_topic(
        cluster([1], fenced=[0, 2]), partition([0, 2], [2], leader=NO_LEADER), unclean=True
    )
    assert_state(state_of(unfenced(image, 0)), 0, {0}, 6, 10)


def test_a_broker_that_shuts_down_gives_its_leadership_away_and_leaves_every_isr() -> None:
    """LEAD-5, STOP-3: also where it follows."""
    image = with_topic(cluster([0, 1, 2]), partition([0, 1, 2]), partition([1, 0, 2]))
    after = shutting_down(image, 0)
    assert_state(state_of(after, 0), 1, {1, 2}, 6, 10)
    assert_state(state_of(after, 1), 1, {1, 2}, 5, 10)


def test_leadership_never_goes_to_a_broker_that_shuts_down() -> None:
    """LEAD-5, STOP-6."""
    image = with_topic(cluster([0, 2], shutting_down=[1]), partition([0, 1, 2], [0, 1, 2]))
    assert state_of(shutting_down(image, 0)).leader == 2
    assert state_of(fenced(image, 0)).leader == 2


@pytest.mark.parametrize("unclean", [False, True])
def test_a_broker_that_shuts_down_goes_on_leading_what_nobody_can_take_over(unclean: bool) -> None:
    """STOP-3, STOP-6: it serves until it is fenced; and no records are lost for its sake."""
    image = with_topic(cluster([0, 1]), partition([0]), partition([0, 1], [0]), unclean=unclean)
    after = shutting_down(image, 0)
    assert state_of(after, 0) == state_of(image, 0)
    assert state_of(after, 1) == state_of(image, 1)
    assert elections.movable_leaderships(after, 0) == 0
    stopped = fenced(after, 0)
    assert_state(state_of(stopped, 0), NO_LEADER, {0}, 6, 10)
    assert state_of(stopped, 1).leader == (1 if unclean else NO_LEADER)


def test_leaderships_that_others_could_take_are_counted() -> None:
    """STOP-5: a drain waits for these and for nothing else."""
    image = with_topic(
        cluster([0, 1], fenced=[2], shutting_down=[3]),
        partition([0, 1]),
        partition([0, 1], [0]),
        partition([0, 3]),
        partition([1, 0]),
        partition([0]),
    )
    assert elections.movable_leaderships(image, 0) == 1


def test_a_failed_directory_is_as_bad_as_a_lost_broker_for_what_is_in_it() -> None:
    """KIP-858: and for nothing else."""
    image = applied(cluster([0, 1]), [registered(0, directories=2)])
    places = [[directory(0, number), directory(1)] for number in (0, 1)]
    image = with_topic(
        image,
        partition([0, 1], directories=places[0]),
        partition([0, 1], directories=places[1]),
        partition([1, 0], directories=places[1][::-1]),
        partition([0, 1]),
    )
    records = elections.directory_offline(image, 0, [directory(0, 1)], SETTINGS)
    after = applied(image, records)
    assert [record.partition for record in records] == [1, 2]
    assert_state(state_of(after, 1), 1, {1}, 6, 10)
    assert_state(state_of(after, 2), 1, {1}, 5, 10)


def test_a_replica_in_a_failed_directory_is_never_elected() -> None:
    """KIP-858: its broker lives, but the disk is gone."""
    lost = partition([0, 1], [0], leader=NO_LEADER, directories=[directory(0, 7), directory(1)])
    image = with_topic(cluster([1], fenced=[0]), lost)
    assert elections.broker_unfenced(image, 0, SETTINGS) == []
    found = partition([0, 1], [0], leader=NO_LEADER, directories=[directory(0), directory(1)])
    image = with_topic(cluster([1], fenced=[0]), found)
    assert len(elections.broker_unfenced(image, 0, SETTINGS)) == 1


def test_a_broker_without_known_directories_may_lead() -> None:
    """NODE-8: one that has registered none, or a replica that was not assigned yet."""
    image = with_topic(
        cluster([0, 1]),
        partition([0, 1], [1], leader=NO_LEADER, directories=[bytes(16), bytes(16)]),
    )
    assert state_of(unfenced(image, 1)).leader == 1


def test_an_unclean_restart_leaves_every_isr_that_has_another_member() -> None:
    """REG-8: the broker may have lost the end of its logs."""
    image = with_topic(cluster([0, 1]), partition([0, 1]), partition([1, 0]), partition([0]))
    after = applied(image, elections.unclean_restart(image, 0, SETTINGS))
    assert_state(state_of(after, 0), 1, {1}, 6, 10)
    assert_state(state_of(after, 1), 1, {1}, 5, 10)
    assert_state(state_of(after, 2), NO_LEADER, {0}, 6, 10)


def test_an_unclean_restart_of_the_only_broker_leads_on_in_new_epochs() -> None:
    """REG-8: a cluster of one registers unfenced; there is nobody to wait for."""
    image = with_topic(
        cluster([0]), partition([0]), partition([0], leader=NO_LEADER), partition([0, 1], [0])
    )
    records = elections.unclean_restart(image, 0, SETTINGS, is_fenced=False)
    records += elections.broker_unfenced(image, 0, SETTINGS)
    after = applied(image, records)
    assert len(records) == 3
    for index in range(3):
        assert_state(state_of(after, index), 0, {0}, 6, 10)


def test_unclean_elections_that_are_allowed_later_are_found() -> None:
    """LEAD-9: for partitions that have no leader already, and for nobody else."""
    lost = partition([0, 1], [0], leader=NO_LEADER)
    image = with_topic(cluster([1], fenced=[0]), lost, name="kept")
    image = with_topic(image, lost, partition([1, 0], [1]), unclean=True)
    records, more = elections.elect_offline(image, SETTINGS)
    after = applied(image, records)
    assert not more
    assert state_of(after, 0, "kept") == lost
    assert_state(state_of(after, 0), 1, {1}, 6, 10)
    assert state_of(after, 1) == state_of(image, 1)


def test_elections_of_leaderless_partitions_are_made_in_parts() -> None:
    """CTL-8: expensive events are split."""
    image = with_topic(cluster([0]), *[partition([0], leader=NO_LEADER)] * 5)
    rounds = []
    more = True
    while more:
        records, more = elections.elect_offline(image, SETTINGS, elections_max=2)
        rounds.append(len(records))
        image = applied(image, records)
    assert rounds == [2, 2, 1]


def test_the_directories_and_the_reassignment_of_a_partition_outlive_elections() -> None:
    """LEAD-10, NODE-8: a record replaces the whole partition."""
    places = [directory(node) for node in (1, 2, 0)]
    image = with_topic(
        cluster([0, 1, 2]),
        partition([1, 2, 0], [0, 2], 0, adding=[1], removing=[0], directories=places),
    )
    state = state_of(fenced(image, 0))
    assert (state.leader, state.isr) == (2, (2,))
    assert (state.adding_replicas, state.removing_replicas) == ((1,), (0,))
    assert state.directories == tuple(places)
