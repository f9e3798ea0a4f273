"""Members of a group for tests: each reads in a task of its own and notes what it sees.

`Ownership` is shared by the members of a group and fails the test the moment a partition has two
owners; records are numbers, so that a missing one is seen.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from barnabas_client.config import ClientSettings, ConsumerSettings
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.group.classic_member import ClassicMember
from barnabas_client.consumer.rebalance_listener import RebalanceListener
from barnabas_client.network import Client
from barnabas_client.producer.producer import Producer
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.in_process_broker import eventually

# Quick members: a rebalance is noticed within a fraction of a second.
QUICK: dict[str, Any] = {"heartbeat_interval_ms": 200, "auto_offset_reset": "earliest"}
CLASSIC: dict[str, Any] = {**QUICK, "group_protocol": "classic"}
NEXT: dict[str, Any] = {"group_protocol": "consumer", "auto_offset_reset": "earliest"}


class Ownership:
    """Who has which partition, by what the listeners of the group say."""

    def __init__(self) -> None:
        self.owners: dict[TopicPartition, str] = {}
        self.violations: list[str] = []

    def take(self, name: str, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            owner = self.owners.setdefault(partition, name)
            if owner != name:
                self.violations.append(f"{partition} given to {name} while {owner} has it")

    def give_up(self, name: str, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            if self.owners.get(partition) == name:
                del self.owners[partition]
            else:
                self.violations.append(f"{name} gave up {partition}, which it has not")

    def counts(self) -> list[int]:
        return sorted(Counter(self.owners.values()).values())


class Notes(RebalanceListener):
    """A listener that writes down its calls."""

    def __init__(self, name: str, ownership: Ownership) -> None:
        self.name = name
        self.ownership = ownership
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("assigned", frozenset(partitions)))
        self.ownership.take(self.name, partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("revoked", frozenset(partitions)))
        self.ownership.give_up(self.name, partitions)

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("lost", frozenset(partitions)))
        for partition in partitions:
            # Another member may have it by now: that is what lost means.
            if self.ownership.owners.get(partition) == self.name:
                del self.ownership.owners[partition]


class Reader:
    """A consumer that polls until it is stopped, and what it has read."""

    def __init__(
        self,
        bootstrap: str,
        name: str,
        ownership: Ownership,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        **settings: Any,
    ) -> None:
        self.notes = Notes(name, ownership)
        self.values: list[int] = []
        chosen = ConsumerSettings.create({"bootstrap_servers": bootstrap, **settings})
        self.client = Client(chosen)
        self.consumer = Consumer(bootstrap, client=self.client, **settings)
        self._topics = list(topics)
        self._pattern = pattern
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> "Reader":
        await self.consumer.start()
        if self._pattern is not None:
            self.consumer.subscribe(pattern=self._pattern, listener=self.notes)
        else:
            self.consumer.subscribe(self._topics, listener=self.notes)
        self._task = asyncio.create_task(self._read())
        return self

    async def pause(self) -> None:
        """Stop polling; the member lives on."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def go_on(self) -> None:
        self._task = asyncio.create_task(self._read())

    async def stop(self, leave_group: bool | None = None) -> None:
        """An orderly end."""
        if self._task is not None and self._task.done():
            self._task.result()
        await self.pause()
        await self.consumer.close(leave_group=leave_group)
        await self.client.close()

    async def kill(self) -> None:
        """As if the process had died: no request to leave is sent, and nothing is committed."""
        await self.pause()
        member = self.membership.member
        if isinstance(member, ClassicMember):
            member.on_left("killed")
        else:
            member.on_left()
        await self.consumer.close()
        await self.client.close()

    @property
    def membership(self) -> Any:
        """The membership itself, beneath the automatic choice."""
        membership: Any = self.consumer.internals.membership
        return getattr(membership, "chosen", membership)

    async def _read(self) -> None:
        while True:
            for record in await self.consumer.poll(timeout_ms=100):
                self.values.append(int(record.value))


async def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    client = Client(ClientSettings.create({"bootstrap_servers": bootstrap}))
    await client.start()
    try:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        await client.request_controller(CreateTopicsRequest(topics=[topic], timeout_ms=9000))
        await client.wait_for_topic(name, timeout_ms=10_000)
    finally:
        await client.close()


async def grow_topic(bootstrap: str, name: str, partitions: int) -> None:
    client = Client(ClientSettings.create({"bootstrap_servers": bootstrap}))
    await client.start()
    try:
        topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        await client.request_controller(CreatePartitionsRequest(topics=[topic], timeout_ms=9000))
    finally:
        await client.close()


async def produce(bootstrap: str, topic: str, numbers: Iterable[int], partitions: int) -> None:
    """Numbered records, dealt out over the partitions."""
    async with Producer(bootstrap) as producer:
        for number in numbers:
            producer.send(topic, str(number).encode(), partition=number % partitions)
        await producer.flush()


async def until(condition: Any) -> None:
    """Wait until a plain condition holds."""

    async def holds() -> bool:
        return bool(condition())

    await eventually(holds)
