"""Share consumers that die, dawdle and change their minds, on a broker that is killed meanwhile.

What `commit` said to hold is final: such a record is delivered to nobody any more. Every record is
final in the end.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from barnabas_client import AcknowledgeType, BarnabasError, ShareConsumer, TopicPartition
from barnabas_client.errors import RetriableError
from tests.interop.share_brokers import prepare, send, start_share_broker
from tests.interop.started_brokers import AnyBroker
from tests.support.kafka_cluster import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

TOPIC, GROUP = "jobs", "workers"
PARTITION_COUNT = 3
ROUNDS, ROUND_SIZE = 12, 40
LOCK_MS = "2000"
Place = tuple[int, int]


@pytest.fixture(params=["barnabas", "4.2.0"])
def killed_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyBroker]:
    """A broker of the test's own, which it kills and starts again."""
    broker = start_share_broker(request.param, tmp_path / "broker")
    yield broker
    broker.stop()


class Workers:
    """The members of one group, and what they know to be final."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._bootstrap = bootstrap
        self._random = random.Random(seed)
        self._stop = asyncio.Event()
        self.seen: set[Place] = set()
        self.final: set[Place] = set()
        self.violations: list[str] = []

    def stop(self) -> None:
        self._stop.set()

    async def work(self) -> None:
        """One consumer after the other, until stopped."""
        while not self._stop.is_set():
            consumer = ShareConsumer(
                self._bootstrap,
                group_id=GROUP,
                share_acknowledgement_mode="explicit",
                max_poll_records=self._random.choice((5, 50)),
                request_timeout_ms=5000,
            )
            try:
                await consumer.start()
                consumer.subscribe([TOPIC])
                await self._life(consumer)
            except RetriableError:
                pass  # the broker is away
            finally:
                await consumer.close(timeout_ms=3000)

    async def _life(self, consumer: ShareConsumer) -> None:
        for _ in range(self._random.randrange(10, 40)):
            if self._stop.is_set():
                return
            records = await consumer.poll(timeout_ms=300)
            done: dict[TopicPartition, set[Place]] = {}
            for record in records:
                place = (record.partition, record.offset)
                self.seen.add(place)
                if place in self.final:
                    self.violations.append(f"{place} again, delivery {record.delivery_count}")
                kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
                kind = self._random.choices(kinds, (8, 1, 1))[0]
                consumer.acknowledge(record, kind)
                if kind is not AcknowledgeType.RELEASE:
                    done.setdefault(TopicPartition(TOPIC, record.partition), set()).add(place)
            if records and self._random.random() < 0.05:
                return  # with acknowledgements that nobody waits for
            results: dict[TopicPartition, BarnabasError | None] = await consumer.commit(
                timeout_ms=5000
            )
            for partition, places in done.items():
                if results.get(partition, True) is None:
                    self.final |= places


def test_what_was_committed_is_final_although_the_broker_is_killed(
    killed_broker: AnyBroker,
) -> None:
    """SHR-42, SHR-17: also records that a lock gave to another member meanwhile."""
    share = killed_broker.bootstrap

    async def run() -> None:
        await prepare(
            share,
            TOPIC,
            GROUP,
            partition_count=PARTITION_COUNT,
            share_record_lock_duration_ms=LOCK_MS,
        )
        workers = Workers(share, 7)
        tasks = [asyncio.create_task(workers.work()) for _ in range(3)]
        try:
            for number in range(ROUNDS):
                wanted = len(workers.final) + 10
                await send(share, TOPIC, [b"%d" % one for one in range(ROUND_SIZE)])
                if number in (4, 8):
                    await until(_reached(workers, wanted))
                    await asyncio.to_thread(killed_broker.kill)
                    await asyncio.to_thread(killed_broker.start)

            # Acknowledgements that nobody waited for are final too, and nobody knows of them.
            await until(_reached(workers, ROUNDS * ROUND_SIZE * 8 // 10))
        finally:
            workers.stop()
            await asyncio.gather(*tasks)
        assert workers.violations == []
        await _drain(share, workers)

    asyncio.run(run())


def _reached(workers: Workers, count: int) -> Callable[[], Awaitable[bool]]:
    async def has_come() -> bool:
        return len(workers.final) >= count

    return has_come


async def _drain(share: str, workers: Workers) -> None:
    """Accept what is left, until every record was delivered and nothing more comes."""
    async with ShareConsumer(share, group_id=GROUP) as consumer:
        consumer.subscribe([TOPIC])
        idle = 0
        async with asyncio.timeout(60):
            while idle < 3 or len(workers.seen) < ROUNDS * ROUND_SIZE:
                records = await consumer.poll(timeout_ms=1000)
                idle = 0 if records else idle + 1
                places = {(one.partition, one.offset) for one in records}
                assert not places & workers.final
                workers.seen |= places
