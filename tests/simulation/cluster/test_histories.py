"""The checkers themselves, on hand-made histories: each kind of contradiction must be found."""

from dataclasses import replace

import pytest

from barnabas_broker.metadata.image import (
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_protocol.records.record import Record
from tests.simulation.cluster.client import RetryError, checked
from tests.simulation.cluster.history import Commit, History, HistoryError
from tests.simulation.cluster.invariants import InvariantError, PromisesAreKept, check_image

SOUND = PartitionImage(replicas=(0, 1, 2), isr=(0, 1), leader=1, leader_epoch=3, partition_epoch=5)


def image(partition: PartitionImage) -> MetadataImage:
    topic = TopicImage("t", b"id", (partition,))
    brokers = {
        node_id: BrokerImage(node_id, 1, b"", {}, None, (), fenced=node_id == 0)
        for node_id in range(3)
    }
    topics = TopicsImage({"t": topic}, {b"id": topic})
    return replace(MetadataImage.empty(), topics=topics, brokers=brokers)


def test_a_sound_image_is_sound() -> None:
    """REP-19."""
    check_image(image(SOUND))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"isr": (0, 1, 3)}, "beyond"),
        ({"isr": ()}, "empty"),
        ({"leader": 2}, "outside"),
        ({"leader": 0}, "fenced"),
        ({"replicas": (0, 1, 1)}, "twice"),
    ],
)
def test_what_an_image_must_not_say_is_found(change: dict[str, object], reason: str) -> None:
    """REP-19: the ISR is within the replicas, the leader in the ISR; REG-5: none is fenced."""
    with pytest.raises(InvariantError, match=reason):
        check_image(image(replace(SOUND, **change)))  # type: ignore[arg-type]


def records(*values: bytes, first: int = 0) -> list[Record]:
    return [Record(offset, 0, None, value, ()) for offset, value in enumerate(values, first)]


def test_two_readers_must_see_the_same_at_an_offset() -> None:
    """REP-5: what a consumer has seen is committed, and so the same for all and for ever."""
    history = History()
    history.saw("t", 0, records(b"1", b"2"))
    history.saw("t", 0, records(b"2", b"3", first=1))
    with pytest.raises(HistoryError, match="it had"):
        history.saw("t", 0, records(b"4", first=2))
    history.check_seen("t", 0, records(b"1", b"2", b"3"))
    with pytest.raises(HistoryError, match="a reader saw"):
        history.check_seen("t", 0, records(b"1", b"2"))


def test_a_committed_offset_is_the_acknowledged_one_or_one_still_on_its_way() -> None:
    """OFS-5: and what was never answered may take effect at any time."""
    commit = Commit()
    for offset in (1, 2, 3):
        commit.ask(offset)
    commit.acknowledge(2)
    commit.check(2, "it")
    commit.check(1, "it")
    commit.acknowledge(3)
    with pytest.raises(HistoryError):
        commit.check(2, "it")


def test_a_producer_id_is_given_out_once() -> None:
    """TXN-8: two producers of one id would take each other's records for their own."""
    history = History()
    history.new_producer(7)
    with pytest.raises(HistoryError, match="twice"):
        history.new_producer(7)


def test_only_errors_that_kafka_s_clients_retry_are_retried() -> None:
    """All others are told to the user, and so are found."""
    assert checked(0)
    assert not checked(45)  # OUT_OF_ORDER_SEQUENCE_NUMBER
    with pytest.raises(RetryError, match="NOT_LEADER"):
        checked(6)


def test_what_was_said_in_an_epoch_is_promised_for_ever() -> None:
    """Rule 2; a replaced disk is another member, which has promised nothing."""
    promises = PromisesAreKept()
    voter = Voter(1, b"disk")
    promises.said(voter, 5)
    promises.said(voter, 4)
    promises.began(voter, 5)
    promises.began(Voter(1, b"another disk"), 0)
    with pytest.raises(InvariantError, match="promised epoch 5"):
        promises.began(voter, 4)
