"""`ClusterMetadata`: brokers, topics and leaders, by the last Metadata responses. Immutable.

Not here: when to request metadata again and for which topics (`metadata_cache.py`).

Invariants: `version` rises with every change; a partition's leader epoch never goes back as long
as the topic keeps its id (KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker and the address that it advertises."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        """Return what an error message shows."""
        return f"broker {self.node_id} at {self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """One partition; `leader_id` is -1 while there is none, `leader_epoch` -1 where unknown."""

    partition: int
    leader_id: int
    leader_epoch: int = -1
    replica_ids: tuple[int, ...] = ()
    in_sync_replica_ids: tuple[int, ...] = ()
    offline_replica_ids: tuple[int, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic; `topic_id` is all zero where the broker has no ids.

    `partitions` is keyed by partition number, in rising order.
    """

    name: str
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False
    error_code: ErrorCode = ErrorCode.NONE
    partitions: Mapping[int, PartitionMetadata] = field(
        default_factory=lambda: MappingProxyType({})
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The metadata of the cluster; topics that were not requested are absent.

    A topic with an `error_code` (it does not exist, it may not be seen) has no partitions.
    """

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicMetadata] = field(default_factory=lambda: MappingProxyType({}))
    topic_names: Mapping[Uuid, str] = field(default_factory=lambda: MappingProxyType({}))

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        """A partition; None if its metadata are not known."""
        known = self.topics.get(topic)
        return None if known is None else known.partitions.get(partition)

    def partition_count(self, topic: str) -> int | None:
        """How many partitions the topic has; None while that is not known."""
        known = self.topics.get(topic)
        return len(known.partitions) or None if known is not None else None

    def leader(self, topic: str, partition: int) -> Node | None:
        """The broker that leads; None if there is none or it is not known."""
        known = self.partition(topic, partition)
        return None if known is None else self.nodes.get(known.leader_id)
