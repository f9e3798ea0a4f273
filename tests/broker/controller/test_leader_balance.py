"""Preferred leaders restored, and elections on demand: who is elected, who hears which error."""

import pytest

from barnabas_broker.controller.leader_balance import (
    ElectionType,
    elect_leaders,
    imbalanced_count,
    plan,
)
from barnabas_broker.controller.reassignment import TOO_MANY_CHANGES
from barnabas_broker.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.support.partition_images import applied, cluster, partition, state_of, with_topic

BALANCED = partition([0, 1, 2])
AWAY = partition([0, 1, 2], leader=1)
PREFERRED_NOT_IN_SYNC = partition([0, 1, 2], [1, 2], leader=1)
LEADERLESS = partition([3, 4], [3], leader=NO_LEADER)


def elected(
    image: MetadataImage, kind: int, *asked: int
) -> tuple[list[PartitionImage], list[ErrorCode]]:
    records, results = elect_leaders(image, kind, [("t", index) for index in asked])
    after = applied(image, records)
    assert [(result.topic, result.partition) for result in results] == [("t", i) for i in asked]
    return [state_of(after, index) for index in asked], [
        ErrorCode.NONE if result.error is None else result.error.code for result in results
    ]


def test_preferred_replicas_lead_again_where_they_can() -> None:
    """LEAD-8, LEAD-4: without a threshold, but only a replica that is alive and in sync."""
    image = with_topic(cluster([0, 1, 2, 4]), BALANCED, AWAY, PREFERRED_NOT_IN_SYNC, LEADERLESS)
    assert imbalanced_count(image) == 3
    records, more = plan(image)
    after = applied(image, records)
    assert not more
    assert [record.partition for record in records] == [1]
    assert (state_of(after, 1).leader, state_of(after, 1).isr) == (0, (0, 1, 2))
    assert (state_of(after, 1).leader_epoch, state_of(after, 1).partition_epoch) == (6, 10)
    assert plan(after) == ([], False)


def test_a_preferred_replica_on_a_leaving_broker_gets_nothing_back() -> None:
    """STOP-6."""
    image = with_topic(cluster([1, 2], shutting_down=[0]), AWAY)
    assert plan(image) == ([], False)


def test_balancing_is_done_in_parts() -> None:
    """CTL-8, LEAD-8: a pass makes a bounded number of elections, and says whether to go on."""
    image = with_topic(cluster([0, 1, 2]), *[AWAY, BALANCED] * 5)
    rounds = []
    more = True
    while more:
        records, more = plan(image, elections_max=2)
        rounds.append(len(records))
        image = applied(image, records)
    assert rounds == [2, 2, 1]
    assert imbalanced_count(image) == 0


def test_a_preferred_election_says_why_it_was_not_held() -> None:
    """LEAD-4: 80 if the replica cannot lead, 84 if it does already."""
    image = with_topic(cluster([0, 1, 2]), BALANCED, AWAY, PREFERRED_NOT_IN_SYNC)
    states, errors = elected(image, ElectionType.PREFERRED, 0, 1, 2)
    assert errors == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.NONE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ]
    assert [state.leader for state in states] == [0, 0, 1]


def test_an_unclean_election_needs_no_permission_of_the_topic() -> None:
    """LEAD-2: an administrator asks for it when nothing else helps; a leader is never replaced."""
    image = with_topic(cluster([1, 4]), AWAY, LEADERLESS, partition([3, 2], [3], leader=NO_LEADER))
    states, errors = elected(image, ElectionType.UNCLEAN, 0, 1, 2)
    assert errors == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.NONE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ]
    assert (states[1].leader, states[1].isr, states[1].leader_epoch) == (4, (4,), 6)


def test_an_unclean_election_that_was_asked_for_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Records may be lost: whoever reads the log has to know of which partition."""
    image = with_topic(cluster([0, 1, 2, 4]), BALANCED, LEADERLESS)
    _, results = elect_leaders(image, ElectionType.UNCLEAN, [("t", 0), ("t", 1)])
    assert [result.error is None for result in results] == [False, True]
    assert [record.getMessage() for record in caplog.records] == [
        "t-1: broker 4 leads it by an unclean election that was asked for; records may be lost"
    ]


def test_refusals_have_kafkas_words() -> None:
    """LEAD-4: the tools print them."""
    image = with_topic(cluster([0, 1, 2]), BALANCED, PREFERRED_NOT_IN_SYNC)
    asked = [("u", 0), ("t", 2), ("t", -1), ("t", 0), ("t", 1)]
    _, results = elect_leaders(image, ElectionType.PREFERRED, asked)
    assert [result.error.message if result.error else None for result in results] == [
        "No such topic as u",
        "No such partition as t-2",
        "No such partition as t--1",
        "Leader election not needed for topic partition.",
        "The preferred leader was not available.",
    ]
    image = with_topic(cluster([]), LEADERLESS)
    _, (result,) = elect_leaders(image, ElectionType.UNCLEAN, [("t", 0)])
    assert result.error is not None
    assert result.error.message == "Eligible topic partition leaders are not available."


def test_all_partitions_are_meant_by_none_and_those_that_need_nothing_are_left_out() -> None:
    """KIP-460."""
    image = with_topic(cluster([0, 1, 2]), BALANCED, AWAY)
    image = with_topic(image, PREFERRED_NOT_IN_SYNC, name="u")
    records, results = elect_leaders(image, ElectionType.PREFERRED, None)
    assert [(result.topic, result.partition, result.error is None) for result in results] == [
        ("t", 1, True),
        ("u", 0, False),
    ]
    assert len(records) == 1


def test_a_partition_named_twice_is_elected_once() -> None:
    """LEAD-6: no needless moves."""
    image = with_topic(cluster([0, 1, 2]), AWAY)
    states, errors = elected(image, ElectionType.PREFERRED, 0, 0)
    assert errors == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]
    assert states[0].leader_epoch == 6


def test_unknown_kinds_of_election_are_refused() -> None:
    """KIP-460: as a whole, in Kafka's words."""
    with pytest.raises(KafkaError) as raised:
        elect_leaders(cluster([0]), 7, None)
    assert raised.value.code == ErrorCode.INVALID_REQUEST
    assert raised.value.message == "Unknown election type 7"


def test_too_many_elections_at_once_are_refused_as_a_whole() -> None:
    """CTL-8: one request is one batch of the metadata log."""
    image = with_topic(cluster([0, 1, 2]), *[AWAY] * 10_001)
    with pytest.raises(KafkaError) as raised:
        elect_leaders(image, ElectionType.PREFERRED, None)
    assert raised.value.code == ErrorCode.POLICY_VIOLATION
    assert raised.value.message == TOO_MANY_CHANGES
