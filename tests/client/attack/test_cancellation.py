"""Any call may be cancelled at any moment: nothing hangs, leaks, is lost or is doubled."""

import asyncio
import contextlib
import gc
import random
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from barnabas_client import Consumer, Producer, RebalanceListener, TopicPartition
from barnabas_client.admin import Admin
from barnabas_client.errors import BarnabasError, MembershipLostError
from tests.client.attack.histories import History, read_all
from tests.support.history import violations

Names = Callable[[str], str]
LONG = pytest.mark.interop
SEEDS = [1, *[pytest.param(seed, marks=LONG) for seed in range(2, 6)]]
PARTITIONS = 4  # what the brokers of the tests create topics with


@asynccontextmanager
async def nothing_left(*, deadline_seconds: float = 30) -> AsyncIterator[None]:
    """Fail if the block leaves a task behind, or an error that nobody took."""
    loop = asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    before = asyncio.all_tasks()
    async with asyncio.timeout(deadline_seconds):
        try:
            yield
        except asyncio.CancelledError:
            for task in asyncio.all_tasks():
                task.print_stack(limit=6)
            raise
    gc.collect()
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    assert not left, left
    assert not complaints, complaints


async def interrupted(call: Coroutine[Any, Any, Any], rng: random.Random) -> Any:
    """Run a call and cancel it after a random time; None if it was cancelled or failed."""
    task = asyncio.ensure_future(call)
    if rng.random() < 0.5:
        for _ in range(int(60 ** rng.random())):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(rng.random() ** 3 * 0.05)
    task.cancel()
    try:
        return await task
    except (asyncio.CancelledError, BarnabasError):
        return None


@pytest.mark.parametrize("seed", SEEDS)
def test_cancelled_producer_calls_leave_the_records_on_their_way(
    bootstrap: str, unique: Names, seed: int
) -> None:
    """Cancelling `await send`, drain, flush, partitions_for and close changes no record."""

    async def attack() -> None:
        rng = random.Random(seed)
        topic = unique("cancelled")
        history = History()
        producer = Producer(
            bootstrap,
            batch_size=rng.choice([300, 16384]),
            buffer_memory=rng.choice([20_000, 1 << 20]),
            linger_ms=rng.choice([0, 5]),
        )
        async with nothing_left():
            for _ in range(rng.choice([0, 0, 3])):
                other = Producer(bootstrap)
                await interrupted(other.start(), rng)
                await other.close()
            await producer.start()
            while sum(history.sent.values()) < 3000:
                for _ in range(rng.randrange(100)):
                    history.send(producer, topic, rng.randrange(PARTITIONS), b"x" * 50)
                    await producer.drain()
                call: Callable[[], Coroutine[Any, Any, Any]] = rng.choice(
                    [
                        producer.drain,
                        producer.flush,
                        lambda: producer.partitions_for(topic),
                        lambda: _awaited(producer, topic),
                    ]
                )
                await interrupted(call(), rng)
            await interrupted(producer.close(), rng)
            await producer.close()
            assert not history.open_count
        found = await read_all(bootstrap, topic, PARTITIONS)
        assert violations(history.acknowledged, found) == []

    asyncio.run(attack())


