"""What the controller is told of log directories, and that it is told in the end."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from barnabas_broker.lifecycle.assignments_manager import AssignmentsManager, assignment
from barnabas_broker.metadata.image import MetadataImage
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from tests.broker.lifecycle.drain_images import broker, image, led_by
from tests.support.virtual_loop import run_virtual

FIRST, SECOND = b"1" * 16, b"2" * 16
IMAGE = image([broker(0)], led_by(0, 0), led_by(0, 0))


def told(request: AssignReplicasToDirsRequest) -> dict[tuple[bytes, int], bytes]:
    return {
        (topic.topic_id, partition.partition_index): directory.id
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    }


def test_replicas_are_told_by_directory_and_topic_id() -> None:
    """LOG-11; topics that are gone are left out."""
    request = assignment(
        IMAGE,
        0,
        7,
        {
            TopicPartition("t", 0): FIRST,
            TopicPartition("t", 1): SECOND,
            TopicPartition("gone", 0): FIRST,
        },
    )
    assert (request.broker_id, request.broker_epoch) == (0, 7)
    assert told(request) == {(b"t" * 16, 0): FIRST, (b"t" * 16, 1): SECOND}


class Controller:
    """Answers as told, or not at all; remembers what came."""

    def __init__(self) -> None:
        self.asked: list[AssignReplicasToDirsRequest] = []
        self.answers: list[ErrorCode | None] = []
        self.partition_errors: list[dict[int, ErrorCode | None]] = []

    async def send(self, request: Any, *, timeout_ms: int) -> Any:
        self.asked.append(request)
        await asyncio.sleep(0.01)
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if code is None:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        errors = self.partition_errors.pop(0) if self.partition_errors else {}
        return AssignReplicasToDirsResponse(
            error_code=code,
            directories=[]
            if code
            else [
                AssignReplicasToDirsResponseDirectoryData(
                    id=directory.id,
                    topics=[
                        AssignReplicasToDirsResponseTopicData(
                            topic_id=topic.topic_id,
                            partitions=[
                                AssignReplicasToDirsResponsePartitionData(
                                    partition_index=partition.partition_index,
                                    error_code=errors.get(partition.partition_index) or 0,
                                )
                                for partition in topic.partitions
                                if errors.get(partition.partition_index, ErrorCode.NONE) is not None
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ],
        )


def test_what_was_not_taken_is_told_again_with_what_came_since() -> None:
    """One request is under way at a time; the newest report of a partition counts."""

    async def run() -> None:
        controller = Controller()
        controller.answers = [None, ErrorCode.STALE_BROKER_EPOCH]
        tasks: list[asyncio.Task[None]] = []
        shown: list[MetadataImage] = [replace(IMAGE, brokers={})]

        def spawn(work: Coroutine[Any, Any, None]) -> None:
            tasks.append(asyncio.ensure_future(work))

        reports = AssignmentsManager(
            node_id=0, channel=controller, timeout_ms=10, image=lambda: shown[0], spawn=spawn
        )
        reports.report({})
        assert not tasks
        reports.report({TopicPartition("t", 0): FIRST})
        await asyncio.sleep(5)
        assert not controller.asked  # not registered yet
        shown[0] = IMAGE
        reports.report({TopicPartition("t", 0): SECOND, TopicPartition("t", 1): FIRST})
        await asyncio.gather(*tasks)
        assert len(tasks) == 1
        assert [told(request) for request in controller.asked] == [
            {(b"t" * 16, 0): SECOND, (b"t" * 16, 1): FIRST}
        ] * 3

    run_virtual(run())


def test_a_partition_that_was_not_noted_is_told_again() -> None:
    """KIP-858: errors of single partitions; what the controller does not have is not told again."""

    async def run() -> None:
        controller = Controller()
        controller.partition_errors = [
            {0: ErrorCode.UNKNOWN_SERVER_ERROR, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER},
            {0: None},  # left out of the answer
        ]
        tasks: list[asyncio.Task[None]] = []
        reports = AssignmentsManager(
            node_id=0,
            channel=controller,
            timeout_ms=10,
            image=lambda: IMAGE,
            spawn=lambda work: tasks.append(asyncio.ensure_future(work)),
        )
        gone = TopicPartition("gone", 0)
        reports.report({TopicPartition("t", 0): FIRST, TopicPartition("t", 1): FIRST, gone: FIRST})
        await asyncio.gather(*tasks)
        assert [set(told(request)) for request in controller.asked] == [
            {(b"t" * 16, 0), (b"t" * 16, 1)},
            {(b"t" * 16, 0)},
            {(b"t" * 16, 0)},
        ]

    run_virtual(run())
