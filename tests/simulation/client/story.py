"""A story by seed: programs with producers and consumers, what befalls them, and what must hold."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from barnabas_client import Producer
from barnabas_client.errors import BarnabasError
from barnabas_client.producer.delivery import Delivery
from barnabas_protocol.errors import ErrorCode
from tests.simulation.client.checks import check_groups, check_producer, check_transactions
from tests.simulation.client.faults import FEATURES, Faults
from tests.simulation.client.kafka import Kafka
from tests.simulation.client.members import GroupStory
from tests.simulation.client.world import World
from tests.support.process_loop import Process

LIMIT_SECONDS = 20.0
# How often the loop may turn before a call that was cancelled has ended.
TURNS_MAX = 10
FAST: dict[str, Any] = {
    "request_timeout_ms": 400,
    "default_api_timeout_ms": 3000,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 200,
    "socket_connection_setup_timeout_ms": 500,
    "metadata_max_age_ms": 1500,
}
KINDS = ("idempotent", "plain", "transactional", "group")


class Violation(AssertionError):
    """Something that must hold does not."""


@dataclass
class Sent:
    """A record that was handed to a producer."""

    number: int
    value: bytes
    topic: str
    delivery: Delivery
    transaction: int = -1


@dataclass
class ProducerStory:
    """What one producer has done, by the program that holds it."""

    name: str
    settings: dict[str, Any]
    sent: list[Sent] = field(default_factory=list)
    outcomes: dict[int, str] = field(default_factory=dict)
    was_killed: bool = False

    @property
    def is_idempotent(self) -> bool:
        return bool(self.settings["enable_idempotence"])

    def send(
        self,
        producer: Producer,
        topic: str,
        partition: int | None,
        pad: int,
        transaction: int = -1,
        *,
        key: bytes | None = None,
    ) -> Delivery:
        """Send one more record."""
        number = len(self.sent)
        value = b"%s-%d" % (self.name.encode(), number)
        headers = [("pad", b"x" * pad)]
        delivery = producer.send(topic, value, key=key, partition=partition, headers=headers)
        self.sent.append(Sent(number, value, topic, delivery, transaction))
        return delivery


class Story:
    """All that happens under one seed."""

    def __init__(self, seed: int, *, kinds: tuple[str, ...] | None = None) -> None:
        self.seed = seed
        self.draws = random.Random(f"story {seed}")
        draws = self.draws
        self.world = World(seed)
        is_version_2 = draws.random() < 0.5
        self.kafka = Kafka(
            self.world,
            draws.choice((1, 2, 2, 3)),
            is_version_2=is_version_2,
            produce=draws.choice((12, 13) if is_version_2 else (11, 12, 13)),
            offset_commit=draws.choice((9, 10)),
            offset_fetch=draws.choice((9, 10)),
            fetch=draws.choice((12, 17)),
        )
        wanted = draws.choice((0.0, 0.15, 0.3, 0.5))
        features = frozenset(name for name in FEATURES if draws.random() < wanted)
        self.faults = Faults(self.world, self.kafka, random.Random(f"faults {seed}"), features)
        self.kinds = (
            kinds or tuple(k for k in KINDS if draws.random() < 0.45) or (draws.choice(KINDS),)
        )
        self.producers: list[ProducerStory] = []
        self.groups: list[GroupStory] = []
        self.all_works = asyncio.Event()

    def run(self) -> None:
        """Tell the story. Raises: AssertionError where something does not hold."""
        self.world.run(self._run)
        if self.world.complaints:
            raise Violation("\n".join(self.world.complaints))

    async def _run(self) -> None:
        draws, kafka = self.draws, self.kafka
        for name in ("t", "u"):
            kafka.create(name, draws.randint(1, 4))
        self.faults.moved_topics = ["t", "u"]
        self.faults.remade_topics = ["u"]
        programs: list[Coroutine[Any, Any, None]] = []
        for kind in self.kinds:
            if kind == "group":
                group = GroupStory(self, f"g{len(self.groups)}")
                self.groups.append(group)
                programs.append(group.run())
            else:
                programs += [self._produce(kind) for _ in range(draws.choice((1, 1, 2)))]
        self.faults.begin()
        works = [asyncio.ensure_future(program) for program in programs]
        stop = asyncio.ensure_future(self._end_faults())
        try:
            async with asyncio.timeout(600):
                await asyncio.gather(*works)
        except TimeoutError:
            raise Violation("the programs do not end") from None
        finally:
            stop.cancel()
            self.faults.end()
        for group in self.groups:
            await group.drain()
        # Transactions of the dead time out, members of the dead are put out.
        await asyncio.sleep(30)
        for producer in self.producers:
            check_producer(producer, kafka)
            if producer.outcomes:
                check_transactions(producer, kafka)
        for group in self.groups:
            check_groups(group, kafka)

    async def _end_faults(self) -> None:
        await asyncio.sleep(self.draws.uniform(1, 8))
        self.faults.end()
        self.all_works.set()

    async def within(self, call: Awaitable[Any], name: str, seconds: float = LIMIT_SECONDS) -> Any:
        """Await a call that has to end within its time."""
        task = asyncio.ensure_future(call)
        # Whoever waits here may be killed before it is told.
        task.add_done_callback(_look_at)
        try:
            await asyncio.wait([task], timeout=seconds)
        except asyncio.CancelledError:
            task.cancel()
            with contextlib.suppress(BaseException):
                await task
            raise
        if not task.done():
            stack = task.get_stack()
            task.cancel()
            raise Violation(f"{name} takes longer than {seconds} s: {stack}")
        return task.result()

    async def interrupted(
        self, call: Coroutine[Any, Any, Any], name: str, *, is_prompt: bool = False
    ) -> None:
        """Make a call, perhaps cancel it after a while; its failures are the program's own.

        `is_prompt`: what is cancelled has nothing to put in order, and ends at once.
        """
        draws = self.draws
        task = asyncio.ensure_future(call)
        task.add_done_callback(_look_at)
        await asyncio.sleep(0)  # so that the call has begun
        if draws.random() < 0.5:
            if draws.random() < 0.5:
                for _ in range(draws.randint(0, 12)):
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep(draws.random() ** 3)
            task.cancel()
            self.world.tell(name, "is cancelled")
            for _ in range(TURNS_MAX if is_prompt else 0):
                await asyncio.sleep(0)
            if is_prompt and not task.done():
                raise Violation(f"{name} was cancelled and goes on: {task.get_stack()}")
        with contextlib.suppress(asyncio.CancelledError, BarnabasError):
            await self.within(task, name)

    # ---- producers -------------------------------------------------------------------------

    async def _produce(self, kind: str) -> None:
        draws = self.draws
        name = f"p{len(self.producers)}"
        settings: dict[str, Any] = {
            **FAST,
            "enable_idempotence": kind != "plain",
            "linger_ms": draws.choice((0, 0, 5, 30)),
            "batch_size": draws.choice((80, 200, 16384)),
            "buffer_memory": draws.choice((2000, 1 << 20)),
            "max_block_ms": draws.choice((300, 2000)),
            "delivery_timeout_ms": draws.choice((600, 2000)),
            "max_in_flight_requests_per_connection": draws.choice((1, 3, 5)),
        }
        settings["request_timeout_ms"] = draws.choice((200, 400))
        if kind == "transactional":
            settings["transactional_id"] = f"tx-{name}"
            settings["transaction_timeout_ms"] = draws.choice((2000, 8000))
        story = ProducerStory(name, settings)
        self.producers.append(story)
        program = self._transactions if kind == "transactional" else self._records
        await self._as_program(lambda: program(story), story)

    async def _as_program(
        self, main: Callable[[], Coroutine[Any, Any, None]], story: ProducerStory
    ) -> None:
        """Run a program to its end, kill it, or let it stand still for a while."""
        draws = self.draws
        fate = draws.choice(("ends", "ends", "ends", "is killed", "stands still"))
        process = Process(story.name)
        task = self.world.loop.spawn(process, main())
        if fate == "is killed":
            await asyncio.wait([task], timeout=draws.uniform(0, 3))
            if not task.done():
                story.was_killed = True
                self.world.tell(story.name, "is killed")
                self.world.kill(process)
                await asyncio.sleep(0.01)
                return
        elif fate == "stands still":
            await asyncio.wait([task], timeout=draws.uniform(0, 2))
            self.world.loop.stop_process(process)
            await asyncio.sleep(draws.uniform(0, 6))
            self.world.loop.resume_process(process)
        await self.world.finish(process, task)

    async def _records(self, story: ProducerStory) -> None:
        draws = self.draws
        producer = Producer(self.kafka.bootstrap, **story.settings)
        leaves = draws.random() < 0.25
        with contextlib.suppress(BarnabasError):
            for _ in range(draws.choice((0, 0, 0, 2))):
                await self.interrupted(producer.start(), "start")
            await producer.start()
            for _ in range(draws.randint(1, 12)):
                await self._step(producer, story)
                if leaves and draws.random() < 0.15:
                    self._hold(producer, story)
                    self.world.tell(story.name, "returns from main")
                    return
        if draws.random() < 0.3 and producer._sender is not None:
            await self._probe(producer, story)
        if draws.random() < 0.2:
            await self.interrupted(producer.close(), "close")
        limit_ms = draws.choice((None, None, 0, 200))
        await self.within(producer.close(limit_ms), "close")
        assert producer._accumulator.used_bytes == 0, "memory is left"
        assert not producer._accumulator.unfinished, "batches are left"

    async def _probe(self, producer: Producer, story: ProducerStory) -> None:
        """When all works again, so does the producer."""
        await self.all_works.wait()
        await asyncio.sleep(5)
        for topic in ("t", "u"):
            for key in (None, None, b"a", b"b", b"c"):
                try:
                    await self.within(story.send(producer, topic, None, 0, key=key), "send")
                except BarnabasError as error:
                    raise Violation(f"{topic} cannot be written to: {error!r}") from error

    def _hold(self, producer: Producer, story: ProducerStory) -> None:
        """Let a task use the producer when the program ends."""

        async def hold() -> None:
            async with producer:
                while True:
                    with contextlib.suppress(BarnabasError):
                        await story.send(producer, "t", None, 5)
                    await asyncio.sleep(0.1)

        if self.draws.random() < 0.6:
            task = asyncio.create_task(hold())
            producer.__dict__["held_by"] = task

    async def _step(self, producer: Producer, story: ProducerStory) -> None:
        """One thing that a program does with a producer."""
        draws = self.draws
        topic = draws.choice(("t", "t", "u"))
        # A program does not look at metadata before each record.
        logs = self.kafka.topics[topic]
        deliveries = []
        for _ in range(draws.choice((1, 1, 3, 10))):
            partition = draws.choice((None, None, draws.randrange(len(logs))))
            key = draws.choice((None, b"a", b"b", b"c"))
            pad = draws.choice((0, 20, 120))
            with contextlib.suppress(BarnabasError):
                deliveries.append(story.send(producer, topic, partition, pad, key=key))
        match draws.choice(("await", "gather", "flush", "drain", "sleep", "partitions", "go on")):
            case "await" if deliveries:
                await self.interrupted(_awaited(deliveries[-1]), "send", is_prompt=True)
            case "gather":
                await self.interrupted(_gathered(deliveries), "gather", is_prompt=True)
            case "flush":
                limit_ms = draws.choice((None, 100))
                await self.interrupted(producer.flush(limit_ms), "flush", is_prompt=True)
            case "drain":
                await self.interrupted(producer.drain(), "drain", is_prompt=True)
            case "partitions":
                name = draws.choice((topic, "none"))
                await self.interrupted(_asked(producer, name), "partitions_for", is_prompt=True)
            case "sleep":
                await asyncio.sleep(draws.random() ** 2 * 2)

    # ---- transactions ----------------------------------------------------------------------

    async def _transactions(self, story: ProducerStory) -> None:
        draws = self.draws
        producer = Producer(self.kafka.bootstrap, **story.settings)
        try:
            await producer.start()
            await self._until_done(producer.init_transactions, "init_transactions")
            for number in range(draws.randint(1, 5)):
                await self._transaction(producer, story, number)
        except BarnabasError as error:
            self.world.tell(story.name, "gives up:", repr(error))
            if getattr(error, "code", None) == ErrorCode.INVALID_TXN_STATE:
                raise Violation(f"{story.name} ends what was not begun: {error!r}") from error
        if draws.random() < 0.2:
            await self.interrupted(producer.close(), "close")
        await self.within(producer.close(), "close")

    async def _until_done(self, call: Callable[[], Coroutine[Any, Any, Any]], name: str) -> None:
        """Cancel a call a few times, then let it end."""
        for _ in range(self.draws.choice((0, 0, 1, 2))):
            task = asyncio.ensure_future(call())
            for _ in range(self.draws.randint(0, 8)):
                await asyncio.sleep(0)
            if self.draws.random() < 0.5:
                await asyncio.sleep(self.draws.random() ** 3)
            task.cancel()
            self.world.tell(name, "is cancelled")
            try:
                await self.within(task, name)
            except asyncio.CancelledError:
                continue
            return
        await self.within(call(), name)

    async def _transaction(self, producer: Producer, story: ProducerStory, number: int) -> None:
        draws = self.draws
        if draws.random() < 0.3:
            await self._block(producer, story, number)
            return
        await self.within(producer.begin_transaction(), "begin_transaction")
        self.world.tell(story.name, "begins transaction", number)
        story.outcomes[number] = "open"
        for _ in range(draws.randint(0, 6)):
            topic = draws.choice(("t", "u"))
            with contextlib.suppress(BarnabasError):
                delivery = story.send(producer, topic, None, draws.choice((0, 60)), number)
                if draws.random() < 0.2:
                    await self.interrupted(_awaited(delivery), "send")
        if draws.random() < 0.3:
            await self.interrupted(producer.flush(), "flush")
        if draws.random() < 0.65:
            story.outcomes[number] = "committing"
            try:
                await self._until_done(producer.commit_transaction, "commit")
            except BarnabasError as error:
                self.world.tell(story.name, "cannot commit:", repr(error))
                if getattr(error, "code", None) is not None or draws.random() < 0.5:
                    await self._until_done(producer.abort_transaction, "abort")
                    story.outcomes[number] = "aborted"
                return
            story.outcomes[number] = "committed"
            self.world.tell(story.name, "has committed", number)
            return
        await self._until_done(producer.abort_transaction, "abort")
        story.outcomes[number] = "aborted"
        self.world.tell(story.name, "has aborted", number)

    async def _block(self, producer: Producer, story: ProducerStory, number: int) -> None:
        """`async with producer.transaction()`, perhaps cancelled: then it must have an end."""
        draws = self.draws

        async def block() -> None:
            async with producer.transaction():
                story.outcomes[number] = "open"
                for _ in range(draws.randint(0, 6)):
                    with contextlib.suppress(BarnabasError):
                        story.send(producer, draws.choice(("t", "u")), None, 0, number)
                await asyncio.sleep(draws.choice((0, 0.01)))
            story.outcomes[number] = "committed"

        await self.interrupted(block(), "transaction")
        if story.outcomes.get(number) == "committed":
            return
        # By itself, so that readers need not wait for the transaction's timeout.
        if draws.random() < 0.5 and not self.faults.features:
            await asyncio.sleep(1)
            state = self.kafka.coordinator.transactions.get(story.settings["transactional_id"])
            assert state is None or state.state != "Ongoing", (
                f"{story.name}: nobody ends the cancelled transaction {number}"
            )


def _look_at(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def _awaited(delivery: Delivery) -> None:
    await delivery


async def _gathered(deliveries: list[Delivery]) -> None:
    await asyncio.gather(*deliveries)


async def _asked(producer: Producer, topic: str) -> None:
    await producer.partitions_for(topic)
