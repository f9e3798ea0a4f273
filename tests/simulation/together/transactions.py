"""Transactional producers of a cluster's story, and what must hold of their transactions.

Each worker has one transactional id, which its lives take over from one another, so that those
which were killed are fenced; two workers may share one, and fence each other. A record's value
names its transaction: `ledger-0/3/7/2` is the third record of the eighth transaction of the third
life. Many transactions commit an offset as well, their number among all of the worker, for a group
that nobody else commits for.
"""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from barnabas_client import (
    Admin,
    Consumer,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import (
    AbortableError,
    AlreadyExistsError,
    BarnabasError,
    FencedError,
    RetriableError,
)
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.history import History
from tests.simulation.cluster.plan import Plan
from tests.simulation.together.programs import Programs, Violation
from tests.simulation.together.workers import FAST, Living

LEDGER = "ledger"
LEDGER_PARTITIONS = 3
TRANSACTION_MS = 3_000
SETTLED_SECONDS = 60.0
OFFSETS_OF = TopicPartition(LEDGER, 0)


class Outcome(Enum):
    """What a program was told of a transaction; in doubt is what it was told nothing of."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    IN_DOUBT = "in doubt"


@dataclass
class Attempt:
    """One transaction: its records by partition, in order, and its outcome."""

    name: str
    records: list[tuple[int, bytes]] = field(default_factory=list)
    outcome: Outcome = Outcome.IN_DOUBT
    offset: int | None = None


class TransactionPrograms(Living):
    """Producers with one transactional id, one after the other."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        plan: Plan,
        programs: Programs,
        *,
        rival_id: str | None = None,
    ) -> None:
        """With a `rival_id`, workers that are to fence one another share that id."""
        super().__init__(client, history, plan, programs)
        self.transactional_id = rival_id or self.name
        self.has_rival = rival_id is not None
        self.group_id = f"{self.name}-offsets"
        self.attempts: list[Attempt] = []
        self._has_topic = False

    async def live(self) -> None:
        """One program with a producer."""
        name = f"{self.name}/{self.life_count}"
        fates = None if self.is_over else self.draws
        await self.programs.run(name, self._main(name), fates)

    async def _main(self, name: str) -> None:
        draws, is_last = self.draws, self.is_over
        if is_last:
            await self.until_over()
        if not self._has_topic:
            await self._make_topic()
        producer = Producer(
            self.bootstrap,
            **FAST,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_MS,
            linger_ms=draws.choice((0, 5, 30)),
            batch_size=draws.choice((80, 16384)),
            max_block_ms=draws.choice((300, 4000)),
            delivery_timeout_ms=draws.choice((2000, 10_000)),
        )
        with contextlib.suppress(BarnabasError):
            await producer.start()
            await self._begin_life(producer)
            for number in range(3 if is_last else draws.randint(1, 12)):
                if not await self._transact(producer, f"{name}/{number}"):
                    break
        if is_last and not self.has_rival and self.attempts[-1].outcome is Outcome.IN_DOUBT:
            raise Violation(f"{name} cannot end a transaction when all works again")
        await self.programs.within(producer.close(200), f"{name}: close")

    async def _begin_life(self, producer: Producer) -> None:
        for _ in range(20):
            with contextlib.suppress(RetriableError):
                await producer.init_transactions()
                return
        await producer.init_transactions()

    async def _make_topic(self) -> None:
        new = NewTopic(
            name=LEDGER,
            partition_count=LEDGER_PARTITIONS,
            replication_factor=self.plan.replicas,
        )
        with contextlib.suppress(BarnabasError):
            async with Admin(self.bootstrap, **FAST) as admin:
                with contextlib.suppress(AlreadyExistsError):
                    (await admin.topics.create([new])).unwrap()
                self._has_topic = True

    async def _transact(self, producer: Producer, name: str) -> bool:
        """One transaction; returns whether the producer can go on."""
        draws = self.draws
        attempt = Attempt(name)
        self.attempts.append(attempt)
        try:
            await producer.begin_transaction()
            commits = await self._fill(producer, attempt) and draws.random() < 0.8
            if commits:
                commits = await self._commit(producer, attempt)
            if not commits:
                await self._repeated(producer.abort_transaction)
                attempt.outcome = Outcome.ABORTED
        except (FencedError, RetriableError, AbortableError) as error:
            self.programs.cluster.trace.tell(name, "ends in doubt", repr(error))
            return False
        return True

    async def _fill(self, producer: Producer, attempt: Attempt) -> bool:
        draws = self.draws
        try:
            for number in range(draws.choice((0, 1, 3, 8))):
                partition = draws.randrange(LEDGER_PARTITIONS)
                value = f"{attempt.name}/{number}".encode()
                attempt.records.append((partition, value))
                delivery = producer.send(LEDGER, value, partition=partition)
                if draws.random() < 0.1:
                    await self.interrupted(_awaited(delivery), "send")
            if draws.random() < 0.6:
                attempt.offset = len(self.attempts)
                await producer.send_offsets(
                    {OFFSETS_OF: OffsetAndMetadata(attempt.offset)},
                    ConsumerGroupMetadata(self.group_id),
                )
            if draws.random() < 0.1 and not self.is_over:
                await asyncio.sleep(draws.choice((0.5, 1.5 * TRANSACTION_MS / 1000)))
        except BarnabasError:
            return False
        return True

    async def _commit(self, producer: Producer, attempt: Attempt) -> bool:
        """Commit; False if only an abort is left."""
        if self.draws.random() < 0.1 and not self.is_over:
            await self.interrupted(producer.commit_transaction(), "commit")
        try:
            await self._repeated(producer.commit_transaction)
        except AbortableError:
            return False
        attempt.outcome = Outcome.COMMITTED
        return True

    async def _repeated(self, call: object) -> None:
        """Repeat a call whose outcome is not known. Raises: what ends it."""
        for left in reversed(range(30)):
            try:
                await self.programs.within(call(), self.name)  # type: ignore[operator]
            except RetriableError:
                if not left:
                    raise
            else:
                return


