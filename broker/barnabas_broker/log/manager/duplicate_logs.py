"""Which of two logs of one partition is the right one, where the metadata does not remember.

A replica that was assigned anew while the directory of its old log was offline has two, and a
broker that dies before it has reported the new directory to the controller finds both at its next
start. The newer one of the topic's id is right: as in an election, the higher leader epoch of the
last batch counts first, then the end. A replica that is in the ISR has all that is committed, so
nothing of that can be in the older log alone.

Not here: what becomes of the other one (`directory_loader`). Source: TOP-15, LOG-11, NODE-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas_broker.log import layout
from barnabas_broker.log.batch_scan import scan_batches
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.properties_files import PARTITION_METADATA_FILE, read_topic_id

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk

_THIS_TOPIC: Final = 2
_ANY_TOPIC: Final = 1
_ANOTHER_TOPIC: Final = 0


class LogEnd(NamedTuple):
    """How a log on disk ends; the greater, the better. Epoch -1: it has no batch."""

    topic_rank: int
    leader_epoch: int
    end_offset: int


def log_end(disk: Disk, path: str, known_topic_id: bytes) -> LogEnd:
    """How the log in a partition's directory ends, looked up in its files; blocks.

    Raises: OSError.
    """
    rank = _topic_rank(disk, path, known_topic_id)
    bases = sorted(
        offset
        for name in disk.list_directory(path)
        if name.endswith(layout.LOG_SUFFIX) and (offset := layout.parse_offset(name)) is not None
    )
    for base_offset in reversed(bases):
        end = _segment_end(
            disk, f"{path}/{layout.segment_file_name(base_offset, layout.LOG_SUFFIX)}"
        )
        if end is not None:
            return LogEnd(rank, *end)
    return LogEnd(rank, -1, bases[-1] if bases else 0)


def _segment_end(disk: Disk, path: str) -> tuple[int, int] | None:
    """Leader epoch and next offset of the last batch before any that is torn; None without one."""
    file = disk.open(path, read_only=True)
    end: tuple[int, int] | None = None
    try:
        for _, header, _ in scan_batches(path, file, 0, file.size()):
            end = header.leader_epoch, header.last_offset + 1
    except CorruptionError:
        return end  # the end is torn: what comes before counts
    finally:
        file.close()
    return end


def _topic_rank(disk: Disk, path: str, known_topic_id: bytes) -> int:
    try:
        topic_id = read_topic_id(disk, f"{path}/{PARTITION_METADATA_FILE}")
    except CheckpointError:
        topic_id = None
    if topic_id is None:
        return _ANY_TOPIC
    return _THIS_TOPIC if topic_id == known_topic_id else _ANOTHER_TOPIC
