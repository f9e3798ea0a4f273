"""Eligible leader replicas: what turns them on, and what keeps `min.insync.replicas` one value."""

from dataclasses import replace

import pytest

from barnabas_broker.controller import (
    brokers,
    configs,
    directories,
    elections,
    features,
    leader_balance,
    reassignment,
)
from barnabas_broker.controller.configs import ConfigChange, Operation, ResourceChange
from barnabas_broker.controller.features import FeatureChange, FeatureRange, UpgradeType
from barnabas_broker.controller.leader_balance import ElectionType
from barnabas_broker.metadata.image import (
    NO_LEADER,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
)
from barnabas_broker.metadata.record_codec import decode, encode
from barnabas_broker.metadata.records import (
    ConfigRecord,
    FeatureRecord,
    PartitionRecord,
    SupportedFeature,
)
from barnabas_protocol.errors import ErrorCode
from tests.support.partition_images import (
    SETTINGS,
    applied,
    cluster,
    directory,
    partition,
    record_of,
    state_of,
    with_topic,
)

KEY = "min.insync.replicas"
ABLE = {"barnabas.version": FeatureRange(1, 2)}
UP = FeatureChange(name="barnabas.version", level=2)
DOWN = replace(UP, level=1, upgrade_type=UpgradeType.SAFE_DOWNGRADE)


def newer(image: MetadataImage, maximum: int = 2) -> MetadataImage:
    """The image with brokers of this release."""
    able = (SupportedFeature("barnabas.version", 1, maximum),)
    changed = {node: replace(one, features=able) for node, one in image.brokers.items()}
    return replace(image, brokers=changed)


def raised(image: MetadataImage, min_in_sync: str = "2") -> MetadataImage:
    """The image at level 2."""
    records, _ = features.update(newer(image), [UP], ABLE, min_in_sync=min_in_sync)
    return applied(newer(image), records)


def of_three(isr: list[int], eligible: tuple[int, ...] = (), leader: int = 0) -> PartitionImage:
    return replace(partition([0, 1, 2], isr, leader), eligible_leader_replicas=eligible)


def changed(
    image: MetadataImage, resource_type: int, name: str, value: str | None
) -> tuple[MetadataImage, list[object], ErrorCode]:
    """The image after a change of `min.insync.replicas`, its records, and the error."""
    operation = Operation.DELETE if value is None else Operation.SET
    asked = ResourceChange(
        resource_type=resource_type,
        resource_name=name,
        changes=[ConfigChange(KEY, operation, value)],
    )
    records, (result,) = configs.alter_configs(
        image, [asked], broker_values={}, is_incremental=True
    )
    code = ErrorCode.NONE if result.error is None else result.error.code
    return applied(image, records), list(records), code


def test_a_new_cluster_begins_at_the_highest_level_that_its_first_broker_knows() -> None:
    """CTL-15: with the controller's own `min.insync.replicas`, said before the level."""
    records = features.founding(cluster([]), ABLE, "3")
    assert records == [
        ConfigRecord(RESOURCE_BROKER, "", KEY, "3"),
        FeatureRecord("barnabas.version", 2),
    ]
    assert features.founding(cluster([]), {"barnabas.version": FeatureRange(1, 1)}, "3") == []
    assert features.founding(cluster([0]), ABLE, "3") == []
    assert features.founding(with_topic(cluster([]), partition([0])), ABLE, "3") == []


def test_the_level_is_raised_once_all_brokers_know_it() -> None:
    """KIP-584: a broker of the older release would ignore what it cannot read."""
    mixed = newer(cluster([0, 1]))
    old = (SupportedFeature("barnabas.version", 1, 1),)
    known = {**mixed.brokers, 1: replace(mixed.brokers[1], features=old)}
    with pytest.raises(Exception, match="Broker 1 only supports versions 1-1"):
        features.update(replace(mixed, brokers=known), [UP], ABLE)
    records, _ = features.update(mixed, [UP], ABLE, min_in_sync="2")
    assert [type(record) for record in records] == [ConfigRecord, FeatureRecord]


