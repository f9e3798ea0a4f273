"""AlterReplicaLogDirs and DescribeLogDirs of a whole broker, by its own protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path

from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import alter_replica_log_dirs, describe_log_dirs
from tests.broker.directory_requests import create, produced
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient


async def move(server: Server, path: str, *partitions: int) -> list[int]:
    """Ask for moves; the error code of each."""
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=list(partitions))
    request = alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[alter_replica_log_dirs.AlterReplicaLogDir(path=path, topics=[topic])]
    )
    async with await RawClient.connect(server.port) as client:
        response = await client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, request)
    return [item.error_code for item in response.results[0].partitions]


async def places(server: Server) -> dict[tuple[str, int], bool]:
    """Directory and partition of every replica, and whether it is a copy on its way."""
    async with await RawClient.connect(server.port) as client:
        response = await client.call(
            ApiKey.DESCRIBE_LOG_DIRS, 4, describe_log_dirs.DescribeLogDirsRequest(topics=None)
        )
    return {
        (result.log_dir, partition.partition_index): partition.is_future_key
        for result in response.results
        for topic in result.topics
        for partition in topic.partitions
        if topic.name == "t"
    }


def test_replicas_move_between_directories_and_the_metadata_remembers_it(tmp_path: Path) -> None:
    """KIP-113, KIP-858: what was written is still there, also after a restart."""
    a, b = tmp_path / "a", tmp_path / "b"
    both = {"log_dirs": f"{a},{b}", "metadata_log_dir": str(a)}

    async def test() -> None:
        async with running_broker(a, **both) as server:
            await create(server)
            partitions = sorted(index for _, index in await places(server))
            for index in partitions:
                assert await produced(server, index) == (0, 0)
            assert await move(server, str(b), *partitions) == [0] * len(partitions)
            everything_in_b = {(str(b), index): False for index in partitions}

            async def have_moved() -> bool:
                return await places(server) == everything_in_b

            await eventually(have_moved)
            directory_id = server.logs.directories[1].directory_id

            async def is_noted() -> bool:
                images = server.image.topics.by_name["t"].partitions
                return all(image.directories == (directory_id,) for image in images)

            await eventually(is_noted)
            for index in partitions:
                assert await produced(server, index) == (0, 1)
        async with running_broker(a, **both) as server:
            assert await places(server) == everything_in_b
            for index in partitions:
                assert await produced(server, index) == (0, 2)
            assert await move(server, "/no/such", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
            assert await move(server, str(a), 99) == [ErrorCode.REPLICA_NOT_AVAILABLE]

    asyncio.run(test())
