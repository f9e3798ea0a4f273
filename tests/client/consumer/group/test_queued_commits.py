"""Commits that wait in line while their partitions go to another member (KIP-848)."""

import asyncio
from typing import Any

from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import BarnabasError, MembershipLostError
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.client.consumer.group.consumer_coordinator import Coordinator, Member
from tests.client.consumer.group.scripted_client import subscribed
from tests.support.virtual_loop import run_virtual


class SlowCoordinator(Coordinator):
    """Takes 10 ms for a commit, and takes those of a member's present epoch, as Kafka's does."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: dict[tuple[str, int], int] = {}

    async def __call__(self, request: Any, version: int) -> Any:
        if not isinstance(request, OffsetCommitRequest):
            return await super().__call__(request, version)
        await asyncio.sleep(0.01)
        member = self.model.members.get(request.member_id)
        code = ErrorCode.NONE
        if member is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        elif member.epoch != request.generation_id_or_member_epoch:
            code = ErrorCode.STALE_MEMBER_EPOCH
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                if code is ErrorCode.NONE:
                    self.offsets[topic.name, part.partition_index] = part.committed_offset
                parts.append(
                    OffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=code
                    )
                )
            topics.append(
                OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=parts
                )
            )
        return OffsetCommitResponse(topics=topics)


def test_what_waits_takes_no_commit_of_the_next_owner_back() -> None:
    """They went out under the later epoch, which the coordinator takes from any member of it."""

    async def scenario() -> None:
        coordinator = SlowCoordinator()
        settings = {"enable_auto_commit": False}
        first = Member(coordinator, subscribed("t"), settings)
        first.subscription.listener = None
        await first.poll_until(lambda: len(first.subscription.assigned) == 4)
        await asyncio.sleep(1.5)
        await first.poll()
        second = Member(coordinator, subscribed("t"), settings)
        second.subscription.listener = None
        await second.poll()
        await asyncio.sleep(0.2)
        errors: list[BarnabasError | None] = []
        for number in range(200):
            for partition in sorted(first.subscription.assigned):
                first.committer.commit_soon(
                    {partition: OffsetAndMetadata(number + 1)},
                    lambda _, error: errors.append(error),
                )
        while not second.subscription.assigned:
            await first.poll(100)
            await second.poll(100)
            await asyncio.sleep(0.02)
        taken = min(second.subscription.assigned)
        await second.committer.commit({taken: OffsetAndMetadata(1000)})
        while len(errors) < 800:
            await first.poll(100)
            await second.poll(100)
            await asyncio.sleep(0.02)
        assert coordinator.offsets[tuple(taken)] == 1000
        assert any(isinstance(error, MembershipLostError) for error in errors)
        kept = min(first.subscription.assigned)
        assert coordinator.offsets[tuple(kept)] == 200
        for member in (first, second):
            await member.membership.close(5000)
            await member.committer.close(0)

    run_virtual(scenario())
