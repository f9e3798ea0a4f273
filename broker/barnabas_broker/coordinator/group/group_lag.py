"""How far the groups that this broker coordinates are behind, in records and in time.

A group's lag is told by its coordinator alone, so that over all brokers each partition of a group
is told once. The coordinator knows the commits; ends of logs it knows of the partitions that it
leads, and asks the leaders of the others, when somebody scrapes and not otherwise. In time, lag is
the age of the first record at or after the commit.

Invariants: lag = high watermark - max(committed, log start); what is not known is absent, never 0;
a record's timestamp is looked up once for each place where a group stands, and so many in one
scrape at most; nothing is asked while nobody scrapes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.leader_offset_requests import Ends
from barnabas_broker.coordinator.group.partition_ends import PartitionEnds
from barnabas_broker.env.clock import Clock
from barnabas_broker.network.peers import Peers
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.records.record_time import timestamp_at

# Scrapes that come faster than this share what was found out.
FRESH_MS = 1_000
# Records whose timestamps are looked up in one scrape; the rest follows with the next ones.
LOOKUPS_MAX = 1_000
# Reading larger ones would keep the loop from requests.
LARGE_BATCH_BYTES = 32 * 1024
# All of a scrape's questions together, well below the patience of who scrapes; what is not known by
# then, as of a leader that has just died, is left out.
DEADLINE_SECONDS = 1.0

Position = tuple[TopicPartition, int]
Timed = tuple[bytes, int, int]
"""Topic id, partition and offset of a record."""


class PartitionLag(NamedTuple):
    """One partition of a group; None is not known."""

    group_id: str
    topic: str
    partition: int
    committed: int
    records: int | None
    seconds: float | None


class GroupLag:
    """The lag of all groups that are coordinated here."""

    def __init__(
        self, groups: GroupCoordinator, replicas: ReplicaManager, peers: Peers, clock: Clock
    ) -> None:
        """Ask nobody yet."""
        self._groups = groups
        self._replicas = replicas
        self._clock = clock
        self._partition_ends = PartitionEnds(replicas, peers)
        self._leaders = self._partition_ends.leaders
        self._remote_ends: dict[TopicPartition, Ends] = {}
        # None: the record has no timestamp that could be found out.
        self._times: dict[Timed, int | None] = {}
        self._turn = 0
        self._refreshed_ms: int | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Find out what the next reading needs; returns at the deadline at the latest."""
        now_ms = self._clock.monotonic_ms()
        if self._refreshed_ms is not None and now_ms - self._refreshed_ms < FRESH_MS:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        # Several may wait; one that goes away must not take the answer from the others.
        await asyncio.shield(self._refreshing)

    def read(self) -> Iterator[PartitionLag]:
        """All partitions that groups have committed offsets for, as far as they are known."""
        now_ms = self._clock.wall_ms()
        for group_id, topic, index, committed in self._groups.committed_offsets():
            topic_partition = TopicPartition(topic, index)
            ends = self._ends(topic_partition)
            if ends is None:
                yield PartitionLag(group_id, topic, index, committed, None, None)
                continue
            position = max(committed, ends[0])
            records = max(ends[1] - position, 0)
            seconds: float | None = 0.0
            if records:
                time_ms = self._times.get(self._timed((topic_partition, position)))
                seconds = None if time_ms is None else max(now_ms - time_ms, 0) / 1000
            yield PartitionLag(group_id, topic, index, committed, records, seconds)

    # ---- finding out ---------------------------------------------------------------------------

    async def _refresh(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_SECONDS):
                await self._ask()
        self._refreshed_ms = self._clock.monotonic_ms()

    async def _ask(self) -> None:
        topic_partitions = {
            TopicPartition(topic, index) for _, topic, index, _ in self._groups.committed_offsets()
        }
        remote = [
            topic_partition
            for topic_partition in topic_partitions
            if self._partition_ends.led(topic_partition) is None
        ]
        # Gone before the answers come, so that an old end is not taken for a new one.
        self._remote_ends = {}
        self._remote_ends = await self._leaders.ends(remote)
        wanted = self._unread()
        kept = {self._timed(position) for position in wanted}
        self._times = {key: time for key, time in self._times.items() if key in kept}
        new = self._next([key for key in wanted if self._timed(key) not in self._times])
        await self._look_up_here(
            [key for key in new if self._partition_ends.led(key[0]) is not None]
        )
        await self._look_up_there([key for key in new if self._partition_ends.led(key[0]) is None])

    def _next(self, new: list[Position]) -> list[Position]:
        """So many as one scrape may look up; of more, each has its turn."""
        if len(new) <= LOOKUPS_MAX:
            return new
        start = self._turn % len(new)
        self._turn += LOOKUPS_MAX
        return (new[start:] + new[:start])[:LOOKUPS_MAX]

    def _unread(self) -> dict[Position, None]:
        """Where groups stand that have something left to read."""
        wanted: dict[Position, None] = {}
        for _, topic, index, committed in self._groups.committed_offsets():
            topic_partition = TopicPartition(topic, index)
            ends = self._ends(topic_partition)
            if ends is not None and max(committed, ends[0]) < ends[1]:
                wanted[topic_partition, max(committed, ends[0])] = None
        return wanted

    async def _look_up_here(self, positions: list[Position]) -> None:
        for topic_partition, offset in positions:
            partition = self._partition_ends.led(topic_partition)
            if partition is None:
                continue
            log = partition.log
            timed = partition.topic_id, topic_partition.partition, offset
            try:
                # The limit keeps it to one batch, which comes whole.
                found = await log.read(offset, 1, log.high_watermark)
            except KafkaError:
                continue  # the log has moved on, or its disk fails: not known
            buffers = found.buffers
            data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
            if len(data) > LARGE_BATCH_BYTES:
                # It may have to be decompressed to find the record in it.
                time = await log.disk.run(partial(timestamp_at, data, offset))
            else:
                time = timestamp_at(data, offset)
                await asyncio.sleep(0)
            self._times[timed] = time

    async def _look_up_there(self, positions: list[Position]) -> None:
        # Two groups may be at two offsets of one partition: a request names a partition once.
        while positions:
            once = dict(positions)
            timed = {
                topic_partition: self._timed((topic_partition, offset))
                for topic_partition, offset in once.items()
            }
            times = await self._leaders.times(once)
            for topic_partition, time in times.items():
                self._times[timed[topic_partition]] = time
            positions = [one for one in positions if once[one[0]] != one[1]]

    # ---- what is known here --------------------------------------------------------------------

    def _ends(self, topic_partition: TopicPartition) -> Ends | None:
        if self._partition_ends.led(topic_partition) is None:
            return self._remote_ends.get(topic_partition)
        return self._partition_ends.here(topic_partition)

    def _timed(self, position: Position) -> Timed:
        """The identity of a record by topic id: another topic of the name has other records."""
        topic_partition, offset = position
        topic = self._replicas.image.topics.by_name.get(topic_partition.topic)
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        return topic_id, topic_partition.partition, offset
