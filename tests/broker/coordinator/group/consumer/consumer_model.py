"""A group shard with topics, and clients of the consumer protocol that talk to it.

After every command the model compares the groups with what a replay of the log gives, and looks
that no partition has two owners.
"""

from collections.abc import Collection, Mapping
from typing import Any

from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.consumer.settings import (
    ConsumerGroupSettings,
    GroupConfigs,
)
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.group.topics import AnyTopics
from barnabas_broker.coordinator.runtime.shard import Result
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas_protocol.records.record import Record
from tests.support.group_model import GROUP, GroupModel

Owned = dict[tuple[str, int], None]


class NamedTopics(AnyTopics):
    """Topics with ids and partition counts, as the newest image would have them."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.ids: dict[str, bytes] = {}
        self.version: object = object()
        self._made = 0
        self._names_version = 0

    def put(self, name: str, count: int) -> None:
        """Create a topic, or give it more partitions."""
        if name not in self.ids:
            self._made += 1
            self._names_version += 1
            self.ids[name] = self._made.to_bytes(16)
        self.counts[name] = count
        self.version = object()

    def remove(self, name: str) -> None:
        """Delete a topic."""
        del self.counts[name], self.ids[name]
        self._names_version += 1
        self.version = object()

    def topic_id(self, name: str) -> bytes | None:
        return self.ids.get(name)

    def partition_count(self, name: str) -> int:
        return self.counts.get(name, 0)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, each in self.ids.items() if each == topic_id), None)

    def names(self) -> Collection[str]:
        return self.ids.keys()

    def names_version(self) -> int:
        return self._names_version

    def snapshot(self) -> object:
        return self.version


class ConsumerModel(GroupModel):
    """One shard, driven by hand."""

    def __init__(self, topics: Mapping[str, int] | None = None, **consumer: Any) -> None:
        self.named = NamedTopics()
        for name, count in (topics or {"t": 6}).items():
            self.named.put(name, count)
        self.overrides: dict[str, dict[str, str]] = {}
        self.asked: list[tuple[str, frozenset[str]]] = []
        self.consumer_settings = ConsumerGroupSettings(**consumer)
        self._is_releasing = False
        super().__init__(consumer=self.consumer_settings)  # type: ignore[arg-type]

    def resolve(self, group_id: str, patterns: frozenset[str], sees_topic: object) -> None:
        """Note what is to be resolved."""
        self.asked.append((group_id, patterns))

    def _load(self) -> GroupShard:
        shard = self._replayed()
        shard.loaded(self.now)
        return shard

    def _replayed(self) -> GroupShard:
        shard = GroupShard(
            0,
            self.settings,
            self._random,
            GroupMetrics(),
            self.named,
            configs=GroupConfigs(
                self.consumer_settings, lambda group_id: self.overrides.get(group_id, {})
            ),
            resolver=self,
        )
        for offset, (key, value) in enumerate(self.log):
            shard.replay(Record(offset, self.wall_ms, key, value), -1)
        return shard

    def _settle(self, sequence: int, result: Result[Any], code: ErrorCode | None) -> None:
        super()._settle(sequence, result, code)
        if not self._is_releasing:
            self.check()

    def release(self, code: ErrorCode | None = None) -> None:
        """Commit or refuse what was held; the log has all of it only in the end."""
        self._is_releasing = True
        super().release(code)
        self._is_releasing = False
        self.check()

    def forget_held(self) -> None:
        """Lose what was held: a coordinator elsewhere never had it."""
        self._held = None

    def check(self) -> None:
        """The groups are what the log says, and no partition is held twice."""
        if self._held is None:
            live = {key: _durable(each) for key, each in self.shard.consumer_groups.items()}
            replayed = self._replayed()
            again = {key: _durable(each) for key, each in replayed.consumer_groups.items()}
            assert live == again
            assert not self.shard.consumer_groups.keys() & self.shard.groups.keys()
        for group in self.shard.consumer_groups.values():
            held = [each for member in group.members.values() for each in member.held()]
            assert len(held) == len(set(held)), "a partition has two owners"

    # ---- requests ----------------------------------------------------------------------------

    def beat(
        self, member_id: str, epoch: int, *, version: int = 1, group: str = GROUP, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat. Raises: KafkaError."""
        owned: Mapping[str, Collection[int]] | None = fields.pop("owned", None)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=self.named.ids[name], partitions=sorted(partitions))
                for name, partitions in owned.items()
            ],
            **fields,
        )
        context = RequestContext("client", "/127.0.0.1", version)
        response: ConsumerGroupHeartbeatResponse = self.run(
            lambda shard, now: shard.consumer_members.heartbeat(request, context, now)
        )
        return response

    def consumer_join(self, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Join with a full request."""
        fields = {
            "owned": {},
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": ["t"],
            **fields,
        }
        return self.beat(member_id, 0, **fields)

    def beat_error(self, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
        """Send a heartbeat; its error."""
        try:
            self.beat(member_id, epoch, **fields)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def group(self, group: str = GROUP) -> ConsumerGroup:
        """The group as it is in memory."""
        return self.shard.consumer_groups[group]

    def client(self, member_id: str, **fields: Any) -> "Client":
        """A client that has not joined yet."""
        return Client(self, member_id, **fields)

    def settle(self, *clients: "Client", rounds: int = 12) -> None:
        """Have clients send heartbeats until nothing changes any more."""
        for _ in range(rounds):
            self.advance(1_000)
            news = [client.step() for client in clients]
            if not any(news):
                return
        raise AssertionError("the group does not converge")


class Client:
    """A consumer: it lets go at once what it is to let go, and reports that."""

    def __init__(self, model: ConsumerModel, member_id: str, **fields: Any) -> None:
        self.model = model
        self.member_id = member_id
        self.fields = fields
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}
        self._has_news = False

    def join(self) -> "Client":
        """Join, or begin anew."""
        self.owned = {}
        self._take(self.model.consumer_join(self.member_id, **self.fields))
        return self

    def step(self, **more: Any) -> bool:
        """Send one heartbeat; returns whether it or the last one brought something."""
        fields = {**more, **({"owned": self.owned} if self._has_news else {})}
        instance = self.fields.get("instance_id")
        had_news, self._has_news = self._has_news, False
        response = self.model.beat(self.member_id, self.epoch, instance_id=instance, **fields)
        return self._take(response) or had_news

    def leave(self, epoch: int = -1) -> None:
        """Leave, or leave for a while."""
        self.model.beat(self.member_id, epoch, instance_id=self.fields.get("instance_id"))

    def _take(self, response: ConsumerGroupHeartbeatResponse) -> bool:
        has_changed = response.member_epoch != self.epoch
        self.epoch = response.member_epoch
        if response.assignment is not None:
            owned = {}
            for each in response.assignment.topic_partitions:
                name = self.model.named.topic_name(each.topic_id)
                if name is not None and each.partitions:
                    owned[name] = each.partitions
            has_changed |= owned != self.owned
            self.owned = owned
            self._has_news = True
        return has_changed

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))


def _durable(group: ConsumerGroup) -> tuple[Any, ...]:
    return (
        group.group_epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.assigned_ms,
        group.members,
        group.targets,
        group.patterns,
        group.static_member_ids,
        group.name_counts,
        group.pattern_counts,
        group.state,
    )
