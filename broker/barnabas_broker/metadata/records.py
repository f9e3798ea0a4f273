"""The records of the metadata log: what each one says, and the bytes of its fields.

A record is the value of a Kafka record: type, version, fields (`docs/formats/metadata.md`). A
version may only append fields to those of the one before, so a reader takes the fields that it
knows and ignores what follows. Type and version stand before the fields (`record_codec`).

Invariant: a record says what is so, never what changed; applying it twice is applying it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from barnabas_broker.metadata.acl_table import ID_BYTES, write_acl
from barnabas_broker.metadata.wire import RecordReader, RecordWriter
from barnabas_broker.security.acl.acl import Acl

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whom quotas limit: (type, name) pairs in the order of the types, name None for the default."""


class MetadataRecord:
    """What all metadata records share."""

    __slots__ = ()

    type_number: ClassVar[int]
    version: ClassVar[int] = 0

    @property
    def written_version(self) -> int:
        """The version that is written: the lowest that has all fields in use."""
        return self.version

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class EpochRecord(MetadataRecord):
    """The first record of each controller epoch: who leads, in which cluster."""

    type_number: ClassVar[int] = 1

    controller_epoch: int
    leader: int
    cluster_id: str

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.unsigned(self.controller_epoch)
        out.unsigned(self.leader)
        out.string(self.cluster_id)

    @staticmethod
    def read(reader: RecordReader) -> EpochRecord:
        """Take the fields."""
        return EpochRecord(reader.unsigned(), reader.unsigned(), reader.string())


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """Where clients reach a broker on one listener."""

    name: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class SupportedFeature:
    """The levels of a feature that a broker can work with, inclusive (KIP-584)."""

    name: str
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class BrokerRecord(MetadataRecord):
    """A broker's registration (REG-1); its epoch is the offset of this record (REG-4)."""

    type_number: ClassVar[int] = 2
    version: ClassVar[int] = 1

    node_id: int
    broker_epoch: int
    incarnation_id: bytes
    listeners: tuple[ListenerAddress, ...]
    rack: str | None
    directories: tuple[bytes, ...]
    is_fenced: bool
    features: tuple[SupportedFeature, ...] = ()  # since version 1

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.unsigned(self.node_id)
        out.unsigned(self.broker_epoch)
        out.uuid(self.incarnation_id)
        out.unsigned(len(self.listeners))
        for listener in self.listeners:
            out.string(listener.name)
            out.string(listener.host)
            out.unsigned(listener.port)
            out.string(listener.security_protocol)
        out.optional_string(self.rack)
        out.unsigned(len(self.directories))
        for directory in self.directories:
            out.uuid(directory)
        out.boolean(self.is_fenced)
        out.unsigned(len(self.features))
        for feature in self.features:
            out.string(feature.name)
            out.unsigned(feature.minimum)
            out.unsigned(feature.maximum)

    @staticmethod
    def read(reader: RecordReader) -> BrokerRecord:
        """Take the fields."""
        return BrokerRecord(
            node_id=reader.unsigned(),
            broker_epoch=reader.unsigned(),
            incarnation_id=reader.uuid(),
            listeners=tuple(
                ListenerAddress(
                    reader.string(), reader.string(), reader.unsigned(), reader.string()
                )
                for _ in range(reader.count())
            ),
            rack=reader.optional_string(),
            directories=tuple(reader.uuid() for _ in range(reader.count())),
            is_fenced=reader.boolean(),
            features=() if reader.version < 1 else _features(reader),
        )


def _features(reader: RecordReader) -> tuple[SupportedFeature, ...]:
    return tuple(
        SupportedFeature(reader.string(), reader.unsigned(), reader.unsigned())
        for _ in range(reader.count())
    )


@dataclass(frozen=True, slots=True)
class BrokerStateRecord(MetadataRecord):
    """A registered broker is fenced, or no longer (REG-5, REG-6)."""

    type_number: ClassVar[int] = 3

    node_id: int
    broker_epoch: int
    is_fenced: bool
    is_shutting_down: bool

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.unsigned(self.node_id)
        out.unsigned(self.broker_epoch)
        out.boolean(self.is_fenced)
        out.boolean(self.is_shutting_down)

    @staticmethod
    def read(reader: RecordReader) -> BrokerStateRecord:
        """Take the fields."""
        return BrokerStateRecord(
            reader.unsigned(), reader.unsigned(), reader.boolean(), reader.boolean()
        )


