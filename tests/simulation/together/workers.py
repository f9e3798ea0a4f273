"""Workers of a cluster's story that are programs of our clients, one life after the other."""

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any

from barnabas_client import Admin, Consumer, Producer, RebalanceListener, TopicPartition
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import AlreadyExistsError, BarnabasError
from barnabas_client.producer.delivery import Delivery
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.history import History
from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.workload import Worker
from tests.simulation.together.programs import Programs, Violation, bootstrap

FAST: dict[str, Any] = {
    # The numbers of the default ones go on from story to story, and their digits take room.
    "client_id": "together",
    "request_timeout_ms": 1500,
    "default_api_timeout_ms": 6000,
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 500,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 500,
    "socket_connection_setup_timeout_ms": 1500,
    "metadata_max_age_ms": 5000,
}
SESSION_MS = 3000
HEARTBEAT_MS = 300
_BOTH = ("classic", "consumer")
STRATEGIES = (["range"], ["roundrobin"], ["sticky"], ["cooperative-sticky"])
REMADE = "remade"
REMADE_PARTITIONS_MAX = 3
SETTLE_SECONDS = 5.0
DRAIN_SECONDS = 90.0


class Living(Worker):
    """Lives of programs until the story is over, and a last one in which all must work."""

    def __init__(
        self, client: ClusterClient, history: History, plan: Plan, programs: Programs
    ) -> None:
        super().__init__(client, history)
        self.name = client.name
        self.plan = plan
        self.programs = programs
        self.bootstrap = bootstrap(programs.cluster)
        self.draws = random.Random(f"{plan.seed} {client.name}")
        self.life_count = 0

    async def run(self) -> None:
        """Live again and again."""
        while not self.is_over:
            await self._next_life()
            await asyncio.sleep(self.draws.uniform(0, 0.5))
        await self._next_life()

    async def _next_life(self) -> None:
        self.life_count += 1
        await self.live()

    async def live(self) -> None:
        """One life."""
        raise NotImplementedError

    async def until_over(self) -> None:
        """Wait until all works again."""
        while not self.is_over:
            await asyncio.sleep(0.1)
        await asyncio.sleep(SETTLE_SECONDS)

    async def interrupted(self, call: Coroutine[Any, Any, Any], name: str) -> None:
        """Make a call that may be cancelled, and may fail."""
        await self.programs.interrupted(call, f"{self.name}: {name}", self.draws)


# ---- producers -----------------------------------------------------------------------------


@dataclass
class Sent:
    """A record that was handed to a producer."""

    value: bytes
    topic: str
    delivery: Delivery


@dataclass
class ProducerLife:
    """What one producer has sent."""

    name: str
    settings: dict[str, Any]
    sent: list[Sent] = field(default_factory=list)
    was_killed: bool = False

    @property
    def keeps_order(self) -> bool:
        """Whether records of a partition may not overtake each other."""
        return (
            self.settings["enable_idempotence"]
            or self.settings["max_in_flight_requests_per_connection"] == 1
        )


