"""The coordinator runtime: which partitions this broker coordinates, and commands to their shards.

Not here: what a command does (the shards), how its records get committed (`pipeline.py`), what a
load reads (`loader.py`). Source: OFS-2, OFS-4; architecture, "Coordinators".

    load(partition)     none -> LOADING -> ACTIVE, or FAILED if the log cannot be read
    failed load         FAILED -> LOADING after a while, as long as the partition is ours
    unload(partition)   any -> none
    doubt               ACTIVE -> LOADING (see `pipeline.py`)

Invariants: partitions are read one at a time, in the order asked for, while the others serve; a
load that ends after its slot was replaced or dropped is discarded; a partition serves only when
the high watermark has reached the end that its load read up to.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Generic, TypeVar

from barnabas_broker.coordinator.runtime.loader import replay_partition
from barnabas_broker.coordinator.runtime.pipeline import (
    PartitionWriter,
    RuntimeSettings,
    ShardPipeline,
    Timer,
)
from barnabas_broker.coordinator.runtime.shard import Instant, Result, Shard
from barnabas_broker.env.clock import Clock
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard)
Value = TypeVar("Value")


# A load that failed is tried again after this long, doubled with each failure.
RETRY_MS_MIN = 1_000
RETRY_MS_MAX = 60_000


class SlotState(Enum):
    """How far a partition is."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class _Slot(Generic[S]):
    __slots__ = ("failure_count", "leader_epoch", "loaded", "pipeline", "state")

    def __init__(self, leader_epoch: int, failure_count: int = 0) -> None:
        self.leader_epoch = leader_epoch
        self.failure_count = failure_count
        self.state = SlotState.LOADING
        self.pipeline: ShardPipeline[S] | None = None
        self.loaded = asyncio.Event()


