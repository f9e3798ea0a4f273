"""Decodes records of the coordinators' internal topics to plain data. Pure.

Covers `__consumer_offsets` (groups of all kinds, committed offsets), `__transaction_state` and
`__share_group_state`. Not here: what the fields mean for a coordinator; Barnabas's own
`__cluster_metadata`, which clients do not read (`barnabas_cli.internal_records`).

Source: formats.md 10 and 11: keys begin with an int16 type, values with an int16 version.
Invariant: what cannot be read is shown as such and never stops the reader.
"""

from __future__ import annotations

import importlib
import struct
from enum import Enum
from functools import lru_cache
from typing import Any

from barnabas_protocol.codec import decode
from barnabas_protocol.consumer_protocol import decode_assignment, decode_subscription
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import ZERO_UUID, uuid_to_text
from barnabas_protocol.records.record import Record

_INT16 = struct.Struct(">h")
_MESSAGES = "barnabas_protocol.messages.records_"
_MODULES = {
    "__consumer_offsets": ("consumer_offsets", "share_group", "streams_group"),
    "__transaction_state": ("transaction_state",),
    "__share_group_state": ("share_state",),
}
_TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def is_internal(topic: str) -> bool:
    """Whether records of the topic can be told in words."""
    return topic in _MODULES


def describe_record(topic: str, record: Record) -> dict[str, Any]:
    """The fields of a record of an internal topic: `type`, `key` and `value` (None: deleted)."""
    try:
        return _coordinator(topic, record)
    except (ParseError, struct.error, IndexError, UnicodeDecodeError) as error:
        return {"type": f"unreadable: {error}"}


def _coordinator(topic: str, record: Record) -> dict[str, Any]:
    (record_type,) = _INT16.unpack_from(record.key or b"")
    pair = _classes(topic).get(record_type)
    if pair is None:
        return {"type": f"unknown ({record_type})"}
    key_class, value_class = pair
    key, _ = decode(key_class, record.key or b"", 0, 2)
    described: dict[str, Any] = {
        "type": key_class.__name__.removesuffix("Key"),
        "key": plain(key),
        "value": None,
    }
    if record.value is not None:
        (version,) = _INT16.unpack_from(record.value)
        versions = value_class.__versions__
        if not versions[0] <= version <= versions[1]:
            described["value"] = f"of unknown version {version}"
        else:
            value, _ = decode(value_class, record.value, version, 2)
            described["value"] = _worded(plain(value))
    return described


@lru_cache
def _classes(topic: str) -> dict[int, tuple[Any, Any]]:
    """Record type -> classes of key and value; the type stands in the key class's description."""
    classes: dict[int, tuple[Any, Any]] = {}
    for suffix in _MODULES[topic]:
        module = importlib.import_module(_MESSAGES + suffix)
        for name, key_class in vars(module).items():
            if not name.endswith("Key") or not (key_class.__doc__ or "").startswith("Key of"):
                continue
            number = int(key_class.__doc__.rstrip(".").rpartition(" ")[2])
            classes[number] = key_class, getattr(module, name.removesuffix("Key") + "Value")
    return classes


def _worded(value: dict[str, Any]) -> dict[str, Any]:
    """Numbers and blobs that have a meaning of their own in words."""
    status = value.get("transaction_status")
    if isinstance(status, int) and 0 <= status < len(_TRANSACTION_STATES):
        value["transaction_status"] = _TRANSACTION_STATES[status]
    if value.get("protocol_type") == "consumer":
        for member in value.get("members") or ():
            for field, read in (
                ("subscription", decode_subscription),
                ("assignment", decode_assignment),
            ):
                member[field] = _blob(read, bytes.fromhex(member[field]))
    return value


def _blob(read: Any, data: bytes) -> Any:
    if not data:
        return None
    try:
        return plain(read(data))
    except ParseError:
        return data.hex()


def plain(value: Any) -> Any:
    """The value in what JSON has; bytes as hexadecimal digits, ids as Kafka prints them."""
    match value:
        case None | bool() | int() | float() | str():
            return value.name if isinstance(value, Enum) else value
        case bytes() | bytearray() | memoryview():
            raw = bytes(value)
            if len(raw) == len(ZERO_UUID):
                return uuid_to_text(raw)
            return raw.hex()
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
    fields = getattr(type(value), "__fields__", None)
    if fields is not None:
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    names = getattr(type(value), "__dataclass_fields__", None)
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    return str(value)
