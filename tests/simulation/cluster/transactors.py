"""Transactions over lists: who appends to several partitions and reads them, and the check of it.

A partition is a list. Two transactors share a transactional id and fence one another, so their
transactions come one after the other, whatever befalls the cluster: whoever reads in one sees all
of those before it, in every partition. To know how far that is, a transactor writes a touch (a
record without a value) first: when that is committed, everything before it is decided.

Readers of their own see each list for itself: only what was committed, but two lists perhaps at
different moments, as Kafka promises no more.

Transactors of version 2 have requests arrive late, in the middle of a later transaction: an append
of a transaction that was aborted without it, and the end of one that has ended (KIP-890). Version 1
has no defence against those, and gets none.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import add_partitions_to_txn, end_txn, init_producer_id, produce
from barnabas_protocol.records.record import Record, encode_batch
from tests.simulation import requests
from tests.simulation.cluster.client import Address, ClusterClient, RetryError, checked
from tests.simulation.cluster.history import History, HistoryError
from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.specialists import Specialist
from tests.simulation.cluster.workload import Worker
from tests.simulation.list_append import (
    Append,
    Key,
    ListTransaction,
    Outcome,
    Read,
    anomalies,
)

LISTS: Final = "lists"
LISTS_OF_GROUP: Final = 3
TRANSACTORS: Final = 2
"""That share a transactional id, and fence one another."""
TRANSACTION: Final = 1  # the kind of coordinator
TRANSACTION_MS: Final = 3_000
FENCED_MS_MAX: Final = 4_000
"""For so long at most one that was fenced leaves the other alone."""
SETTLED_SECONDS: Final = 40
PRODUCE_VERSION: Final = {1: 11, 2: 12}
END_VERSION: Final = {1: 3, 2: 5}
FENCED: Final = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        # Whoever was fenced and aborted meanwhile begins in a partition as if it were unknown.
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
)
"""What a transactor gets that another one has fenced, or whose transaction has timed out."""


class FencedError(Exception):
    """The transaction is over, and the producer with it."""


class _Late(NamedTuple):
    """A request that the network has held back."""

    partition: int | None  # of an append; None for the end of a transaction
    version: int
    request: produce.ProduceRequest | end_txn.EndTxnRequest


@dataclass
class ListHistory:
    """All transactions of a story over lists, and their readers' reads."""

    group_count: int
    is_ready: bool = False
    transactions: list[ListTransaction] = field(default_factory=list)

    @property
    def partition_count(self) -> int:
        """How many lists there are."""
        return self.group_count * LISTS_OF_GROUP


class Found(NamedTuple):
    """What is decided of a list, and how far it goes."""

    values: tuple[str, ...]
    high_watermark: int
    last_stable_offset: int


async def read_list(client: ClusterClient, partition: int) -> Found:
    """Read what is decided of a list at whoever leads it. Raises: LOST; HistoryError."""
    address, _ = await client.leader_of(LISTS, partition)
    connection = await client.connect(address)
    values: list[str] = []
    offset = 0
    while True:
        async with asyncio.timeout(client.answer_seconds):
            found = await requests.read_decided(connection, LISTS, partition, offset)
        if not checked(found.error_code):
            raise HistoryError(f"reading {LISTS}-{partition}: {ErrorCode(found.error_code).name}")
        values += [value.decode() for value in found.values if value]
        if found.end_offset <= offset:
            return Found(tuple(values), found.high_watermark, found.last_stable_offset)
        offset = found.end_offset