class CoordinatorRuntime(Generic[S]):
    """The shards of one internal topic on this broker."""

    def __init__(
        self,
        *,
        topic: str,
        new_shard: Callable[[int], S],
        writer: PartitionWriter,
        clock: Clock,
        timer: Timer,
        settings: RuntimeSettings,
    ) -> None:
        self._topic = topic
        self._new_shard = new_shard
        self._writer = writer
        self._clock = clock
        self._timer = timer
        self._settings = settings
        self._slots: dict[int, _Slot[S]] = {}
        self._load_queue: deque[tuple[int, _Slot[S]]] = deque()
        self._load_task: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()
        self.load_count = 0
        self.load_failure_count = 0
        self.load_ms_last = 0

    def load(self, partition: int, leader_epoch: int) -> None:
        """This broker became the partition's leader: load it, and answer 14 until that is done.

        Ignored for an older leader epoch and for one that is loading or loaded. The next leader
        epoch keeps an active shard, because no other broker led in between; a later one does not.
        """
        slot = self._slots.get(partition)
        if slot is not None and slot.state is not SlotState.FAILED:
            if leader_epoch <= slot.leader_epoch:
                return
            if slot.state is SlotState.ACTIVE and leader_epoch == slot.leader_epoch + 1:
                slot.leader_epoch = leader_epoch
                return
            self._drop(partition, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._enqueue(partition, leader_epoch)

    def unload(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker no longer leads the partition: answer 16 to all that waits (OFS-4)."""
        slot = self._slots.get(partition)
        if slot is None or (leader_epoch is not None and leader_epoch < slot.leader_epoch):
            return
        self._drop(partition, ErrorCode.NOT_COORDINATOR)

    async def execute(
        self, partition: int, command: Callable[[S, Instant], Result[Value]]
    ) -> Value:
        """Run a command on the partition's shard; the reply when it is committed.

        Raises: KafkaError 16 if the partition is not ours, 14 while it loads, 15 if it could not
        be loaded; else what the command or its append raises.
        """
        return await self._active(partition).execute(command)

    def check(self, partition: int) -> None:
        """Raise what `execute` would raise for the state of the partition."""
        self._active(partition)

    def shards(self) -> Iterator[tuple[int, S]]:
        """Return the active shards, for commands over all of them and for metrics."""
        for partition, slot in list(self._slots.items()):
            if slot.pipeline is not None:
                yield partition, slot.pipeline.shard

    def states(self) -> dict[int, SlotState]:
        """Return how far each partition of this broker is."""
        return {partition: slot.state for partition, slot in self._slots.items()}

    @property
    def is_loading(self) -> bool:
        """Whether any partition is still loading."""
        return any(slot.state is SlotState.LOADING for slot in self._slots.values())

    async def wait_until_loaded(self, partition: int) -> None:
        """Wait until the partition is active, failed or dropped."""
        slot = self._slots.get(partition)
        if slot is not None:
            await slot.loaded.wait()

    async def close(self) -> None:
        """Answer everything parked and stop (STOP-9)."""
        for partition in list(self._slots):
            self._drop(partition, ErrorCode.NOT_COORDINATOR)
        tasks = [*self._settling, *([] if self._load_task is None else [self._load_task])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _active(self, partition: int) -> ShardPipeline[S]:
        slot = self._slots.get(partition)
        if slot is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if slot.state is SlotState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if slot.pipeline is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return slot.pipeline

    def _drop(self, partition: int, code: ErrorCode) -> None:
        slot = self._slots.pop(partition)
        slot.loaded.set()
        if slot.pipeline is not None:
            slot.pipeline.close(code)

    def _enqueue(self, partition: int, leader_epoch: int, failure_count: int = 0) -> None:
        slot: _Slot[S] = _Slot(leader_epoch, failure_count)
        self._slots[partition] = slot
        self._load_queue.append((partition, slot))
        self._start_loading()

    def _start_loading(self) -> None:
        if self._load_task is None:
            self._load_task = asyncio.get_running_loop().create_task(self._load_queued())

    async def _load_queued(self) -> None:
        try:
            while self._load_queue:
                partition, slot = self._load_queue.popleft()
                if self._slots.get(partition) is slot:
                    await self._load_one(partition, slot)
        finally:
            self._load_task = None

    async def _load_one(self, partition: int, slot: _Slot[S]) -> None:
        topic_partition = TopicPartition(self._topic, partition)
        shard = self._new_shard(partition)
        started_ms = self._clock.monotonic_ms()
        try:
            summary = await replay_partition(
                self._writer, topic_partition, shard, self._settings.load_buffer_bytes
            )
        except Exception as error:
            self._load_failed(partition, slot, error)
            return
        if self._slots.get(partition) is not slot:
            return
        self.load_count += 1
        self.load_ms_last = self._clock.monotonic_ms() - started_ms
        if summary.record_count:
            logger.info(
                "%s-%d loaded: %d records, %d bytes, %d ms",
                *topic_partition,
                summary.record_count,
                summary.size_bytes,
                self.load_ms_last,
            )
        # The next partition is not to wait until all of this one is committed.
        task = asyncio.get_running_loop().create_task(
            self._settle(partition, slot, shard, summary.end_offset)
        )
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle(self, partition: int, slot: _Slot[S], shard: S, end_offset: int) -> None:
        """Serve when all that was read is committed."""
        topic_partition = TopicPartition(self._topic, partition)
        try:
            await self._writer.wait_committed(topic_partition, end_offset)
            has_grown = self._writer.end_offset(topic_partition) != end_offset
        except Exception as error:
            self._load_failed(partition, slot, error)
            return
        if self._slots.get(partition) is not slot:
            return
        if has_grown:
            # Something of a former shard of this partition was still on its way.
            self._load_queue.append((partition, slot))
            self._start_loading()
            return
        slot.pipeline = ShardPipeline(
            shard,
            topic_partition,
            writer=self._writer,
            clock=self._clock,
            timer=self._timer,
            settings=self._settings,
            on_doubt=lambda: self._reload(partition, slot),
        )
        slot.state = SlotState.ACTIVE
        slot.pipeline.start()
        slot.loaded.set()

    def _load_failed(self, partition: int, slot: _Slot[S], error: Exception) -> None:
        """Answer 15 for a while, then try again; a partition that is ours no more is forgotten."""
        if self._slots.get(partition) is not slot:
            return
        self.load_failure_count += 1
        logger.error("%s-%d could not be loaded", self._topic, partition, exc_info=error)
        slot.state = SlotState.FAILED
        slot.loaded.set()
        delay_ms = min(RETRY_MS_MIN << min(slot.failure_count, 16), RETRY_MS_MAX)

        def retry() -> None:
            if self._slots.get(partition) is slot:
                self._enqueue(partition, slot.leader_epoch, slot.failure_count + 1)

        self._timer.schedule(delay_ms, retry)

    def _reload(self, partition: int, slot: _Slot[S]) -> None:
        if self._slots.get(partition) is slot:
            self._drop(partition, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._enqueue(partition, slot.leader_epoch)