@dataclass(frozen=True, slots=True)
class TopicRecord(MetadataRecord):
    """A topic exists, by this name and this id; its partitions follow."""

    type_number: ClassVar[int] = 4

    name: str
    topic_id: bytes

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.string(self.name)
        out.uuid(self.topic_id)

    @staticmethod
    def read(reader: RecordReader) -> TopicRecord:
        """Take the fields."""
        return TopicRecord(reader.string(), reader.uuid())


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord(MetadataRecord):
    """A topic, its partitions and its settings are gone (TOP-14)."""

    type_number: ClassVar[int] = 5

    topic_id: bytes

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.uuid(self.topic_id)

    @staticmethod
    def read(reader: RecordReader) -> RemoveTopicRecord:
        """Take the fields."""
        return RemoveTopicRecord(reader.uuid())


@dataclass(frozen=True, slots=True)
class PartitionRecord(MetadataRecord):
    """The whole state of one partition; a later record replaces it.

    Version 2 is written only where it is needed, at level 2 of `barnabas.version` and above: no
    broker is given a record with fields that it would ignore.
    """

    type_number: ClassVar[int] = 6
    version: ClassVar[int] = 2

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int  # -1 for none
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()  # one for each replica, or none where not yet known
    # Since version 1, a reassignment under way (LEAD-10): both are part of the replicas.
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    # Since version 2 (KIP-966): outside of the ISR, with everything below the high watermark; and
    # those that were in the ISR or eligible before an unclean stop.
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def written_version(self) -> int:
        """Version 1 as long as nobody is eligible outside of the ISR."""
        return 2 if self.eligible_leader_replicas or self.last_known_elr else 1

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.uuid(self.topic_id)
        out.unsigned(self.partition)
        for nodes in (self.replicas, self.isr):
            out.unsigned(len(nodes))
            for node in nodes:
                out.unsigned(node)
        out.signed(self.leader)
        out.unsigned(self.leader_epoch)
        out.unsigned(self.partition_epoch)
        out.unsigned(len(self.directories))
        for directory in self.directories:
            out.uuid(directory)
        lists = [self.adding_replicas, self.removing_replicas]
        if self.written_version >= 2:
            lists += [self.eligible_leader_replicas, self.last_known_elr]
        for nodes in lists:
            out.unsigned(len(nodes))
            for node in nodes:
                out.unsigned(node)

    @staticmethod
    def read(reader: RecordReader) -> PartitionRecord:
        """Take the fields."""
        return PartitionRecord(
            topic_id=reader.uuid(),
            partition=reader.unsigned(),
            replicas=_nodes(reader),
            isr=_nodes(reader),
            leader=reader.signed(),
            leader_epoch=reader.unsigned(),
            partition_epoch=reader.unsigned(),
            directories=tuple(reader.uuid() for _ in range(reader.count())),
            adding_replicas=() if reader.version < 1 else _nodes(reader),
            removing_replicas=() if reader.version < 1 else _nodes(reader),
            eligible_leader_replicas=() if reader.version < 2 else _nodes(reader),
            last_known_elr=() if reader.version < 2 else _nodes(reader),
        )


def _nodes(reader: RecordReader) -> tuple[int, ...]:
    return tuple(reader.unsigned() for _ in range(reader.count()))


@dataclass(frozen=True, slots=True)
class ConfigRecord(MetadataRecord):
    """One override of one resource; without a value it is gone (CFG-2)."""

    type_number: ClassVar[int] = 7

    resource_type: int
    resource_name: str
    key: str
    value: str | None

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.unsigned(self.resource_type)
        out.string(self.resource_name)
        out.string(self.key)
        out.optional_string(self.value)

    @staticmethod
    def read(reader: RecordReader) -> ConfigRecord:
        """Take the fields."""
        return ConfigRecord(
            reader.unsigned(), reader.string(), reader.string(), reader.optional_string()
        )


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord(MetadataRecord):
    """A block of producer ids went to a broker; the next one starts here (CTL-15)."""

    type_number: ClassVar[int] = 8

    node_id: int
    broker_epoch: int
    next_producer_id: int

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.unsigned(self.node_id)
        out.unsigned(self.broker_epoch)
        out.unsigned(self.next_producer_id)

    @staticmethod
    def read(reader: RecordReader) -> ProducerIdsRecord:
        """Take the fields."""
        return ProducerIdsRecord(reader.unsigned(), reader.unsigned(), reader.unsigned())


