"""A group shard with topics, members of share groups that talk to it, and what a persister does.

After every command the model compares the groups with what a replay of the log gives.
"""

from collections.abc import Collection, Mapping
from typing import Any

from barnabas_broker.config.share_group_configs import ShareGroupConfigs, ShareGroupSettings
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.group.share.heartbeat import Beat
from barnabas_broker.coordinator.group.share.partition_work import FinishedWork, PartitionWork
from barnabas_broker.coordinator.group.share.share_group import ShareGroup
from barnabas_broker.coordinator.runtime.shard import Result
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from barnabas_protocol.records.record import Record
from tests.broker.coordinator.group.consumer.consumer_model import NamedTopics
from tests.support.group_model import GROUP, GroupModel
from tests.support.simulated_random import SimulatedRandom


class ShareModel(GroupModel):
    """One shard, driven by hand."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        groups_max: int = 100_000,
        **share: Any,
    ) -> None:
        self.named = NamedTopics()
        for name, count in (topics or {"t": 6}).items():
            self.named.put(name, count)
        self.overrides: dict[str, dict[str, str]] = {}
        self.share_settings = ShareGroupSettings(**share)
        super().__init__(share=self.share_settings, groups_max=groups_max)  # type: ignore[arg-type]

    def _load(self) -> GroupShard:
        shard = self._replayed()
        shard.loaded(self.now)
        return shard

    def _replayed(self) -> GroupShard:
        shard = GroupShard(
            0,
            self.settings,
            SimulatedRandom(7),
            GroupMetrics(),
            self.named,
            share_configs=ShareGroupConfigs(
                self.share_settings, lambda group_id: self.overrides.get(group_id, {})
            ),
        )
        for offset, (key, value) in enumerate(self.log):
            shard.replay(Record(offset, self.wall_ms, key, value), -1)
        return shard

    def _settle(self, sequence: int, result: Result[Any], code: ErrorCode | None) -> None:
        super()._settle(sequence, result, code)
        self.check()

    def check(self) -> None:
        """The groups are what the log says."""
        if self._held is None:
            live = {key: _durable(each) for key, each in self.shard.share_groups.items()}
            replayed = self._replayed()
            again = {key: _durable(each) for key, each in replayed.share_groups.items()}
            assert live == again
            others = self.shard.groups.keys() | self.shard.consumer_groups.keys()
            assert not self.shard.share_groups.keys() & others

    # ---- requests ----------------------------------------------------------------------------

    def beat_with_work(
        self, member_id: str, epoch: int, *, group: str = GROUP, **fields: Any
    ) -> Beat:
        """Send a heartbeat; says whether state is to be made, too. Raises: KafkaError."""
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=epoch, **fields
        )
        context = RequestContext("client", "/127.0.0.1", 1)
        beat: Beat = self.run(
            lambda shard, now: shard.share_members.heartbeat(request, context, now)
        )
        return beat

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat. Raises: KafkaError."""
        return self.beat_with_work(member_id, epoch, **fields).response

    def share_join(self, member_id: str, *topics: str, **fields: Any) -> dict[str, list[int]]:
        """Join; returns what the member has then, by the topics' names."""
        names = list(topics) or ["t"]
        response = self.beat(member_id, 0, subscribed_topic_names=names, **fields)
        return self.owned(response) or {}

    def beat_error(self, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
        """Send a heartbeat; its error."""
        try:
            self.beat(member_id, epoch, **fields)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def owned(self, response: ShareGroupHeartbeatResponse) -> dict[str, list[int]] | None:
        """The assignment of a response, by the topics' names."""
        if response.assignment is None:
            return None
        return {
            self.named.topic_name(each.topic_id) or "?": each.partitions
            for each in response.assignment.topic_partitions
        }

    # ---- the persister -----------------------------------------------------------------------

    def plan(self, group: str = GROUP) -> PartitionWork | None:
        """What a persister is to do."""
        work: PartitionWork | None = self.run(
            lambda shard, now: shard.share_partitions.plan(group, now)
        )
        return work

    def finish(
        self,
        work: PartitionWork,
        *,
        failed: Collection[bytes] = (),
        kept: Collection[bytes] = (),
    ) -> None:
        """Tell the group that it is done, but for some topics."""
        done = FinishedWork(
            initialized={
                topic_id: list(starts)
                for topic_id, starts in work.initialize.items()
                if topic_id not in failed
            },
            deleted=[topic_id for topic_id in work.delete if topic_id not in kept],
            retries_later=bool(failed or kept),
        )
        self.run(lambda shard, now: shard.share_partitions.finish(work.group_id, done, now))

    def make_all(self, group: str = GROUP) -> None:
        """Make all state that is wanted."""
        while (work := self.plan(group)) is not None:
            self.finish(work)

    def group(self, group: str = GROUP) -> ShareGroup:
        """The group as it is in memory."""
        return self.shard.share_groups[group]

    def starts(self, work: PartitionWork) -> dict[str, dict[int, int]]:
        """The start offsets of a work, by the topics' names."""
        return {
            self.named.topic_name(topic_id) or "?": dict(starts)
            for topic_id, starts in work.initialize.items()
        }


def _durable(group: ShareGroup) -> tuple[Any, ...]:
    return (
        group.group_epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.assigned_ms,
        group.members,
        group.targets,
        group.partitions,
        group.name_counts,
        group.metadata_bytes,
        group.state,
    )
