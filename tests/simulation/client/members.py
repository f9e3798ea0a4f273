"""Groups: members that come, read with calls that are cancelled, stand still and go."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from barnabas_client import Consumer, RebalanceListener, TopicPartition
from barnabas_client.errors import BarnabasError, IllegalStateError
from tests.simulation.client.log import Log
from tests.support.process_loop import Process

if TYPE_CHECKING:
    from tests.simulation.client.story import Story

STARVED_SECONDS = 0.5
PROBE_SECONDS = 30.0
STRATEGIES = (["range"], ["roundrobin"], ["sticky"], ["cooperative-sticky"])


class Waiting(RebalanceListener):
    """A listener whose callbacks wait, so that something may strike meanwhile."""

    def __init__(self, group: "GroupStory") -> None:
        self._group = group
        self.owned: set[TopicPartition] = set()

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Wait, then take."""
        self._tell("is assigned", partitions)
        await self._group.pause()
        self.owned |= set(partitions)

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Give up, then wait: whoever is cancelled here has given up."""
        self._tell("is revoked", partitions)
        self.owned -= set(partitions)
        await self._group.pause()

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Give up."""
        self._tell("has lost", partitions)
        self.owned -= set(partitions)

    def _tell(self, what: str, partitions: Collection[TopicPartition]) -> None:
        self._group.story.world.tell("listener", what, sorted(one.partition for one in partitions))


