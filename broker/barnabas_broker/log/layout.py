"""The names of files and directories below a log directory.

Names only: nothing here touches the disk. Source: Kafka's log directory layout, described in
`docs/formats/log.md`. Invariants: a segment's files share the twenty-digit base offset; a partition
directory's name fits the 255 bytes of common file systems, whatever suffix it carries.
"""

import re

from barnabas_protocol.ids import TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES)

# There while a power cut may undo a truncation of the log, in part too.

DELETED_FILE_SUFFIX = ".deleted"
CLEANED_FILE_SUFFIX = ".cleaned"
SWAP_FILE_SUFFIX = ".swap"

DELETE_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
FUTURE_DIRECTORY_SUFFIX = "-future"
DISCARDED_DIRECTORY_SUFFIX = "-discarded"

# Topics by which the broker and its groups live, whatever becomes of clients' records.
NEEDED_TOPICS = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__transaction_state", "__share_group_state"}
)

NAME_BYTES_MAX = 255
_UNIQUE_DIGITS = 32
_MARKED = re.compile(r"^(.+)\.[0-9a-f]{32}-(delete|discarded|stray|future)$", re.DOTALL)
_PARTITION_DIRECTORY = re.compile(r"^([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})$")


def is_needed_by_broker(topic: str) -> bool:
    """Whether a topic is one of the broker's own, which goes on when the disk is full."""
    return topic in NEEDED_TOPICS


def segment_file_name(base_offset: int, suffix: str) -> str:
    """The name of one of a segment's files; `suffix` is one of SEGMENT_SUFFIXES or `.snapshot`."""
    return f"{base_offset:020d}{suffix}"


def parse_offset(name: str) -> int | None:
    """The offset at the front of a segment's or snapshot's file name, None if it has none."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def partition_directory_name(topic_partition: TopicPartition) -> str:
    """The directory of a partition that is in service."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition whose directory this is; None for marked directories and anything else."""
    if _MARKED.match(name):
        return None
    match = _PARTITION_DIRECTORY.match(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def deleted_directory_name(topic_partition: TopicPartition, unique: str) -> str:
    """What a partition's directory is renamed to before it is removed.

    `unique` is 32 hex digits. The topic's part is cut so that the whole name fits.
    """
    return _marked_name(topic_partition, unique, DELETE_DIRECTORY_SUFFIX)


def stray_directory_name(topic_partition: TopicPartition, unique: str) -> str:
    """What the directory of a partition that is not assigned here is renamed to (TOP-15)."""
    return _marked_name(topic_partition, unique, STRAY_DIRECTORY_SUFFIX)


def future_directory_name(topic_partition: TopicPartition, unique: str) -> str:
    """Where a copy of a partition grows that is to take its place (KIP-113)."""
    return _marked_name(topic_partition, unique, FUTURE_DIRECTORY_SUFFIX)


def discarded_directory_name(topic_partition: TopicPartition, unique: str) -> str:
    """What a copy is called that nobody needs, or a stray that an operator deletes."""
    return _marked_name(topic_partition, unique, DISCARDED_DIRECTORY_SUFFIX)


def parse_marked_directory(name: str) -> TopicPartition | None:
    """The partition of a marked directory, as far as the name was not cut; None for others."""
    match = _MARKED.match(name)
    return None if match is None else parse_partition_directory(match[1])


def is_future_directory(name: str) -> bool:
    """Whether a copy of a partition was growing there before the last stop."""
    match = _MARKED.match(name)
    return match is not None and match[2] == "future"


def is_discarded_directory(name: str) -> bool:
    """Whether a directory holds nothing that is still needed."""
    match = _MARKED.match(name)
    return match is not None and match[2] == "discarded"


def is_deleted_directory(name: str) -> bool:
    """Whether a directory was scheduled for removal before the last stop."""
    match = _MARKED.match(name)
    return match is not None and match[2] == "delete"


def is_stray_directory(name: str) -> bool:
    """Whether a directory was put aside as stray before the last stop."""
    match = _MARKED.match(name)
    return match is not None and match[2] == "stray"


def _marked_name(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    if len(unique) != _UNIQUE_DIGITS:
        raise ValueError(f"{unique!r} is not {_UNIQUE_DIGITS} hex digits")
    tail = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: NAME_BYTES_MAX - len(tail)] + tail