@dataclass(frozen=True, slots=True)
class SnapshotRecord(MetadataRecord):
    """First and last record of a snapshot: which log it stands for, and how many records it has."""

    type_number: ClassVar[int] = 9

    end_offset: int  # exclusive: the snapshot stands for everything below
    controller_epoch: int
    record_count: int  # without these two

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.unsigned(self.end_offset)
        out.unsigned(self.controller_epoch)
        out.unsigned(self.record_count)

    @staticmethod
    def read(reader: RecordReader) -> SnapshotRecord:
        """Take the fields."""
        return SnapshotRecord(reader.unsigned(), reader.unsigned(), reader.unsigned())


@dataclass(frozen=True, slots=True)
class FeatureRecord(MetadataRecord):
    """A feature is at a level; at level 0 it is off (KIP-584)."""

    type_number: ClassVar[int] = 10

    name: str
    level: int

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.string(self.name)
        out.unsigned(self.level)

    @staticmethod
    def read(reader: RecordReader) -> FeatureRecord:
        """Take the fields."""
        return FeatureRecord(reader.string(), reader.unsigned())


@dataclass(frozen=True, slots=True)
class RemoveBrokerRecord(MetadataRecord):
    """A broker is no longer registered: it was taken out of the cluster for good."""

    type_number: ClassVar[int] = 11

    node_id: int
    broker_epoch: int

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.unsigned(self.node_id)
        out.unsigned(self.broker_epoch)

    @staticmethod
    def read(reader: RecordReader) -> RemoveBrokerRecord:
        """Take the fields."""
        return RemoveBrokerRecord(reader.unsigned(), reader.unsigned())


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord(MetadataRecord):
    """One quota of one entity; without a value it is gone (KIP-546)."""

    type_number: ClassVar[int] = 12

    entity: QuotaEntity
    key: str
    value: float | None

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.unsigned(len(self.entity))
        for kind, name in self.entity:
            out.string(kind)
            out.optional_string(name)
        out.string(self.key)
        out.boolean(self.value is not None)
        if self.value is not None:
            out.double(self.value)

    @staticmethod
    def read(reader: RecordReader) -> ClientQuotaRecord:
        """Take the fields."""
        entity = tuple((reader.string(), reader.optional_string()) for _ in range(reader.count()))
        return ClientQuotaRecord(
            entity, reader.string(), reader.double() if reader.boolean() else None
        )


@dataclass(frozen=True, slots=True)
class AclRecord(MetadataRecord):
    """An ACL holds; since level 3 of `barnabas.version` (SEC-44)."""

    type_number: ClassVar[int] = 20

    acl_id: bytes
    acl: Acl

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.uuid(self.acl_id)
        write_acl(out, self.acl)

    @staticmethod
    def read(reader: RecordReader) -> AclRecord:
        """Take the fields."""
        return AclRecord(
            reader.uuid(),
            Acl(
                reader.unsigned(),
                reader.string(),
                reader.unsigned(),
                reader.string(),
                reader.string(),
                reader.unsigned(),
                reader.unsigned(),
            ),
        )


@dataclass(frozen=True, slots=True)
class RemoveAclRecord(MetadataRecord):
    """ACLs hold no longer: all that one command removes, in one record."""

    type_number: ClassVar[int] = 21

    acl_ids: tuple[bytes, ...]

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.unsigned(len(self.acl_ids))
        out.raw(b"".join(self.acl_ids), len(self.acl_ids) * ID_BYTES)

    @staticmethod
    def read(reader: RecordReader) -> RemoveAclRecord:
        """Take the fields."""
        ids = reader.raw(reader.count() * ID_BYTES)
        return RemoveAclRecord(
            tuple(ids[start : start + ID_BYTES] for start in range(0, len(ids), ID_BYTES))
        )
