"""What simulated clients do to a broker: senders that retry, groups that commit, administrators.

They outlive the broker's processes, as real ones do, and write all of it down in a history.
"""

import asyncio

from barnabas_protocol.errors import ErrorCode
from tests.simulation import requests
from tests.simulation.history import Append, History, Partition, Setting, Topic
from tests.support.raw_client import RawClient
from tests.support.simulated_broker import Life
from tests.support.simulated_random import SimulatedRandom

PAUSE_MS_MAX = 20
IN_FLIGHT_MAX = 5
SEQUENCE_FAULTS = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
)
TOPIC_SETTINGS = {
    "retention.ms": ("1000000000", "2000000000", "-1"),
    "max.message.bytes": ("100000", "200000"),
}


class Sender:
    """Sends batches to one partition; an idempotent one repeats what was not answered."""

    def __init__(
        self,
        name: str,
        history: History,
        random: SimulatedRandom,
        topic: str,
        partition: int,
        *,
        is_idempotent: bool,
    ) -> None:
        self.name = name
        self._history = history
        self._random = random
        self._topic = topic
        self._partition = partition
        self._is_idempotent = is_idempotent
        self._producer: requests.Producer | None = None
        self._unanswered: list[Append] = []
        self._sequence = 0
        self._count = 0

    async def run(self, life: Life, batches: int) -> None:
        if self._history.topics[self._topic].is_delete_asked:
            return
        async with await life.connect() as client:
            if self._is_idempotent and self._producer is None:
                await self._become_new(client)
            if self._is_idempotent:
                for append in self._unanswered:
                    self._send(life, client, append)
            else:
                self._unanswered.clear()  # what became of it will never be known
            for _ in range(batches):
                if len(self._unanswered) < IN_FLIGHT_MAX:
                    append = self._next()
                    self._unanswered.append(append)
                    self._history.ask_append(self._topic, self._partition, append)
                    self._send(life, client, append)
                if len(self._unanswered) == IN_FLIGHT_MAX or self._random.integer(2):
                    await self._receive(life, client)
                    await asyncio.sleep(self._random.integer(PAUSE_MS_MAX) / 1000)
            while self._unanswered:
                await self._receive(life, client)

    async def _become_new(self, client: RawClient) -> None:
        self._producer = await requests.new_producer(client)
        self._history.new_producer(self._producer.producer_id)
        self._sequence = 0

    def _next(self) -> Append:
        values = [
            f"{self.name}:{self._count + index}".encode() + b"." * self._random.integer(200)
            for index in range(1 + self._random.integer(4))
        ]
        append = Append(self.name, self._sequence, values)
        self._count += len(values)
        self._sequence += len(values)
        return append

    def _send(self, life: Life, client: RawClient, append: Append) -> None:
        request = requests.append_request(
            self._topic,
            self._partition,
            append.values,
            producer=self._producer or requests.NOT_IDEMPOTENT,
            sequence=append.sequence if self._producer else -1,
            acks=-1 if self._random.integer(4) else 1,
            timestamp_ms=life.machine.clock.wall_ms(),
        )
        requests.send_append(client, request)

    async def _receive(self, life: Life, client: RawClient) -> None:
        answer = await requests.appended(client)
        append = self._unanswered.pop(0)
        if answer.error_code == 0:
            append.base_offset = answer.base_offset
        elif answer.error_code in SEQUENCE_FAULTS and not self._history.is_durable:
            # What it had appended is lost, as it may be: it starts anew, under another name.
            while self._unanswered:
                await requests.appended(client)
                self._unanswered.pop(0)
            self.name += "'"
            await self._become_new(client)
        else:
            code = ErrorCode(answer.error_code).name
            raise AssertionError(f"{self.name} got {code} for {append}")


class Committer:
    """A group that commits offsets, ever higher."""

    def __init__(self, group: str, history: History, random: SimulatedRandom, topic: str) -> None:
        self._group = group
        self._history = history
        self._random = random
        self._topic = topic
        self._offset = 0

    async def run(self, life: Life, commits: int) -> None:
        if self._history.topics[self._topic].is_delete_asked:
            return
        async with await life.connect() as client:
            await until_coordinated(client, self._group)
            key = (self._group, self._topic, 0)
            for _ in range(commits):
                self._offset += 1
                setting = self._history.commits.setdefault(key, Setting(-1))
                setting.ask(self._offset)
                error_code = await requests.commit_offset(
                    client, self._group, self._topic, 0, self._offset
                )
                if error_code == 0:
                    setting.acknowledge(self._offset)
                else:
                    raise AssertionError(f"commit of {self._group}: {ErrorCode(error_code).name}")
                await asyncio.sleep(self._random.integer(PAUSE_MS_MAX) / 1000)


async def until_coordinated(client: RawClient, group: str) -> None:
    """Wait until the coordinator of a group is there and has loaded."""
    async with asyncio.timeout(60):
        while await requests.find_group(client, group) != 0:
            await asyncio.sleep(0.1)
        while (await requests.committed_offset(client, group, "none", 0))[0] != 0:
            await asyncio.sleep(0.1)


class Administrator:
    """Makes topics, sets them, and deletes those that nobody else uses."""

    def __init__(self, history: History, random: SimulatedRandom) -> None:
        self._history = history
        self._random = random
        self._count = 0

    async def run(self, life: Life, steps: int) -> None:
        async with await life.connect() as client:
            for _ in range(steps):
                await self._step(life, client)
                await asyncio.sleep(self._random.integer(PAUSE_MS_MAX) / 1000)

    async def _step(self, life: Life, client: RawClient) -> None:
        present = [name for name, topic in self._history.topics.items() if is_present(topic)]
        temporary = [name for name in present if name.startswith("temporary")]
        choice = self._random.integer(4)
        if choice == 0 and temporary:
            name = temporary[self._random.integer(len(temporary))]
            topic = self._history.topics[name]
            topic.is_delete_asked = True
            error_code = await requests.delete_topic(client, name)
            topic.is_delete_acknowledged = error_code == 0
        elif choice == 1:
            self._count += 1
            error_code = await create(
                self._history, client, f"temporary-{self._count}", 1 + self._random.integer(2)
            )
        elif present:
            name = present[self._random.integer(len(present))]
            key = sorted(TOPIC_SETTINGS)[self._random.integer(len(TOPIC_SETTINGS))]
            values = TOPIC_SETTINGS[key]
            value = values[self._random.integer(len(values))]
            topic = self._history.topics[name]
            if key not in topic.settings:
                before = await requests.topic_config(client, name, key)
                topic.settings[key] = Setting(before)
            topic.settings[key].ask(value)
            error_code = await requests.set_topic_config(client, name, key, value)
            if error_code == 0:
                topic.settings[key].acknowledge(value)
        else:
            return
        if error_code:
            raise AssertionError(f"step {choice} of an administrator: {ErrorCode(error_code).name}")


def is_present(topic: Topic) -> bool:
    return topic.is_create_acknowledged and not topic.is_delete_asked


async def create(
    history: History, client: RawClient, name: str, partitions: int, **configs: str
) -> int:
    topic = history.topics[name] = Topic([Partition() for _ in range(partitions)])
    error_code, topic_id = await requests.create_topic(client, name, partitions, **configs)
    if error_code == 0:
        topic.topic_id, topic.is_create_acknowledged = topic_id, True
    return error_code
