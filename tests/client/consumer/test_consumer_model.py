"""Random programs on a random cluster: every record comes once, in order, from where it should."""

import asyncio
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from barnabas_client.consumer.consumer import Consumer
from barnabas_protocol.ids import TopicPartition
from tests.client.consumer.model_cluster import ModelCluster, run_model
from tests.client.consumer.model_log import partition

PARTITIONS = [partition(number) for number in range(3)]

partitions = st.sampled_from(PARTITIONS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), partitions, st.integers(1, 12)),
        st.tuples(st.just("append"), partitions, st.integers(1, 12)),
        st.tuples(st.just("poll"), partitions, st.integers(1, 8)),
        st.tuples(st.just("poll"), partitions, st.integers(1, 8)),
        st.tuples(st.just("iterate"), partitions, st.integers(1, 8)),
        st.tuples(st.just("iterate"), partitions, st.integers(1, 8)),
        st.tuples(st.just("batches"), partitions, st.just(0)),
        st.tuples(st.just("seek"), partitions, st.integers(0, 20)),
        st.tuples(st.just("beginning"), partitions, st.just(0)),
        st.tuples(st.just("pause"), partitions, st.just(0)),
        st.tuples(st.just("resume"), partitions, st.just(0)),
        st.tuples(st.just("lead"), partitions, st.integers(1, 2)),
        st.tuples(st.just("disconnect"), partitions, st.integers(1, 2)),
        st.tuples(st.just("forget"), partitions, st.integers(1, 2)),
        st.tuples(st.just("assign"), partitions, st.integers(1, 7)),
    ),
    min_size=10,
    max_size=40,
)


class Program:
    """Does the steps and knows what has to come: the dumb twin of positions."""

    def __init__(self, cluster: ModelCluster, consumer: Consumer) -> None:
        self.cluster = cluster
        self.consumer = consumer
        self.next_offset = dict.fromkeys(PARTITIONS, 0)
        consumer.assign(PARTITIONS)

    def see(self, topic: str, number: int, offset: int) -> None:
        """A record has come: it is the next of its partition, which is assigned and not paused."""
        one = TopicPartition(topic, number)
        assert one in self.consumer.assignment() - self.consumer.paused()
        assert offset == self.next_offset[one]
        self.next_offset[one] += 1

    def has_more(self) -> bool:
        """Whether something is left to read."""
        readable = self.consumer.assignment() - self.consumer.paused()
        return any(self.next_offset[one] < self.cluster.logs[one].end_offset for one in readable)

    async def step(self, kind: str, one: TopicPartition, count: int) -> None:
        log = self.cluster.logs[one]
        is_assigned = one in self.consumer.assignment()
        match kind:
            case "append":
                log.append(*(b"%d" % number for number in range(count)), compression=count % 5)
            case "poll":
                records = await self.consumer.poll(timeout_ms=20, max_records=count)
                assert len(records) <= count
                for record in records:
                    self.see(record.topic, record.partition, record.offset)
            case "iterate" if self.has_more():
                async for record in self.consumer:
                    self.see(record.topic, record.partition, record.offset)
                    count -= 1
                    if not count or not self.has_more():
                        break
            case "batches":
                for batch in await self.consumer.poll_batches(timeout_ms=20):
                    for found in batch.records():
                        self.see(batch.topic, batch.partition, found.offset)
            case "seek" if is_assigned:
                self.next_offset[one] = min(count, log.end_offset)
                self.consumer.seek(one, self.next_offset[one])
            case "beginning" if is_assigned:
                self.next_offset[one] = 0
                self.consumer.seek_to_beginning([one])
            case "pause" if is_assigned:
                self.consumer.pause([one])
            case "resume" if is_assigned:
                self.consumer.resume([one])
            case "lead":
                log.move_to(count, log.leader_epoch + 1)
            case "disconnect":
                self.cluster.disconnects_next.add(count)
            case "forget":
                self.cluster.sessions[count].sessions.clear()
            case "assign":
                self._assign({p for bit, p in enumerate(PARTITIONS) if count >> bit & 1})

    def _assign(self, wanted: set[TopicPartition]) -> None:
        """What is assigned anew begins at the beginning again."""
        for new in wanted - self.consumer.assignment():
            self.next_offset[new] = 0
        self.consumer.assign(wanted)

    async def finish(self) -> None:
        """Read all that is left; the positions are those of the twin."""
        self.consumer.resume(self.consumer.assignment())
        while self.has_more():
            await self.step("poll", PARTITIONS[0], 50)
        for one in self.consumer.assignment():
            assert await self.consumer.position(one) == self.next_offset[one]


@settings(max_examples=100)
@given(
    program=steps,
    max_bytes=st.sampled_from([100, 400, 1_000_000]),
    prefetch_bytes=st.sampled_from([1, 1000, 1_000_000]),
    tells_leaders=st.booleans(),
)
def test_every_program_reads_every_record_once_and_in_order(
    program: list[Any], max_bytes: int, prefetch_bytes: int, tells_leaders: bool
) -> None:
    """CON-4 to CON-6: polls, iterations, seeks, pauses and faults in any order."""

    async def run() -> None:
        cluster = ModelCluster(*PARTITIONS)
        cluster.tells_leaders = tells_leaders
        for one in PARTITIONS:
            for count in (1, 7, 3, 12):
                cluster.logs[one].append(*(b"%d" % number for number in range(count)))
        # Of virtual time: a program that never ends fails.
        async with (
            asyncio.timeout(60),
            cluster.consumer(
                max_partition_fetch_bytes=max_bytes,
                prefetch_bytes_max=prefetch_bytes,
                max_poll_records=5,
                fetch_max_wait_ms=20,
            ) as consumer,
        ):
            twin = Program(cluster, consumer)
            for kind, one, count in program:
                await twin.step(kind, one, count)
            await twin.finish()

    run_model(run())
