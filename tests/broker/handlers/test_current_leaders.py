"""Who leads instead, in the answers of Produce and Fetch (KIP-951)."""

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas_broker.handlers.current_leaders import CurrentLeaders
from barnabas_broker.handlers.fetch import encode_fetch_response
from barnabas_broker.handlers.produce import encode_produce_response
from barnabas_broker.metadata.image import BrokerImage, MetadataImage, PartitionImage
from barnabas_broker.metadata.records import ListenerAddress
from barnabas_broker.replication.leader.delayed_fetch import PartitionData
from barnabas_broker.replication.leader.delayed_produce import ProduceResult
from barnabas_broker.replication.leader.fetch_session import FetchPartition
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import fetch, produce
from tests.support.partition_images import TOPIC_ID, cluster, with_topic

LISTENER = "PLAINTEXT"
RACKS = {0: None, 1: "b"}


def image() -> MetadataImage:
    """Brokers 0 and 1, and 2 which is fenced; they lead one partition each, nobody the last."""

    def led(leader: int, leader_epoch: int) -> PartitionImage:
        return PartitionImage((0, 1, 2), (max(leader, 0),), leader, leader_epoch, 0)

    built = with_topic(cluster([0, 1], fenced=[2]), led(0, 4), led(1, 5), led(2, 6), led(-1, 7))
    brokers = {
        node_id: BrokerImage(
            node_id=node_id,
            epoch=broker.epoch,
            incarnation=broker.incarnation,
            listeners={
                LISTENER: ListenerAddress(LISTENER, f"host-{node_id}", 9092 + node_id, LISTENER)
            },
            rack=RACKS.get(node_id),
            directories=(),
            fenced=broker.fenced,
        )
        for node_id, broker in built.brokers.items()
    }
    return MetadataImage(
        topics=built.topics,
        configs={},
        brokers=brokers,
        cluster_id="",
        controller_id=0,
        next_producer_id=0,
        offset=0,
        epoch=0,
    )


def current_leaders(*partitions: int, topic: str = "t") -> CurrentLeaders:
    in_flight: Any = SimpleNamespace(session=SimpleNamespace(listener_name=LISTENER))
    return CurrentLeaders.find(
        image(), in_flight, [TopicPartition(topic, partition) for partition in partitions]
    )


def test_leaders_come_with_their_epochs_and_once_with_their_addresses() -> None:
    """KIP-951: a fenced broker has no address, a topic that is gone no leader."""
    found = current_leaders(0, 1, 1, 2, 3)
    assert [tuple(leader) for leader in found.leaders.values()] == [(0, 4), (1, 5), (2, 6), (-1, 7)]
    assert [tuple(endpoint) for endpoint in found.endpoints.values()] == [
        (0, "host-0", 9092, None),
        (1, "host-1", 9093, "b"),
    ]
    assert not current_leaders(0, topic="gone").leaders
    assert not current_leaders(9).leaders


@pytest.mark.parametrize("version", [16, 17])
def test_fetch_tells_who_leads(version: int) -> None:
    """KIP-951: with the address, as the generated writer writes it."""
    results = []
    for index, code in ((0, ErrorCode.NONE), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        request = FetchPartition(TopicPartition("t", index), TOPIC_ID, 0, 100)
        data = PartitionData(request, code)
        data.diverging = (3, 4)
        results.append(data)
    results[0].preferred_replica = 2
    parts = encode_fetch_response(version, 7, 0, 0, results, current_leaders(1))
    expected = fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic_id=TOPIC_ID,
                partitions=[
                    fetch.PartitionData(
                        partition_index=0,
                        high_watermark=-1,
                        aborted_transactions=None,
                        preferred_read_replica=2,
                        records=b"",
                        diverging_epoch=fetch.EpochEndOffset(epoch=3, end_offset=4),
                    ),
                    fetch.PartitionData(
                        partition_index=1,
                        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        high_watermark=-1,
                        aborted_transactions=None,
                        records=b"",
                        diverging_epoch=fetch.EpochEndOffset(epoch=3, end_offset=4),
                        current_leader=fetch.LeaderIdAndEpoch(leader_id=1, leader_epoch=5),
                    ),
                ],
            )
        ],
        node_endpoints=[fetch.NodeEndpoint(node_id=1, host="host-1", port=9093, rack="b")],
    )
    assert b"".join(bytes(part) for part in parts) == codec.encode_response(
        expected, ApiKey.FETCH, version, 7
    )


@pytest.mark.parametrize("version", [10, 12, 13])
def test_produce_tells_who_leads(version: int) -> None:
    """KIP-951: the client goes to the new leader without asking for metadata first."""
    error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "why")
    results = [ProduceResult(TopicPartition("t", index), None, None, error) for index in (0, 3)]
    asked = [
        produce.TopicProduceData(
            name="t",
            topic_id=TOPIC_ID,
            partition_data=[produce.PartitionProduceData(index=index) for index in (0, 3)],
        )
    ]
    data = encode_produce_response(version, 7, asked, results, current_leaders(0, 3))
    expected = produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name="t",
                topic_id=TOPIC_ID,
                partition_responses=[
                    produce.PartitionProduceResponse(
                        index=index,
                        error_code=error.code,
                        base_offset=-1,
                        error_message="why",
                        current_leader=produce.LeaderIdAndEpoch(
                            leader_id=leader, leader_epoch=leader_epoch
                        ),
                    )
                    for index, leader, leader_epoch in ((0, 0, 4), (3, -1, 7))
                ],
            )
        ],
        node_endpoints=[produce.NodeEndpoint(node_id=0, host="host-0", port=9092)],
    )
    assert bytes(data) == codec.encode_response(expected, ApiKey.PRODUCE, version, 7)
