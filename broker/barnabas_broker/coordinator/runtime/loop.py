"""The coordinator runtime: which partitions this broker coordinates, and commands to their shards.

Not here: what a command does (the shards), how its records get committed (`pipeline.py`), what a
load reads (`loader.py`). Source: OFS-2, OFS-4; architecture, "Coordinators".

    load(partition)     none -> LOADING -> ACTIVE, or FAILED if the log cannot be read
    failed load         FAILED -> LOADING after a while, as long as the partition is ours
    unload(partition)   any -> none
    doubt               ACTIVE -> LOADING (see `pipeline.py`)

Invariants: partitions are read one at a time, in the order of their loads, while others serve; a
load that ends after its slot was replaced or dropped is discarded; a partition serves only when
the high watermark has reached the end that its load read up to.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
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
from barnabas_protocol.backoff import ExponentialBackoff
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.hashing import coordinator_partition
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard)
Value = TypeVar("Value")


LOAD_BACKOFF = ExponentialBackoff(1_000, 60_000)
"""When a load that failed is tried again."""


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
        partition_count: Callable[[], int],
        new_shard: Callable[[int], S],
        writer: PartitionWriter,
        clock: Clock,
        timer: Timer,
        settings: RuntimeSettings,
    ) -> None:
        self._topic = topic
        self._partition_count = partition_count
        self._is_serving = False
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

    # ---- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Serve requests; before, they fail with 15 (GRP-1)."""
        self._is_serving = True

    def load(self, partition: int, leader_epoch: int) -> None:
        """Load a partition that this broker leads now; until that is done, requests fail with 14.

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
        """This broker no longer leads the partition: fail all that waits with 16 (OFS-4)."""
        slot = self._slots.get(partition)
        if slot is None or (leader_epoch is not None and leader_epoch < slot.leader_epoch):
            return
        self._drop(partition, ErrorCode.NOT_COORDINATOR)

    async def close(self) -> None:
        """Fail everything parked and stop (STOP-9)."""
        self._is_serving = False
        for partition in list(self._slots):
            self._drop(partition, ErrorCode.NOT_COORDINATOR)
        tasks = [*self._settling, *([] if self._load_task is None else [self._load_task])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ---- commands ------------------------------------------------------------------------------

    def check_serving(self) -> None:
        """Raise 15 before the start and after the end."""
        if not self._is_serving:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def partition_for(self, key: str) -> int:
        """Return the partition that holds a group or a transactional id (OFS-1).

        By the count that the topic has: its setting is for its creation only, and may differ
        between brokers. Raises: KafkaError 15 while there is no such topic.
        """
        partition_count = self._partition_count()
        if not partition_count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return coordinator_partition(key, partition_count)

    def execute_for(
        self, key: str, command: Callable[[S, Instant], Result[Value]]
    ) -> Awaitable[Value]:
        """Run a command on the shard that holds a group or a transactional id; see `execute`."""
        self.check_serving()
        return self.execute(self.partition_for(key), command)

    def execute(
        self, partition: int, command: Callable[[S, Instant], Result[Value]]
    ) -> Awaitable[Value]:
        """Run a command on the partition's shard; the reply when it is committed.

        Raises: KafkaError 16 if the partition is not ours, 14 while it loads, 15 if it could not
        be loaded. Awaited, it raises what the command or its append raises.
        """
        return self._active(partition).execute(command)

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

    def leader_epoch(self, partition: int) -> int | None:
        """Return the leader epoch under which the partition is ours; None if it is not."""
        slot = self._slots.get(partition)
        return None if slot is None else slot.leader_epoch

    @property
    def is_loading(self) -> bool:
        """Whether any partition is still loading."""
        return any(slot.state is SlotState.LOADING for slot in self._slots.values())

    async def wait_until_loaded(self, partition: int) -> None:
        """Wait until the partition is active, failed or dropped."""
        slot = self._slots.get(partition)
        if slot is not None:
            await slot.loaded.wait()

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
        """Fail requests with 15 for a while, then load again, unless it is ours no more."""
        if self._slots.get(partition) is not slot:
            return
        self.load_failure_count += 1
        logger.error("%s-%d could not be loaded", self._topic, partition, exc_info=error)
        slot.state = SlotState.FAILED
        slot.loaded.set()
        delay_ms = LOAD_BACKOFF.wait_ms(slot.failure_count)

        def retry() -> None:
            if self._slots.get(partition) is slot:
                self._enqueue(partition, slot.leader_epoch, slot.failure_count + 1)

        self._timer.schedule(delay_ms, retry)

    def _reload(self, partition: int, slot: _Slot[S]) -> None:
        if self._slots.get(partition) is slot:
            self._drop(partition, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._enqueue(partition, slot.leader_epoch)
