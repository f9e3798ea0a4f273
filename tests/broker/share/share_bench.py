"""The share partitions of real leaders on disks in memory, with a persister in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from barnabas_broker.metadata.records import MetadataRecord
from barnabas_broker.share.acquisition import AcquireParameters
from barnabas_broker.share.delayed_share_fetch import FetchedPartition, ShareFetchParameters
from barnabas_broker.share.loaded_share_partition import LoadedSharePartition, ShareContext
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_broker.share.record_states import AcknowledgementBatch
from barnabas_broker.share.share_metrics import ShareMetrics
from barnabas_broker.share.share_partitions import SharePartitions
from barnabas_broker.share.share_session import MemberKey, SessionPartition
from barnabas_broker.share.share_settings import ShareSettings
from barnabas_protocol.errors import KafkaError
from tests.broker.share.failing_persister import FailingPersister
from tests.broker.share.memory_dead_letters import MemoryDeadLetters
from tests.support.replica_nodes import TOPIC_ID, Links, ReplicaNode, led_by, topic_records
from tests.support.virtual_loop import run_virtual

GROUP = "g"


class Connection:
    """A client's connection, which the test closes."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []
        self.is_closed = False

    def on_closed(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def close(self) -> None:
        self.is_closed = True
        for callback in self.callbacks:
            callback()


class ShareBroker:
    """One broker: its replicas and its share partitions."""

    def __init__(self, node: ReplicaNode, persister: FailingPersister, slots: int) -> None:
        self.node = node
        self.settings = ShareSettings(record_lock_duration_ms=1_000)
        self.tasks: set[asyncio.Task[None]] = set()
        self.pause_count = 0
        self.lease: int | None = 1
        self.metrics = ShareMetrics()
        self.dead_letters = MemoryDeadLetters()
        self.shares = SharePartitions(
            node.replicas,
            ShareContext(
                persister=lambda: persister,
                settings=lambda group_id: self.settings,
                dead_letters=self.dead_letters,
                timer=node.timer,
                clock=node.clock,
                spawn=self._spawn,
                metrics=self.metrics,
                lease=lambda: self.lease,
            ),
            pause=self._pause,
            session_slots=slots,
        )

    async def _pause(self) -> None:
        self.pause_count += 1
        await asyncio.sleep(0)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def change(self, **settings: Any) -> None:
        """Change the settings of the group."""
        self.settings = replace(self.settings, **settings)

    def loaded(self, index: int = 0) -> LoadedSharePartition:
        return self.shares.loaded[key(index)]


def key(index: int = 0, group_id: str = GROUP) -> SharePartitionKey:
    return SharePartitionKey(group_id, TOPIC_ID, index)


def at(index: int = 0) -> SessionPartition:
    return SessionPartition(TOPIC_ID, index)


class Member:
    """A member with a session on one broker."""

    def __init__(self, broker: ShareBroker, name: str, partitions: Sequence[int] = (0,)) -> None:
        self.broker = broker
        self.member = MemberKey(GROUP, name)
        self.connection = Connection()
        self.partitions = [at(index) for index in partitions]
        session = broker.shares.begin_session(self.member, self.connection, self.partitions)
        assert session is not None
        self.session = session

    async def fetch(
        self,
        *,
        max_wait_ms: int = 60_000,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        records_max: int = 500,
        is_record_limit: bool = False,
    ) -> Sequence[FetchedPartition]:
        fetched: asyncio.Future[Sequence[FetchedPartition]] = (
            asyncio.get_running_loop().create_future()
        )
        self.delayed = await self.broker.shares.fetch(
            GROUP,
            self.partitions,
            ShareFetchParameters(
                AcquireParameters(
                    member_id=self.member.member_id,
                    records_max=records_max,
                    batch_size=500,
                    is_record_limit=is_record_limit,
                ),
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                is_gone=lambda: (
                    self.connection.is_closed or not self.broker.shares.is_open(self.session)
                ),
            ),
            fetched.set_result,
        )
        return await fetched

    async def acquire(self, **parameters: Any) -> list[tuple[int, int, int]]:
        """What a fetch acquires, of all partitions; none may have an error."""
        acquired: list[tuple[int, int, int]] = []
        for one in await self.fetch(**parameters):
            assert one.error is None, one.error
            acquired.extend(one.acquired)
        return acquired

    async def error(self, **parameters: Any) -> int:
        """The error of the only partition of a fetch."""
        (one,) = await self.fetch(**parameters)
        return 0 if one.error is None else one.error.code

    async def acknowledge(
        self, *batches: tuple[int, int, list[int]], index: int = 0, is_renew: bool = False
    ) -> int:
        """Acknowledge; returns the error code."""
        outcome: KafkaError | None = await self.broker.shares.acknowledge(
            self.member,
            at(index),
            [AcknowledgementBatch(*batch) for batch in batches],
            is_renew=is_renew,
        )
        return 0 if outcome is None else outcome.code


class ShareBench:
    """A broker that leads the partitions of a topic, initialized at offset 0."""

    def __init__(self, broker: ShareBroker, persister: FailingPersister) -> None:
        self.broker = broker
        self.persister = persister

    @property
    def node(self) -> ReplicaNode:
        return self.broker.node

    @property
    def pause_count(self) -> int:
        return self.broker.pause_count

    def member(self, name: str = "m1", partitions: Sequence[int] = (0,)) -> Member:
        return Member(self.broker, name, partitions)

    def produce(self, count: int, *, size: int = 1, index: int = 0) -> None:
        """Append one batch."""
        self.node.produce(*[b"v" * size] * count, index=index)


Scenario = Callable[[ShareBench], Coroutine[Any, Any, None]]


def share(
    scenario: Scenario, *, partitions: int = 1, start_offset: int = 0, slots: int = 10
) -> None:
    """Run a scenario on a virtual loop."""

    async def run() -> None:
        persister = FailingPersister()
        node = await ReplicaNode(0, Links()).start()
        records: list[MetadataRecord] = [
            led_by(0, 0, replicas=(0,), index=index) for index in range(partitions)
        ]
        await node.learn([*topic_records(), *records])
        for index in range(partitions):
            await persister.initialize(key(index), 1, start_offset)
        broker = ShareBroker(node, persister, slots)
        await scenario(ShareBench(broker, persister))
        broker.shares.close()
        if broker.tasks:
            await asyncio.wait(broker.tasks)
        await node.stop()

    run_virtual(run())
