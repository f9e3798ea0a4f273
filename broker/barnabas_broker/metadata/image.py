"""The metadata image: the cluster as the committed records say it is, immutable.

Readers keep a reference and see one consistent state for as long as they hold it; the next state is
another object, built by `delta`. Nothing here knows of logs or networks.

Invariants: a topic is in both maps of `TopicsImage` or in neither; a partition's leader is -1 or in
its ISR; ISR, eligible and last known replicas are parts of the replicas and have no node in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from barnabas_broker.metadata.acl_table import NO_ACLS, AclTable
from barnabas_broker.metadata.records import ListenerAddress, QuotaEntity, SupportedFeature
from barnabas_broker.metadata.scram_records import CredentialKey, ScramCredentialRecord
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

NO_LEADER: Final = -1

# The types of configuration resources, by their numbers on the wire.
RESOURCE_TOPIC: Final = 2
RESOURCE_BROKER: Final = 4
RESOURCE_BROKER_LOGGER: Final = 8
RESOURCE_CLIENT_METRICS: Final = 16
RESOURCE_GROUP: Final = 32

_NO_OVERRIDES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition: who holds it, who leads it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    # A reassignment under way (LEAD-10): both are part of the replicas.
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    # Outside of the ISR, with everything below the high watermark (KIP-966); never while the ISR
    # has `min.insync.replicas` members.
    eligible_leader_replicas: tuple[int, ...] = ()
    # Those that were in the ISR or eligible and are no more, as they stopped uncleanly.
    last_known_elr: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas once the reassignment under way is done."""
        return tuple(node for node in self.replicas if node not in self.removing_replicas)

    @property
    def is_whole(self) -> bool:
        """Whether all replicas are in sync, and so have all that is below the high watermark."""
        return len(self.isr) == len(self.replicas)

    def directory_of(self, node_id: int) -> bytes:
        """The log directory of a replica; zero where there is none, or it is not known."""
        if node_id not in self.replicas or not self.directories:
            return ZERO_UUID
        return self.directories[self.replicas.index(node_id)]


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic with its partitions, by their numbers."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics, found by name or by id."""

    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    by_id: Mapping[bytes, TopicImage] = field(default_factory=dict)

    def partition(self, topic_partition: TopicPartition) -> PartitionImage | None:
        """The partition of that name; None if there is none."""
        topic = self.by_name.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """One registered broker; a fenced one leads nothing and is not shown to clients."""

    node_id: int
    epoch: int
    incarnation: bytes
    listeners: Mapping[str, ListenerAddress]
    rack: str | None
    directories: tuple[bytes, ...]
    fenced: bool
    is_shutting_down: bool = False
    features: tuple[SupportedFeature, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Everything that the metadata log says up to and with one offset."""

    topics: TopicsImage
    configs: Mapping[tuple[int, str], Mapping[str, str]]
    brokers: Mapping[int, BrokerImage]
    cluster_id: str
    controller_id: int
    next_producer_id: int
    offset: int  # of the last record; -1 before the first
    epoch: int  # controller epoch of the last record
    features: Mapping[str, int] = field(default_factory=dict)  # level by name; none is at 0
    # By entity, then by key (KIP-546); an entity without quotas is not here.
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    acls: AclTable = NO_ACLS
    scram_credentials: Mapping[CredentialKey, ScramCredentialRecord] = field(default_factory=dict)
    decoy_secret: bytes = field(default=b"", repr=False)  # empty until there was a credential
    # Whether records of a newer release are left out: then no snapshot is made of it.
    has_unknown: bool = False

    @staticmethod
    def empty() -> MetadataImage:
        """The image before the first record."""
        return _EMPTY

    def config_overrides(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What is overridden for a resource; empty for one without overrides."""
        return self.configs.get((resource_type, name), _NO_OVERRIDES)


_EMPTY: Final = MetadataImage(
    topics=TopicsImage(),
    configs={},
    brokers={},
    cluster_id="",
    controller_id=-1,
    next_producer_id=0,
    offset=-1,
    epoch=0,
)
