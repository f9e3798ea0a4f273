"""Every public coroutine of the clients, cancelled at every one of its awaits.

A call is run once, step by step, which counts how often it suspends. Then it is run again for each
of these, in a world of its own, and cancelled there: once at the suspension itself, and once at the
moment at which what it waits for has come and it has not gone on yet. Afterwards the same client
must be able to do its work, close, and leave nothing: no task, no member, no record that is lost
or skipped.
"""

import asyncio
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
)
from dataclasses import dataclass, field
from typing import Any

from barnabas_client import Consumer, Producer, TopicPartition
from barnabas_client.admin import Admin, NewTopic, OffsetSpec
from barnabas_client.consumer.rebalance_listener import RebalanceListener
from barnabas_client.errors import BarnabasError
from tests.simulation.client.kafka import Kafka
from tests.simulation.client.story import FAST
from tests.simulation.client.world import World

LIMIT_SECONDS = 60.0
RECORDS = 12
PARTITIONS = 2


class Counted(Coroutine[Any, Any, Any]):
    """A coroutine that counts its suspensions and has itself cancelled at one of them."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int, *, is_late: bool) -> None:
        self.count = 0
        self.task: asyncio.Task[Any] | None = None
        self._work = work
        self._at = at
        self._is_late = is_late

    def send(self, value: Any) -> Any:
        """Go on until the next suspension."""
        return self._suspended(self._work.send(value))

    def throw(self, *error: Any) -> Any:
        """Go on with an exception until the next suspension."""
        return self._suspended(self._work.throw(*error))

    def close(self) -> None:
        """End it."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        """Be awaited, which only tasks do."""
        raise NotImplementedError

    def _suspended(self, waited_for: Any) -> Any:
        self.count += 1
        if self.count == self._at and self.task is not None:
            task = self.task
            if self._is_late and waited_for is not None:
                # Before the task hears of it: asyncio calls in the order of adding.
                waited_for.add_done_callback(lambda _: task.cancel())
                waited_for._asyncio_future_blocking = True
            else:
                task.cancel()
        return waited_for


@dataclass
class Scene:
    """One world, and what was done in it."""

    world: World
    kafka: Kafka
    client: Any = None
    handed: set[tuple[int, int]] = field(default_factory=set)
    deliveries: list[Any] = field(default_factory=list)
    outcome: str = ""
    owned: set[TopicPartition] | None = None


Step = Callable[[Scene], Coroutine[Any, Any, Any]]


@dataclass(frozen=True)
class Case:
    """A call, what comes before it, and what must be possible afterwards."""

    name: str
    prepare: Step
    call: Step
    after: Step
    settings: dict[str, Any] = field(default_factory=dict)


async def nothing(scene: Scene) -> None:
    """Do nothing."""


def run(case: Case, at: int, *, is_late: bool = False) -> int:
    """Run a case with a cancellation at one suspension (none for 0); returns how many there are."""
    world = World(f"{case.name}")
    scene = Scene(world, Kafka(world, is_version_2="version 1" not in case.name))
    counts: list[int] = []

    async def work() -> None:
        for name in ("t", "u"):
            scene.kafka.create(name, PARTITIONS)
        await case.prepare(scene)
        counted = Counted(case.call(scene), at, is_late=is_late)
        task = asyncio.get_running_loop().create_task(counted)
        counted.task = task
        scene.outcome = "returned"
        await asyncio.wait([task], timeout=LIMIT_SECONDS)
        assert task.done(), f"the call does not end: {task.get_stack()}"
        if task.cancelled():
            scene.outcome = "cancelled"
        elif task.exception() is not None:
            scene.outcome = repr(task.exception())
            if at == 0 or not isinstance(task.exception(), BarnabasError):
                raise task.exception()  # type: ignore[misc]
        counts.append(counted.count)
        async with asyncio.timeout(LIMIT_SECONDS):
            await case.after(scene)
        await asyncio.sleep(0.01)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"left behind: {left}"
        members = [m for group in scene.kafka.groups.values() for m in group.member_ids]
        assert not members, f"left in the group: {members}"
        assert not world.wires, f"connections are left: {list(world.wires)}"

    world.run(work)
    assert not world.complaints, world.complaints
    return counts[0]


# ---- producers -----------------------------------------------------------------------------


async def make_producer(scene: Scene, **settings: Any) -> None:
    """A producer that is not started."""
    scene.client = Producer(scene.kafka.bootstrap, **{**FAST, "linger_ms": 5, **settings})


async def start_producer(scene: Scene) -> None:
    """A producer that has not sent anything."""
    await make_producer(scene)
    await scene.client.start()


async def crowd_producer(scene: Scene) -> None:
    """A producer whose memory is full."""
    await make_producer(scene, buffer_memory=2000, batch_size=200)
    await scene.client.start()
    await send_some(scene, 60)


async def send_some(scene: Scene, count: int = RECORDS) -> None:
    """Send records to both partitions."""
    for number in range(count):
        value = b"%d" % len(scene.deliveries)
        scene.deliveries.append(scene.client.send("t", value, partition=number % PARTITIONS))


async def sent_producer(scene: Scene) -> None:
    """A producer with records on their way."""
    await start_producer(scene)
    await send_some(scene)


async def await_delivery(scene: Scene) -> None:
    """Await a record."""
    await scene.deliveries[-1]


async def gather_deliveries(scene: Scene) -> None:
    """Await all."""
    await asyncio.gather(*scene.deliveries)


async def producer_works(scene: Scene) -> None:
    """Whatever was sent is there once and in order, and so is what is sent now."""
    await scene.client.start()
    await send_some(scene, 4)
    await scene.client.flush()
    await scene.client.close()
    check_records(scene, all_are_there=True)


async def producer_closes(scene: Scene) -> None:
    """A close that was cancelled has closed: nothing is there that failed for certain."""
    await scene.client.close()
    check_records(scene, all_are_there=False)


def check_records(scene: Scene, *, all_are_there: bool) -> None:
    """Compare the logs with what deliveries say."""
    values = [[value for _, value in log.values()] for log in scene.kafka.topics["t"]]
    for number, delivery in enumerate(scene.deliveries):
        group, _ = delivery[0].resolve(delivery[1])
        assert group.is_done, f"record {number} never ends"
        group.was_seen = True
        found = values[number % PARTITIONS].count(b"%d" % number)
        if group.error is None:
            assert found == 1, f"record {number} is there {found} times"
        else:
            assert not all_are_there, f"record {number} has failed: {group.error!r}"
            assert not found or group.error.is_in_doubt, f"record {number} is there"
    for there in values:
        assert there == sorted(there, key=int), there


def transactional(is_version_2: bool, *, is_initialized: bool = True) -> Step:
    """A transactional producer, which has an open transaction with records or is not started."""

    async def prepare(scene: Scene) -> None:
        await make_producer(scene, transactional_id="x", transaction_timeout_ms=600_000)
        await scene.client.start()
        if is_initialized:
            await scene.client.init_transactions()
            await scene.client.begin_transaction()
            await send_some(scene)

    return prepare


async def transaction_block(scene: Scene) -> None:
    """A whole transaction."""
    async with scene.client.transaction():
        await send_some(scene)


def ending(version: Step) -> Step:
    """A transaction whose caller was cancelled, and that ends in the background."""

    async def prepare(scene: Scene) -> None:
        await version(scene)
        await scene.client.init_transactions()
        block = asyncio.ensure_future(transaction_block(scene))
        await asyncio.sleep(0.002)
        block.cancel()
        await asyncio.wait([block])
        assert block.cancelled()
        scene.deliveries.clear()

    return prepare


async def begins(scene: Scene) -> None:
    """It was begun or not; the next one is whole."""
    if scene.outcome == "returned":
        await scene.client.abort_transaction()
    await transactions_work("")(scene)


async def send_offsets(scene: Scene) -> None:
    """Offsets within a transaction."""
    from barnabas_client import ConsumerGroupMetadata, OffsetAndMetadata

    await scene.client.send_offsets(
        {TopicPartition("t", 0): OffsetAndMetadata(1)}, ConsumerGroupMetadata("g")
    )


def transactions_work(again: str) -> Step:
    """The call can be made again, or was carried out; the next transaction is whole."""

    async def after(scene: Scene) -> None:
        producer = scene.client
        if scene.outcome == "cancelled" and again:
            await getattr(producer, again)()
        async with producer.transaction():
            producer.send("u", b"next")
        await producer.close()
        state = scene.kafka.coordinator.transactions["x"].state
        assert state == "Committed", state
        seen = [value for log in scene.kafka.topics["t"] for _, value in log.committed_values()]
        assert len(seen) in (0, len(scene.deliveries)), f"a part is seen: {seen}"
        if again == "commit_transaction" and scene.deliveries:
            assert seen, "it was committed and is not seen"
        following = [v for log in scene.kafka.topics["u"] for _, v in log.committed_values()]
        assert following == [b"next"], following
        for delivery in scene.deliveries:
            delivery[0].resolve(delivery[1])[0].was_seen = True

    return after


# ---- consumers -----------------------------------------------------------------------------


def reader(protocol: str, *, is_reading: bool) -> Step:
    """A member of a group that reads, or is not started."""

    async def prepare(scene: Scene) -> None:
        await fill(scene)
        settings: dict[str, Any] = {
            "group_id": "g",
            "group_protocol": "consumer" if protocol == "consumer" else "classic",
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 20,
            "fetch_max_wait_ms": 50,
            "max_poll_records": 3,
        }
        if protocol != "consumer":
            settings["partition_assignment_strategy"] = [protocol]
        scene.client = Consumer(scene.kafka.bootstrap, **{**FAST, **settings})
        scene.kafka.on_commit = lambda group, topic, partition, offset: check_commit(
            scene, partition, offset
        )
        if is_reading:
            await scene.client.start()
            scene.client.subscribe(["t"])
            while not scene.handed:
                await poll(scene)

    return prepare


def subscribed(protocol: str) -> Step:
    """A member that has not polled yet."""

    async def prepare(scene: Scene) -> None:
        await reader(protocol, is_reading=False)(scene)
        await scene.client.start()
        scene.client.subscribe(["t"])

    return prepare


def waiting(protocol: str) -> Step:
    """A member that has read all there is."""

    async def prepare(scene: Scene) -> None:
        await reader(protocol, is_reading=True)(scene)
        while len(scene.handed) < RECORDS:
            await poll(scene)

    return prepare


class Pausing(RebalanceListener):
    """A listener whose callbacks wait; what was begun must end before records come."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Take partitions, slowly."""
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        self._scene.owned |= set(partitions)

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Give partitions up, slowly."""
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        self._scene.owned -= set(partitions)


def listening(protocol: str) -> Step:
    """A member with a listener that has not polled yet."""

    async def prepare(scene: Scene) -> None:
        await reader(protocol, is_reading=False)(scene)
        await scene.client.start()
        scene.client.subscribe(["t"], listener=Pausing(scene))
        scene.owned = set()

    return prepare


async def poll_owned(scene: Scene) -> None:
    """Poll once; records are only of partitions whose callback has returned."""
    for record in await scene.client.poll(timeout_ms=200):
        held = scene.owned
        assert held is not None and (record.topic, record.partition) in held, (
            f"records of {record.partition} before its callback has returned"
        )
        scene.handed.add((record.partition, record.offset))


async def reads_owned(scene: Scene) -> None:
    """The rest comes, once the callbacks have returned."""
    while len(scene.handed) < RECORDS:
        await poll_owned(scene)
    await reads_on(scene)


async def fill(scene: Scene) -> None:
    """Let there be something to read."""
    async with Producer(scene.kafka.bootstrap, **FAST) as producer:
        for number in range(RECORDS):
            producer.send("t", b"%d" % number, partition=number % PARTITIONS)
        await producer.flush()


def check_commit(scene: Scene, partition: int, offset: int) -> None:
    """What is committed was handed out."""
    missing = {(partition, at) for at in range(offset)} - scene.handed
    if missing:
        scene.world.complaints.append(f"committed and not handed out: {sorted(missing)}")


async def poll(scene: Scene) -> None:
    """Poll once."""
    for record in await scene.client.poll(timeout_ms=200):
        scene.handed.add((record.partition, record.offset))


async def poll_batches(scene: Scene) -> None:
    """Poll for batches."""
    for batch in await scene.client.poll_batches(timeout_ms=200):
        header = batch.header
        first = header.base_offset
        for offset in range(first, first + header.record_count):
            scene.handed.add((batch.partition, offset))


async def poll_columns(scene: Scene) -> None:
    """Poll for columns."""
    for columns in await scene.client.poll_columns(timeout_ms=200):
        for offset in columns.offsets.to_pylist():
            scene.handed.add((columns.partition, offset))


async def iterate(scene: Scene) -> None:
    """Iterate over some records."""
    count = 5
    iterator: AsyncIterator[Any] = aiter(scene.client)
    while count:
        record = await anext(iterator)
        scene.handed.add((record.partition, record.offset))
        scene.world.loop.work(0.003)
        count -= 1


async def position(scene: Scene) -> None:
    """Ask where the consumer is, which has to be looked up."""
    scene.client.seek_to_beginning()
    await scene.client.position(next(iter(scene.client.assignment())))


async def reads_on(scene: Scene) -> None:
    """Nothing was skipped: all records come, and then the group is left."""
    consumer = scene.client
    await consumer.start()
    if not consumer.subscription():
        consumer.subscribe(["t"])
    while len(scene.handed) < RECORDS:
        await poll(scene)
    await poll(scene)
    await consumer.close()
    assert scene.kafka.group("g").offsets == {
        ("t", number): RECORDS // PARTITIONS for number in range(PARTITIONS)
    }


async def is_out(scene: Scene) -> None:
    """The group has heard of it, and another member reads the rest."""
    await asyncio.sleep(2)
    assert not scene.client.assignment()
    assert not scene.kafka.group("g").member_ids, "it is a member still"
    await reads_on(scene)


async def another_reads(scene: Scene) -> None:
    """The consumer is closed; another one reads the rest."""
    protocol = scene.client.settings.group_protocol
    await scene.client.close()
    assert not scene.kafka.group("g").member_ids, "it is a member still"
    scene.client = Consumer(
        scene.kafka.bootstrap,
        **{
            **FAST,
            "group_id": "g",
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 50,
        },
    )
    await reads_on(scene)


# ---- admin ---------------------------------------------------------------------------------


async def make_admin(scene: Scene) -> None:
    """An admin that is not started."""
    scene.client = Admin(scene.kafka.bootstrap, **FAST)


async def start_admin(scene: Scene) -> None:
    """An admin."""
    await make_admin(scene)
    await scene.client.start()


async def admin_works(scene: Scene) -> None:
    """Another call is answered."""
    await scene.client.start()
    await scene.client.topics.list()
    await scene.client.close()


def method(name: str, *arguments: Any) -> Step:
    """A call of the client itself."""

    def call(scene: Scene) -> Coroutine[Any, Any, Any]:
        found: Any = scene.client
        for part in name.split("."):
            found = getattr(found, part)
        made: Awaitable[Any] = found(*arguments)
        assert isinstance(made, Coroutine)
        return made

    return call


def cases() -> list[Case]:
    """All calls."""
    found = [
        Case("Producer.start", make_producer, method("start"), producer_works),
        Case("Producer.send, awaited", sent_producer, await_delivery, producer_works),
        Case("gather of deliveries", sent_producer, gather_deliveries, producer_works),
        Case("Producer.flush", sent_producer, method("flush"), producer_works),
        Case("Producer.drain", crowd_producer, method("drain"), producer_works),
        Case(
            "Producer.partitions_for", start_producer, method("partitions_for", "u"), producer_works
        ),
        Case("Producer.close", sent_producer, method("close"), producer_closes),
        Case("Admin.start", make_admin, method("start"), admin_works),
        Case("Admin.close", start_admin, method("close"), method("close")),
        Case("Admin.topics.list", start_admin, method("topics.list"), admin_works),
        Case(
            "Admin.topics.create (controller)",
            start_admin,
            method("topics.create", [NewTopic(name="new", partition_count=1)]),
            admin_works,
        ),
        Case(
            "Admin.topics.delete (controller)",
            start_admin,
            method("topics.delete", ["t"]),
            admin_works,
        ),
        Case("Admin.groups.list (every broker)", start_admin, method("groups.list"), admin_works),
        Case(
            "Admin.partitions.list_offsets (leaders)",
            start_admin,
            method(
                "partitions.list_offsets",
                {TopicPartition("t", index): OffsetSpec.LATEST for index in range(PARTITIONS)},
            ),
            admin_works,
        ),
        Case(
            "Admin.group_offsets.list (coordinator)",
            start_admin,
            method("group_offsets.list", {"g": [TopicPartition("t", 0)]}),
            admin_works,
        ),
        Case("Admin.cluster.describe", start_admin, method("cluster.describe"), admin_works),
    ]
    for version in (1, 2):
        label = f", version {version}"
        open_one = transactional(version == 2)
        fresh = transactional(version == 2, is_initialized=False)
        for name, prepare, again in (
            ("init_transactions", fresh, "init_transactions"),
            ("commit_transaction", open_one, "commit_transaction"),
            ("abort_transaction", open_one, "abort_transaction"),
        ):
            found.append(
                Case(f"Producer.{name}{label}", prepare, method(name), transactions_work(again))
            )
        found += [
            Case(
                f"Producer.begin_transaction{label}",
                ending(fresh),
                method("begin_transaction"),
                begins,
            ),
            Case(f"Producer.transaction{label}", fresh, transaction_block, transactions_work("")),
            Case(
                f"Producer.send_offsets{label}",
                open_one,
                send_offsets,
                ends_offsets,
            ),
        ]
    for protocol in ("range", "cooperative-sticky", "consumer"):
        reading = reader(protocol, is_reading=True)
        joining = subscribed(protocol)
        found += [
            Case(f"Consumer.poll, joining, {protocol}", joining, poll, reads_on),
            Case(
                f"Consumer.poll, listener, {protocol}", listening(protocol), poll_owned, reads_owned
            ),
            Case(f"Consumer.poll, {protocol}", reading, poll, reads_on),
            Case(f"Consumer.poll, waiting, {protocol}", waiting(protocol), poll, reads_on),
            Case(f"Consumer.poll_batches, {protocol}", joining, poll_batches, reads_on),
            Case(f"Consumer.poll_columns, {protocol}", joining, poll_columns, reads_on),
            Case(f"async for, {protocol}", reading, iterate, reads_on),
            Case(f"Consumer.commit, {protocol}", reading, method("commit"), reads_on),
            Case(f"Consumer.position, {protocol}", reading, position, reads_on),
            Case(f"Consumer.lag, {protocol}", reading, method("lag"), reads_on),
            Case(
                f"Consumer.committed, {protocol}",
                reading,
                method("committed", [TopicPartition("t", 0)]),
                reads_on,
            ),
            Case(f"Consumer.unsubscribe, {protocol}", reading, method("unsubscribe"), is_out),
            Case(f"Consumer.close, {protocol}", reading, method("close"), another_reads),
        ]
    reading = reader("range", is_reading=True)
    partitions = [TopicPartition("t", 0)]
    found += [
        Case("Consumer.start", reader("range", is_reading=False), method("start"), reads_on),
        Case(
            "Consumer.beginning_offsets", reading, method("beginning_offsets", partitions), reads_on
        ),
        Case("Consumer.end_offsets", reading, method("end_offsets", partitions), reads_on),
        Case(
            "Consumer.offsets_for_times",
            reading,
            method("offsets_for_times", {TopicPartition("t", 0): 1}),
            reads_on,
        ),
    ]
    return found


async def ends_offsets(scene: Scene) -> None:
    """The transaction can be ended."""
    await scene.client.abort_transaction()
    await transactions_work("")(scene)


def table(chosen: list[Case] | None = None) -> list[tuple[str, int]]:
    """Run all; the calls with their numbers of awaits. Raises: AssertionError, naming the place."""
    rows = []
    for case in chosen or cases():
        count = run(case, 0)
        for at in range(1, count + 1):
            for is_late in (False, True):
                try:
                    run(case, at, is_late=is_late)
                except Exception as error:
                    how = "late" if is_late else "at once"
                    raise AssertionError(
                        f"{case.name}, cancelled at await {at} of {count} ({how}): {error!r}"
                    ) from error
        rows.append((case.name, count))
    return rows


def row(name: str, count: int) -> str:
    """A call and its number of awaits, as the page has it."""
    return f"| {name} | {count} |"


def show_table() -> int:
    """Print the table, for docs/client/cancellations.md; returns the exit status."""
    total = status = 0
    rows = []
    for case in cases():
        try:
            ((name, count),) = table([case])
        except AssertionError as error:
            status = 1
            sys.stderr.write(f"{case.name}: {error}\n")
            continue
        total += count
        rows.append(row(name, count))
    sys.stdout.write("| call | awaits |\n|---|---|\n" + "\n".join(rows) + "\n\n")
    sys.stdout.write(f"{len(rows)} calls, {total} awaits, {2 * total} cancellations.\n")
    return status
