"""How large a request may be, and of how many elements, by API; and responses as frames.

A frame may be as large as `socket.request.max.bytes` because a batch may. Other requests have
elements, each of which costs time when it is read and when it is carried out; a frame of ten
megabytes holds a million of them and stopped the broker for minutes. What is beyond the limits is
no request of a real client: its connection is closed.

A request of more than `loop_bytes_max` is read in a thread, so that other connections go on, and
carried out in slices (`request_slices`).

Not here: limits of what handlers make of a request, such as partitions of a new topic.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

from barnabas_broker.network.heavy_work import HeavyWork
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol import codec
from barnabas_protocol.api import INTERNAL, ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.schema import Message

Name = TypeVar("Name")

LOOP_BYTES_MAX: Final = 4 * 1024
"""So many bytes hold 2,000 elements, which take some milliseconds to read and to carry out."""
LOOP_BYTES_OF_PARTITIONS_MAX: Final = 16 * 1024
"""Of APIs whose elements are partitions of a dozen bytes and more: no more elements than those."""
_OF_PARTITIONS: Final = (
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
)
RESPONSE_BYTES_MAX: Final = 128 * 1024 * 1024
"""No response but one with batches is larger; it is an error instead."""
UNLIMITED_BYTES: Final = 2**31 - 1
_MIB: Final = 1024 * 1024
_DEFAULT: Final = (2 * _MIB, 2_000)
# Bytes and elements, where the work for each element is small or clusters need more.
_LIMITS: Final[dict[ApiKey, tuple[int, int]]] = {
    ApiKey.FETCH: (16 * _MIB, 200_000),
    ApiKey.LIST_OFFSETS: (8 * _MIB, 100_000),
    ApiKey.METADATA: (8 * _MIB, 50_000),
    ApiKey.OFFSET_COMMIT: (16 * _MIB, 50_000),
    ApiKey.OFFSET_FETCH: (8 * _MIB, 50_000),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (8 * _MIB, 100_000),
    ApiKey.OFFSET_DELETE: (8 * _MIB, 20_000),
    ApiKey.DELETE_RECORDS: (8 * _MIB, 20_000),
    ApiKey.DESCRIBE_LOG_DIRS: (8 * _MIB, 20_000),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (8 * _MIB, 50_000),
    ApiKey.CREATE_TOPICS: (16 * _MIB, 100_000),
    ApiKey.CREATE_PARTITIONS: (16 * _MIB, 50_000),
    ApiKey.DELETE_TOPICS: (8 * _MIB, 20_000),
    ApiKey.ELECT_LEADERS: (8 * _MIB, 100_000),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (16 * _MIB, 100_000),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (8 * _MIB, 50_000),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (8 * _MIB, 20_000),
    ApiKey.ALTER_CONFIGS: (8 * _MIB, 20_000),
    ApiKey.DESCRIBE_CONFIGS: (8 * _MIB, 20_000),
    ApiKey.CREATE_ACLS: (8 * _MIB, 10_000),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (8 * _MIB, 10_000),
    ApiKey.ADD_PARTITIONS_TO_TXN: (4 * _MIB, 10_000),
    ApiKey.WRITE_TXN_MARKERS: (4 * _MIB, 10_000),
    ApiKey.TXN_OFFSET_COMMIT: (8 * _MIB, 10_000),
    ApiKey.LIST_TRANSACTIONS: (64 * 1024, 1_000),
    # Metadata and assignments of members are bytes, of a size of the clients' own.
    # Protocols, of which clients have a few: each is an object for each member, and is voted on.
    ApiKey.JOIN_GROUP: (32 * _MIB, 100),
    ApiKey.SYNC_GROUP: (64 * _MIB, 10_000),
    ApiKey.LIST_GROUPS: (64 * 1024, 100),
    # Acknowledgements: offsets may each have a type of their own.
    ApiKey.SHARE_FETCH: (4 * _MIB, 200_000),
    ApiKey.SHARE_ACKNOWLEDGE: (4 * _MIB, 200_000),
    # The partitions that a member owns, and the names of its topics.
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (4 * _MIB, 50_000),
    ApiKey.SHARE_GROUP_HEARTBEAT: (2 * _MIB, 5_000),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (8 * _MIB, 20_000),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (8 * _MIB, 20_000),
}


LONG_RESPONSES: Final = frozenset(
    (
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.ELECT_LEADERS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    )
)
"""APIs of which a request of a few bytes may have a response of very many elements."""
LOOP_ELEMENTS_MAX: Final = 500
"""So many are encoded in a millisecond or two; what is longer is encoded in a thread."""
_BYTES_OF_ELEMENT: Final = 1024


def loop_bytes_max(key: ApiKey) -> int:
    """The largest frame of an API that is read on the loop."""
    if key is ApiKey.PRODUCE:  # it is counted before, and what is large in it is not read
        return UNLIMITED_BYTES
    if key is ApiKey.PUSH_TELEMETRY:  # few fields, and the one that is large is not read here
        return UNLIMITED_BYTES
    return LOOP_BYTES_OF_PARTITIONS_MAX if key in _OF_PARTITIONS else LOOP_BYTES_MAX


def bytes_max(key: ApiKey) -> int:
    """The largest frame of an API; what holds batches or comes from brokers has no limit here."""
    if key is ApiKey.PRODUCE or key in INTERNAL:
        return UNLIMITED_BYTES
    return _LIMITS.get(key, _DEFAULT)[0]


def elements_max(key: ApiKey) -> int:
    """How many elements a request of an API may have; a smaller frame cannot have more."""
    return _LIMITS.get(key, _DEFAULT)[1]


def check_response(key: int, frame: bytes) -> None:
    """Refuse to send what is too large, but between brokers. Raises: KafkaError."""
    if len(frame) > RESPONSE_BYTES_MAX and key not in INTERNAL:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the response would have {len(frame)} bytes, {RESPONSE_BYTES_MAX} at most",
        )


def encode(in_flight: InFlightRequest, response: Message) -> bytes:
    """The frame of a response."""
    return codec.encode_response(
        response, in_flight.api_key, in_flight.api_version, in_flight.correlation_id
    )


def encode_checked(in_flight: InFlightRequest, response: Message) -> bytes:
    """The frame of a response. Raises: KafkaError where it is too large."""
    frame = encode(in_flight, response)
    check_response(in_flight.api_key, frame)
    return frame


async def encode_apart(
    heavy_work: HeavyWork, in_flight: InFlightRequest, response: Message
) -> bytes:
    """The frame of a response, made in a thread.

    Raises: ConnectionGoneError; KafkaError where it is too large.
    """
    return await heavy_work.run(in_flight, encode_checked, in_flight, response)


def check_elements(key: ApiKey, request: Message) -> None:
    """Count what is in the arrays of a request. Raises: ParseError where it is too much."""
    left = elements_max(key) - _count(request)
    if left < 0:
        raise ParseError(f"{key.name} with {-left} elements too many")


def _count(message: Message) -> int:
    total = 0
    for field in message.__fields__:
        value: Any = getattr(message, field.name, None)
        if isinstance(value, list):
            total += len(value)
            if value and isinstance(value[0], Message):
                total += sum(map(_count, value))
        elif isinstance(value, Message):
            total += _count(value)
    return total


def is_long(response: Message) -> bool:
    """Whether to encode a response holds the loop up; takes no longer for a longer one."""
    return _left(response, LOOP_ELEMENTS_MAX) < 0


def _left(message: Message, left: int) -> int:
    """How many elements may come after a message; below 0 where it is too much by itself."""
    for field in message.__fields__:
        value: Any = getattr(message, field.name, None)
        if isinstance(value, list):
            left -= len(value)
            if value and isinstance(value[0], Message):
                for element in value:
                    if left < 0:
                        return left
                    left = _left(element, left)
        elif isinstance(value, Message):
            left = _left(value, left)
        elif isinstance(value, (bytes, memoryview)):
            left -= len(value) // _BYTES_OF_ELEMENT
        if left < 0:
            return left
    return left


REPEATS_MAX: Final = 10
"""Up to so many names in one request, the response repeats what the request does, as in Kafka."""


def each_once(names: Sequence[Name], key: Callable[[Name], Hashable]) -> Sequence[Name]:
    """The names to respond to: a hostile client repeats them a thousand times."""
    if len(names) <= REPEATS_MAX:
        return names
    return list({key(name): name for name in names}.values())