def test_raising_the_level_makes_one_value_of_several() -> None:
    """KIP-966: what was set for the cluster stays, what single brokers had goes."""
    image = applied(
        cluster([0, 1]),
        [
            ConfigRecord(RESOURCE_BROKER, "", KEY, "3"),
            ConfigRecord(RESOURCE_BROKER, "1", KEY, "1"),
        ],
    )
    after = raised(image)
    assert after.configs == {(RESOURCE_BROKER, ""): {KEY: "3"}}


def test_the_level_is_lowered_only_while_every_isr_has_a_member() -> None:
    """Older releases need one; and nobody is eligible any more."""
    image = raised(with_topic(cluster([0, 1, 2]), of_three([0], (1,))))
    image = applied(image, [record_of(0, of_three([0], (1,)))])
    records, _ = features.update(image, [DOWN], ABLE)
    assert state_of(applied(image, records)).eligible_leader_replicas == ()
    empty = applied(image, [record_of(0, of_three([], (0, 1), NO_LEADER))])
    with pytest.raises(Exception, match="t-0 has no replica in sync"):
        features.update(empty, [DOWN], ABLE)


def test_who_leaves_a_small_isr_stays_eligible_and_an_unclean_one_does_not() -> None:
    """LEAD-7: the first leaves an ISR that is large enough without it."""
    image = raised(with_topic(cluster([0, 1, 2]), of_three([0, 1, 2])))
    image = applied(image, brokers.fence(image, 2, SETTINGS))
    assert state_of(image) == replace(
        of_three([0, 1]), partition_epoch=10, eligible_leader_replicas=()
    )
    image = applied(image, brokers.fence(image, 1, SETTINGS))
    assert (state_of(image).isr, state_of(image).eligible_leader_replicas) == ((0,), (1,))
    image = applied(image, brokers.fence(image, 0, SETTINGS))
    state = state_of(image)
    assert (state.leader, state.isr, state.eligible_leader_replicas) == (NO_LEADER, (), (0, 1))
    image = applied(image, elections.unclean_restart(image, 0, SETTINGS))
    state = state_of(image)
    assert (state.eligible_leader_replicas, state.last_known_elr) == ((1,), (0,))
    image = applied(image, brokers.unfence(image, 0, SETTINGS))
    assert state_of(image).leader == NO_LEADER
    image = applied(image, brokers.unfence(image, 1, SETTINGS))
    assert (state_of(image).leader, state_of(image).isr) == (1, (1,))


def test_an_unregistered_broker_is_not_eligible() -> None:
    """How its next life begins nobody could tell."""
    image = raised(with_topic(cluster([0, 1, 2]), partition([0, 1, 2])))
    image = applied(image, [record_of(0, of_three([0], (1,)))])
    image = applied(image, brokers.unregister(image, 1, SETTINGS)[0])
    assert state_of(image).eligible_leader_replicas == ()
    assert state_of(image).last_known_elr == (1,)


def test_a_smaller_minimum_ends_eligibility_before_it_is_in_force() -> None:
    """The leader raises its high watermark as soon as it knows the new value."""
    image = raised(with_topic(cluster([0, 1, 2]), partition([0, 1, 2])))
    image = applied(image, [record_of(0, of_three([0], (1,)))])
    after, records, _ = changed(image, RESOURCE_TOPIC, "t", "1")
    assert [type(record) for record in records] == [PartitionRecord, ConfigRecord]
    assert state_of(after).eligible_leader_replicas == ()
    after, _, _ = changed(image, RESOURCE_BROKER, "", "1")
    assert state_of(after).eligible_leader_replicas == ()
    after, records, _ = changed(image, RESOURCE_TOPIC, "t", "3")
    assert state_of(after).eligible_leader_replicas == (1,)
    assert len(records) == 1


def test_brokers_cannot_be_made_to_disagree() -> None:
    """KIP-966: the value is the cluster's; the texts are Kafka's."""
    image = raised(cluster([0, 1]))
    assert changed(image, RESOURCE_BROKER, "1", "1")[2] is ErrorCode.INVALID_CONFIG
    assert changed(image, RESOURCE_BROKER, "", None)[2] is ErrorCode.INVALID_CONFIG
    assert changed(image, RESOURCE_BROKER, "", "1")[2] is ErrorCode.NONE
    assert changed(cluster([0, 1]), RESOURCE_BROKER, "1", "1")[2] is ErrorCode.NONE


