"""Errors of a log: local failures, and those that reach clients in a response.

Not here: `KafkaError`, which travels on the wire. Source: LOG-5, LOG-11, MET-4.
"""

from enum import Enum
from typing import Final

from barnabas_protocol.errors import ErrorCode, KafkaError


class RefusalReason(Enum):
    """What is wrong with a batch that a client sent, as it is counted (MET-4)."""

    MAGIC = "magic"
    CRC = "crc"
    OFFSET = "offset"
    SEQUENCE = "sequence"
    PRODUCER_EPOCH = "producer_epoch"
    NO_KEY = "no_key"
    TIMESTAMP = "timestamp"
    TOO_LARGE = "too_large"
    FORMAT = "format"  # anything else that breaks the format's rules


class LogDirectoryError(Exception):
    """The disk under a log directory failed: everything in the directory must go offline.

    `path` is the file or directory that was touched, `cause` what the system said.
    """

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(f"{path}: {cause}")
        self.path = path
        self.cause = cause


class CorruptionError(Exception):
    """The bytes of a log cannot be what was written.

    `position` is the place in the file `path`, `reason` what is wrong there.
    """

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at position {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class InvalidBatchError(KafkaError):
    """A batch refused for a reason that its error code does not tell."""

    def __init__(self, code: ErrorCode, message: str, reason: RefusalReason) -> None:
        super().__init__(code, message)
        self.reason = reason


class NotOneBatchError(InvalidBatchError):
    """What a client sent for a partition is not just one batch of the format that is written.

    Refused before the log sees it, so the response has no log start offset.
    """

    def __init__(self, message: str, reason: RefusalReason = RefusalReason.FORMAT) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message, reason)


class InvalidRecordsError(InvalidBatchError):
    """A batch refused for some of its records (LOG-5), which `record_errors` lists.

    Each entry is the record's place in the batch, from 0, and what is wrong with it.
    """

    def __init__(
        self, code: ErrorCode, record_errors: list[tuple[int, str]], reason: RefusalReason
    ) -> None:
        shown = "; ".join(f"record {index}: {text}" for index, text in record_errors[:3])
        super().__init__(code, f"{len(record_errors)} records have been rejected: {shown}", reason)
        self.record_errors = record_errors


_REASONS_BY_CODE: Final = {
    ErrorCode.CORRUPT_MESSAGE: RefusalReason.FORMAT,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: RefusalReason.FORMAT,
    ErrorCode.MESSAGE_TOO_LARGE: RefusalReason.TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: RefusalReason.TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP: RefusalReason.TIMESTAMP,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: RefusalReason.SEQUENCE,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: RefusalReason.SEQUENCE,
    ErrorCode.INVALID_PRODUCER_EPOCH: RefusalReason.PRODUCER_EPOCH,
}


class RefusalCounts:
    """How many batches were refused, by what was wrong with them."""

    __slots__ = ("by_reason",)

    def __init__(self) -> None:
        self.by_reason = dict.fromkeys(RefusalReason, 0)

    def note(self, error: KafkaError) -> None:
        """Count a refused batch, unless there is nothing wrong with it."""
        reason = refusal_reason(error)
        if reason is not None:
            self.by_reason[reason] += 1


def refusal_reason(error: KafkaError) -> RefusalReason | None:
    """What was wrong with a batch that was refused with an error; None if nothing was."""
    if isinstance(error, InvalidBatchError):
        return error.reason
    return _REASONS_BY_CODE.get(error.code)


class SegmentRenamedError(FileNotFoundError):
    """The files of a segment got other names while a thread opened them: it may try again."""
