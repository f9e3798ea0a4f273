"""The blobs of the protocol type `consumer` in JoinGroup and SyncGroup.

Not here: assignors, and other protocol types (Connect's and Schema Registry's are opaque).

Source: KIP-429 and KIP-881 for the versions. Both blobs start with an int16 version and are never
flexible:

    subscription  topics [string], user data nullable bytes;
                  v1 + owned [topic string, partitions [int32]]; v2 + generation int32;
                  v3 + rack nullable string
    assignment    assigned [topic string, partitions [int32]], user data nullable bytes

Invariants: fields are only ever appended, so a newer version is read as the newest known one and
the rest is ignored. Old clients leave out trailing user data: a blob that ends there is accepted.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from barnabas_protocol.errors import ParseError

PROTOCOL_TYPE = "consumer"
SUBSCRIPTION_VERSION_MAX = 3
ASSIGNMENT_VERSION_MAX = 3

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

# Topic name -> partitions, in the order of the blob.
Partitions = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants; fields that its version lacks have their defaults."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: Partitions | None = None
    generation_id: int = -1
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a member gets."""

    partitions: Partitions
    user_data: bytes | None = None


def encode_subscription(
    subscription: Subscription, version: int = SUBSCRIPTION_VERSION_MAX
) -> bytes:
    """The blob of the given version; what the version lacks is left out.

    Raises: ValueError for a version that is not known.
    """
    if not 0 <= version <= SUBSCRIPTION_VERSION_MAX:
        raise ValueError(f"subscription version {version}")
    out = bytearray(_INT16.pack(version))
    out += _INT32.pack(len(subscription.topics))
    for topic in subscription.topics:
        out += _string(topic)
    out += _nullable_bytes(subscription.user_data)
    if version >= 1:
        out += _topic_partitions(subscription.owned_partitions or {})
    if version >= 2:
        out += _INT32.pack(subscription.generation_id)
    if version >= 3:
        rack_id = subscription.rack_id
        out += _INT16.pack(-1) if rack_id is None else _string(rack_id)
    return bytes(out)


def decode_subscription(blob: bytes | bytearray | memoryview) -> Subscription:
    """The subscription in a blob of any version.

    Raises: ParseError if it is malformed; the broker then treats the topics as unknown.
    """
    reader = _Reader(blob)
    version = reader.version()
    topics = tuple(reader.string() for _ in range(reader.count(2)))
    user_data = reader.nullable_bytes() if reader.has_more() else None
    owned = reader.topic_partitions() if version >= 1 and reader.has_more() else None
    generation_id = reader.int32() if version >= 2 else -1
    rack_id = reader.nullable_string() if version >= 3 else None
    return Subscription(
        topics=topics,
        user_data=user_data,
        owned_partitions=owned,
        generation_id=generation_id,
        rack_id=rack_id,
    )


def encode_assignment(assignment: Assignment, version: int = ASSIGNMENT_VERSION_MAX) -> bytes:
    """The blob; all versions have the same fields.

    Raises: ValueError for a version that is not known.
    """
    if not 0 <= version <= ASSIGNMENT_VERSION_MAX:
        raise ValueError(f"assignment version {version}")
    return (
        _INT16.pack(version)
        + _topic_partitions(assignment.partitions)
        + _nullable_bytes(assignment.user_data)
    )


def decode_assignment(blob: bytes | bytearray | memoryview) -> Assignment:
    """The assignment in a blob of any version; an empty blob assigns nothing.

    Raises: ParseError if it is malformed.
    """
    if not len(blob):
        return Assignment(partitions={})
    reader = _Reader(blob)
    reader.version()
    partitions = reader.topic_partitions()
    user_data = reader.nullable_bytes() if reader.has_more() else None
    return Assignment(partitions=partitions, user_data=user_data)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _nullable_bytes(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


def _topic_partitions(partitions: Partitions) -> bytes:
    out = bytearray(_INT32.pack(len(partitions)))
    for topic, numbers in partitions.items():
        out += _string(topic)
        out += struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return bytes(out)


class _Reader:
    """Takes one field after the other; every length is checked against what is left."""

    __slots__ = ("_data", "_position")

    def __init__(self, blob: bytes | bytearray | memoryview) -> None:
        self._data = bytes(blob)
        self._position = 0

    def has_more(self) -> bool:
        return self._position < len(self._data)

    def _take(self, size: int) -> bytes:
        start = self._position
        if not 0 <= size <= len(self._data) - start:
            raise ParseError(f"consumer protocol: {size} bytes wanted", start)
        self._position = start + size
        return self._data[start : start + size]

    def _int16(self) -> int:
        return int(_INT16.unpack(self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self._take(4))[0])

    def version(self) -> int:
        version = self._int16()
        if version < 0:
            raise ParseError(f"consumer protocol: version {version}", 0)
        return version

    def count(self, item_bytes_min: int) -> int:
        """The length of an array; a null array counts as empty."""
        count = self.int32()
        if count == -1:
            return 0
        if not 0 <= count * item_bytes_min <= len(self._data) - self._position:
            raise ParseError(f"consumer protocol: array of {count}", self._position)
        return count

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ParseError("consumer protocol: null string", self._position)
        return text

    def nullable_string(self) -> str | None:
        size = self._int16()
        if size == -1:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise ParseError(f"consumer protocol: {error.reason}", self._position) from None

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size == -1 else self._take(size)

    def topic_partitions(self) -> Partitions:
        """A topic that is listed twice keeps the partitions of both."""
        partitions: Partitions = {}
        for _ in range(self.count(6)):
            topic = self.string()
            count = self.count(4)
            numbers = struct.unpack(f">{count}i", self._take(4 * count))
            partitions[topic] = partitions.get(topic, ()) + numbers
        return partitions
