"""Merging Metadata answers: what is believed, what is kept, what is asked next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_client.cluster.metadata import Node
from barnabas_client.cluster.metadata_cache import MetadataCache
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID_A, ID_B = bytes([1] * 16), bytes([2] * 16)


def topic(
    name: str, *epochs: int, topic_id: bytes = ID_A, leader: int = 1, code: int = 0
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=name,
        topic_id=topic_id,
        error_code=code,
        partitions=[
            MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
            for index, epoch in reversed(list(enumerate(epochs)))
        ],
    )


def answer(*topics: MetadataResponseTopic) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=1, host="one", port=9092)]
    return MetadataResponse(brokers=brokers, topics=list(topics), controller_id=1)


def merge(cache: MetadataCache, *topics: MetadataResponseTopic, full: bool = True) -> None:
    cache.merge(cache.request(full=full, allow_auto_create=True), answer(*topics))


def epochs(cache: MetadataCache, name: str) -> list[int]:
    return [part.leader_epoch for part in cache.cluster.topics[name].partitions.values()]


def test_a_picture_holds_what_the_answer_says() -> None:
    """Partitions are in rising order, whatever the order on the wire."""
    cache = MetadataCache()
    cache.want(["t"])
    merge(cache, topic("t", 3, 4, 5))
    cluster = cache.cluster
    assert cluster.version == 1
    assert list(cluster.topics["t"].partitions) == [0, 1, 2]
    assert cluster.topic_names == {ID_A: "t"}
    assert cluster.leader("t", 1) == Node(node_id=1, host="one", port=9092)
    assert cluster.partition_count("t") == 3
    assert cluster.partition_count("u") is None
    assert not cache.is_incomplete


def test_an_older_leader_epoch_never_wins() -> None:
    """KIP-320: a broker that lags behind must not lead us back to the old leader."""
    cache = MetadataCache()
    cache.want(["t"])
    merge(cache, topic("t", 5, 5, leader=1))
    merge(cache, topic("t", 4, 6, leader=2))
    assert epochs(cache, "t") == [5, 6]
    parts = cache.cluster.topics["t"].partitions
    assert [part.leader_id for part in parts.values()] == [1, 2]


@given(st.lists(st.integers(0, 9), min_size=1))
def test_leader_epochs_never_go_back(seen: list[int]) -> None:
    """CLI-7, for any order of answers."""
    cache = MetadataCache()
    cache.want(["t"])
    highest = -1
    for epoch in seen:
        merge(cache, topic("t", epoch))
        highest = max(highest, epoch)
        assert epochs(cache, "t") == [highest]


def test_a_topic_that_was_made_anew_is_believed() -> None:
    """KIP-516: another id is another topic, whose epochs begin at zero."""
    cache = MetadataCache()
    cache.want(["t"])
    merge(cache, topic("t", 5))
    merge(cache, topic("t", 0, topic_id=ID_B))
    assert epochs(cache, "t") == [0]
    assert cache.cluster.topic_names == {ID_B: "t"}


def test_a_former_id_that_is_answered_again_and_again_is_the_newest() -> None:
    """What seemed to replace it was of a former life, told by a broker that lags."""
    cache = MetadataCache()
    cache.want(["t"])
    merge(cache, topic("t", 5))
    merge(cache, topic("t", 0, topic_id=ID_B))
    for _ in range(2):
        merge(cache, topic("t", 5))
        assert cache.cluster.topic_names == {ID_B: "t"}
        assert cache.is_incomplete
    merge(cache, topic("t", 5))
    assert cache.cluster.topic_names == {ID_A: "t"}
    merge(cache, topic("t", 0, topic_id=ID_B))
    assert cache.cluster.topic_names == {ID_A: "t"}
    merge(cache, topic("t", 5))
    for _ in range(2):
        merge(cache, topic("t", 0, topic_id=ID_B))
        assert cache.cluster.topic_names == {ID_A: "t"}


def test_an_answer_without_ids_or_epochs_is_no_other_topic() -> None:
    """Brokers before Metadata 10 tell no ids, before 7 no epochs."""
    cache = MetadataCache()
    cache.want(["t"])
    merge(cache, topic("t", 5))
    merge(cache, topic("t", 4, topic_id=ZERO_UUID))
    assert epochs(cache, "t") == [5]
    merge(cache, topic("t", -1, topic_id=ZERO_UUID, leader=2))
    assert cache.cluster.topics["t"].partitions[0].leader_id == 2


def test_after_beginning_anew_everything_is_believed() -> None:
    """KIP-899: the bootstrap servers may lead to the cluster's next life."""
    cache = MetadataCache()
    cache.want(["t"])
    merge(cache, topic("t", 5))
    cache.start_again()
    merge(cache, topic("t", 1))
    assert epochs(cache, "t") == [1]