async def _awaited(producer: Producer, topic: str) -> None:
    await producer.send(f"{topic}-other", b"not counted", partition=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_that_is_cancelled_while_it_starts_or_closes_leaves_nothing(
    bootstrap: str, seed: int
) -> None:
    """What `close` began ends although its caller is cancelled: it used to leave sockets open."""

    async def attack() -> None:
        rng = random.Random(seed)
        for _ in range(5):
            async with nothing_left():
                admin = Admin(bootstrap)
                await interrupted(admin.start(), rng)
                if rng.random() < 0.7:
                    await interrupted(admin.cluster.describe(), rng)
                await interrupted(admin.close(), rng)
                await admin.close()

    asyncio.run(attack())


class Pausing(RebalanceListener):
    """A listener whose callbacks wait, so that a cancellation may strike there."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(self._rng.random() * 0.01)

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(self._rng.random() * 0.01)


async def _read_some(consumer: Consumer, seen: list[tuple[int, int]], count: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            async for record in consumer:
                seen.append((record.partition, record.offset))
                count -= 1
                if not count:
                    break


async def _poll(consumer: Consumer, seen: list[tuple[int, int]]) -> None:
    # Between the return of poll and this there is no await, so nothing is lost.
    records = await consumer.poll(timeout_ms=200, max_records=50)
    seen.extend((record.partition, record.offset) for record in records)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strategy", ["cooperative-sticky", pytest.param("range", marks=LONG)])
def test_cancelled_consumer_calls_skip_no_record_and_leave_nothing(
    bootstrap: str, unique: Names, seed: int, strategy: str
) -> None:
    """Cancelling poll, iteration, commit, position, committed or close: others go on from there."""
    settings: dict[str, Any] = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 100}
    attack_a_group(bootstrap, unique, seed, partition_assignment_strategy=[strategy], **settings)


@pytest.mark.interop
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cancelled_calls_in_a_group_of_the_brokers_protocol(
    apache: str, unique: Names, seed: int
) -> None:
    """The same under KIP-848."""
    attack_a_group(apache, unique, seed, group_protocol="consumer")


def attack_a_group(bootstrap: str, unique: Names, seed: int, **settings: Any) -> None:
    """Members that come, read with cancelled calls and go, until everything is processed."""

    async def attack() -> None:
        rng = random.Random(f"{seed}{settings}")
        topic, group = unique("cancelled"), unique("group")
        count = 2000
        async with Producer(bootstrap) as producer:
            for number in range(count):
                producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
            await producer.flush()
        processed: set[tuple[int, int]] = set()
        lists: list[list[tuple[int, int]]] = []

        async def life(has_end: bool) -> None:
            consumer = Consumer(
                bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                auto_commit_interval_ms=30,
                fetch_max_wait_ms=50,
                **settings,
            )
            if rng.random() < 0.2:
                await interrupted(consumer.start(), rng)
                if has_end and rng.random() < 0.5:
                    await interrupted(consumer.close(), rng)
                    await consumer.close()
                    return
            await consumer.start()
            consumer.subscribe([topic], listener=Pausing(rng))
            steps = rng.randint(5, 60) if has_end else 1 << 60
            seen: list[tuple[int, int]] = []
            lists.append(seen)
            while steps and len(processed) < count:
                steps -= 1
                calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
                    lambda: _poll(consumer, seen),
                    lambda: _poll(consumer, seen),
                    lambda: _read_some(consumer, seen, rng.randint(1, 100)),
                    consumer.commit,
                    lambda: consumer.committed(consumer.assignment()),
                    consumer.lag,
                ]
                call = rng.choice(calls)
                if rng.random() < 0.5:
                    await interrupted(call(), rng)
                else:
                    with contextlib.suppress(MembershipLostError):
                        await call()
                processed.update(seen)
            if rng.random() < 0.5:
                await interrupted(consumer.close(), rng)
            await consumer.close()

        # The broker's own protocol moves partitions with heartbeats, which are seconds apart.
        async with nothing_left(deadline_seconds=90):
            await asyncio.gather(life(False), _one_after_the_other(life, 4), life(True))
        assert len(processed) == count

    asyncio.run(attack())


async def _one_after_the_other(life: Callable[[bool], Coroutine[Any, Any, None]], n: int) -> None:
    for _ in range(n):
        await life(True)


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(1, 7))
def test_cancelled_transaction_calls_leave_whole_transactions(
    apache: str, unique: Names, seed: int
) -> None:
    """Any call of a transaction is cancelled and made again: all of it is there, or nothing."""

    async def attack() -> None:
        rng = random.Random(seed)
        topic = unique("transactions")
        expected: set[bytes] = set()
        async with nothing_left():
            producer = Producer(apache, transactional_id=unique("id"), linger_ms=0)
            await producer.start()
            await _until_it_ends(producer.init_transactions, rng)
            for number in range(40):
                values = {b"%d-%d" % (number, at) for at in range(rng.randint(0, 20))}
                if rng.random() < 0.3:
                    await _transaction_block(producer, topic, values, expected, rng)
                    continue
                await producer.begin_transaction()
                for value in values:
                    promise = producer.send(topic, value)
                    if rng.random() < 0.1:
                        await interrupted(_await(promise), rng)
                if rng.random() < 0.3:
                    await interrupted(producer.flush(), rng)
                if rng.random() < 0.3:
                    await _until_it_ends(producer.abort_transaction, rng)
                else:
                    await _until_it_ends(producer.commit_transaction, rng)
                    expected |= values
            if rng.random() < 0.5:
                await producer.begin_transaction()
                producer.send(topic, b"never")
                await interrupted(producer.close(), rng)
            await producer.close()
        found: list[bytes | None] = []
        settings: dict[str, Any] = {"isolation_level": "read_committed"}
        async with Consumer(apache, auto_offset_reset="earliest", **settings) as consumer:
            partitions = [TopicPartition(topic, at) for at in range(PARTITIONS)]
            consumer.assign(partitions)
            async with asyncio.timeout(30):
                while len(found) < len(expected):
                    found += [record.value for record in await consumer.poll()]
                found += [record.value for record in await consumer.poll()]
        assert sorted(map(bytes, expected)) == sorted(value or b"" for value in found)

    asyncio.run(attack())


async def _await(promise: Any) -> None:
    await promise


async def _until_it_ends(call: Callable[[], Coroutine[Any, Any, Any]], rng: random.Random) -> None:
    """Cancel a call a few times, then let it end."""
    for _ in range(rng.choice([0, 0, 1, 3])):
        task = asyncio.ensure_future(call())
        await asyncio.sleep(rng.random() ** 3 * 0.03)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
            return
    await call()


async def _transaction_block(
    producer: Producer, topic: str, values: set[bytes], expected: set[bytes], rng: random.Random
) -> None:
    """Cancel what is inside of `async with transaction()`: it is aborted."""
    is_stuck = rng.random() < 0.5

    async def block() -> None:
        async with producer.transaction():
            for value in values:
                producer.send(topic, value)
            await asyncio.sleep(60 if is_stuck else 0)
        expected.update(values)

    task = asyncio.ensure_future(block())
    if is_stuck:
        await asyncio.sleep(0.005)
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
