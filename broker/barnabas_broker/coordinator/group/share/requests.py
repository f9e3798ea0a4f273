"""Requests to share groups: one coroutine each, decoded request in, response out.

Not here: what they do to a group (`heartbeat.py`, `partition_work.py`), how the state of partitions
is made and deleted (`partition_worker.py`), the feature (handlers). Source: SHR-28, SHR-32.

Invariant: every coroutine returns a response; errors of the coordinator become its error codes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.errors import append_error
from barnabas_broker.coordinator.group.leader_offset_requests import Ends
from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.group.share.partition_states import PartitionStates
from barnabas_broker.coordinator.group.share.partition_work import UNREAD
from barnabas_broker.coordinator.group.share.partition_worker import CALLS_AT_ONCE, PartitionWorker
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.loop import CoordinatorRuntime
from barnabas_broker.coordinator.runtime.shard import Instant, Result
from barnabas_broker.share.persister import SharePartitionKey, SharePersister, ShareStateSummary
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from barnabas_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from barnabas_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from barnabas_protocol.messages.share_group_describe import DescribedGroup
from barnabas_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

GROUPS_PER_TURN = 20
"""So many groups are looked at before others get their turn."""
NO_OFFSETS = "There is no offset information to delete."
NOT_KNOWN = -1

LogEnds = Callable[[Iterable[TopicPartition]], Awaitable[Mapping[TopicPartition, Ends]]]


async def _no_ends(topic_partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Ends]:
    return {}


class ShareGroupRequests:
    """The share groups whose partitions of `__consumer_offsets` this broker leads."""

    def __init__(self, runtime: CoordinatorRuntime[GroupShard], topics: Topics) -> None:
        self._runtime = runtime
        self._topics = topics
        self._worker = PartitionWorker(runtime)
        self._log_ends: LogEnds = _no_ends

    def connect(self, load_persister: Callable[[], SharePersister], log_ends: LogEnds) -> None:
        """Keep the state of partitions there; before, it can be neither made nor deleted."""
        self._worker.load_persister = load_persister
        self._log_ends = log_ends

    async def close(self) -> None:
        """Stop what is under way."""
        await self._worker.close()

    # ---- members -------------------------------------------------------------------------------

    async def heartbeat(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext
    ) -> ShareGroupHeartbeatResponse:
        """Take the heartbeat of a member."""
        group_id = request.group_id
        try:
            beat = await self._runtime.execute_for(
                group_id, lambda shard, now: shard.share_members.heartbeat(request, context, now)
            )
        except KafkaError as error:
            return ShareGroupHeartbeatResponse(
                error_code=append_error(error.code), error_message=error.message
            )
        if beat.has_work:
            self._worker.start(group_id)
        return beat.response

    async def describe(self, group_ids: Sequence[str]) -> list[DescribedGroup]:
        """Return share groups with their members; what is none is an error (69)."""
        groups = []
        for index, group_id in enumerate(group_ids):
            if index % GROUPS_PER_TURN == GROUPS_PER_TURN - 1:
                await asyncio.sleep(0)
            command = partial(_describe, group_id=group_id)
            try:
                self._check_name(group_id)
                groups.append(await self._runtime.execute_for(group_id, command))
            except KafkaError as error:
                code = append_error(error.code)
                groups.append(DescribedGroup(group_id=group_id, error_code=code))
        return groups

    # ---- offsets -------------------------------------------------------------------------------

    async def describe_offsets(
        self, request: DescribeShareGroupOffsetsRequestGroup
    ) -> DescribeShareGroupOffsetsResponseGroup:
        """Return where a group begins in each partition, and how far it is behind."""
        group_id = request.group_id
        try:
            self._check_name(group_id)
            states = await self._runtime.execute_for(
                group_id, partial(_partition_states, group_id=group_id)
            )
        except KafkaError as error:
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=group_id, error_code=append_error(error.code), error_message=error.message
            )
        wanted: list[tuple[str, bytes | None, Iterable[int]]]
        if request.topics is None:
            wanted = self._initialized(states)
        else:
            wanted = [
                (topic.topic_name, self._topics.topic_id(topic.topic_name), topic.partitions)
                for topic in request.topics
            ]
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id,
            topics=[await self._describe_topic(group_id, *topic) for topic in wanted],
        )

    def _initialized(
        self, states: PartitionStates
    ) -> list[tuple[str, bytes | None, Iterable[int]]]:
        named = (
            (self._topics.topic_name(topic_id), topic_id, sorted(topic.partitions))
            for topic_id, topic in states.initialized.items()
        )
        return sorted((name, topic_id, indexes) for name, topic_id, indexes in named if name)

    async def _describe_topic(
        self, group_id: str, name: str, topic_id: bytes | None, partitions: Iterable[int]
    ) -> DescribeShareGroupOffsetsResponseTopic:
        indexes = list(dict.fromkeys(partitions))
        described: list[DescribeShareGroupOffsetsResponsePartition] = []
        for start in range(0, len(indexes), CALLS_AT_ONCE):
            some = indexes[start : start + CALLS_AT_ONCE]
            if topic_id is None:
                described += map(_unread, some)
                continue
            ends = await self._log_ends(TopicPartition(name, index) for index in some)
            summaries = await asyncio.gather(
                *(self._summary(SharePartitionKey(group_id, topic_id, index)) for index in some)
            )
            described += (
                _described(index, summary, ends.get(TopicPartition(name, index)))
                for index, summary in zip(some, summaries, strict=True)
            )
        return DescribeShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=topic_id or ZERO_UUID, partitions=described
        )

    async def _summary(self, key: SharePartitionKey) -> ShareStateSummary | KafkaError:
        try:
            return await self._worker.persister.summary(key)
        except KafkaError as error:
            return error

    async def alter_offsets(
        self, request: AlterShareGroupOffsetsRequest, context: RequestContext
    ) -> AlterShareGroupOffsetsResponse:
        """Have a group without members begin elsewhere; it is made if there is none."""
        group_id = request.group_id
        wanted: dict[bytes, dict[int, int]] = {}
        for topic in request.topics:
            topic_id = self._topics.topic_id(topic.topic_name)
            count = self._topics.partition_count(topic.topic_name)
            if topic_id is not None:
                wanted.setdefault(topic_id, {}).update(
                    (each.partition_index, each.start_offset)
                    for each in topic.partitions
                    if 0 <= each.partition_index < count and each.start_offset >= 0
                )
        codes: Mapping[tuple[bytes, int], ErrorCode] = {}
        try:
            self._check_name(group_id)
            if any(wanted.values()):
                async with self._worker.turn(group_id):
                    work = await self._runtime.execute_for(
                        group_id,
                        lambda shard, now: shard.share_partitions.alter(
                            group_id, wanted, context.client_host, now
                        ),
                    )
                    codes = (await self._worker.carry_out(work)).initialized
        except KafkaError as error:
            return AlterShareGroupOffsetsResponse(
                error_code=append_error(error.code), error_message=error.message
            )
        return AlterShareGroupOffsetsResponse(
            responses=[
                AlterShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name,
                    topic_id=self._topics.topic_id(topic.topic_name) or ZERO_UUID,
                    partitions=[
                        self._altered(topic.topic_name, each.partition_index, codes)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _altered(
        self, topic: str, index: int, codes: Mapping[tuple[bytes, int], ErrorCode]
    ) -> AlterShareGroupOffsetsResponsePartition:
        topic_id = self._topics.topic_id(topic)
        if topic_id is None or not 0 <= index < self._topics.partition_count(topic):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            # Only a start below zero is not among them.
            code = codes.get((topic_id, index), ErrorCode.INVALID_REQUEST)
        return AlterShareGroupOffsetsResponsePartition(
            partition_index=index, error_code=code, error_message=code.name if code else None
        )

    async def delete_offsets(
        self, request: DeleteShareGroupOffsetsRequest
    ) -> DeleteShareGroupOffsetsResponse:
        """Delete the state of topics of a group without members."""
        names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
        topic_ids = {name: self._topics.topic_id(name) for name in names}
        try:
            self._check_name(request.group_id)
            codes = await self._delete(
                request.group_id, [each for each in topic_ids.values() if each is not None]
            )
        except KafkaError as error:
            return DeleteShareGroupOffsetsResponse(
                error_code=append_error(error.code), error_message=error.message
            )
        return DeleteShareGroupOffsetsResponse(
            responses=[_deleted(name, topic_ids[name], codes) for name in names]
        )

    async def delete_all(self, group_id: str) -> None:
        """Delete the state of all partitions of a share group; of any other there is none.

        Raises: KafkaError 68, or what keeps it from being deleted.
        """
        is_shared = await self._runtime.execute_for(
            group_id, lambda shard, _: Result(reply=group_id in shard.share_groups)
        )
        if is_shared:
            codes = await self._delete(group_id, None)
            for code in codes.values():
                if code:
                    raise KafkaError(code)

    async def _delete(
        self, group_id: str, topic_ids: Sequence[bytes] | None
    ) -> dict[bytes, ErrorCode]:
        """Delete state; returns for each topic of which there was any what came of it."""
        async with self._worker.turn(group_id):
            work = await self._runtime.execute_for(
                group_id, lambda shard, _: shard.share_partitions.delete(group_id, topic_ids)
            )
            if not work.delete:
                return {}
            outcome = await self._worker.carry_out(work)
        codes = dict.fromkeys(work.delete, ErrorCode.NONE)
        for (topic_id, _), code in outcome.deleted.items():
            codes[topic_id] = codes[topic_id] or code
        return codes

    def _check_name(self, group_id: str) -> None:
        self._runtime.check_serving()
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def _describe(shard: GroupShard, _: Instant, *, group_id: str) -> Result[DescribedGroup]:
    return Result(reply=shard.describe_share_group(group_id), waits_for_commit=True)


def _partition_states(shard: GroupShard, _: Instant, *, group_id: str) -> Result[PartitionStates]:
    group = shard.share_groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return Result(reply=group.partitions, waits_for_commit=True)


def _unread(index: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=UNREAD)


def _described(
    index: int, summary: ShareStateSummary | KafkaError, ends: Ends | None
) -> DescribeShareGroupOffsetsResponsePartition:
    described = _unread(index)
    if isinstance(summary, KafkaError):
        described.error_code = summary.code
        described.error_message = summary.message
        return described
    described.start_offset = summary.start_offset
    described.leader_epoch = summary.leader_epoch
    described.lag = NOT_KNOWN
    if ends is not None and UNREAD not in (summary.start_offset, summary.delivery_complete_count):
        lag = ends[1] - summary.start_offset - summary.delivery_complete_count
        described.lag = max(lag, 0)
    return described


def _deleted(
    name: str, topic_id: bytes | None, codes: Mapping[bytes, ErrorCode]
) -> DeleteShareGroupOffsetsResponseTopic:
    response = DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id or ZERO_UUID)
    if topic_id is None:
        response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif topic_id not in codes:
        response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response.error_message = NO_OFFSETS
    else:
        response.error_code = codes[topic_id]
    return response
