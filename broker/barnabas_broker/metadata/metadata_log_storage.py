"""The metadata log in this broker's log directories: where it is, and what the quorum does to it.

The broker's place among the voters belongs to the directory of the metadata log (rule 6,
`docs/formats/arbiter.md`): log, snapshots, promise and history are in it, and nowhere else. Where
`metadata.log.dir` is not set, the directory that has a metadata log holds it, so that `log.dirs`
may be reordered.

A truncation of the metadata log lowers its recovery point on disk as well, also before the other
logs are loaded, when the checkpoints still know more than the logs do. A node that is blank belongs
to whatever cluster the arbiter's record names (`docs/decisions/0007-*.md`).
"""

from __future__ import annotations

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_identity import IdentityError
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.properties_files import MetaProperties, write_meta_properties
from barnabas_broker.metadata.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    metadata_log_config,
)

_SETTING = "metadata.log.dir"


class MetadataLogStorage:
    """The metadata log among the logs of one broker."""

    def __init__(self, logs: LogManager, config: BrokerConfig) -> None:
        """Look at nothing yet: the log directories may not be open."""
        self.logs = logs
        self._config = config

    @property
    def directory(self) -> LogDirectory:
        """The log directory that holds the metadata log, or is to hold it.

        Raises: IdentityError where there is one elsewhere, or more than one; OSError where the
        directory is offline, or may be.
        """
        logs = self.logs
        wanted = self._config.metadata_log_dir.rstrip("/") or "/"
        is_set = bool(self._config.properties.get(_SETTING))
        found = [
            directory
            for directory in logs.online_directories()
            if logs.disk.is_directory(directory.partition_path(METADATA_PARTITION))
        ]
        if len(found) > 1:
            raise IdentityError(
                f"there is a metadata log in {' and in '.join(one.path for one in found)}: one of"
                " them is a copy, or older; put it away, and keep the one that the broker ran on"
                " last"
            )
        if found and is_set and found[0].path != wanted:
            raise IdentityError(
                f"the metadata log is in {found[0].path}, but {_SETTING} is {wanted}: set"
                f" {_SETTING} to {found[0].path}. It is not moved, for the broker's place among the"
                " voters belongs to the disk that it is on"
            )
        if found:
            return found[0]
        offline = [directory for directory in logs.directories if directory.is_offline]
        for directory in offline:
            if not is_set or directory.path == wanted:
                raise OSError(f"{directory.path} is offline, and may hold the metadata log")
        return next(one for one in logs.directories if one.path == wanted)

    async def load(self) -> PartitionLog:
        """Open the metadata log where it is, or make it where it belongs.

        Raises: as `directory`; LogDirectoryLockedError, NoLogDirectoryError, ...
        """
        await self.logs.disk.run(self.logs.open_directories)
        return await self.logs.load_partition(
            METADATA_PARTITION,
            METADATA_TOPIC_ID,
            metadata_log_config(self._config.metadata_log_segment_bytes),
            self.directory,
        )

    async def lower_recovery_point(self) -> None:
        """Bring the recovery point to the disk, where it has gone back. Raises: OSError."""
        logs, directory = self.logs, self.directory
        if directory.is_loaded:
            await logs.checkpointing.write_recovery_points(directory)
            return
        log = logs.logs[METADATA_PARTITION]
        offsets = directory.read_offsets(directory.recovery_points)
        if offsets.get(METADATA_PARTITION, 0) > log.recovery_point:
            offsets[METADATA_PARTITION] = log.recovery_point
            await logs.disk.run(directory.recovery_points.write, offsets)

    async def forget_high_watermark(self) -> None:
        """Take the high watermark back to the log's start, on the disk too. Raises: OSError."""
        logs, directory = self.logs, self.directory
        log = logs.logs[METADATA_PARTITION]
        log.high_watermark = log.log_start_offset
        if directory.is_loaded:
            await logs.checkpointing.write_high_watermarks(directory)
            return
        offsets = directory.read_offsets(directory.high_watermarks)
        if offsets.get(METADATA_PARTITION, 0) > log.high_watermark:
            offsets[METADATA_PARTITION] = log.high_watermark
            await logs.disk.run(directory.high_watermarks.write, offsets)

    def has_no_partitions(self) -> bool:
        """Whether no directory that is there has a partition: those of a new broker."""
        return not any(
            found != METADATA_PARTITION
            for directory in self.logs.online_directories()
            for found, _ in directory.partition_directories()
        )

    async def adopt_cluster_id(self, cluster_id: str) -> bool:
        """Make a blank node one of another cluster; returns whether it was blank, and now is.

        Blank: no cluster id is set, nothing is in the metadata log, and there are no other logs.
        Raises: OSError.
        """
        logs = self.logs
        if self._config.cluster_id is not None or not self.has_no_partitions():
            return False
        if logs.logs[METADATA_PARTITION].log_end_offset > 0:
            return False
        for directory in logs.online_directories():
            properties = MetaProperties(
                cluster_id=cluster_id, node_id=logs.node_id, directory_id=directory.directory_id
            )
            await logs.disk.run(
                write_meta_properties, logs.disk, directory.meta_properties_path, properties
            )
        logs.cluster_id = cluster_id
        return True
