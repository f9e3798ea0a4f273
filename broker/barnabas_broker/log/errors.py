"""Errors of a log: local failures, and those that reach clients in a response.

Not here: `KafkaError`, which travels on the wire. Source: LOG-5, LOG-11.
"""

from barnabas_protocol.errors import ErrorCode, KafkaError


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


class NotOneBatchError(KafkaError):
    """What a client sent for a partition is not just one batch of the format that is written.

    Refused before the log sees it, so the response has no log start offset.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)


class InvalidRecordsError(KafkaError):
    """A batch refused for some of its records (LOG-5), which `record_errors` lists.

    Each entry is the record's place in the batch, from 0, and what is wrong with it.
    """

    def __init__(self, code: ErrorCode, record_errors: list[tuple[int, str]]) -> None:
        shown = "; ".join(f"record {index}: {text}" for index, text in record_errors[:3])
        super().__init__(code, f"{len(record_errors)} records have been rejected: {shown}")
        self.record_errors = record_errors


class SegmentRenamedError(FileNotFoundError):
    """The files of a segment got other names while a thread opened them: it may try again."""
