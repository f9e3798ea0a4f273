"""The whole value of a metadata record: type, version, fields.

Records of unknown types are skipped: they belong to a newer broker. An image that lacks them is
marked, and no snapshot is made of it. Not here: the fields (`records`).
Source: `docs/formats/metadata.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

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
    RemoveAclRecord,
    RemoveBrokerRecord,
    RemoveTopicRecord,
    SnapshotRecord,
    TopicRecord,
)
from barnabas_broker.metadata.scram_records import (
    DecoySecretRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
)
from barnabas_broker.metadata.wire import RecordReader, RecordWriter
from barnabas_protocol.errors import ParseError

_READERS: Final[dict[int, Callable[[RecordReader], MetadataRecord]]] = {}
_VERSIONS: Final[dict[int, int]] = {}
for _record in (
    EpochRecord,
    BrokerRecord,
    BrokerStateRecord,
    TopicRecord,
    RemoveTopicRecord,
    PartitionRecord,
    ConfigRecord,
    ProducerIdsRecord,
    SnapshotRecord,
    FeatureRecord,
    RemoveBrokerRecord,
    ClientQuotaRecord,
    AclRecord,
    RemoveAclRecord,
    ScramCredentialRecord,
    RemoveScramCredentialRecord,
    DecoySecretRecord,
):
    _READERS[_record.type_number] = _record.read
    _VERSIONS[_record.type_number] = _record.version


def is_known(value: bytes) -> bool:
    """Whether nothing of a metadata record is dropped when it is decoded here.

    Raises: ParseError.
    """
    reader = RecordReader(value)
    type_number = reader.unsigned()
    return type_number in _READERS and reader.unsigned() <= _VERSIONS[type_number]


def encode(record: MetadataRecord) -> bytes:
    """The value of the Kafka record that carries a metadata record."""
    out = RecordWriter()
    out.unsigned(record.type_number)
    out.unsigned(record.written_version)
    record.write(out)
    return bytes(out.buffer)


def decode(value: bytes | None) -> MetadataRecord | None:
    """The metadata record in the value of a Kafka record, None if its type is not known here.

    Raises: ParseError if the value is not a metadata record.
    """
    if value is None:
        raise ParseError("a metadata record has no value", 0)
    reader = RecordReader(value)
    type_number = reader.unsigned()
    reader.version = reader.unsigned()  # versions only append fields
    read = _READERS.get(type_number)
    return None if read is None else read(reader)
