"""The current leaders, for clients that sent Produce or Fetch to the wrong broker (KIP-951).

The leaders of the partitions concerned, and once each the addresses of these brokers.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.primitives import append_count, append_string, append_unsigned_varint

_INT = Struct(">i").pack
_LEADER = Struct(">BBiiB").pack  # tag number, size, leader, leader epoch, no tags in it
_LEADER_BYTES = 9
_ENDPOINTS_TAG = 0


class LeaderIdAndEpoch(NamedTuple):
    """Who leads a partition."""

    node_id: int
    leader_epoch: int


class Endpoint(NamedTuple):
    """Where a broker is reached."""

    node_id: int
    host: str
    port: int
    rack: str | None


class CurrentLeaders:
    """The leaders of some partitions, for one response."""

    __slots__ = ("endpoints", "leaders")

    def __init__(
        self,
        leaders: dict[TopicPartition, LeaderIdAndEpoch],
        endpoints: dict[int, Endpoint],
    ) -> None:
        self.leaders = leaders
        self.endpoints = endpoints

    @classmethod
    def find(
        cls, image: MetadataImage, in_flight: InFlightRequest, partitions: Iterable[TopicPartition]
    ) -> "CurrentLeaders":
        """Look the leaders up, with their addresses at the listener that the client uses."""
        leaders: dict[TopicPartition, LeaderIdAndEpoch] = {}
        endpoints: dict[int, Endpoint] = {}
        for topic_partition in partitions:
            topic = image.topics.by_name.get(topic_partition.topic)
            if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
                continue
            partition = topic.partitions[topic_partition.partition]
            leaders[topic_partition] = LeaderIdAndEpoch(partition.leader, partition.leader_epoch)
            broker = image.brokers.get(partition.leader)
            if broker is None or broker.fenced or partition.leader in endpoints:
                continue
            listener = broker.listeners.get(in_flight.session.listener_name)
            if listener is not None:
                endpoints[partition.leader] = Endpoint(
                    partition.leader, listener.host, listener.port, broker.rack
                )
        return cls(leaders, endpoints)

    def append_leader(self, out: bytearray, tag: int, topic_partition: TopicPartition) -> bool:
        """Append the tagged field with a partition's leader; False if it is not known."""
        leader = self.leaders.get(topic_partition)
        if leader is None:
            return False
        out += _LEADER(tag, _LEADER_BYTES, leader.node_id, leader.leader_epoch, 0)
        return True

    def append_endpoints(self, out: bytearray) -> None:
        """Append the tagged fields of the response: the addresses, if there are any."""
        if not self.endpoints:
            out.append(0)
            return
        body = bytearray()
        append_count(body, len(self.endpoints), True)
        for endpoint in self.endpoints.values():
            body += _INT(endpoint.node_id)
            append_string(body, endpoint.host, True)
            body += _INT(endpoint.port)
            append_string(body, endpoint.rack, True)
            body.append(0)
        out.append(1)
        out.append(_ENDPOINTS_TAG)
        append_unsigned_varint(out, len(body))
        out += body