class ProducerPrograms(Living):
    """Producers one after the other."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        plan: Plan,
        programs: Programs,
        *,
        is_idempotent: bool,
        topics: tuple[str, ...],
    ) -> None:
        super().__init__(client, history, plan, programs)
        self.is_idempotent = is_idempotent
        self.topics = topics
        self.lives: list[ProducerLife] = []

    async def live(self) -> None:
        """One program with a producer."""
        draws = self.draws
        settings: dict[str, Any] = {
            **FAST,
            "enable_idempotence": self.is_idempotent,
            "linger_ms": draws.choice((0, 0, 5, 30)),
            "batch_size": draws.choice((80, 200, 16384)),
            "buffer_memory": draws.choice((2000, 1 << 20)),
            "max_block_ms": draws.choice((300, 4000)),
            "delivery_timeout_ms": draws.choice((2000, 10_000)),
            "max_in_flight_requests_per_connection": draws.choice((1, 3, 5)),
        }
        life = ProducerLife(f"{self.name}.{self.life_count}", settings)
        self.lives.append(life)
        fates = None if self.is_over else draws
        life.was_killed = await self.programs.run(life.name, self._main(life), fates)

    async def _main(self, life: ProducerLife) -> None:
        draws = self.draws
        producer = Producer(self.bootstrap, **life.settings)
        probes = self.is_over or draws.random() < 0.15
        with contextlib.suppress(BarnabasError):
            if draws.random() < 0.2:
                await self.interrupted(producer.start(), "start")
            await producer.start()
            for _ in range(draws.randint(1, 30)):
                if self.is_over:
                    break
                await self._step(producer, life)
                if draws.random() < 0.01:
                    self._hold(producer, life)
                    return
            if probes:
                await self._probe(producer, life)
        if draws.random() < 0.2:
            await self.interrupted(producer.close(), "close")
        limit_ms = draws.choice((None, None, 0, 200))
        await self.programs.within(producer.close(limit_ms), f"{life.name}: close")
        assert producer._accumulator.used_bytes == 0, "memory is left"
        assert not producer._accumulator.unfinished, "batches are left"

    def _send(
        self, producer: Producer, life: ProducerLife, topic: str, partition: int | None
    ) -> Delivery:
        value = b"%s-%d" % (life.name.encode(), len(life.sent))
        pad = b"x" * self.draws.choice((0, 20, 120))
        delivery = producer.send(topic, value, partition=partition, headers=[("pad", pad)])
        life.sent.append(Sent(value, topic, delivery))
        return delivery

    async def _step(self, producer: Producer, life: ProducerLife) -> None:
        draws = self.draws
        topic = draws.choice(self.topics)
        count = REMADE_PARTITIONS_MAX if topic == REMADE else self.plan.partitions
        deliveries = []
        for _ in range(draws.choice((1, 1, 3, 10))):
            partition = draws.choice((None, draws.randrange(count)))
            with contextlib.suppress(BarnabasError):
                deliveries.append(self._send(producer, life, topic, partition))
        match draws.choice(("await", "gather", "flush", "drain", "sleep", "partitions", "go on")):
            case "await" if deliveries:
                await self.interrupted(_awaited(deliveries[-1]), "send")
            case "gather":
                await self.interrupted(_gathered(deliveries), "gather")
            case "flush":
                limit_ms = draws.choice((None, 100))
                await self.interrupted(producer.flush(limit_ms), "flush")
            case "drain":
                await self.interrupted(producer.drain(), "drain")
            case "partitions":
                await self.interrupted(_asked(producer, topic), "partitions_for")
            case "sleep":
                await asyncio.sleep(draws.random() ** 2 * 2)

    async def _probe(self, producer: Producer, life: ProducerLife) -> None:
        """When all works again, so does the producer."""
        await self.until_over()
        for partition in range(self.plan.partitions):
            for _ in range(2):
                delivery = self._send(producer, life, self.topics[0], partition)
                try:
                    await self.programs.within(_awaited(delivery), f"{life.name}: send")
                except BarnabasError as error:
                    raise Violation(f"{life.name} cannot write: {error!r}") from error

    def _hold(self, producer: Producer, life: ProducerLife) -> None:
        """Let a task use the producer when the program ends."""

        async def hold() -> None:
            async with producer:
                while True:
                    with contextlib.suppress(BarnabasError):
                        await self._send(producer, life, self.topics[0], 0)
                    await asyncio.sleep(0.1)

        self.programs.cluster.trace.tell(life.name, "returns from main")
        if self.draws.random() < 0.6:
            producer.__dict__["held_by"] = asyncio.create_task(hold())


# ---- groups --------------------------------------------------------------------------------


class Waiting(RebalanceListener):
    """A listener whose callbacks wait, so that something may strike meanwhile."""

    def __init__(self, draws: random.Random) -> None:
        self._draws = draws

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Wait."""
        await self._pause()

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Wait."""
        await self._pause()

    async def _pause(self) -> None:
        for _ in range(self._draws.choice((0, 1, 3))):
            await asyncio.sleep(self._draws.choice((0, 0.02)))


class Group:
    """What the members of a group share, and what was handed out to any of them."""

    def __init__(self, name: str, topic: str, plan: Plan, programs: Programs) -> None:
        draws = random.Random(f"{plan.seed} {name}")
        self.name = name
        self.topic = topic
        self.programs = programs
        self.is_static = draws.random() < 0.2
        self.handed: dict[int, dict[int, bytes]] = defaultdict(dict)
        # Members of one protocol, of the other, or of both side by side.
        apart = random.Random(f"protocol {plan.seed} {name}")
        self.protocols = apart.choice((("classic",), ("consumer",), ("consumer",), _BOTH))
        self.settings: dict[str, Any] = {
            **FAST,
            "group_id": name,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 100,
            "auto_commit_interval_ms": draws.choice((20, 100, 1000)),
            "max_poll_records": draws.choice((1, 5, 500)),
            "max_partition_fetch_bytes": draws.choice((200, 1 << 20)),
            "max_poll_interval_ms": 5000,
        }
        self.of_protocol: dict[str, dict[str, Any]] = {
            "classic": {
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": HEARTBEAT_MS,
                "partition_assignment_strategy": draws.choice(STRATEGIES),
            },
            "consumer": {"group_remote_assignor": apart.choice((None, "uniform", "range"))},
        }

    def consumer(self, draws: random.Random, instance_id: str | None = None) -> Consumer:
        """A member to be."""
        extra = {} if instance_id is None else {"group_instance_id": instance_id}
        rack = {"client_rack": f"rack-{draws.randrange(3)}"}
        protocol = draws.choice(self.protocols)
        settings = {**self.settings, **self.of_protocol[protocol], **extra, **rack}
        return Consumer(
            bootstrap(self.programs.cluster), **{**settings, "group_protocol": protocol}
        )

    def take(self, record: Any) -> None:
        """A record was handed out. Raises: Violation where it was another one before."""
        value = record.value or b""
        known = self.handed[record.partition].setdefault(record.offset, value)
        if known != value:
            raise Violation(f"{record} was handed out, {known!r} was there before")

    async def poll(self, consumer: Consumer, timeout_ms: int) -> None:
        """One poll; what it returns counts as handed out at that moment."""
        for record in await consumer.poll(timeout_ms=timeout_ms):
            self.take(record)

    async def drain(self, ends: dict[int, int]) -> None:
        """The last member reads all that is left."""
        consumer = self.consumer(random.Random(self.name))
        await consumer.start()
        consumer.subscribe([self.topic])
        with contextlib.suppress(TimeoutError):  # what is missing the check says
            async with asyncio.timeout(DRAIN_SECONDS):
                while any(len(self.handed[index]) < end for index, end in ends.items()):
                    with contextlib.suppress(BarnabasError):
                        await self.poll(consumer, 200)
        await self.programs.within(consumer.close(), f"{self.name}: close")


class MemberPrograms(Living):
    """Members of a group one after the other."""

    def __init__(
        self, client: ClusterClient, history: History, plan: Plan, programs: Programs, group: Group
    ) -> None:
        super().__init__(client, history, plan, programs)
        self.group = group

    async def live(self) -> None:
        """One program with a consumer."""
        fates = None if self.is_over else self.draws
        name = f"{self.name}.{self.life_count}"
        await self.programs.run(name, self._main(name), fates)

    async def _main(self, name: str) -> None:
        draws, group = self.draws, self.group
        consumer = group.consumer(draws, self.name if group.is_static else None)
        listener = Waiting(draws) if draws.random() < 0.6 else None
        with contextlib.suppress(BarnabasError):
            if draws.random() < 0.2:
                await self.interrupted(consumer.start(), "start")
            await consumer.start()
            consumer.subscribe([group.topic], listener=listener)
            for _ in range(draws.randint(3, 60)):
                if self.is_over:
                    break
                await self._step(consumer, listener)
                if draws.random() < 0.01:
                    self.programs.cluster.trace.tell(name, "returns from main")
                    return
        if draws.random() < 0.3:
            await self.interrupted(consumer.close(), "close")
        with contextlib.suppress(BarnabasError):  # what the group has said meanwhile
            await self.programs.within(consumer.close(5000), f"{name}: close")

    async def _step(self, consumer: Consumer, listener: Waiting | None) -> None:
        draws, group = self.draws, self.group
        timeout_ms = draws.choice((0, 50, 500))
        calls: list[tuple[str, Callable[[], Coroutine[Any, Any, Any]]]] = [
            ("poll", lambda: group.poll(consumer, timeout_ms)),
            ("poll", lambda: group.poll(consumer, timeout_ms)),
            ("poll", lambda: group.poll(consumer, timeout_ms)),
            ("iteration", lambda: self._iterate(consumer)),
            ("commit", consumer.commit),
            ("committed", lambda: consumer.committed(consumer.assignment())),
            ("lag", consumer.lag),
        ]
        label, call = draws.choice(calls)
        if draws.random() < 0.03:
            await self.interrupted(consumer.unsubscribe(), "unsubscribe")
            consumer.subscribe([group.topic], listener=listener)
        await self.interrupted(call(), label)
        if draws.random() < 0.2:
            await asyncio.sleep(draws.random() ** 3 * 1.5)

    async def _iterate(self, consumer: Consumer) -> None:
        """Some records one by one; the body may wait."""
        count = self.draws.choice((1, 5, 40, 200))
        waits = self.draws.random() < 0.5
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                async for record in consumer:
                    self.group.take(record)
                    count -= 1
                    if not count:
                        break
                    if waits:
                        await asyncio.sleep(0.003)


# ---- administrators ------------------------------------------------------------------------


class RemakerPrograms(Living):
    """An admin that deletes a topic and makes it anew, with other partition counts."""

    async def live(self) -> None:
        """One program with an admin."""
        name = f"{self.name}.{self.life_count}"
        await self.programs.run(name, self._main(name), None if self.is_over else self.draws)

    async def _main(self, name: str) -> None:
        draws = self.draws
        admin = Admin(self.bootstrap, **FAST)
        with contextlib.suppress(BarnabasError):
            await admin.start()
            for _ in range(draws.randint(1, 6)):
                if self.is_over:
                    break
                await self.interrupted(admin.topics.delete([REMADE]), "delete")
                await asyncio.sleep(draws.random())
                await self.interrupted(self._create(admin), "create")
                await asyncio.sleep(draws.random() * 5)
        if self.is_over:
            await asyncio.sleep(SETTLE_SECONDS)
            await self.programs.within(self._make_sure(admin), f"{name}: create")
        await self.programs.within(admin.close(), f"{name}: close")

    async def _create(self, admin: Admin) -> None:
        count = self.draws.randint(1, REMADE_PARTITIONS_MAX)
        new = NewTopic(name=REMADE, partition_count=count, replication_factor=self.plan.replicas)
        (await admin.topics.create([new])).unwrap()

    async def _make_sure(self, admin: Admin) -> None:
        """When all works again, the topic can be made."""
        await admin.start()
        with contextlib.suppress(AlreadyExistsError):
            await self._create(admin)


async def _awaited(delivery: Delivery) -> None:
    await delivery


async def _gathered(deliveries: list[Delivery]) -> None:
    await asyncio.gather(*deliveries)


async def _asked(producer: Producer, topic: str) -> None:
    await producer.partitions_for(topic)
