"""DescribeLogDirs (35), versions 0 to 5: the log directories, what is in them and how large it is.

A copy that is to take a replica's place is listed beside it (`is_future_key`) until it has. v3: an
error of the whole response. v4: total and usable bytes of the volume. v5: cordoned directories.
"""

from collections import defaultdict

from barnabas_broker.handlers.services import Services
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe every directory; a null list of topics means all."""
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    results = [
        await _describe(services, in_flight, directory, wanted)
        for directory in services.logs.directories
    ]
    return DescribeLogDirsResponse(results=results)


async def _describe(
    services: Services,
    in_flight: InFlightRequest,
    directory: LogDirectory,
    wanted: set[tuple[str, int]] | None,
) -> DescribeLogDirsResult:
    if directory.is_offline:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path
        )
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    # They may come and go while the loop goes on.
    partitions = list(services.replicas.partitions.items())
    async for topic_partition, partition in services.heavy_work.each(in_flight, partitions):
        log = partition.log
        if wanted is not None and tuple(topic_partition) not in wanted:
            continue
        if log.directory.rpartition("/")[0] == directory.path:
            topics[topic_partition.topic].append(
                DescribeLogDirsPartition(
                    partition_index=topic_partition.partition,
                    partition_size=log.size_bytes,
                    offset_lag=max(0, log.high_watermark - log.log_end_offset),
                )
            )
    for topic_partition, future in services.replicas.future_logs.moving.items():
        if future.target is directory and (wanted is None or tuple(topic_partition) in wanted):
            topics[topic_partition.topic].append(
                DescribeLogDirsPartition(
                    partition_index=topic_partition.partition,
                    partition_size=future.size_bytes,
                    offset_lag=future.lag,
                    is_future_key=True,
                )
            )
    disk = services.logs.disk
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        total_bytes=disk.total_bytes(directory.path),
        usable_bytes=disk.free_bytes(directory.path),
    )


def failed(request: DescribeLogDirsRequest, error: KafkaError) -> DescribeLogDirsResponse:
    """The error alone."""
    return DescribeLogDirsResponse(error_code=error.code)