class GroupStory:
    """One group that reads a topic of its own, which others write all the time."""

    def __init__(self, story: "Story", name: str) -> None:
        self.story = story
        self.name = name
        self.topic = f"topic-{name}"
        self.draws = draws = story.draws
        self.handed: dict[int, set[int]] = defaultdict(set)
        self.violations: list[str] = []
        self.member_count = 0
        self.is_committed = draws.random() < 0.3
        self.has_static = draws.random() < 0.2
        self.settings: dict[str, Any] = {
            "group_id": name,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed" if self.is_committed else "read_uncommitted",
            "fetch_max_wait_ms": 50,
            "auto_commit_interval_ms": draws.choice((20, 100, 1000)),
            "max_poll_records": draws.choice((1, 5, 500)),
            "max_partition_fetch_bytes": draws.choice((200, 1 << 20)),
            "max_poll_interval_ms": 3000,
        }
        if draws.random() < 0.4:
            self.settings["group_protocol"] = "consumer"
        else:
            self.settings |= {
                "group_protocol": "classic",
                "session_timeout_ms": 2000,
                "heartbeat_interval_ms": 100,
                "partition_assignment_strategy": draws.choice(STRATEGIES),
            }
        self.is_written = False
        before = story.kafka.on_commit

        def committed(group: str, topic: str, partition: int, offset: int) -> None:
            before(group, topic, partition, offset)
            if group == name and topic == self.topic:
                self._check_commit(partition, offset)

        story.kafka.on_commit = committed

    def _visible(self, log: Log) -> set[int]:
        values = log.committed_values() if self.is_committed else log.values()
        return {offset for offset, _ in values}

    def _check_commit(self, partition: int, offset: int) -> None:
        log = self.story.kafka.log(self.topic, partition)
        if log is not None:
            visible = {at for at in self._visible(log) if at < offset}
            missing = visible - self.handed[partition]
            if missing:
                self.violations.append(
                    f"{self.topic}-{partition}: {offset} is committed, nobody was handed"
                    f" {sorted(missing)}"
                )

    async def pause(self) -> None:
        """Wait for a moment, or not at all."""
        for _ in range(self.draws.choice((0, 1, 3))):
            await asyncio.sleep(self.draws.choice((0, 0.005)))

    async def run(self) -> None:
        """All of the group's life with faults."""
        kafka = self.story.kafka
        kafka.create(self.topic, self.draws.randint(1, 4))
        self.story.faults.moved_topics.append(self.topic)
        self._write(self.draws.randint(5, 60))
        writer = asyncio.ensure_future(self._keep_writing())
        lives = [self._lives() for _ in range(self.draws.randint(1, 3))]
        await asyncio.gather(*lives)
        self.is_written = True
        await writer

    def _write(self, count: int) -> None:
        """Append as producers of another cluster's records would: with gaps, markers, aborts."""
        from barnabas_protocol.records.record import Record, encode_batch

        draws = self.draws
        for log in self.story.kafka.topics[self.topic]:
            left = draws.randint(0, count)
            while left > 0:
                size = min(left, draws.randint(1, 8))
                left -= size
                is_transactional = draws.random() < 0.2
                producer_id = 50 + draws.randrange(1 << 30) if is_transactional else -1
                records = [Record(index, 1000, None, b"%d" % index, ()) for index in range(size)]
                log.append(
                    encode_batch(
                        records,
                        producer_id=producer_id,
                        producer_epoch=0 if is_transactional else -1,
                        base_sequence=0 if is_transactional else -1,
                        is_transactional=is_transactional,
                    )
                )
                if is_transactional:
                    log.end_transaction(producer_id, 0, 1000, is_committed=draws.random() < 0.5)
        self.story.kafka.wake()

    async def _keep_writing(self) -> None:
        while not self.is_written:
            await asyncio.sleep(self.draws.uniform(0.05, 1))
            self._write(8)

    async def _lives(self) -> None:
        """Members one after the other."""
        for _ in range(self.draws.randint(1, 3)):
            self.member_count += 1
            await self._life(self.member_count)

    async def _life(self, number: int) -> None:
        draws, world = self.draws, self.story.world
        process = Process(f"{self.name}-m{number}")
        instance_id = None
        if self.has_static and self.settings["group_protocol"] == "classic":
            instance_id = f"i{number}"
        task = world.loop.spawn(process, member_life(self, number, instance_id))
        fate = draws.choice(("ends", "ends", "ends", "is killed", "stands still", "stands still"))
        if fate == "is killed":
            await asyncio.wait([task], timeout=draws.uniform(0, 4))
            if not task.done():
                world.tell(process.name, "is killed")
                world.kill(process)
                await asyncio.sleep(0.01)
                return
        elif fate == "stands still":
            await asyncio.wait([task], timeout=draws.uniform(0, 3))
            world.tell(process.name, "stands still")
            world.loop.stop_process(process)
            await asyncio.sleep(draws.choice((0.5, 3.0, 12.0)))
            world.loop.resume_process(process)
            world.tell(process.name, "goes on")
        await world.finish(process, task)

    async def drain(self) -> None:
        """The last member reads all that is left."""
        consumer = self.consumer(None)
        await consumer.start()
        consumer.subscribe([self.topic])

        def is_done() -> bool:
            return all(
                self._visible(log) <= self.handed[log.number]
                for log in self.story.kafka.topics[self.topic]
            )

        try:
            async with asyncio.timeout(90):
                while not is_done():
                    with contextlib.suppress(BarnabasError):
                        await self.poll(consumer)
        except TimeoutError:
            pass  # what is missing the check says
        await self.story.within(consumer.close(), "close")

    def consumer(self, instance_id: str | None) -> Consumer:
        """A member to be."""
        from tests.simulation.client.story import FAST

        extra: dict[str, Any] = {}
        if instance_id is not None:
            extra["group_instance_id"] = instance_id
        return Consumer(self.story.kafka.bootstrap, **{**FAST, **self.settings, **extra})

    async def poll(self, consumer: Consumer, listener: "Waiting | None" = None) -> None:
        """One poll; what it returns counts as handed out at that moment."""
        records = await consumer.poll(timeout_ms=self.draws.choice((0, 50, 300)))
        for record in records:
            self.handed[record.partition].add(record.offset)
        if listener is not None:
            held = consumer.assignment()
            assert listener.owned == held, f"{held} are read, the listener has {listener.owned}"

    async def probe(self, consumer: Consumer, name: str) -> None:
        """When all works again, whoever polls is a member."""
        await self.story.all_works.wait()
        deadline = self.story.world.loop.time() + PROBE_SECONDS
        while self.story.world.loop.time() < deadline:
            await self.poll(consumer)
            if consumer.group_metadata().member_id in self.story.kafka.group(self.name).member_ids:
                return
        raise AssertionError(f"{name} polls and does not become a member")

    async def iterate(self, consumer: Consumer) -> None:
        """Some records one by one; the body may wait."""
        count = self.draws.choice((1, 5, 40, 200))
        waits = self.draws.random() < 0.5
        works_seconds = self.draws.choice((0, 0, 0.02))
        ticks = [0.0]
        ticker = asyncio.ensure_future(_tick(ticks))
        try:
            await self._iterate(consumer, count, waits, works_seconds, ticks)
        finally:
            ticker.cancel()

    async def _iterate(
        self, consumer: Consumer, count: int, waits: bool, works_seconds: float, ticks: list[float]
    ) -> None:
        loop = self.story.world.loop
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                async for record in consumer:
                    self.handed[record.partition].add(record.offset)
                    count -= 1
                    if not count:
                        break
                    if works_seconds:
                        loop.work(works_seconds)
                        ticks[0] += works_seconds
                        assert ticks[0] < STARVED_SECONDS, (
                            f"nothing but the iteration runs for {ticks[0]:.2f} s"
                        )
                    elif waits:
                        await asyncio.sleep(0.003)


