"""What clients do to a cluster: producers, readers and committers that never give up.

Each runs until it is told that the story is over and has heard of everything that it asked for. An
answer that no client of a sound cluster may ever get is a HistoryError.
"""

import asyncio
from collections.abc import Awaitable, Callable

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import init_producer_id, produce
from tests.simulation import requests
from tests.simulation.cluster.client import LOST, Address, ClusterClient, RetryError, checked
from tests.simulation.cluster.history import Append, Commit, History, HistoryError

IN_FLIGHT_MAX = 4


class Worker:
    """Something that goes on until it is told to come to its end."""

    def __init__(self, client: ClusterClient, history: History, *, pause_ms_max: int = 60) -> None:
        self.client = client
        self.history = history
        self.random = client.random
        self.pause_ms_max = pause_ms_max
        self.is_over = False

    async def run(self) -> None:
        """Work, over all errors that a client may meet."""
        while not self.is_done:
            try:
                await self.work()
            except LOST as error:
                self.client.drop()
                self.interrupted()
                await self.client.back_off(error)
        self.client.drop()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be done."""
        return self.is_over

    async def work(self) -> None:
        """Go on until it is done. Raises: LOST."""
        raise NotImplementedError

    def interrupted(self) -> None:
        """All connections are gone."""

    async def pause(self) -> None:
        """Think for a while."""
        await asyncio.sleep(self.random.integer(self.pause_ms_max) / 1000)


class Producer(Worker):
    """Sends batches to one partition with acks=all; an idempotent one repeats what it must."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        topic: str,
        partition: int,
        wall_ms: Callable[[], int],
        *,
        is_idempotent: bool = True,
        pause_ms_max: int = 60,
        rest_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`rest_seconds` is how long it is to rest now, none most of the time."""
        super().__init__(client, history, pause_ms_max=pause_ms_max)
        self._rest_seconds = rest_seconds
        self.topic = topic
        self.partition = partition
        self.is_idempotent = is_idempotent
        self._wall_ms = wall_ms
        self._producer: requests.Producer | None = None
        self._unanswered: list[Append] = []
        self._sequence = 0
        self._count = 0
        self._life = 0

    @property
    def is_done(self) -> bool:
        """Told to end, and all is answered."""
        return self.is_over and not self._unanswered

    def interrupted(self) -> None:
        """What a producer that repeats nothing had asked for, it will never know of."""
        if not self.is_idempotent:
            self._unanswered.clear()
            # What is still on the way may arrive after what comes now.
            self._life += 1

    async def work(self) -> None:
        """Repeat what was not answered, and send more."""
        if self.is_idempotent and self._producer is None:
            await self._become_new()
        address, _ = await self.client.leader_of(self.topic, self.partition)
        connection = await self.client.connect(address)
        for append in self._unanswered:
            requests.send_append(connection, self._request(append))
        while not self.is_done:
            if not self.is_over and len(self._unanswered) < IN_FLIGHT_MAX:
                append = self._next()
                self._unanswered.append(append)
                self.history.ask_append(self.topic, self.partition, append)
                requests.send_append(connection, self._request(append))
            if self.is_over or len(self._unanswered) == IN_FLIGHT_MAX or self.random.integer(3):
                async with asyncio.timeout(self.client.answer_seconds):
                    self._answered(await requests.appended(connection))
                await self.pause()
            if not self.is_over and (seconds := self._rest_seconds()) > 0:
                await asyncio.sleep(seconds)

    async def _become_new(self) -> None:
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1_000
        )
        address = self.client.anyone()
        response = await self.client.call(address, ApiKey.INIT_PRODUCER_ID, 4, request)
        if not checked(response.error_code):
            raise HistoryError(f"no producer id: {ErrorCode(response.error_code).name}")
        self._producer = requests.Producer(response.producer_id, response.producer_epoch)
        self.history.new_producer(response.producer_id)

    def _next(self) -> Append:
        name = f"{self.client.name}.{self._life}"
        values = [
            f"{name}:{self._count + index}".encode() + b"." * self.random.integer(100)
            for index in range(1 + self.random.integer(3))
        ]
        append = Append(name, self._sequence, values)
        self._count += len(values)
        self._sequence += len(values)
        return append

    def _request(self, append: Append) -> produce.ProduceRequest:
        return requests.append_request(
            self.topic,
            self.partition,
            append.values,
            producer=self._producer or requests.NOT_IDEMPOTENT,
            sequence=append.sequence if self._producer else -1,
            timestamp_ms=self._wall_ms(),
        )

    def _answered(self, answer: requests.Appended) -> None:
        append = self._unanswered[0]
        if not checked(answer.error_code):
            code = ErrorCode(answer.error_code).name
            raise HistoryError(f"{self.client.name} got {code} for {append}")
        self._unanswered.pop(0)
        append.base_offset = answer.base_offset
        self.client.works()
        self.client.note(self.client.name, "appended", append.sequence, answer.base_offset)


class Reader(Worker):
    """Reads a partition from its start, again and again, at whoever leads it."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        topic: str,
        partition: int,
        *,
        pause_ms_max: int = 60,
    ) -> None:
        super().__init__(client, history, pause_ms_max=pause_ms_max)
        self.topic = topic
        self.partition = partition
        self.offset = 0

    async def work(self) -> None:
        """Read on, from the start now and then."""
        address, leader_epoch = await self.client.leader_of(self.topic, self.partition)
        while not self.is_over:
            await self._read(address, leader_epoch)
            if not self.random.integer(40):
                self.offset = 0
            await self.pause()

    async def _read(self, address: Address, leader_epoch: int) -> None:
        connection = await self.client.connect(address)
        async with asyncio.timeout(self.client.answer_seconds):
            found = await requests.read_from(
                connection, self.topic, self.partition, self.offset, leader_epoch
            )
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self.out_of_range(address)
            return
        if not checked(found.error_code):
            code = ErrorCode(found.error_code).name
            raise HistoryError(f"{self.client.name} got {code} at offset {self.offset}")
        if found.records and found.leader_epoch > leader_epoch:
            raise HistoryError(f"leader epoch {leader_epoch} has records of {found.leader_epoch}")
        self.client.works()
        self.history.saw(self.topic, self.partition, found.records)
        if found.records:
            self.offset = found.records[-1].offset + 1
        self.client.note(self.client.name, "has read to", self.offset)

    async def out_of_range(self, address: Address) -> None:
        """Nothing is ever taken away from the start of this topic. Raises: HistoryError."""
        raise HistoryError(f"{self.client.name} is out of range at {self.offset}")


