"""The group coordinator of a broker: one coroutine per API, decoded request in, response out.

Not here: what the requests do (`shard.py` and below), authorization and throttling (handlers).
Source: GRP-1 for the checks that come first; OFS-1, OFS-6, GRP-21.

Invariant: every coroutine returns a response; errors of the coordinator become its error codes.
Joins and syncs may return much later, and do so on unload and close too (STOP-9).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from typing import TypeVar

from barnabas_broker.config.share_group_configs import ShareGroupConfigs
from barnabas_broker.coordinator.group import replies
from barnabas_broker.coordinator.group.classic import GroupState
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroupState
from barnabas_broker.coordinator.group.consumer.settings import GroupConfigs
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.errors import append_error
from barnabas_broker.coordinator.group.members import join_error, sync_error
from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.pattern_matching import PatternMatching
from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC, GroupSettings
from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.group.share.requests import ShareGroupRequests
from barnabas_broker.coordinator.group.share.share_group import ShareGroupState
from barnabas_broker.coordinator.group.topics import AnyTopics, Topics
from barnabas_broker.coordinator.runtime.loop import CoordinatorRuntime
from barnabas_broker.coordinator.runtime.pipeline import PartitionWriter, RuntimeSettings, Timer
from barnabas_broker.coordinator.runtime.shard import Instant, Result
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from barnabas_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas_protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from barnabas_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas_protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas_protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from barnabas_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas_protocol.records.control import TransactionMarker

__all__ = ["GroupCoordinator", "GroupSettings", "RequestContext", "RuntimeSettings"]

Value = TypeVar("Value")
Command = Callable[[GroupShard, Instant], Result[Value]]

Pause = Callable[[], Awaitable[None]]

GROUPS_PER_TURN = 20
"""So many groups are looked at before others get their turn."""
LISTED_PER_TURN = 500
OFFSETS_PER_TURN = 500
OFFSETS_PER_RESPONSE_MAX = 500_000
"""Each is an object until the response is encoded: a hundred megabytes."""


async def _next_turn() -> None:
    await asyncio.sleep(0)


class GroupCoordinator:
    """The groups whose partitions of `__consumer_offsets` this broker leads."""

    def __init__(
        self,
        *,
        settings: GroupSettings,
        writer: PartitionWriter,
        clock: Clock,
        random: Random,
        timer: Timer,
        runtime_settings: RuntimeSettings | None = None,
        topics: Topics | None = None,
        overrides: Callable[[str], Mapping[str, str]] | None = None,
    ) -> None:
        """Make one; `overrides` gives what is set for a single group."""
        self.settings = settings
        self.metrics = GroupMetrics()
        overrides = overrides or (lambda group_id: {})
        configs = GroupConfigs(settings.consumer, overrides)
        share_configs = ShareGroupConfigs(settings.share, overrides)
        known = topics or AnyTopics()
        self.quota = settings.new_quota()
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            topic=OFFSETS_TOPIC,
            partition_count=lambda: known.partition_count(OFFSETS_TOPIC),
            new_shard=lambda partition: GroupShard(
                partition,
                settings,
                random,
                self.metrics,
                known,
                self.quota,
                configs,
                PatternMatching(self.runtime, partition, known),
                share_configs,
            ),
            writer=writer,
            clock=clock,
            timer=timer,
            settings=runtime_settings or RuntimeSettings(),
        )
        self.share = ShareGroupRequests(self.runtime, known)

    async def close(self) -> None:
        """Answer what waits, and stop (STOP-9)."""
        await self.share.close()
        await self.runtime.close()

    # ---- membership ----------------------------------------------------------------------------

    async def join_group(
        self, request: JoinGroupRequest, context: RequestContext
    ) -> JoinGroupResponse:
        """Join; returns when the join phase has ended."""
        future: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()

        def reply(response: JoinGroupResponse) -> None:
            if not future.done():
                future.set_result(response)

        try:
            await self._execute_member(
                request.group_id, lambda shard, now: shard.join(request, context, now, reply)
            )
        except KafkaError as error:
            # A response that the shard has given already goes first.
            reply(join_error(append_error(error.code), request.member_id))
        response = await future
        return replies.fit_join(response, context.api_version)

    async def sync_group(
        self, request: SyncGroupRequest, context: RequestContext
    ) -> SyncGroupResponse:
        """Sync; returns when the leader's assignment is committed."""
        future: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()

        def reply(response: SyncGroupResponse) -> None:
            if not future.done():
                future.set_result(response)

        try:
            await self._execute_member(
                request.group_id, lambda shard, now: shard.sync(request, now, reply)
            )
        except KafkaError as error:
            reply(sync_error(append_error(error.code)))
        return replies.fit_sync(await future)

    async def heartbeat(
        self, request: HeartbeatRequest, context: RequestContext
    ) -> HeartbeatResponse:
        """Prolong the session of a member."""
        try:
            return await self._execute_member(
                request.group_id, lambda shard, now: shard.heartbeat(request, now)
            )
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # As Kafka does, because clients do not expect 14 here. Nothing is lost: the session
                # starts anew when loading is done.
                return HeartbeatResponse()
            return HeartbeatResponse(error_code=error.code)

    async def leave_group(
        self, request: LeaveGroupRequest, context: RequestContext
    ) -> LeaveGroupResponse:
        """Take members out of their group."""
        version = context.api_version
        try:
            return await self._execute_member(
                request.group_id, lambda shard, now: shard.leave(request, version, now)
            )
        except KafkaError as error:
            return LeaveGroupResponse(error_code=append_error(error.code))

    # ---- consumer groups -----------------------------------------------------------------------

    async def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        """Take the heartbeat of a member of the consumer protocol; it checks its group's name."""
        try:
            return await self._execute(
                request.group_id,
                lambda shard, now: shard.consumer_members.heartbeat(request, context, now),
            )
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(
                error_code=append_error(error.code), error_message=error.message
            )

    async def consumer_group_describe(
        self, group_ids: Sequence[str]
    ) -> list[DescribedConsumerGroup]:
        """Return consumer groups with their members; what is none is an error (69)."""
        groups = []
        for index, group_id in enumerate(group_ids):
            if index % GROUPS_PER_TURN == GROUPS_PER_TURN - 1:
                await asyncio.sleep(0)
            command = partial(_describe_consumer_group, group_id=group_id)
            try:
                groups.append(await self._execute_member(group_id, command))
            except KafkaError as error:
                code = append_error(error.code)
                groups.append(DescribedConsumerGroup(group_id=group_id, error_code=code))
        return groups

    # ---- offsets -------------------------------------------------------------------------------

    async def offset_commit(
        self, request: OffsetCommitRequest, context: RequestContext
    ) -> OffsetCommitResponse:
        """Store offsets; returns when they are committed."""
        version, host = context.api_version, context.client_host
        try:
            return await self._execute(
                request.group_id,
                lambda shard, now: shard.commits.commit(request, now, version, host),
            )
        except KafkaError as error:
            return replies.commit_error(request, append_error(error.code))

    async def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext, check: Callable[[], None]
    ) -> TxnOffsetCommitResponse:
        """Store offsets in a producer's transaction; topics are named, whatever the version.

        `check` raises if the transaction is not open here any more. It is called before the offsets
        change, and again before they are appended: a marker may be on its way in between.
        """
        version, host = context.api_version, context.client_host

        def commit(shard: GroupShard, now: Instant) -> Result[TxnOffsetCommitResponse]:
            check()
            return shard.commits.commit_in_transaction(request, now, version, host, check)

        try:
            return await self._execute(request.group_id, commit)
        except KafkaError as error:
            return replies.txn_commit_error(request, append_error(error.code), version)

    async def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        marker: TransactionMarker,
        check: Callable[[], None],
        written: Callable[[], None],
    ) -> None:
        """Write a marker to a partition of `__consumer_offsets`; returns when it is committed.

        `check` raises if the marker is too old for what has been written before it. `written` is
        called when nothing can come between it and what was before.
        Raises: KafkaError.
        """

        def end(shard: GroupShard, _: Instant) -> Result[None]:
            written()
            return shard.commits.end_transaction(producer_id, producer_epoch, marker, check)

        await self.runtime.execute(partition, end)

    async def offset_fetch(
        self, request: OffsetFetchRequest, context: RequestContext, pause: Pause = _next_turn
    ) -> OffsetFetchResponse:
        """Return committed offsets, for one group (to version 7) or several (from 8)."""
        groups = replies.fetched_groups(request, context.api_version)
        results = await self.fetch_offsets(
            groups, require_stable=request.require_stable, pause=pause
        )
        return replies.fit_fetch(results, context.api_version)

    async def fetch_offsets(
        self,
        groups: Sequence[OffsetFetchRequestGroup],
        *,
        require_stable: bool,
        pause: Pause = _next_turn,
    ) -> list[replies.FetchedGroup]:
        """Return committed offsets of groups, one result each.

        `pause` lets the loop go on between them: a group of a few bytes may have thousands. Those
        that come when there are too many for one response are refused.
        """
        results: list[replies.FetchedGroup] = []
        in_turn = in_all = 0
        for index, group in enumerate(groups):
            if in_turn >= OFFSETS_PER_TURN or index % GROUPS_PER_TURN == GROUPS_PER_TURN - 1:
                await pause()
                in_turn = 0
            command = partial(_fetch, group=group, require_stable=require_stable)
            try:
                if in_all >= OFFSETS_PER_RESPONSE_MAX:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                fetched = await self._execute(group.group_id, command)
            except KafkaError as error:
                results.append(replies.fetch_error(group, append_error(error.code)))
                continue
            count = sum(len(topic.partitions) for topic in fetched.topics)
            in_turn, in_all = in_turn + count, in_all + count
            results.append(fetched)
        return results

    async def offset_delete(
        self, request: OffsetDeleteRequest, context: RequestContext
    ) -> OffsetDeleteResponse:
        """Remove committed offsets of a group."""
        try:
            if not request.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID)
            return await self._execute(
                request.group_id, lambda shard, _: shard.commits.delete_offsets(request)
            )
        except KafkaError as error:
            return OffsetDeleteResponse(error_code=append_error(error.code))

    async def on_topics_deleted(self, deleted: Mapping[str, bytes]) -> None:
        """Remove the offsets of deleted topics, by name and id (OFS-10).

        Of a partition that is being loaded too, when it is. What fails is left to expiry; a topic
        that gets the name meanwhile has another id, and keeps what is committed for it.
        """
        tasks = []
        for partition in self.runtime.states():
            tasks.append(asyncio.create_task(self._forget_topics(partition, deleted)))
            # One shard a turn: each looks at all of its offsets.
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    async def _forget_topics(self, partition: int, deleted: Mapping[str, bytes]) -> None:
        while True:
            await self.runtime.wait_until_loaded(partition)
            try:
                await self.runtime.execute(
                    partition, lambda shard, _: shard.commits.delete_topics(deleted)
                )
                await self.runtime.execute(
                    partition, lambda shard, _: shard.share_partitions.topics_deleted(deleted)
                )
            except KafkaError as error:
                if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    continue
                if error.code is not ErrorCode.NOT_COORDINATOR:
                    self.metrics.append_failure_count += 1
            return

    # ---- admin ---------------------------------------------------------------------------------

    async def list_groups(
        self, request: ListGroupsRequest, context: RequestContext, pause: Pause = _next_turn
    ) -> ListGroupsResponse:
        """Return the groups of this broker; with 14 and what is there while some load (GRP-21).

        `pause` lets the loop go on between them: there may be a hundred thousand.
        """
        try:
            self.runtime.check_serving()
        except KafkaError as error:
            return ListGroupsResponse(error_code=error.code)
        states = {state.lower() for state in request.states_filter}
        types = {group_type.lower() for group_type in request.types_filter}
        code = ErrorCode.NONE
        if self.runtime.is_loading:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shards = [shard for _, shard in self.runtime.shards()]
        known = chain.from_iterable(shard.listed_groups(states, types) for shard in shards)
        groups = []
        for index, group in enumerate(known):
            if index and index % LISTED_PER_TURN == 0:
                await pause()
            if group is not None:
                groups.append(group)
        return ListGroupsResponse(error_code=code, groups=groups)

    async def describe_groups(
        self, request: DescribeGroupsRequest, context: RequestContext
    ) -> DescribeGroupsResponse:
        """Return the state and members of groups; what is unknown counts as Dead (GRP-21)."""
        groups = []
        for index, group_id in enumerate(request.groups):
            if index % GROUPS_PER_TURN == GROUPS_PER_TURN - 1:
                await asyncio.sleep(0)
            try:
                described = await self._execute(group_id, partial(_describe, group_id=group_id))
                if isinstance(described, str):
                    described = replies.dead_group(group_id, context.api_version, described)
            except KafkaError as error:
                described = DescribedGroup(group_id=group_id, error_code=error.code)
            groups.append(described)
        return DescribeGroupsResponse(groups=groups)

    async def delete_groups(
        self, request: DeleteGroupsRequest, context: RequestContext
    ) -> DeleteGroupsResponse:
        """Delete groups without members, with their offsets."""
        results = []
        for index, group_id in enumerate(dict.fromkeys(request.groups_names)):
            if index % GROUPS_PER_TURN == GROUPS_PER_TURN - 1:
                await asyncio.sleep(0)
            command = partial(_delete, group_id=group_id)
            try:
                await self.share.delete_all(group_id)
                results.append(await self._execute(group_id, command))
            except KafkaError as error:
                code = append_error(error.code)
                results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        return DeleteGroupsResponse(results=results)

    # ---- metrics -------------------------------------------------------------------------------

    def count_by_state(self) -> dict[str, int]:
        """Return how many classic groups are in each state, by the state's name."""
        counts: Counter[GroupState] = Counter()
        for _, shard in self.runtime.shards():
            counts += shard.count_by_state()
        return {state.value: counts[state] for state in GroupState}

    def count_consumer_groups(self) -> dict[str, int]:
        """Return how many consumer groups are in each state, by the state's name."""
        counts = Counter(
            group.state
            for _, shard in self.runtime.shards()
            for group in shard.consumer_groups.values()
        )
        return {state.value: counts[state] for state in ConsumerGroupState}

    def count_share_groups(self) -> dict[str, int]:
        """Return how many share groups are in each state, by the state's name."""
        counts = Counter(
            group.state
            for _, shard in self.runtime.shards()
            for group in shard.share_groups.values()
        )
        return {state.value: counts[state] for state in ShareGroupState}

    def member_counts(self) -> Iterator[tuple[str, int]]:
        """Return how many members each group has."""
        for _, shard in self.runtime.shards():
            for group in shard.groups.values():
                yield group.group_id, len(group.members)
            for consumer_group in shard.consumer_groups.values():
                yield consumer_group.group_id, len(consumer_group.members)
            for share_group in shard.share_groups.values():
                yield share_group.group_id, len(share_group.members)

    def named_groups(self, count_max: int) -> set[str]:
        """Return the groups that metrics name: of each partition those that came first.

        Groups that somebody makes up by the thousand do not push out those that were there.
        """
        by_age = zip_longest(
            *(
                chain(shard.groups, shard.consumer_groups, shard.share_groups)
                for _, shard in self.runtime.shards()
            )
        )
        named = (group_id for row in by_age for group_id in row if group_id is not None)
        return set(islice(named, count_max))

    def offset_count(self) -> int:
        """Return how many offsets are kept, those of open transactions included."""
        return sum(shard.offsets.count() for _, shard in self.runtime.shards())

    def offset_metadata_bytes(self) -> int:
        """Return how much metadata is kept with them."""
        return sum(shard.offsets.metadata_bytes() for _, shard in self.runtime.shards())

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """Return group, topic, partition and committed offset, for lag."""
        for _, shard in self.runtime.shards():
            for group_id, topic, partition, committed in shard.current_offsets():
                yield group_id, topic, partition, committed.offset

    # ---- checks --------------------------------------------------------------------------------

    async def _execute(self, group_id: str, command: Command[Value]) -> Value:
        """Run a command of a request that may name any group, even the empty one (old tools)."""
        return await self.runtime.execute_for(group_id, command)

    async def _execute_member(self, group_id: str, command: Command[Value]) -> Value:
        """Run a command of a member, whose group must have a name (GRP-1)."""
        self.runtime.check_serving()
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return await self.runtime.execute_for(group_id, command)


def _fetch(
    shard: GroupShard, _: Instant, *, group: OffsetFetchRequestGroup, require_stable: bool
) -> Result[replies.FetchedGroup]:
    return shard.commits.fetch(group, require_stable)


def _describe(shard: GroupShard, _: Instant, *, group_id: str) -> Result[DescribedGroup | str]:
    return Result(reply=shard.describe(group_id))


def _describe_consumer_group(
    shard: GroupShard, _: Instant, *, group_id: str
) -> Result[DescribedConsumerGroup]:
    return Result(reply=shard.describe_consumer_group(group_id), waits_for_commit=True)


def _delete(shard: GroupShard, _: Instant, *, group_id: str) -> Result[DeletableGroupResult]:
    return shard.commits.delete_group(group_id)
