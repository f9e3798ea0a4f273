"""Merges Metadata responses into `ClusterMetadata`, and builds the next request.

Pure: no clock, no network; `network/metadata_refresher.py` sends and waits.

Invariants, unless the client has started again from its bootstrap servers: `cluster.version` rises
with every change; while a topic keeps its id, no leader epoch goes back; an id that another one has
replaced never comes back, for ids are used once; topics that are no longer wanted are removed with
the next full response.
Source: KIP-320 (leader epochs), KIP-516 (topic ids), KIP-951 (leaders in Produce and Fetch).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from barnabas_client.cluster.metadata import (
    ClusterMetadata,
    Node,
    PartitionMetadata,
    TopicMetadata,
)
from barnabas_client.errors import known_code
from barnabas_protocol.errors import RETRIABLE, ErrorCode
from barnabas_protocol.ids import ZERO_UUID, Uuid
from barnabas_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

# Ids of topics that were created again lately; no broker lags by more of them.
_REPLACED_IDS_MAX = 1000
# After so many responses in a row with a former id, it is the newest id that was stale.
_STALE_ANSWERS_MAX = 3


class MetadataCache:
    """The newest metadata, the topics that every refresh requests, and those that are missing."""

    def __init__(self) -> None:
        self.cluster = ClusterMetadata()
        self.wanted: frozenset[str] = frozenset()
        self.wants_all = False
        self.is_incomplete = False
        """Whether the metadata lack leaders or topics that new metadata may have."""
        self._missing: set[str] = set()
        self._starts_again = False
        # The newest id of each topic, and ids of topics that were created again, the oldest first.
        self._ids: dict[str, Uuid] = {}
        self._replaced_ids: dict[Uuid, None] = {}
        # How many responses in a row had a former id of a topic.
        self._stale_counts: dict[str, int] = {}

    def want(self, names: Iterable[str]) -> bool:
        """Add topics; return whether one of them is new."""
        new = frozenset(names) - self.wanted
        self.wanted |= new
        self._missing |= new
        return bool(new)

    def set_wanted(self, names: Iterable[str]) -> bool:
        """Replace the topics; return whether one of them is new."""
        names = frozenset(names)
        new = names - self.wanted
        self.wanted = names
        self._missing = (self._missing & names) | new
        return bool(new)

    def set_wants_all(self, wants_all: bool) -> bool:
        """Request all topics from now on, or no longer; return whether a refresh is needed."""
        changed = wants_all and not self.wants_all
        self.wants_all = wants_all
        return changed

    @property
    def has_missing(self) -> bool:
        """Whether a wanted topic has not been requested yet."""
        return bool(self._missing)

    def start_again(self) -> None:
        """Replace everything by the next response: the cluster may have been created again."""
        self._starts_again = True

    def request(self, *, full: bool, allow_auto_create: bool) -> MetadataRequest:
        """The next request: for all wanted topics, or only those that were never requested."""
        if self.wants_all:
            topics = None
        else:
            names = self.wanted if full else self._missing
            topics = [MetadataRequestTopic(name=name) for name in sorted(names)]
        self._missing.clear()
        return MetadataRequest(
            topics=topics, allow_auto_topic_creation=allow_auto_create and not self.wants_all
        )

    def failed(self, request: MetadataRequest) -> None:
        """There was no response: the topics are still to be requested."""
        names = {topic.name for topic in request.topics or () if topic.name is not None}
        self._missing |= names & self.wanted

    def merge(self, request: MetadataRequest, response: MetadataResponse) -> ClusterMetadata:
        """The metadata after a response."""
        before = self.cluster
        old_topics = {} if self._starts_again else before.topics
        if self._starts_again:
            self._ids.clear()
            self._replaced_ids.clear()
            self._stale_counts.clear()
        topics: dict[str, TopicMetadata] = {}
        incomplete = False
        for received in response.topics:
            if received.name is None:
                continue
            if self._is_stale(received):
                incomplete = True
                if received.name in old_topics:
                    topics[received.name] = old_topics[received.name]
                continue
            topic = _topic(received, old_topics.get(received.name))
            topics[topic.name] = topic
            incomplete = incomplete or _is_incomplete(topic)
        if request.topics is not None:
            asked = {topic.name for topic in request.topics}
            for name, known in old_topics.items():
                if name in self.wanted and name not in asked and name not in topics:
                    topics[name] = known
                    incomplete = incomplete or _is_incomplete(known)
        self.is_incomplete = incomplete
        self._starts_again = False
        self._ids = {name: one for name, one in self._ids.items() if self._is_of_use(name)}
        self.cluster = ClusterMetadata(
            version=before.version + 1,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            nodes=MappingProxyType(
                {
                    broker.node_id: Node(
                        node_id=broker.node_id,
                        host=broker.host,
                        port=broker.port,
                        rack=broker.rack,
                    )
                    for broker in response.brokers
                }
            ),
            topics=MappingProxyType(topics),
            topic_names=_names_by_id(topics),
        )
        return self.cluster

    def _is_of_use(self, name: str) -> bool:
        return self.wants_all or name in self.wanted

    def _is_stale(self, received: MetadataResponseTopic) -> bool:
        """Whether the response is about a topic that was deleted and created again; notes its id.

        A broker that lags returns that. The known metadata stay, and are requested again.
        """
        name, topic_id = received.name, received.topic_id
        if name is None or topic_id == ZERO_UUID:
            return False
        former = self._ids.get(name)
        if topic_id in self._replaced_ids:
            self._stale_counts[name] = self._stale_counts.get(name, 0) + 1
            if self._stale_counts[name] < _STALE_ANSWERS_MAX:
                return True
            # The id that replaced it was itself a former one, from a lagging broker.
            del self._replaced_ids[topic_id]
        self._stale_counts.pop(name, None)
        self._ids[name] = topic_id
        if former is not None and former != topic_id:
            self._replaced_ids[former] = None
            if len(self._replaced_ids) > _REPLACED_IDS_MAX:
                del self._replaced_ids[next(iter(self._replaced_ids))]
        return False

    def apply_leader_hint(
        self,
        topic: str,
        partition: int,
        leader_id: int,
        leader_epoch: int,
        endpoints: Iterable[Node] = (),
    ) -> bool:
        """Take over a newer leader that a broker named; return whether it is new.

        Ignored unless the epoch is newer than the known one and the leader's address is known.
        """
        before = self.cluster
        known = before.partition(topic, partition)
        if known is None or leader_id < 0 or leader_epoch <= known.leader_epoch:
            return False
        nodes = {**before.nodes, **{node.node_id: node for node in endpoints}}
        if leader_id not in nodes:
            return False
        changed = replace(known, leader_id=leader_id, leader_epoch=leader_epoch)
        old = before.topics[topic]
        partitions = MappingProxyType({**old.partitions, partition: changed})
        self.cluster = replace(
            before,
            version=before.version + 1,
            nodes=MappingProxyType(nodes),
            topics=MappingProxyType({**before.topics, topic: replace(old, partitions=partitions)}),
        )
        return True


def _topic(received: MetadataResponseTopic, known: TopicMetadata | None) -> TopicMetadata:
    assert received.name is not None
    code = known_code(received.error_code)
    # A response without an id (an old broker in a rolling upgrade) does not identify the topic.
    same = known is not None and ZERO_UUID in (received.topic_id, known.topic_id)
    same = same or (known is not None and known.topic_id == received.topic_id)
    epochs = known.partitions if known is not None and same else {}
    partitions = {}
    for part in sorted(received.partitions, key=lambda part: part.partition_index):
        old = epochs.get(part.partition_index)
        if old is not None and 0 <= part.leader_epoch < old.leader_epoch:
            partitions[part.partition_index] = old
            continue
        partitions[part.partition_index] = PartitionMetadata(
            partition=part.partition_index,
            leader_id=part.leader_id,
            leader_epoch=part.leader_epoch,
            replica_ids=tuple(part.replica_nodes),
            in_sync_replica_ids=tuple(part.isr_nodes),
            offline_replica_ids=tuple(part.offline_replicas),
            error_code=known_code(part.error_code),
        )
    return TopicMetadata(
        name=received.name,
        topic_id=received.topic_id,
        is_internal=received.is_internal,
        error_code=code,
        partitions=MappingProxyType(partitions),
    )


def _is_incomplete(topic: TopicMetadata) -> bool:
    if topic.error_code is not ErrorCode.NONE:
        return topic.error_code in RETRIABLE
    return any(part.leader_id < 0 for part in topic.partitions.values())


def _names_by_id(topics: Mapping[str, TopicMetadata]) -> Mapping[bytes, str]:
    return MappingProxyType(
        {topic.topic_id: topic.name for topic in topics.values() if topic.topic_id != ZERO_UUID}
    )
