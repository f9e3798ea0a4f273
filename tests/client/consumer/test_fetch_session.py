"""The client's end of fetch sessions against a model of the broker's end."""

import hypothesis.strategies as st
from hypothesis import given

from barnabas_client.consumer.fetch_session import FetchLimits, FetchSession, PartitionFetch
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.client.consumer.model_log import ModelSessions, topic_id_of

LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=1000, isolation_level=0, rack_id="")
PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(3)]

wishes = st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 3), max_size=6)
steps = st.lists(
    st.tuples(
        wishes,
        st.sampled_from(["answered", "answered", "answered", "lost", "forgotten", "throttled"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def wanted(wish: dict[TopicPartition, int], has_ids: bool) -> dict[TopicPartition, PartitionFetch]:
    return {
        partition: PartitionFetch(
            topic_id_of(partition.topic) if has_ids else ZERO_UUID, offset, 0, -1, 100
        )
        for partition, offset in wish.items()
    }


def respond(
    request: FetchRequest, version: int, broker: ModelSessions
) -> tuple[FetchResponse, dict]:  # type: ignore[type-arg]
    """The broker's answer, which names every partition it reads, and what it reads."""
    error, session_id, offsets = broker.resolve(request, version)
    topics = [
        FetchableTopicResponse(
            topic=key if version < 13 else "",
            topic_id=ZERO_UUID if version < 13 else key,
            partitions=[PartitionData(partition_index=number)],
        )
        for key, number in offsets or ()
    ]
    answer = FetchResponse(error_code=error, session_id=session_id, responses=topics)
    return answer, dict(offsets or {})


@given(steps=steps, version=st.sampled_from([4, 7, 12, 13, 17]))
def test_the_broker_always_reads_what_was_asked_for(
    steps: list[tuple[dict[TopicPartition, int], str, bool]], version: int
) -> None:
    """KIP-227: whatever is added, moved, forgotten or lost on the way, both ends agree.

    Topics without ids (KIP-516) come and go: that must never mix names and ids in one session.
    """
    session, broker = FetchSession(), ModelSessions()
    for wish, fate, has_ids in steps:
        request, used = session.build(wanted(wish, has_ids), version, LIMITS)
        assert used <= (version if has_ids or not wish else min(version, 12))
        if fate == "lost":
            session.fail()
            continue
        if fate == "forgotten":
            broker.sessions.clear()
        answer, read = respond(request, used, broker)
        if fate == "throttled" and not answer.error_code:
            answer.responses = []
        answers = session.accept(answer)
        if answer.error_code:
            assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            assert answers is None
            continue
        expected = {
            (p.topic if used < 13 else topic_id_of(p.topic), p.partition): offset
            for p, offset in wish.items()
        }
        assert read == expected
        if fate != "throttled":
            assert answers is not None
            assert {partition for partition, _ in answers} == wish.keys()


def test_an_answer_with_a_stranger_is_refused() -> None:
    """KIP-227: the broker has another idea of the session, so the next request is full again."""
    session = FetchSession()
    session.build(wanted({PARTITIONS[0]: 1}, True), 17, LIMITS)
    stranger = FetchableTopicResponse(
        topic_id=topic_id_of("z"), partitions=[PartitionData(partition_index=0)]
    )
    assert session.accept(FetchResponse(session_id=9, responses=[stranger])) is None
    request, _ = session.build(wanted({PARTITIONS[0]: 1}, True), 17, LIMITS)
    assert request.session_epoch == 0
    assert len(request.topics) == 1


def test_a_topic_made_anew_replaces_its_old_id() -> None:
    """KIP-516: the old id is forgotten in the same request that names the new one."""
    session, partition = FetchSession(), PARTITIONS[0]
    broker = ModelSessions()
    old = {partition: PartitionFetch(b"o" * 16, 5, 0, -1, 100)}
    request, version = session.build(old, 17, LIMITS)
    answer, _ = respond(request, version, broker)
    assert session.accept(answer) is not None
    new = {partition: PartitionFetch(b"n" * 16, 0, 0, -1, 100)}
    request, version = session.build(new, 17, LIMITS)
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [b"o" * 16]
    assert [topic.topic_id for topic in request.topics] == [b"n" * 16]
    assert respond(request, version, broker)[1] == {(b"n" * 16, 0): 0}


def test_only_a_session_that_exists_is_ended() -> None:
    """KIP-227: epoch -1 frees the broker's memory, once."""
    session = FetchSession()
    assert session.build_final() is None
    session.build({}, 17, LIMITS)
    session.accept(FetchResponse(session_id=7))
    request = session.build_final()
    assert request is not None
    assert (request.session_id, request.session_epoch) == (7, -1)
    assert session.build_final() is None