class Committer(Worker):
    """A group that commits offsets, ever higher, and looks them up."""

    def __init__(self, client: ClusterClient, history: History, group: str, topic: str) -> None:
        super().__init__(client, history, pause_ms_max=200)
        self.group = group
        self.topic = topic
        self._offset = 0

    async def work(self) -> None:
        """Commit and look up. Raises: LOST; HistoryError where a commit is lost."""
        address = await self.client.coordinator_of(self.group)
        connection = await self.client.connect(address)
        key = (self.group, self.topic, 0)
        while not self.is_over:
            if key in self.history.commits and not self.random.integer(3):
                await self.look_up(address)
            self._offset += 1
            commit = self.history.commits.setdefault(key, Commit())
            commit.ask(self._offset)
            async with asyncio.timeout(self.client.answer_seconds):
                error_code = await requests.commit_offset(
                    connection, self.group, self.topic, 0, self._offset
                )
            if not checked(error_code):
                raise HistoryError(f"commit of {self.group}: {ErrorCode(error_code).name}")
            commit.acknowledge(self._offset)
            self.client.works()
            self.client.note(self.client.name, "committed", self._offset)
            await self.pause()

    async def look_up(self, address: Address) -> None:
        """See that what is committed was asked for: one who was replaced may know old offsets."""
        connection = await self.client.connect(address)
        async with asyncio.timeout(self.client.answer_seconds):
            error_code, found = await requests.committed_offset(
                connection, self.group, self.topic, 0
            )
        if not checked(error_code):
            raise HistoryError(f"offsets of {self.group}: {ErrorCode(error_code).name}")
        if not -1 <= found <= self._offset:
            raise HistoryError(f"the offset of {self.group} is {found}: nobody asked for that")


async def patiently(
    client: ClusterClient, act: Callable[[], Awaitable[None]], seconds: float
) -> None:
    """Do something until it works. Raises: TimeoutError where it never does."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await act()
            except LOST as error:
                client.drop()
                await client.back_off(error)


__all__ = ["Committer", "Producer", "Reader", "RetryError", "Worker", "patiently"]
