"""Snapshots: a metadata image written as the records that make it, so that the log can be trimmed.

File name, layout and the rules for which file counts are in `docs/formats/metadata.md`. Writing
and reading block: callers go through `Disk.run`. Invariant: a file that carries a snapshot's name
was complete when it got it; damage that comes later is noticed by CRC, by count and by both ends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from barnabas_broker.env.disk import Disk
from barnabas_broker.metadata.delta import InconsistentRecordError, MetadataDelta
from barnabas_broker.metadata.image import BrokerImage, MetadataImage, PartitionImage
from barnabas_broker.metadata.record_codec import decode, encode
from barnabas_broker.metadata.records import (
    AclRecord,
    BrokerRecord,
    BrokerStateRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EpochRecord,
    FeatureRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    SnapshotRecord,
    TopicRecord,
)
from barnabas_broker.metadata.scram_records import DecoySecretRecord
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import check_crc, iterate_headers
from barnabas_protocol.records.record import Record, decode_records, encode_batch

logger = logging.getLogger(__name__)

SNAPSHOT_SUFFIX = ".checkpoint"
# Records of one batch; keeps the buffers of a large image small.
BATCH_RECORDS_MAX = 1000
# The newest may be damaged: the one before and the log since then stand in for it.
SNAPSHOTS_KEPT = 2


class SnapshotName(NamedTuple):
    """What the name of a snapshot file says; sorts by age."""

    end_offset: int
    controller_epoch: int

    @property
    def file_name(self) -> str:
        """The name of the file in the directory of the log."""
        return f"{self.end_offset:020d}-{self.controller_epoch:010d}{SNAPSHOT_SUFFIX}"

    @staticmethod
    def parse(file_name: str) -> SnapshotName | None:
        """The name taken apart, None if it is not one of a snapshot."""
        stem = file_name.removesuffix(SNAPSHOT_SUFFIX)
        offset, separator, epoch = stem.partition("-")
        if stem == file_name or not (separator and offset.isdigit() and epoch.isdigit()):
            return None
        return SnapshotName(int(offset), int(epoch))


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """The records that make the image when they are applied to an empty one."""
    yield EpochRecord(image.epoch, max(image.controller_id, 0), image.cluster_id)
    for broker in image.brokers.values():
        yield from broker_records(broker)
    for topic in image.topics.by_name.values():
        yield TopicRecord(topic.name, topic.topic_id)
        for index, partition in enumerate(topic.partitions):
            yield partition_record(topic.topic_id, index, partition)
    for (resource_type, name), overrides in image.configs.items():
        for key, value in overrides.items():
            yield ConfigRecord(resource_type, name, key, value)
    for name, level in image.features.items():
        yield FeatureRecord(name, level)
    for entity, quotas in image.client_quotas.items():
        for key, limit in quotas.items():
            yield ClientQuotaRecord(entity, key, limit)
    for acl_id, acl in image.acls.items():
        yield AclRecord(acl_id, acl)
    if image.decoy_secret:
        yield DecoySecretRecord(image.decoy_secret)
    yield from image.scram_credentials.values()
    yield ProducerIdsRecord(0, 0, image.next_producer_id)


def broker_records(broker: BrokerImage) -> Iterator[MetadataRecord]:
    """The records that make a broker what its image says."""
    yield BrokerRecord(
        node_id=broker.node_id,
        broker_epoch=broker.epoch,
        incarnation_id=broker.incarnation,
        listeners=tuple(broker.listeners.values()),
        rack=broker.rack,
        directories=broker.directories,
        is_fenced=broker.fenced,
        features=broker.features,
    )
    if broker.is_shutting_down:
        yield BrokerStateRecord(broker.node_id, broker.epoch, broker.fenced, True)


def partition_record(topic_id: bytes, index: int, partition: PartitionImage) -> PartitionRecord:
    """The record that makes a partition what its image says."""
    return PartitionRecord(
        topic_id,
        index,
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.directories,
        partition.adding_replicas,
        partition.removing_replicas,
        partition.eligible_leader_replicas,
        partition.last_known_elr,
    )


def encode_snapshot(image: MetadataImage, now_ms: int) -> bytes:
    """The content of the snapshot file of an image."""
    body = list(image_records(image))
    edge = SnapshotRecord(image.offset + 1, image.epoch, len(body))
    records = [edge, *body, edge]
    out = bytearray()
    for start in range(0, len(records), BATCH_RECORDS_MAX):
        batch = [
            Record(start + index, now_ms, None, encode(record))
            for index, record in enumerate(records[start : start + BATCH_RECORDS_MAX])
        ]
        out += encode_batch(batch, base_offset=start, leader_epoch=image.epoch)
    return bytes(out)


def decode_snapshot(data: bytes) -> MetadataImage:
    """The image in the content of a snapshot file. Raises: ParseError if it is damaged."""
    records: list[MetadataRecord | None] = []
    end = 0
    for position, header in iterate_headers(data):
        if not check_crc(data, position, header):
            raise ParseError("a batch of a snapshot has a wrong CRC", position)
        records += [decode(record.value) for record in decode_records(data, position)]
        end = position + header.size_bytes
    if end != len(data) or len(records) < 2:
        raise ParseError("a snapshot ends too early", end)
    first, last = records[0], records[-1]
    if not isinstance(first, SnapshotRecord) or first != last:
        raise ParseError("a snapshot does not begin and end with the same record", 0)
    if first.record_count != len(records) - 2:
        raise ParseError("a snapshot has another number of records than it says", 0)
    delta = MetadataDelta(MetadataImage.empty())
    try:
        for record in records:
            delta.apply(record)
    except InconsistentRecordError as error:
        raise ParseError(str(error), 0) from error
    delta.skip_to(first.end_offset - 1, first.controller_epoch)
    return delta.build()


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotName]:
    """The snapshots in a directory, newest first."""
    names = (SnapshotName.parse(name) for name in disk.list_directory(directory))
    return sorted((name for name in names if name is not None), reverse=True)


def load_newest(disk: Disk, directory: str) -> MetadataImage:
    """The image of the newest snapshot that can be read, empty if there is none.

    Raises: OSError.
    """
    for name in list_snapshots(disk, directory):
        try:
            return decode_snapshot(disk.read_bytes(f"{directory}/{name.file_name}"))
        except ParseError as error:
            logger.error("%s is damaged, an older one is tried: %s", name.file_name, error)
    return MetadataImage.empty()


def write(disk: Disk, directory: str, image: MetadataImage, now_ms: int) -> int:
    """Write a snapshot, drop those that are too old, return where the log may now begin.

    That is the end of the oldest snapshot kept, exclusive. Raises: OSError.
    """
    name = SnapshotName(image.offset + 1, image.epoch)
    disk.write_atomically(f"{directory}/{name.file_name}", encode_snapshot(image, now_ms))
    names = list_snapshots(disk, directory)
    for old in names[SNAPSHOTS_KEPT:]:
        disk.remove(f"{directory}/{old.file_name}")
    return names[:SNAPSHOTS_KEPT][-1].end_offset if len(names) >= SNAPSHOTS_KEPT else 0