def test_only_new_topics_are_asked_for_and_the_others_stay() -> None:
    """A producer that writes to its thousandth topic does not ask for all of them."""
    cache = MetadataCache()
    assert cache.want(["a"])
    merge(cache, topic("a", 1))
    assert cache.want(["a", "b"])
    assert not cache.want(["b"])
    assert cache.has_missing
    request = cache.request(full=False, allow_auto_create=False)
    assert [row.name for row in request.topics or []] == ["b"]
    assert not request.allow_auto_topic_creation
    assert not cache.has_missing
    cache.failed(request)
    assert cache.has_missing
    cache.merge(cache.request(full=False, allow_auto_create=True), answer(topic("b", 1)))
    assert set(cache.cluster.topics) == {"a", "b"}
    full = cache.request(full=True, allow_auto_create=True)
    assert [row.name for row in full.topics or []] == ["a", "b"]


def test_topics_that_are_no_longer_wanted_leave_the_picture() -> None:
    """Otherwise the picture of a consumer with a pattern would only ever grow."""
    cache = MetadataCache()
    cache.want(["a", "b"])
    merge(cache, topic("a", 1), topic("b", 1, topic_id=ID_B))
    assert not cache.set_wanted(["b"])
    merge(cache, topic("b", 1, topic_id=ID_B))
    assert set(cache.cluster.topics) == {"b"}


def test_all_topics_are_asked_for_without_names_and_never_created() -> None:
    """Null means all; a pattern must not create what it might match."""
    cache = MetadataCache()
    assert cache.set_wants_all(True)
    assert not cache.set_wants_all(True)
    request = cache.request(full=True, allow_auto_create=True)
    assert request.topics is None
    assert not request.allow_auto_topic_creation
    cache.merge(request, answer(topic("a", 1), topic("b", 1, topic_id=ID_B)))
    assert set(cache.cluster.topics) == {"a", "b"}


@pytest.mark.parametrize(
    ("told", "incomplete"),
    [
        (topic("t", 1), False),
        (topic("t", 1, leader=-1), True),
        (topic("t", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), True),
        (topic("t", code=ErrorCode.LEADER_NOT_AVAILABLE), True),
        (topic("t", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), False),
        (topic("t", code=ErrorCode.INVALID_TOPIC_EXCEPTION), False),
        (topic("t", code=9999), False),
    ],
)
def test_what_may_get_better_is_asked_for_again(
    told: MetadataResponseTopic, incomplete: bool
) -> None:
    """Missing leaders and topics may appear; refusals stay."""
    cache = MetadataCache()
    cache.want(["t"])
    merge(cache, told)
    assert cache.is_incomplete is incomplete


def test_a_leader_hint_counts_only_if_it_is_newer_and_has_an_address() -> None:
    """KIP-951."""
    cache = MetadataCache()
    cache.want(["t"])
    merge(cache, topic("t", 5))
    two = Node(node_id=2, host="two", port=9092)
    assert not cache.apply_leader_hint("t", 0, 2, 6)
    assert not cache.apply_leader_hint("t", 0, 2, 5, [two])
    assert not cache.apply_leader_hint("t", 9, 2, 6, [two])
    assert not cache.apply_leader_hint("u", 0, 2, 6, [two])
    assert not cache.apply_leader_hint("t", 0, -1, 6, [two])
    assert cache.cluster.version == 1
    assert cache.apply_leader_hint("t", 0, 2, 6, [two])
    assert cache.cluster.version == 2
    assert cache.cluster.leader("t", 0) == two
    merge(cache, topic("t", 5, leader=1))
    assert epochs(cache, "t") == [6]