class Transactor(Worker):
    """One of those who share a transactional id."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        of: ListHistory,
        wall_ms: Callable[[], int],
        *,
        group: int,
        version: int,
    ) -> None:
        super().__init__(client, history, pause_ms_max=30)
        self._of = of
        self._wall_ms = wall_ms
        self._version = version
        self._transactional_id = f"lists-{group}"
        self._partitions = range(group * LISTS_OF_GROUP, (group + 1) * LISTS_OF_GROUP)
        self._coordinator: Address | None = None
        self._producer: requests.Producer | None = None
        self._sequences: dict[int, int] = {}
        self._late: list[_Late] = []
        self._count = 0
        self._has_ended = False

    @property
    def is_done(self) -> bool:
        """Told to end, and nothing of it is open."""
        return self.is_over and self._has_ended

    def interrupted(self) -> None:
        """What was open is aborted by the one that comes next, perhaps this one."""
        self._producer = None
        self._coordinator = None

    async def work(self) -> None:
        """One transaction after the other. Raises: LOST; HistoryError."""
        while not self.is_over:
            if self._of.is_ready:
                began = asyncio.get_running_loop().time()
                try:
                    if self._producer is None:
                        await self._begin_anew()
                    await self._transact(began)
                    self.client.works()
                except FencedError as error:
                    self.client.note(self.client.name, "is fenced", str(error))
                    self._producer = None
                    await asyncio.sleep(self.random.integer(FENCED_MS_MAX) / 1000)
            await self.pause()
        # What is open would be aborted when its time is over, by a wall clock that may have been
        # set back since it began.
        if self._of.is_ready:
            await self._begin_anew()
        self._has_ended = True

    async def _begin_anew(self) -> None:
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=TRANSACTION_MS
        )
        response = await self._coordinated(ApiKey.INIT_PRODUCER_ID, 4, request)
        self._check(response.error_code, "to begin")
        self._producer = requests.Producer(response.producer_id, response.producer_epoch)
        self._sequences.clear()

    async def _coordinated(self, key: ApiKey, version: int, request: Any) -> Any:
        """Ask the coordinator; again, while the transaction before is being ended."""
        if self._coordinator is None:
            self._coordinator = await self.client.coordinator_of(
                self._transactional_id, key_type=TRANSACTION
            )
        while True:
            response = await self.client.call(self._coordinator, key, version, request)
            if getattr(response, "error_code", 0) != ErrorCode.CONCURRENT_TRANSACTIONS:
                return response
            await self._wait_for_markers()

    async def _wait_for_markers(self) -> None:
        """Wait for a moment until the transaction before has ended. Raises: RetryError."""
        if self.is_over:
            raise RetryError("the transaction before does not end")
        await self.pause()

    def _check(self, error_code: int, what: str) -> None:
        """Raises: RetryError; FencedError; HistoryError."""
        if error_code in FENCED:
            raise FencedError(f"{what}: {ErrorCode(error_code).name}")
        if not checked(error_code):
            raise HistoryError(f"{self.client.name} {what}: {ErrorCode(error_code).name}")

    # ---- one transaction -----------------------------------------------------------------------

    async def _transact(self, began: float) -> None:
        self._count += 1
        one = ListTransaction(f"{self.client.name}/{self._count}", outcome=Outcome.ABORTED)
        one.began = began
        self._of.transactions.append(one)
        partitions = list(self._partitions)
        for number in range(1 + self.random.integer(LISTS_OF_GROUP)):
            partition = partitions.pop(self.random.integer(len(partitions)))
            await self._use(one, partition)
            if number == 0 and self._late and self.random.integer(3):
                # The newest, of which most partitions have seen nothing newer.
                await self._let_arrive(self._late.pop())
        commits = self.random.integer(4) > 0
        if not commits and partitions:
            unused = partitions[self.random.integer(len(partitions))]
            self._hold_back_an_append(one, unused)
        if self.random.integer(20) == 0:
            # Some of them last for longer than a transaction may.
            await asyncio.sleep(self.random.integer(2 * TRANSACTION_MS) / 1000)
        await self._end(one, commits=commits)

    async def _use(self, one: ListTransaction, partition: int) -> None:
        """Read one list, append to it, or both."""
        act = self.random.integer(3)
        if act != 0:
            offset = await self._append(partition, [b""])
            one.steps.append(Read((LISTS, partition), await self._read(partition, offset)))
        if act != 1:
            for _ in range(1 + self.random.integer(2)):
                value = self._value_of(one)
                # Whatever comes of it, it was asked for.
                one.steps.append(Append((LISTS, partition), value))
                await self._append(partition, [value.encode()])
                await self.pause()

    def _value_of(self, one: ListTransaction) -> str:
        return f"{one.name}.{len(one.steps)}"

    async def _read(self, partition: int, touched: int) -> tuple[str, ...]:
        """Read what comes before the touch, once that is committed: all of it is decided by then.

        A leader that has been replaced never gets that far.
        """
        deadline = asyncio.get_running_loop().time() + self.client.answer_seconds
        while True:
            found = await read_list(self.client, partition)
            if found.high_watermark > touched:
                return found.values
            if asyncio.get_running_loop().time() > deadline:
                raise RetryError(f"the high watermark is {found.high_watermark}, not {touched}")
            await self.pause()

    async def _append(self, partition: int, values: list[bytes]) -> int:
        """Append, and return the offset. Raises: LOST; FencedError; HistoryError."""
        if self._version == 1:
            await self._add(partition)
        address, _ = await self.client.leader_of(LISTS, partition)
        request = self._append_request(partition, values)
        key = ApiKey.PRODUCE
        while True:
            response = await self.client.call(address, key, PRODUCE_VERSION[self._version], request)
            (answer,) = response.responses[0].partition_responses
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await self._wait_for_markers()
        self._check(answer.error_code, f"appends to {partition}")
        self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
        return int(answer.base_offset)

    def _append_request(self, partition: int, values: list[bytes]) -> produce.ProduceRequest:
        assert self._producer is not None
        records = [Record(n, self._wall_ms(), None, value, ()) for n, value in enumerate(values)]
        batch = encode_batch(
            records,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=self._sequences.get(partition, 0),
            is_transactional=True,
        )
        request = requests.produce_request(LISTS, partition, batch)
        request.transactional_id = self._transactional_id
        return request

    async def _add(self, partition: int) -> None:
        assert self._producer is not None
        topic = add_partitions_to_txn.AddPartitionsToTxnTopic(name=LISTS, partitions=[partition])
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=[topic],
        )
        while True:
            response = await self._coordinated(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
            (result,) = response.results_by_topic_v3_and_below[0].results_by_partition
            if result.partition_error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await self._wait_for_markers()
        self._check(result.partition_error_code, f"adds {partition}")

    async def _end(self, one: ListTransaction, *, commits: bool) -> None:
        request = self._end_request(commits=commits)
        if commits:
            one.outcome = Outcome.IN_DOUBT
        try:
            version = END_VERSION[self._version]
            response = await self._coordinated(ApiKey.END_TXN, version, request)
            self._check(response.error_code, "to end")
        except FencedError:
            one.outcome = Outcome.ABORTED
            raise
        if commits:
            one.outcome = Outcome.COMMITTED
            one.ended = asyncio.get_running_loop().time()
        self.client.note(self.client.name, one.outcome.value, self._count)
        if self._version == 2:
            # Before an append that is held back: that comes first.
            self._late.insert(max(len(self._late) - 1, 0), _Late(None, END_VERSION[2], request))
            self._producer = requests.Producer(response.producer_id, response.producer_epoch)
            self._sequences.clear()

    def _end_request(self, *, commits: bool) -> end_txn.EndTxnRequest:
        assert self._producer is not None
        return end_txn.EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            committed=commits,
        )

    # ---- requests that come late ---------------------------------------------------------------

    def _hold_back_an_append(self, one: ListTransaction, partition: int) -> None:
        """Give a last append of a transaction that is to be aborted to a network that keeps it."""
        if self._version == 1:
            return
        value = self._value_of(one)
        one.steps.append(Append((LISTS, partition), value))
        request = self._append_request(partition, [value.encode()])
        self._late.append(_Late(partition, PRODUCE_VERSION[2], request))

    async def _let_arrive(self, late: _Late) -> None:
        """Let it arrive now; nobody waits for the answer any more, whatever it is."""
        if late.partition is None:
            assert self._coordinator is not None
            address, key = self._coordinator, ApiKey.END_TXN
        else:
            address, _ = await self.client.leader_of(LISTS, late.partition)
            key = ApiKey.PRODUCE
        await self.client.call(address, key, late.version, late.request)
        self.client.note(self.client.name, "late", key.name)


class ListReader(Worker):
    """Reads one list after the other, each for itself."""

    def __init__(self, client: ClusterClient, history: History, of: ListHistory) -> None:
        super().__init__(client, history, pause_ms_max=100)
        self._of = of
        self._count = 0

    async def work(self) -> None:
        """Read. Raises: LOST; HistoryError."""
        while not self.is_over:
            if self._of.is_ready:
                partition = self.random.integer(self._of.partition_count)
                found = await read_list(self.client, partition)
                self._count += 1
                read = Read((LISTS, partition), found.values)
                name = f"{self.client.name}/{self._count}"
                self._of.transactions.append(ListTransaction(name, [read], Outcome.COMMITTED))
                self.client.works()
            await self.pause()


class ListUser(Specialist):
    """Makes the topic of lists, and checks the history in the end."""

    topic = LISTS

    def __init__(
        self, client: ClusterClient, history: History, plan: Plan, wall_ms: Callable[[], int]
    ) -> None:
        super().__init__(client, history, plan, wall_ms)
        self.of = ListHistory(1 + plan.strength % 2)
        self.partitions = self.of.partition_count

    def version_of(self, group: int) -> int:
        """Which version of transactions a group speaks, most of them version 2."""
        return 1 if (self.plan.strength // 2 + group) % 3 == 0 else 2

    async def work(self) -> None:
        """Make the topic. Raises: LOST; HistoryError."""
        while not self.is_over:
            await self.prepare()
            self.of.is_ready = True
            await self.pause()

    async def check(self) -> None:
        """No anomaly, and no transaction that stays open. Raises: LOST; HistoryError."""
        if not self.of.is_ready:
            return
        deadline = asyncio.get_running_loop().time() + SETTLED_SECONDS
        final: dict[Key, tuple[str, ...]] = {}
        hanging: list[int] = []
        for partition in range(self.partitions):
            found = await read_list(self.client, partition)
            while found.last_stable_offset < found.high_watermark:
                if asyncio.get_running_loop().time() > deadline:
                    hanging.append(partition)
                    break
                await self.pause()
                found = await read_list(self.client, partition)
            final[LISTS, partition] = found.values
        wrong = anomalies(self.of.transactions, final)
        if wrong:
            raise HistoryError("; ".join(map(str, wrong[:10])))
        if hanging:
            raise HistoryError(f"a transaction stays open in {hanging} of {LISTS}")
