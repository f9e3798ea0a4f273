"""Values of `admin.topics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from barnabas_client.admin.values.configs import ConfigEntry
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.ids import ZERO_UUID, Uuid

BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be created; what is left out is the broker's default.

    With `replica_assignment` (partition -> brokers, the first one preferred as leader) the two
    counts must be left out.
    """

    name: str
    partition_count: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    replica_assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic as it was created; fields are None for old brokers or without the rights."""

    name: str
    topic_id: Uuid = ZERO_UUID
    partition_count: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, ConfigEntry] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """How many partitions a topic shall have in all; one list of brokers per *added* partition."""

    total_count: int
    replica_assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """A topic that exists; `topic_id` is all zero where the broker has no ids."""

    name: str
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition; the leader is None while there is none.

    The eligible leader replicas (KIP-966) are None where the broker does not know of them.
    """

    partition: int
    leader_id: int | None
    leader_epoch: int = -1
    replica_ids: tuple[int, ...] = ()
    in_sync_replica_ids: tuple[int, ...] = ()
    offline_replica_ids: tuple[int, ...] = ()
    eligible_leader_replica_ids: tuple[int, ...] | None = None
    last_known_eligible_leader_replica_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with all its partitions, in rising order.

    `authorized_operations` is None unless it was asked for.
    """

    name: str
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: Mapping[int, PartitionDescription]
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def partition_count(self) -> int:
        """How many partitions there are."""
        return len(self.partitions)

    @property
    def replication_factor(self) -> int:
        """The largest number of replicas of a partition; differs only while some are moved."""
        return max((len(one.replica_ids) for one in self.partitions.values()), default=0)
