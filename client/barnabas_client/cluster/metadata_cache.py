"""Merges Metadata answers into pictures of the cluster, and knows what to ask for next.

Pure: no clock, no network; `network/metadata_refresher.py` asks and waits.

Invariants, unless the client has begun anew from its bootstrap servers: `cluster.version` rises
with every change; while a topic keeps its id, no leader epoch goes back; an id that another one has
replaced never comes back, for ids are used once; topics that are no longer wanted leave the picture
with the next full answer.
Source: KIP-320 (leader epochs), KIP-516 (topic ids), KIP-951 (leaders told by Produce and Fetch).
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

# Of topics that were made anew lately; a broker does not lag by more of them.
_REPLACED_IDS_MAX = 1000
# So many answers in a row with a former id are no lagging broker's: the newest id was.
_STALE_ANSWERS_MAX = 3


class MetadataCache:
    """The newest picture, the topics that every refresh asks for, and what is missing."""

    def __init__(self) -> None:
        self.cluster = ClusterMetadata()
        self.wanted: frozenset[str] = frozenset()
        self.wants_all = False
        self.is_incomplete = False
        """Whether the last picture lacks leaders or topics that a new one may have."""
        self._missing: set[str] = set()
        self._begins_anew = False
        # The newest id of each topic, and ids of topics that were made anew, the oldest first.
        self._ids: dict[str, Uuid] = {}
        self._replaced_ids: dict[Uuid, None] = {}
        # How many answers in a row named a former id of a topic.
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
        """Ask for all topics from now on, or no longer; return whether a refresh is needed."""
        changed = wants_all and not self.wants_all
        self.wants_all = wants_all
        return changed

    @property
    def has_missing(self) -> bool:
        """Whether a wanted topic has not been asked for yet."""
        return bool(self._missing)

    def begin_anew(self) -> None:
        """Believe the next answer in everything: it may come from another cluster's life."""
        self._begins_anew = True

    def request(self, *, full: bool, allow_auto_create: bool) -> MetadataRequest:
        """The next question: all that is wanted, or only topics that were never asked for."""
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
        """Take note that there was no answer: its topics still have to be asked for."""
        names = {topic.name for topic in request.topics or () if topic.name is not None}
        self._missing |= names & self.wanted

    def merge(self, request: MetadataRequest, answer: MetadataResponse) -> ClusterMetadata:
        """The picture after an answer."""
        before = self.cluster
        old_topics = {} if self._begins_anew else before.topics
        if self._begins_anew:
            self._ids.clear()
            self._replaced_ids.clear()
            self._stale_counts.clear()
        topics: dict[str, TopicMetadata] = {}
        incomplete = False
        for answered in answer.topics:
            if answered.name is None:
                continue
            if self._is_stale(answered):
                incomplete = True
                if answered.name in old_topics:
                    topics[answered.name] = old_topics[answered.name]
                continue
            topic = _topic(answered, old_topics.get(answered.name))
            topics[topic.name] = topic
            incomplete = incomplete or _is_incomplete(topic)
        if request.topics is not None:
            asked = {topic.name for topic in request.topics}
            for name, known in old_topics.items():
                if name in self.wanted and name not in asked and name not in topics:
                    topics[name] = known
                    incomplete = incomplete or _is_incomplete(known)
        self.is_incomplete = incomplete
        self._begins_anew = False
        self._ids = {name: one for name, one in self._ids.items() if self._is_of_use(name)}
        self.cluster = ClusterMetadata(
            version=before.version + 1,
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            nodes=MappingProxyType(
                {
                    broker.node_id: Node(
                        node_id=broker.node_id,
                        host=broker.host,
                        port=broker.port,
                        rack=broker.rack,
                    )
                    for broker in answer.brokers
                }
            ),
            topics=MappingProxyType(topics),
            topic_names=_names_by_id(topics),
        )
        return self.cluster

    def _is_of_use(self, name: str) -> bool:
        return self.wants_all or name in self.wanted

    def _is_stale(self, answered: MetadataResponseTopic) -> bool:
        """Whether the broker tells of a topic that was deleted and made anew since; notes its id.

        A broker that lags does so. What is known stays, and is asked for again.
        """
        name, topic_id = answered.name, answered.topic_id
        if name is None or topic_id == ZERO_UUID:
            return False
        former = self._ids.get(name)
        if topic_id in self._replaced_ids:
            self._stale_counts[name] = self._stale_counts.get(name, 0) + 1
            if self._stale_counts[name] < _STALE_ANSWERS_MAX:
                return True
            # What replaced it was itself the id of a former life, of which a lagging broker told.
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
        """Take over what a broker said of a newer leader; return whether it was news.

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


def _topic(answered: MetadataResponseTopic, known: TopicMetadata | None) -> TopicMetadata:
    assert answered.name is not None
    code = known_code(answered.error_code)
    # An answer without an id (an old broker in a rolling upgrade) says nothing about identity.
    same = known is not None and ZERO_UUID in (answered.topic_id, known.topic_id)
    same = same or (known is not None and known.topic_id == answered.topic_id)
    epochs = known.partitions if known is not None and same else {}
    partitions = {}
    for part in sorted(answered.partitions, key=lambda part: part.partition_index):
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
        name=answered.name,
        topic_id=answered.topic_id,
        is_internal=answered.is_internal,
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
