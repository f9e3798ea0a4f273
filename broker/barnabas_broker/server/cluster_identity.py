"""Two things that the quorum changes in the log directories: recovery points and the cluster's id.

A truncation of the metadata log must lower its recovery point on disk as well, also before the
other logs are loaded, when the checkpoints still know more than the logs do. And a node that is
blank belongs to whatever cluster the arbiter's record names (`docs/decisions/0007-*.md`).
"""

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.log.log_directory import LogDirectory
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.log.properties_files import MetaProperties, write_meta_properties
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_broker.metadata.metadata_quorum import MetadataQuorum
from barnabas_protocol.ids import TopicPartition


async def forget_high_watermark(
    logs: LogManager, directory: LogDirectory, topic_partition: TopicPartition
) -> None:
    """Take a log's high watermark back to its start, on the disk too. Raises: OSError."""
    log = logs.logs[topic_partition]
    log.high_watermark = log.log_start_offset
    await _write_high_watermark(logs, directory, topic_partition)


async def _write_high_watermark(
    logs: LogManager, directory: LogDirectory, topic_partition: TopicPartition
) -> None:
    if directory.is_loaded:
        await logs.checkpointing.write_high_watermarks(directory)
        return
    offset = logs.logs[topic_partition].high_watermark
    offsets = directory.read_offsets(directory.high_watermarks)
    if offsets.get(topic_partition, 0) > offset:
        offsets[topic_partition] = offset
        await logs.disk.run(directory.high_watermarks.write, offsets)


async def lower_recovery_point(
    logs: LogManager, directory: LogDirectory, topic_partition: TopicPartition
) -> None:
    """Bring the recovery point of a log to the disk, where it has gone back. Raises: OSError."""
    if directory.is_loaded:
        await logs.checkpointing.write_recovery_points(directory)
        return
    log = logs.logs[topic_partition]
    offsets = directory.read_offsets(directory.recovery_points)
    if offsets.get(topic_partition, 0) > log.recovery_point:
        offsets[topic_partition] = log.recovery_point
        await logs.disk.run(directory.recovery_points.write, offsets)


async def adopt_cluster_id(
    logs: LogManager, config: BrokerConfig, quorum: MetadataQuorum, cluster_id: str
) -> bool:
    """Make a blank node one of another cluster; returns whether it was blank, and now is.

    Blank: no cluster id is set, nothing is in the metadata log, and there are no other logs.
    Raises: OSError.
    """
    if config.cluster_id is not None or quorum.log.log_end_offset > 0:
        return False
    for directory in logs.online_directories():
        if any(found != METADATA_PARTITION for found, _ in directory.partition_directories()):
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
