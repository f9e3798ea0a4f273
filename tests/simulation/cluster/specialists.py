"""Workers with a topic of their own, which know best what must be in it, and check it themselves.

Records that are deleted, keys that are compacted, many partitions, a name that is used again and
again, and leaders that are elected although they lack records.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import delete_topics, fetch, metadata, produce
from barnabas_protocol.records.record import Record, encode_batch
from tests.simulation import requests
from tests.simulation.cluster.administration import create_topic, elect_uncleanly
from tests.simulation.cluster.client import Address, ClusterClient, RetryError, checked
from tests.simulation.cluster.history import Append, History, HistoryError
from tests.simulation.cluster.invariants import UNCLEAN
from tests.simulation.cluster.plan import Feature, Plan
from tests.simulation.cluster.workload import Reader, Worker

TRIMMED, COMPACTED, WIDE, AGAIN = "trimmed", "compacted", "wide", "again"
ORDERS = "orders"  # is there in every story
KEYS = 6
LATEST = -1
STEPS_MAX = 8
LOOKS_MAX, LOOK_MS_MAX = 20, 10


class Specialist(Worker):
    """A worker with a topic of its own."""

    topic = ""
    partitions = 1

    def __init__(
        self, client: ClusterClient, history: History, plan: Plan, wall_ms: Callable[[], int]
    ) -> None:
        super().__init__(client, history, pause_ms_max=10 + plan.length_ms // 100)
        self.plan = plan
        self.wall_ms = wall_ms
        self.has_topic = False
        self.was_killed: Callable[[], bool] = lambda: False
        if not self.is_checked_by_all:
            history.checked_apart.add(self.topic)

    is_checked_by_all = False

    def settings(self) -> dict[str, str]:
        """The settings of its topic."""
        return {}

    async def prepare(self) -> None:
        """Make the topic, at the first time. Raises: LOST."""
        if not self.has_topic:
            await create_topic(
                self.client,
                self.history,
                self.topic,
                self.partitions,
                self.plan.replicas,
                **self.settings(),
            )
            self.has_topic = True

    async def check(self) -> None:
        """Look at the topic in the end. Raises: LOST; HistoryError."""

    async def read_all(self, partition: int = 0) -> tuple[int, list[Record]]:
        """Where the log starts, and all that is in it. Raises: LOST; HistoryError."""
        address, _ = await self.client.leader_of(self.topic, partition)
        connection = await self.client.connect(address)
        async with asyncio.timeout(self.client.answer_seconds):
            code, start = await requests.earliest(connection, self.topic, partition)
        if not checked(code):
            raise HistoryError(f"where {self.topic} starts: {ErrorCode(code).name}")
        records: list[Record] = []
        offset = start
        while True:
            async with asyncio.timeout(self.client.answer_seconds):
                found = await requests.read_from(connection, self.topic, partition, offset)
            if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise RetryError("it was trimmed meanwhile")
            if not checked(found.error_code):
                raise HistoryError(f"{self.topic} at {offset}: error {found.error_code}")
            if found.end_offset <= offset:
                if offset < found.high_watermark:
                    raise HistoryError(f"{self.topic}-{partition}: nothing at {offset}: {found}")
                return start, records
            records += found.records
            offset = found.end_offset


class Trimmer(Specialist):
    """Appends to a topic of small segments, and deletes the first records now and then."""

    topic = TRIMMED

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        plan: Plan,
        wall_ms: Callable[[], int],
        *,
        has_retention: bool,
        deletes: bool,
    ) -> None:
        super().__init__(client, history, plan, wall_ms)
        self._has_retention = has_retention
        self._deletes = deletes
        self._count = 0
        self._life = 0
        self._asked = 0
        self._trimmed_to = 0
        self._end = 0
        self._appends: list[Append] = []

    def settings(self) -> dict[str, str]:
        """Segments last a moment; what is retained is little."""
        retained = {"retention_bytes": str(200 + 20 * self.plan.strength)}
        return {"segment_ms": "300", **(retained if self._has_retention else {})}

    def interrupted(self) -> None:
        """What has no answer will never have one."""
        self._life += 1

    async def work(self) -> None:
        """Append, and delete what is old. Raises: LOST; HistoryError."""
        await self.prepare()
        address, _ = await self.client.leader_of(self.topic, 0)
        connection = await self.client.connect(address)
        while not self.is_over:
            if self._deletes and self.random.integer(6) == 0:
                await self._delete(address)
            # What the leader alone acknowledges may be lost; the log grows while nothing commits.
            is_alone = self.plan.has(Feature.ONE_ACK) and self.random.integer(12) > 0
            padding = b"." * (300 if is_alone else 0)
            values = [f"{self._life}:{self._count}:{n}".encode() + padding for n in range(2)]
            append = Append(str(self._life), self._count, values)
            self._count += 1
            self._appends.append(append)
            request = requests.append_request(
                self.topic, 0, values, acks=1 if is_alone else -1, timestamp_ms=self.wall_ms()
            )
            async with asyncio.timeout(self.client.answer_seconds):
                answer = await requests.append(connection, request)
            if not checked(answer.error_code):
                raise HistoryError(f"append to {self.topic}: {ErrorCode(answer.error_code).name}")
            if not is_alone:
                append.base_offset = answer.base_offset
                self._end = max(self._end, answer.base_offset + len(values))
            self.client.works()
            await self.pause()

    async def _delete(self, address: Address) -> None:
        if not self._end:
            return
        offset = self.random.integer(self._end + 1)
        self._asked = max(self._asked, offset)
        connection = await self.client.connect(address)
        async with asyncio.timeout(self.client.answer_seconds):
            code, low = await requests.delete_records(connection, self.topic, 0, offset)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # A new leader may not know yet how much was committed.
            raise RetryError("it cannot be deleted")
        if not checked(code):
            raise HistoryError(f"records of {self.topic}: {ErrorCode(code).name}")
        if low < offset:
            raise HistoryError(f"records below {offset} are deleted, the low watermark is {low}")
        self._trimmed_to = max(self._trimmed_to, offset)
        self.client.note(self.client.name, "deleted to", offset)

    async def check(self) -> None:
        """All is there from the start on, and no more was deleted than was asked for."""
        if not self.has_topic:
            return
        start, records = await self.read_all()
        # As Kafka's, a broker writes down every now and then only where its logs start.
        if start < self._trimmed_to and not self.was_killed():
            raise HistoryError(f"{self.topic} starts at {start}, deleted to {self._trimmed_to}")
        if start > self._asked and not self._has_retention:
            raise HistoryError(f"{self.topic} starts at {start}, asked for was {self._asked}")
        offsets = [record.offset for record in records]
        if offsets != list(range(start, start + len(records))):
            raise HistoryError(f"{self.topic} has gaps from {start} on: {offsets}")
        contents = {record.offset: record.value or b"" for record in records}
        for append in self._appends:
            if append.base_offset is None:
                continue
            for number, value in enumerate(append.values):
                offset = append.base_offset + number
                if offset >= start and contents.get(offset) != value:
                    raise HistoryError(f"{self.topic}: {append} is not there: {contents}")
        asked = {value for append in self._appends for value in append.values}
        if not asked.issuperset(contents.values()) or len(set(contents.values())) != len(contents):
            raise HistoryError(f"{self.topic} has records twice or of nobody: {contents}")


class TrimmedReader(Reader):
    """Reads a topic whose first records go away."""

    async def out_of_range(self, address: Address) -> None:
        """Go on where the log starts now. Raises: HistoryError where we were behind that."""
        connection = await self.client.connect(address)
        async with asyncio.timeout(self.client.answer_seconds):
            code, start = await requests.earliest(connection, self.topic, self.partition)
        if not checked(code):
            raise HistoryError(f"where {self.topic} starts: {ErrorCode(code).name}")
        if start <= self.offset:
            raise RetryError(f"out of range at {self.offset}, the log starts at {start}")
        self.offset = start


class TableWriter(Specialist):
    """One writer of a compacted topic: of each key the newest version stays, or its tombstone."""

    topic = COMPACTED

    def __init__(
        self, client: ClusterClient, history: History, plan: Plan, wall_ms: Callable[[], int]
    ) -> None:
        super().__init__(client, history, plan, wall_ms)
        self._asked: dict[int, int] = {}
        self._acknowledged: dict[int, int] = {}
        self._tombstones: dict[int, set[int]] = {}
        self._values: dict[int, bytes | None] = {}
        self._sequence = 0
        self._producer: requests.Producer | None = None
        self._unanswered: tuple[bytes, dict[int, int]] | None = None

    def settings(self) -> dict[str, str]:
        """Compacted whenever there is anything to compact."""
        return {
            "cleanup_policy": "compact",
            "segment_ms": str(100 + 10 * self.plan.strength),
            "min_cleanable_dirty_ratio": "0.01",
            "delete_retention_ms": "500",
        }

    @property
    def is_done(self) -> bool:
        """Told to end, and all is answered."""
        return self.is_over and self._unanswered is None

    async def work(self) -> None:
        """Write versions, one request at a time, each until it is answered. Raises: LOST."""
        await self.prepare()
        if self._producer is None:
            connection = await self.client.connect(self.client.anyone())
            async with asyncio.timeout(self.client.answer_seconds):
                self._producer = await requests.new_producer_or_error(connection, checked)
            self.history.new_producer(self._producer.producer_id)
        address, _ = await self.client.leader_of(self.topic, 0)
        connection = await self.client.connect(address)
        while not self.is_done:
            if self._unanswered is None:
                self._unanswered = self._next()
            batch, versions = self._unanswered
            request = requests.produce_request(self.topic, 0, batch)
            async with asyncio.timeout(self.client.answer_seconds):
                answer = await requests.append(connection, request)
            if not checked(answer.error_code):
                raise HistoryError(f"append to {self.topic}: {ErrorCode(answer.error_code).name}")
            self._acknowledged.update(versions)
            self._unanswered = None
            self.client.works()
            await self.pause()

    def _next(self) -> tuple[bytes, dict[int, int]]:
        assert self._producer is not None
        records, versions = [], {}
        for delta in range(1 + self.random.integer(3)):
            key = self.random.integer(KEYS)
            version = self._asked[key] = self._asked.get(key, 0) + 1
            versions[key] = version
            is_tombstone = self.random.integer(8) == 0
            if is_tombstone:
                self._tombstones.setdefault(key, set()).add(version)
            value = None if is_tombstone else b"%d" % version
            records.append(Record(delta, self.wall_ms(), b"%d" % key, value, ()))
        batch = encode_batch(
            records,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=self._sequence,
        )
        self._sequence += len(records)
        return batch, versions

    async def check(self) -> None:
        """The newest version of every key is there; offsets rise, as do versions."""
        if not self.has_topic:
            return
        _, records = await self.read_all()
        offsets = [record.offset for record in records]
        if sorted(set(offsets)) != offsets:
            raise HistoryError(f"{self.topic} has offsets {offsets}")
        newest: dict[int, Record] = {}
        for record in records:
            key, value = int(record.key or b"-1"), record.value
            before = newest.get(key)
            if value and before is not None and int(value) <= int(before.value or b"0"):
                raise HistoryError(f"key {key} has {value!r} after {before}")
            newest[key] = record
        for key, version in self._acknowledged.items():
            later = set(range(version, self._asked[key] + 1))
            tombstones = self._tombstones.get(key, set()) & later
            found = newest.get(key)
            if found is None or found.value is None:
                if not tombstones:
                    raise HistoryError(f"key {key} of version {version} is gone: {found}")
            elif int(found.value) not in later - self._tombstones.get(key, set()):
                raise HistoryError(f"key {key} is {found.value!r}, acknowledged was {version}")


class WideWriter(Specialist):
    """Appends to several of many partitions with each request."""

    topic = WIDE
    is_checked_by_all = True

    def __init__(
        self, client: ClusterClient, history: History, plan: Plan, wall_ms: Callable[[], int]
    ) -> None:
        super().__init__(client, history, plan, wall_ms)
        self.partitions = 6 + plan.strength % 19
        self._count = 0

    async def work(self) -> None:
        """One request after the other, to whoever leads most. Raises: LOST; HistoryError."""
        await self.prepare()
        leaders = await self._leaders()
        while not self.is_over:
            address = list(leaders)[self.random.integer(len(leaders))]
            await self._append(address, leaders[address])
            self.client.works()
            await self.pause()

    async def _leaders(self) -> dict[Address, list[int]]:
        response = await self.client.metadata(self.topic)
        (topic,) = response.topics
        checked(topic.error_code)
        hosts = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        leaders: dict[Address, list[int]] = {}
        for partition in topic.partitions:
            if partition.leader_id in hosts:
                leaders.setdefault(hosts[partition.leader_id], []).append(partition.partition_index)
        if not leaders:
            raise RetryError("no leaders")
        return leaders

    async def _append(self, address: Address, partitions: list[int]) -> None:
        self._count += 1
        appends: dict[int, Append] = {}
        for index in sorted(partitions)[self.random.integer(len(partitions)) :]:
            name = f"{self.client.name}.{self._count}.{index}"
            appends[index] = Append(name, 0, [f"{name}:0".encode(), f"{name}:1".encode()])
            self.history.ask_append(self.topic, index, appends[index])
        request = produce.ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                produce.TopicProduceData(
                    name=self.topic,
                    partition_data=[
                        produce.PartitionProduceData(
                            index=index,
                            records=requests.batch_of(append.values, self.wall_ms()),
                        )
                        for index, append in appends.items()
                    ],
                )
            ],
        )
        response = await self.client.call(
            address, ApiKey.PRODUCE, requests.PRODUCE_VERSION, request
        )
        moved = False
        for answer in response.responses[0].partition_responses:
            try:
                if not checked(answer.error_code):
                    raise HistoryError(f"{self.topic}: {ErrorCode(answer.error_code).name}")
                appends[answer.index].base_offset = answer.base_offset
            except RetryError:
                moved = True
        if moved:
            raise RetryError("leaders have moved")


class UncleanUser(Specialist):
    """Has leaders elected that lack records; what is left must still be sound."""

    topic = UNCLEAN

    def __init__(
        self, client: ClusterClient, history: History, plan: Plan, wall_ms: Callable[[], int]
    ) -> None:
        super().__init__(client, history, plan, wall_ms)
        self._count = 0

    async def work(self) -> None:
        """Append without hope, and ask for leaders. Raises: LOST; HistoryError."""
        await self.prepare()
        while not self.is_over:
            if self.random.integer(5) == 0:
                await elect_uncleanly(self.client, {self.topic: [0]})
            address, _ = await self.client.leader_of(self.topic, 0)
            connection = await self.client.connect(address)
            self._count += 1
            request = requests.append_request(
                self.topic, 0, [b"%d" % self._count], timestamp_ms=self.wall_ms()
            )
            async with asyncio.timeout(self.client.answer_seconds):
                answer = await requests.append(connection, request)
            if not checked(answer.error_code):
                raise HistoryError(f"append to {self.topic}: {ErrorCode(answer.error_code).name}")
            self.client.works()
            await self.pause()

    async def check(self) -> None:
        """Nothing is there twice or of nobody, and no offset is left out."""
        if not self.has_topic:
            return
        start, records = await self.read_all()
        values = [int(record.value or b"0") for record in records]
        offsets = [record.offset for record in records]
        if offsets != list(range(start, start + len(records))):
            raise HistoryError(f"{self.topic} has offsets {offsets}")
        if len(set(values)) != len(values) or not set(values) <= set(range(1, self._count + 1)):
            raise HistoryError(f"{self.topic} has records twice or of nobody: {values}")


class Recycler(Specialist):
    """Makes a topic, uses it, deletes it, and makes another one of the same name at once.

    What brokers still do about the last one meets what is done with the next.
    """

    topic = AGAIN
    groups = tuple(f"recycling-{number}" for number in range(6))

    def __init__(
        self, client: ClusterClient, history: History, plan: Plan, wall_ms: Callable[[], int]
    ) -> None:
        super().__init__(client, history, plan, wall_ms)
        # Some of its topics live long, and few groups commit; some are gone at once.
        self._groups_min = 1 + plan.strength % (len(self.groups) - 1)
        self._steps = 1 + plan.strength % STEPS_MAX
        self._ids: set[bytes] = set()
        self._id: bytes | None = None
        self._is_leaving = False
        self._committed = 0
        self._acknowledged: dict[str, int] = {}
        self._values: list[bytes] = []
        self._known: dict[int, bytes] = {}

    async def work(self) -> None:
        """One life of the topic after the other. Raises: LOST; HistoryError."""
        while not self.is_over:
            is_settled = False
            if self._id is None:
                await self._make()
            elif self._is_leaving:
                await self._delete()
            else:
                is_settled = len(self._acknowledged) >= self._groups_min
                await self._use()
            self.client.works()
            if is_settled:
                await self.pause()

    async def _make(self) -> None:
        response = await self.client.metadata(self.topic)
        (found,) = response.topics
        topic_id: bytes | None = found.topic_id
        if found.error_code or topic_id in self._ids:
            await create_topic(
                self.client, self.history, self.topic, 1, self.plan.replicas, **self.settings()
            )
            topic_id = self.history.topics.pop(self.topic).topic_id
            if topic_id is None or topic_id in self._ids:
                raise RetryError("it will be there soon")
        self._ids.add(topic_id)
        self._id, self._is_leaving = topic_id, False
        self._acknowledged = {}
        self._values, self._known = [], {}
        self.client.note(self.client.name, "has", found.topic_id.hex())

    async def _use(self) -> None:
        step = self.random.integer(8)
        if len(self._acknowledged) < self._groups_min:
            await self._commit()  # at once: what is left of the last life may not reach it
        elif self.random.integer(self._steps) == 0:
            await self.look()
            self._is_leaving = True
        elif step < 4:
            await self._append()
        elif step < 6:
            await self._commit()
        else:
            await self.look()

    async def _leader(self) -> Address:
        response = await self.client.metadata(self.topic)
        (found,) = response.topics
        checked(found.error_code)
        if found.topic_id != self._id:
            raise RetryError("that is another one")
        for broker in response.brokers:
            if broker.node_id == found.partitions[0].leader_id:
                return broker.host, broker.port
        raise RetryError("no leader")

    async def _append(self) -> None:
        assert self._id is not None
        address = await self._leader()
        value = f"{len(self._ids)}:{len(self._values)}".encode()
        self._values.append(value)
        request = produce.ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                produce.TopicProduceData(
                    topic_id=self._id,
                    partition_data=[
                        produce.PartitionProduceData(
                            index=0, records=requests.batch_of([value], self.wall_ms())
                        )
                    ],
                )
            ],
        )
        response = await self.client.call(address, ApiKey.PRODUCE, 13, request)
        (answer,) = response.responses[0].partition_responses
        if not checked(answer.error_code):
            raise HistoryError(f"append to {self.topic}: {ErrorCode(answer.error_code).name}")
        self._known[answer.base_offset] = value

    async def _commit(self) -> None:
        """Commit where the coordinator knows this very topic."""
        group = self.groups[self.random.integer(len(self.groups))]
        address = await self.client.coordinator_of(group)
        await self._expect_at(address)
        self._committed += 1
        self._acknowledged.pop(group, None)
        connection = await self.client.connect(address)
        async with asyncio.timeout(self.client.answer_seconds):
            code = await requests.commit_offset(connection, group, self.topic, 0, self._committed)
        if not checked(code):
            raise HistoryError(f"commit of {group}: {ErrorCode(code).name}")
        self._acknowledged[group] = self._committed

    async def _expect_at(self, address: Address) -> None:
        request = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=self.topic)],
            allow_auto_topic_creation=False,
        )
        for _ in range(LOOKS_MAX):
            response = await self.client.call(address, ApiKey.METADATA, 12, request)
            if response.topics[0].topic_id == self._id:
                return
            await asyncio.sleep(self.random.integer(LOOK_MS_MAX) / 1000)
        raise RetryError("the coordinator does not know the topic yet")

    async def look(self) -> None:
        """What was acknowledged in this life is there. Raises: LOST; HistoryError."""
        await self._look_up_commit()
        address = await self._leader()
        records, high_watermark = await self._records(address)
        for offset, value in self._known.items():
            if offset >= high_watermark:
                raise RetryError("the leader is new, and does not know what is committed")
            if records.get(offset) != value:
                raise HistoryError(f"{self.topic} has {records.get(offset)!r} for {value!r}")
        if not set(records.values()) <= set(self._values):
            raise HistoryError(f"{self.topic} has records of another life: {records}")

    async def _look_up_commit(self) -> None:
        for group, acknowledged in self._acknowledged.items():
            address = await self.client.coordinator_of(group)
            found = await self._committed_at(address, group)
            if found != acknowledged:
                # A coordinator that was replaced and cannot know it yet answers what it has.
                await self._prove_coordinator(address, group)
                found = await self._committed_at(address, group)
            if found != acknowledged:
                raise HistoryError(
                    f"the offset of {group} is {found}, {acknowledged} was acknowledged"
                    f" in this life of {self.topic}"
                )

    async def _committed_at(self, address: Address, group: str) -> int:
        connection = await self.client.connect(address)
        async with asyncio.timeout(self.client.answer_seconds):
            code, found = await requests.committed_offset(connection, group, self.topic, 0)
        if not checked(code):
            raise HistoryError(f"offsets of {group}: {ErrorCode(code).name}")
        return found

    async def _prove_coordinator(self, address: Address, group: str) -> None:
        """Commit an offset of another topic: who leads the group's partition no more cannot.

        Raises: LOST; HistoryError.
        """
        connection = await self.client.connect(address)
        async with asyncio.timeout(self.client.answer_seconds):
            code = await requests.commit_offset(connection, group, ORDERS, 0, 0)
        if not checked(code):
            raise HistoryError(f"commit of {group}: {ErrorCode(code).name}")

    async def _records(self, address: Address) -> tuple[dict[int, bytes], int]:
        """All that may be read, and where that ends."""
        assert self._id is not None
        found: dict[int, bytes] = {}
        while True:
            request = fetch.FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                topics=[
                    fetch.FetchTopic(
                        topic_id=self._id,
                        partitions=[
                            fetch.FetchPartition(
                                partition=0, fetch_offset=len(found), partition_max_bytes=1 << 20
                            )
                        ],
                    )
                ],
            )
            response: Any = await self.client.call(address, ApiKey.FETCH, 13, request)
            if not checked(response.error_code):
                raise HistoryError(f"{self.topic}: {ErrorCode(response.error_code).name}")
            (answer,) = response.responses[0].partitions
            if not checked(answer.error_code):
                raise HistoryError(f"{self.topic}: {ErrorCode(answer.error_code).name}")
            records, _ = requests.records_of(answer.records or b"", len(found))
            if not records:
                return found, answer.high_watermark
            found |= {record.offset: record.value or b"" for record in records}

    async def _delete(self) -> None:
        assert self._id is not None
        request = delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=None, topic_id=self._id)],
            timeout_ms=3_000,
        )
        response = await self.client.call(self.client.anyone(), ApiKey.DELETE_TOPICS, 6, request)
        code = response.responses[0].error_code
        if code != ErrorCode.UNKNOWN_TOPIC_ID and not checked(code):
            raise HistoryError(f"deleting {self.topic}: {ErrorCode(code).name}")
        self._id = None

    async def check(self) -> None:
        """What the last life has is there."""
        if self._id is not None and not self._is_leaving:
            await self.look()


__all__ = ["Recycler", "TableWriter", "TrimmedReader", "Trimmer", "UncleanUser", "WideWriter"]
