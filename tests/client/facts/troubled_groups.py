"""Groups in trouble on a real broker: makes topics, records, members and transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.env import SystemClock
from barnabas_client.errors import NotFoundError
from barnabas_client.facts.group_diagnosis import Finding, diagnose
from barnabas_client.facts.group_observation import (
    GroupObservation,
    observe_groups,
    observe_share_groups,
    with_open_transactions,
)
from barnabas_client.facts.group_watch import UNWATCHED, GroupMovement
from barnabas_client.producer.producer import Producer
from barnabas_protocol.ids import TopicPartition
from tests.client.admin.raw_requests import create_topics
from tests.support.in_process_broker import eventually

Unique = Callable[[str], str]


class TroubledGroup:
    """One topic, one group, and what is seen of it."""

    def __init__(self, bootstrap: str, admin: Admin, topic: str, group_id: str) -> None:
        self.bootstrap = bootstrap
        self.admin = admin
        self.topic = topic
        self.group_id = group_id
        self.place = TopicPartition(topic, 0)

    async def produce(self, count: int, partition: int = 0) -> None:
        """Records that are acknowledged when this returns."""
        async with Producer(self.bootstrap) as producer:
            for number in range(count):
                producer.send(self.topic, b"%d" % number, partition=partition)

    async def commit(self, offset: int, partition: int = 0) -> None:
        """As an administrator, for a group without members."""
        offsets = {TopicPartition(self.topic, partition): OffsetAndMetadata(offset)}
        (await self.admin.group_offsets.alter(self.group_id, offsets)).unwrap()

    async def commit_as(self, member: Consumer, offset: int) -> None:
        """By a member, in the first partition."""
        await member.commit({self.place: OffsetAndMetadata(offset)})

    @asynccontextmanager
    async def member(self, client_id: str = "web-1", **settings: Any) -> AsyncIterator[Consumer]:
        """A member that polls in the background until the test is over with it."""
        async with Consumer(
            self.bootstrap,
            group_id=self.group_id,
            client_id=client_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        ) as consumer:
            consumer.subscribe([self.topic])
            yield consumer

    async def observed(self) -> GroupObservation:
        """What brokers tell of the group now."""
        (group,) = await observe_groups(self.admin, [self.group_id])
        return await with_open_transactions(self.admin, group)

    async def observed_as_share(self) -> GroupObservation:
        """The same of a share group."""
        (group,) = await observe_share_groups(self.admin, [self.group_id])
        return group

    async def findings(
        self, movement: GroupMovement = UNWATCHED, *, later_ms: int = 0
    ) -> list[Finding]:
        """The diagnosis, some time later than now by the wall clock."""
        now_ms = SystemClock().wall_ms() + later_ms
        return diagnose(await self.observed(), now_ms, movement)

    async def until_stable(self, *consumers: Consumer) -> GroupObservation:
        """The group once all these are members, polled until their assignments are settled."""
        seen: list[GroupObservation] = []

        async def is_stable() -> bool:
            for consumer in consumers:
                await consumer.poll(timeout_ms=20)
            try:
                (group,) = await observe_groups(self.admin, [self.group_id])
            except NotFoundError:
                return False
            seen[:] = [group]
            assigned = {place for member in group.members for place in member.assignment}
            (topic,) = (await self.admin.topics.describe([self.topic])).unwrap().values()
            return (
                group.state == "Stable"
                and len(group.members) == len(consumers)
                and len(assigned) == topic.partition_count
            )

        await eventually(is_stable)
        return seen[0]


@asynccontextmanager
async def troubled_group(
    bootstrap: str, unique: Unique, *, partitions: int = 1, **topic: Any
) -> AsyncIterator[TroubledGroup]:
    """A new topic, and a group that nobody is in."""
    async with Admin(bootstrap, default_api_timeout_ms=20_000) as admin:
        name, group_id = unique("orders"), unique("billing")
        new = NewTopic(name=name, partition_count=partitions, replication_factor=1)
        await create_topics(admin, NewTopic(name=name, **topic) if topic else new)
        yield TroubledGroup(bootstrap, admin, name, group_id)
