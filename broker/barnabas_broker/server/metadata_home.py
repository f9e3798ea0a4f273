"""Which log directory holds the metadata log, and opening it there.

The broker's place among the voters belongs to that directory (rule 6, `docs/formats/arbiter.md`):
log, snapshots, promise and history are in it, and nowhere else. Where `metadata.log.dir` is not
set, the directory that has a metadata log holds it, so that `log.dirs` may be reordered.
"""

from __future__ import annotations

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.log.log_directory import LogDirectory
from barnabas_broker.log.log_identity import IdentityError
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.metadata.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    metadata_log_config,
)

_SETTING = "metadata.log.dir"


async def load_metadata_log(logs: LogManager, config: BrokerConfig) -> PartitionLog:
    """Open the metadata log where it is, or make it where it belongs.

    Raises: as `metadata_directory`; LogDirectoryLockedError, NoLogDirectoryError, ...
    """
    await logs.disk.run(logs.open_directories)
    return await logs.load_partition(
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        metadata_log_config(config.metadata_log_segment_bytes),
        metadata_directory(logs, config),
    )


def metadata_directory(logs: LogManager, config: BrokerConfig) -> LogDirectory:
    """The log directory that holds the metadata log, or is to hold it.

    Raises: IdentityError where there is one elsewhere, or more than one; OSError where the
    directory is offline, or may be.
    """
    wanted = config.metadata_log_dir.rstrip("/") or "/"
    is_set = bool(config.properties.get(_SETTING))
    found = [
        directory
        for directory in logs.online_directories()
        if logs.disk.is_directory(directory.partition_path(METADATA_PARTITION))
    ]
    if len(found) > 1:
        raise IdentityError(
            f"there is a metadata log in {' and in '.join(one.path for one in found)}: one of them"
            " is a copy, or older; put it away, and keep the one that the broker ran on last"
        )
    if found and is_set and found[0].path != wanted:
        raise IdentityError(
            f"the metadata log is in {found[0].path}, but {_SETTING} is {wanted}: set {_SETTING} to"
            f" {found[0].path}. It is not moved, for the broker's place among the voters belongs to"
            " the disk that it is on"
        )
    if found:
        return found[0]
    offline = [directory for directory in logs.directories if directory.is_offline]
    for directory in offline:
        if not is_set or directory.path == wanted:
            raise OSError(f"{directory.path} is offline, and may hold the metadata log")
    return next(one for one in logs.directories if one.path == wanted)
