"""Decodes records of all internal topics to plain data: those of the metadata log, too. Pure.

Not here: the coordinators' topics (`barnabas_client.facts.internal_records`).

Invariant: what cannot be read is shown as such and never stops the reader.
"""

from __future__ import annotations

import struct
from typing import Any

from barnabas_client.facts import internal_records
from barnabas_client.facts.internal_records import plain
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.record import Record

_METADATA_TOPIC = "__cluster_metadata"


def is_internal(topic: str) -> bool:
    """Whether records of the topic can be told in words."""
    return topic == _METADATA_TOPIC or internal_records.is_internal(topic)


def describe_record(topic: str, record: Record) -> dict[str, Any]:
    """The fields of a record of an internal topic: `type`, `key` and `value` (None: deleted)."""
    if topic != _METADATA_TOPIC:
        return internal_records.describe_record(topic, record)
    try:
        return _metadata(record)
    except (ParseError, struct.error, IndexError, UnicodeDecodeError) as error:
        return {"type": f"unreadable: {error}"}


def _metadata(record: Record) -> dict[str, Any]:
    from barnabas_broker.metadata.record_codec import decode as decode_metadata

    decoded = decode_metadata(record.value)
    if decoded is None:
        return {"type": "unknown"}
    value = plain(decoded)
    value.pop("type_number", None)
    value.pop("version", None)
    return {"type": type(decoded).__name__, "value": value}
