"""Every error that the client raises; the type is what the caller should do.

    RetriableError         the same call may succeed later; the client retried until its timeout
    UsageError             the call or a setting is wrong: change it
    RejectedError          the cluster refused the request, by its state or policy
        NotFoundError, AlreadyExistsError
    AuthenticationError    use other credentials;   AuthorizationError: get the rights
    UnsupportedError       the broker is too old or has this switched off
    SeekRequiredError      the position is outside of the log: seek, or set a reset policy
    MembershipLostError    the partitions may be assigned to another member: poll again
    AbortableError         abort the transaction, then begin it again
    FencedError            another instance has taken over: close this one
    ClientBrokenError      a bug of the client or its peer: close the client and report it

Source: the client columns of Kafka's error table (KIP-1050 groups producer errors the same way).
Invariants: all derive from `BarnabasError`; `code` is the broker's error code where one came.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Final, Self

from barnabas_protocol.errors import RETRIABLE, ErrorCode
from barnabas_protocol.ids import TopicPartition


class BarnabasError(Exception):
    """The base of all errors that the client raises."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        #: Whether a record that was not acknowledged may be in the log all the same.
        self.is_in_doubt = False

    def __str__(self) -> str:
        """Return one line, with the name of the broker's code where there is one."""
        text = self.message
        if self.code is not None and self.code.name not in self.message:
            text = f"{text} ({self.code.name})"
        return f"{text}; the record may be in the log all the same" if self.is_in_doubt else text

    def in_doubt(self) -> Self:
        """The same error of records that may be in the log all the same."""
        if self.is_in_doubt:
            return self
        other = copy.copy(self)
        other.is_in_doubt = True
        return other


class RetriableError(BarnabasError):
    """The call may succeed when it is repeated."""


class BrokerUnreachableError(RetriableError):
    """No connection to the broker, or to none of those that are known."""


class DisconnectedError(RetriableError):
    """The connection was lost before the response; the request may have been carried out."""


class TimedOutError(RetriableError):
    """The timeout is over; a request in flight may still be carried out."""


class StaleMetadataError(RetriableError):
    """The metadata of leaders or topics are stale; the client refreshes them."""


class CoordinatorMovedError(RetriableError):
    """The coordinator has moved, or is still loading."""


class BufferFullError(RetriableError):
    """The producer's `buffer_memory` stayed full for `max_block_ms`: the cluster is slower."""


class UsageError(BarnabasError):
    """The call cannot succeed as it is made."""


class ConfigurationError(UsageError):
    """A setting is unknown, malformed, out of range or contradicts another one."""


class SerializationError(UsageError):
    """A serializer or deserializer refused a key or value.

    `position` is the topic, partition and offset of a record that a consumer cannot return.
    """

    position: tuple[str, int, int] | None = None


class RecordTooLargeError(UsageError):
    """A record exceeds `max_request_size`, `buffer_memory` or the topic's limit."""


class ClosedError(UsageError):
    """The producer, consumer or admin client is closed."""


class IllegalStateError(UsageError):
    """The call does not fit the state: not subscribed, no transaction open, used concurrently."""


class RejectedError(BarnabasError):
    """The cluster understood the request and refused it."""


class NotFoundError(RejectedError):
    """The resource does not exist."""


class AlreadyExistsError(RejectedError):
    """The resource to create exists already."""


class AuthenticationError(BarnabasError):
    """The broker refused the credentials, or TLS could not verify a peer."""


class AuthorizationError(BarnabasError):
    """The credentials are valid and do not allow this."""


class UnsupportedError(BarnabasError):
    """The broker does not serve this request, or not in a version that can express the call."""


class SeekRequiredError(BarnabasError):
    """The consumer has no valid position; `positions` names the partitions.

    The values are their offsets; None where there is none.
    """

    def __init__(
        self,
        message: str,
        code: ErrorCode | None = None,
        positions: Mapping[TopicPartition, int | None] | None = None,
    ) -> None:
        super().__init__(message, code)
        self.positions = dict(positions or {})


class OffsetOutOfRangeError(SeekRequiredError):
    """The position lies outside the log and `auto_offset_reset` is `none`."""


class NoOffsetError(SeekRequiredError):
    """No offset is committed and `auto_offset_reset` is `none`."""


class LogTruncatedError(SeekRequiredError):
    """Records that were read are gone; `divergence` has the offsets where logs still agree."""

    def __init__(
        self,
        message: str,
        positions: Mapping[TopicPartition, int | None],
        divergence: Mapping[TopicPartition, int | None],
    ) -> None:
        super().__init__(message, None, positions)
        self.divergence = dict(divergence)


class CorruptRecordError(BarnabasError):
    """A batch fails its checksum or cannot be read: seek behind it, and look at the broker.

    `position` is the topic, partition and offset at which reading stopped.
    """

    position: tuple[str, int, int] | None = None


class MembershipLostError(BarnabasError):
    """The group has removed this member; uncommitted records are read by others."""


class CommitFailedError(MembershipLostError):
    """The commit came after the partitions were assigned to another member."""


class AbortableError(BarnabasError):
    """The transaction can only be aborted; then the producer can be used again."""


class FencedError(BarnabasError):
    """Another instance with the same transactional or group instance id has taken over."""


class ClientBrokenError(BarnabasError):
    """A peer has violated the protocol, or this is a bug of the client."""


_CODES_BY_TYPE: Final[dict[type[BarnabasError], tuple[ErrorCode, ...]]] = {
    TimedOutError: (ErrorCode.REQUEST_TIMED_OUT,),
    DisconnectedError: (ErrorCode.NETWORK_EXCEPTION,),
    StaleMetadataError: (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ),
    CoordinatorMovedError: (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ),
    NotFoundError: (
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.VOTER_NOT_FOUND,
    ),
    AlreadyExistsError: (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.DUPLICATE_RESOURCE,
        ErrorCode.DUPLICATE_VOTER,
    ),
    AuthenticationError: (
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    ),
    AuthorizationError: (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ),
    UnsupportedError: (
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.TOPIC_DELETION_DISABLED,
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    ),
    OffsetOutOfRangeError: (ErrorCode.OFFSET_OUT_OF_RANGE,),
    RecordTooLargeError: (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE),
    MembershipLostError: (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    ),
    AbortableError: (
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    ),
    FencedError: (
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ),
    UsageError: (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.INVALID_PRINCIPAL_TYPE,
        ErrorCode.UNACCEPTABLE_CREDENTIAL,
    ),
    ClientBrokenError: (ErrorCode.UNKNOWN_SERVER_ERROR,),
}
_TYPE_BY_CODE: Final = {code: kind for kind, codes in _CODES_BY_TYPE.items() for code in codes}


def known_code(code: int) -> ErrorCode:
    """The code; codes of newer brokers count as unknown server errors."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def error_for(code: int, message: str | None = None) -> BarnabasError:
    """The exception for a broker's error code; `message` is what was tried and why it failed.

    A code that is in no row is retriable where Kafka's table says so, else the request is rejected.
    """
    try:
        known = ErrorCode(code)
    except ValueError:
        return RejectedError(f"{message or 'the broker refused'} (unknown error code {code})")
    kind = _TYPE_BY_CODE.get(known)
    if kind is None:
        kind = RetriableError if known in RETRIABLE else RejectedError
    return kind(message or known.name, known)