async def _tick(ticks: list[float]) -> None:
    """Note that the loop has turned."""
    while True:
        ticks[0] = 0.0
        await asyncio.sleep(0.01)


async def member_life(group: GroupStory, number: int, instance_id: str | None) -> None:
    """The program of one member."""
    draws, story = group.draws, group.story
    consumer = group.consumer(instance_id)
    name = f"{group.name}-m{number}"
    with contextlib.suppress(BarnabasError):
        if draws.random() < 0.2:
            await story.interrupted(consumer.start(), "start")
        await consumer.start()
        listener = Waiting(group) if draws.random() < 0.6 else None
        consumer.subscribe([group.topic], listener=listener)
        for _ in range(draws.randint(3, 40)):
            calls: list[tuple[str, Callable[[], Coroutine[Any, Any, Any]]]] = [
                ("poll", lambda: group.poll(consumer, listener)),
                ("poll", lambda: group.poll(consumer, listener)),
                ("poll", lambda: group.poll(consumer, listener)),
                ("iteration", lambda: group.iterate(consumer)),
                ("commit", consumer.commit),
                ("committed", lambda: consumer.committed(consumer.assignment())),
                ("lag", consumer.lag),
            ]
            label, call = draws.choice(calls)
            if draws.random() < 0.08:
                with contextlib.suppress(IllegalStateError):
                    consumer.enforce_rebalance("the story says so")
                await group.poll(consumer, listener)
                if draws.random() < 0.3:
                    # At once: what the poll began has not had a turn yet.
                    await consumer.unsubscribe()
                    consumer.subscribe([group.topic], listener=listener)
            if draws.random() < 0.06:
                await story.interrupted(consumer.unsubscribe(), "unsubscribe")
                if listener is not None:
                    listener.owned.clear()  # where it was cancelled, nobody says so
                if draws.random() < 0.3:
                    # Whoever has unsubscribed is no member, however the call ended.
                    await asyncio.sleep(1)
                    held = consumer.assignment()
                    assert not held, f"{name} has unsubscribed and holds {held}"
                consumer.subscribe([group.topic], listener=listener)
            await story.interrupted(call(), f"{name}: {label}")
            if draws.random() < 0.2:
                await asyncio.sleep(draws.random() ** 3 * 1.5)
            if draws.random() < 0.02:
                story.world.tell(name, "returns from main")
                return
        if draws.random() < 0.4:
            await group.probe(consumer, name)
    if draws.random() < 0.3:
        await story.interrupted(consumer.close(), f"{name}: close")
    with contextlib.suppress(BarnabasError):  # what the group has said meanwhile
        await story.within(consumer.close(5000), f"{name}: close")