def test_a_replica_in_a_new_directory_is_another_replica() -> None:
    """KIP-858: it begins empty, and nobody takes it for the one that was eligible."""
    places = [directory(0), b"a directory gone", directory(2)]
    state = replace(of_three([0], (1,)), directories=tuple(places))
    image = raised(with_topic(cluster([0, 1, 2]), partition([0, 1, 2])))
    image = applied(image, [record_of(0, state)])
    codes = {(image.topics.by_name["t"].topic_id, 0): directory(1)}
    records, _ = directories.assign_replicas(image, 1, 101, codes)
    after = state_of(applied(image, records))
    assert after.directories[1] == directory(1)
    assert (after.eligible_leader_replicas, after.last_known_elr) == ((), ())


def test_a_replica_that_was_damaged_leaves_isr_and_elr() -> None:
    """Proof of loss is told before the broker serves."""
    image = raised(with_topic(cluster([0, 2], fenced=[1]), partition([0, 1, 2])))
    image = applied(image, [record_of(0, of_three([0], (1, 2)))])
    place = (image.topics.by_name["t"].topic_id, 0)
    records, _ = elections.lost_replicas(image, 1, [place], SETTINGS)
    assert state_of(applied(image, records)).eligible_leader_replicas == (2,)
    assert elections.lost_replicas(image, 1, [(place[0], 1)], SETTINGS) == ([], None)


def test_the_only_replica_leads_again_after_its_machine_went_down() -> None:
    """LEAD-7: there is nobody to compare it with."""
    image = raised(with_topic(cluster([0]), partition([0])))
    image = applied(image, elections.unclean_restart(image, 0, SETTINGS))
    state = state_of(image)
    assert (state.leader, state.isr, state.last_known_elr) == (NO_LEADER, (), (0,))
    image = applied(image, elections.broker_unfenced(image, 0, SETTINGS))
    assert (state_of(image).leader, state_of(image).last_known_elr) == (0, ())


def test_an_unclean_election_prefers_who_had_everything_once() -> None:
    """LEAD-2: where nobody says how far its log reaches; a new replica may be empty."""
    lost = replace(of_three([], (), NO_LEADER), last_known_elr=(2,))
    image = raised(with_topic(cluster([0, 1, 2]), partition([0, 1, 2])))
    image = applied(image, [record_of(0, lost)])
    records, _ = leader_balance.elect_leaders(image, ElectionType.UNCLEAN, [("t", 0)])
    assert state_of(applied(image, records)).leader == 2
    best = {(image.topics.by_name["t"].topic_id, 0): [1, 2]}
    records, _ = leader_balance.elect_leaders(image, ElectionType.UNCLEAN, [("t", 0)], best)
    assert state_of(applied(image, records)).leader == 1


@pytest.mark.parametrize("level", [1, 2])
def test_an_older_reader_is_given_the_version_that_it_knows(level: int) -> None:
    """Version 2 of a partition's record is written only where it has something to say."""
    state = of_three([0], (1,) if level == 2 else ())
    record = record_of(0, replace(state, last_known_elr=(2,) if level == 2 else ()))
    data = encode(record)
    assert data[:2] == bytes([PartitionRecord.type_number, level])
    assert decode(data) == record


@pytest.mark.parametrize(("live", "leader", "isr"), [((0, 1, 3), 1, (1,)), ((3,), NO_LEADER, ())])
def test_an_unclean_cancellation_prefers_whoever_was_in_sync_last(
    live: tuple[int, ...], leader: int, isr: tuple[int, ...]
) -> None:
    """LEAD-10, LEAD-7: the first replica is taken for in sync only where an ISR cannot be empty."""
    moving = partition([3, 0, 1], [3], 3, adding=[3], removing=[0, 1])
    moving = replace(moving, last_known_elr=(1,))
    fenced = {0, 1, 3}.difference(live)
    image = raised(with_topic(cluster(live, fenced=fenced), moving, unclean=True))
    cancelled = [reassignment.Reassigned("t", 0, None)]
    records, (result,) = reassignment.alter(image, cancelled, SETTINGS)
    assert result.error is None
    state = state_of(applied(image, records))
    assert (state.replicas, state.leader, state.isr) == ((0, 1), leader, isr)
    assert state.last_known_elr == ((1,) if leader == NO_LEADER else ())