async def _awaited(delivery: object) -> None:
    await delivery  # type: ignore[misc]


async def read_decided(bootstrap: list[str]) -> dict[int, list[bytes]]:
    """What readers of committed records see, when every transaction is decided.

    Raises: Violation if one stays open for longer than its time.
    """
    places = [TopicPartition(LEDGER, index) for index in range(LEDGER_PARTITIONS)]
    async with (
        Consumer(bootstrap, **FAST) as everything,
        Consumer(
            bootstrap, **FAST, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as decided,
    ):
        ends: dict[TopicPartition, int] = {}
        deadline = asyncio.get_running_loop().time() + SETTLED_SECONDS
        while True:
            with contextlib.suppress(RetriableError):
                ends = await everything.end_offsets(places)
                stable = await decided.end_offsets(places)
                if ends == stable:
                    break
                if asyncio.get_running_loop().time() > deadline:
                    raise Violation(f"a transaction hangs: {stable} of {ends}")
            await asyncio.sleep(0.5)
        decided.assign(places)
        found: dict[int, list[bytes]] = {index: [] for index in range(LEDGER_PARTITIONS)}
        while any(_position(decided, place) < ends[place] for place in places):
            with contextlib.suppress(RetriableError):
                for record in await decided.poll(timeout_ms=500):
                    found[record.partition].append(record.value or b"")
        return found


async def read_offset(bootstrap: list[str], group_id: str) -> int | None:
    """What a group has committed, when no transaction has an offset of it open.

    Raises: Violation if one stays open for longer than its time.
    """
    deadline = asyncio.get_running_loop().time() + SETTLED_SECONDS
    async with Consumer(
        bootstrap, **FAST, group_id=group_id, isolation_level="read_committed"
    ) as consumer:
        while True:
            try:
                committed = await consumer.committed([OFFSETS_OF])
            except RetriableError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise Violation(f"offsets of {group_id} are not decided: {error!r}") from error
                await asyncio.sleep(0.5)
            else:
                found = committed[OFFSETS_OF]
                return None if found is None else found.offset


def check_offset(
    attempts: list[Attempt], found: dict[int, list[bytes]], offset: int | None
) -> None:
    """The offset of the last transaction that was committed, whose records are there with it."""
    seen = {value for values in found.values() for value in values}
    possible: set[int | None] = {None}
    for attempt in attempts:
        if attempt.offset is None or attempt.outcome is Outcome.ABORTED:
            continue
        is_shown = any(value in seen for _, value in attempt.records)
        if attempt.outcome is Outcome.COMMITTED or is_shown:
            possible = {attempt.offset}
        elif not attempt.records:
            possible.add(attempt.offset)
    if offset not in possible:
        raise Violation(f"the group has committed {offset}, not one of {possible}")


def _position(consumer: Consumer, place: TopicPartition) -> int:
    position = consumer.positions().get(place)
    return 0 if position is None else position.offset


def check_transactions(attempts: list[Attempt], found: dict[int, list[bytes]]) -> None:
    """All or nothing, as the program was told; in order, once, and nothing else."""
    seen = Counter(value for values in found.values() for value in values)
    doubled = [value for value, count in seen.items() if count > 1]
    if doubled:
        raise Violation(f"there twice: {doubled[:5]}")
    known: set[bytes] = set()
    for attempt in attempts:
        values = {value for _, value in attempt.records}
        known |= values
        shown = values & seen.keys()
        torn = shown and shown != values
        if attempt.outcome is Outcome.COMMITTED and shown != values:
            raise Violation(f"{attempt.name} was committed and lacks {sorted(values - shown)[:5]}")
        if attempt.outcome is Outcome.ABORTED and shown:
            raise Violation(f"{attempt.name} was aborted and shows {sorted(shown)[:5]}")
        if torn:
            raise Violation(f"{attempt.name} is torn: {sorted(values - shown)[:5]} are not there")
    strange = seen.keys() - known
    if strange:
        raise Violation(f"nobody has sent {sorted(strange)[:5]}")
    for partition, values in found.items():
        expected = [
            value
            for attempt in attempts
            for place, value in attempt.records
            if place == partition and value in seen
        ]
        if values != expected:
            raise Violation(f"{LEDGER}-{partition} is out of order: {values} for {expected}")
