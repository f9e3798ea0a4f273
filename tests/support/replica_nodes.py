"""The replication of several brokers in one loop: real replica managers, logs and fetchers.

Each node has a simulated disk; the metadata is what a test says it is, and may reach nodes at
different times. Requests go through real encoders and the real fetch handler, over links that can
be cut. There is no controller: an ISR changes only when the test changes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.handlers import fetch as fetch_handler
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import (
    BrokerRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from barnabas_broker.network.peers import PeerUnreachableError
from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.replication.follower.fetch_plan import FetchSettings
from barnabas_broker.replication.follower.replica_fetcher_manager import ReplicaFetcherManager
from barnabas_broker.replication.leader.fetch_session import FetchSessionCache
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.replication.throttle import ReplicationThrottle
from barnabas_broker.replication.turn import Turn
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.principal import ANONYMOUS
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import fetch, list_offsets
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import VirtualClock

TOPIC = "t"
TOPIC_ID = bytes(range(16))
TP = TopicPartition(TOPIC, 0)
DIRECTORY = "/data"
SETTINGS = FetchSettings(
    wait_ms_max=500,
    min_bytes=1,
    response_bytes_max=10 * 1024 * 1024,
    partition_bytes_max=1024 * 1024,
    backoff_ms=1_000,
    request_timeout_ms=5_000,
)

Answer = Callable[[int, Any, int], Any]


class Links:
    """Who can reach whom, and what is on its way."""

    def __init__(self) -> None:
        self.nodes: dict[int, ReplicaNode] = {}
        self.cut: set[tuple[int, int]] = set()
        self.delay_seconds = 0.001
        self.requests: list[tuple[int, int, Any]] = []
        # Stands in for a node: asker, request and version in, response out.
        self.scripts: dict[int, Answer] = {}

    def cut_off(self, node_id: int) -> None:
        """Let nobody reach a node, nor it anybody."""
        for other in range(10):
            self.cut |= {(node_id, other), (other, node_id)}


class LoopbackPeers:
    """`Peers` of one node over the links: in order on each channel, one answer after the other."""

    def __init__(self, links: Links, node_id: int) -> None:
        self._links = links
        self._node_id = node_id
        self._last: dict[tuple[int, str], asyncio.Future[None]] = {}

    async def request(
        self, node_id: int, message: Any, version: int, *, channel: str, timeout_ms: int
    ) -> Any:
        loop = asyncio.get_running_loop()
        before, done = self._last.get((node_id, channel)), loop.create_future()
        self._last[node_id, channel] = done
        self._links.requests.append((self._node_id, node_id, message))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._exchange(node_id, message, version, before)
        except TimeoutError:
            raise PeerUnreachableError(node_id, "no answer in time") from None
        finally:
            done.set_result(None)

    async def _exchange(
        self, node_id: int, message: Any, version: int, before: asyncio.Future[None] | None
    ) -> Any:
        await asyncio.sleep(self._links.delay_seconds)
        self._check(node_id)
        key = codec.api_key_of(type(message))
        frame = codec.encode(message, version)
        request = codec.decode(type(message), frame, version)[0]
        script = self._links.scripts.get(node_id)
        if script is not None:
            answered = script(self._node_id, request, version)
            if asyncio.iscoroutine(answered):
                answered = await answered
            data = codec.encode_response(answered, key, version, 1)
        else:
            data = await self._links.nodes[node_id].answer(request, version)
        if before is not None:
            await before
        await asyncio.sleep(self._links.delay_seconds)
        self._check(node_id)
        return codec.decode_response(memoryview(bytearray(data)), key, version)[1]

    def _check(self, node_id: int) -> None:
        is_there = node_id in self._links.nodes or node_id in self._links.scripts
        if not is_there or (self._node_id, node_id) in self._links.cut:
            raise PeerUnreachableError(node_id, "no way there", was_refused=not is_there)


class StubExchange:
    """A request whose answer is awaited."""

    def __init__(self, version: int) -> None:
        self.api_version = version
        self.correlation_id = 1
        self.client_id = "test"
        self.principal = ANONYMOUS
        self.host = "127.0.0.1"
        self.frame = b""
        self.session: Any = SimpleNamespace(
            is_closed=False,
            hold=lambda: None,
            release=lambda: None,
            listener_name="A",
            response_bytes_max=1 << 30,
            reserve_response=lambda size: None,
        )
        self.frame = b""
        self.is_done = False
        self.answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def reply(self, parts: Any) -> None:
        self.is_done = True
        if not self.answered.done():
            self.answered.set_result(b"".join(bytes(part) for part in parts))

    def on_closed(self, callback: Callable[[], None]) -> None:
        self.abandoned = callback


class ReplicaNode:
    """One broker's partitions, logs and fetchers."""

    def __init__(
        self,
        node_id: int,
        links: Links,
        *,
        disk: SimulatedDisk | None = None,
        clock: Clock | None = None,
        topic_config: LogConfig | None = None,
        settings: FetchSettings = SETTINGS,
        directories: str = DIRECTORY,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.node_id = node_id
        self.links = links
        self.random = SimulatedRandom(node_id)
        self.clock = clock or VirtualClock(loop)
        self.disk = disk or SimulatedDisk(self.random, SimulatedClock())
        self.topic_config = topic_config or LogConfig.build({}, {})
        self.config = BrokerConfig.parse({"node.id": str(node_id), "log.dirs": directories})
        self.logs = LogManager(
            self.config, self.disk, self.clock, self.random, TailCache(1024 * 1024)
        )
        self.turn = Turn(loop)
        self.timer = Timer(loop, self.clock)
        self.image = MetadataImage.empty()
        self._settings = settings

    async def start(self, image: MetadataImage | None = None) -> ReplicaNode:
        """Load the logs and join the links."""
        self.logs.cluster_id = ""
        await self.logs.load(lambda topic, topic_id: self.topic_config)
        await self.logs.forget_lost()
        self.replicas = ReplicaManager(
            node_id=self.node_id,
            logs=self.logs,
            topic_config=lambda topic: self.topic_config,
            turn=self.turn,
            produce_purgatory=Purgatory("produce", self.timer),
            fetch_purgatory=Purgatory("fetch", self.timer),
            clock=self.clock,
            lag_ms_max=30_000,
        )
        self.throttle = ReplicationThrottle(self.clock)
        self.fetchers = self.replicas.fetchers = ReplicaFetcherManager(
            LoopbackPeers(self.links, self.node_id),
            self.clock,
            self._settings,
            self.replicas.follower_hooks,
            self.throttle,
            node_id=self.node_id,
            broker_epoch=lambda: self.image.brokers[self.node_id].epoch,
        )
        self.sessions = FetchSessionCache(1_000, self.random)
        self.links.nodes[self.node_id] = self
        if image is not None:
            self.image = image
            await self.replicas.apply(None, image)
        return self

    async def learn(self, records: Iterable[MetadataRecord]) -> None:
        """Apply metadata records."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.apply(record)
        self.image = delta.build()
        await self.replicas.apply(delta, self.image)

    async def answer(self, request: Any, version: int) -> bytes:
        """Handle a request of another node."""
        if isinstance(request, fetch.FetchRequest):
            in_flight = StubExchange(version)
            services: Any = SimpleNamespace(
                config=self.config,
                clock=self.clock,
                replicas=self.replicas,
                fetch_sessions=self.sessions,
                image=self.image,
                random=self.random,
                broker_identity=BrokerIdentity("A"),
                authorizer=None,
            )
            fetch_exchange: Any = in_flight
            try:
                fetch_handler.handle(services, fetch_exchange, request)
            except KafkaError as error:
                failed = fetch_handler.failed(request, error)
                return codec.encode_response(failed, ApiKey.FETCH, version, 1)
            return await in_flight.answered
        response = self._list_offsets(request)
        return codec.encode_response(response, ApiKey.LIST_OFFSETS, version, 1)

    def _list_offsets(
        self, request: list_offsets.ListOffsetsRequest
    ) -> list_offsets.ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            answered = []
            for asked in topic.partitions:
                log = self.partition(asked.partition_index).log
                offset = log.log_end_offset if asked.timestamp == -1 else log.log_start_offset
                answered.append(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, offset=offset
                    )
                )
            topics.append(
                list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=answered)
            )
        return list_offsets.ListOffsetsResponse(topics=topics)

    # What tests look at and do.

    def partition(self, index: int = 0) -> Partition:
        return self.replicas.partitions[TopicPartition(TOPIC, index)]

    @property
    def log(self) -> PartitionLog:
        return self.partition().log

    def produce(self, *values: bytes, index: int = 0, acks: int = 1, age_ms: int = 0) -> None:
        """Append a batch as the leader and write it."""
        written_ms = self.clock.wall_ms() - age_ms
        batch = encode_batch([Record(i, written_ms, b"k", value) for i, value in enumerate(values)])
        self.partition(index).append(memoryview(bytearray(batch)), acks, self.clock.wall_ms())
        self.turn.finish()

    async def values(self, index: int = 0) -> list[tuple[int, int, bytes | None]]:
        """Offset, leader epoch and value of every record."""
        return await values_of(self.partition(index).log)

    async def stop(self) -> None:
        """Stop cleanly."""
        self.links.nodes.pop(self.node_id, None)
        await self.replicas.close()
        self.timer.close()
        await self.logs.close()

    async def crash(self, *, keep_some: bool = True) -> SimulatedDisk:
        """Lose power; the disk is for the next start."""
        self.links.nodes.pop(self.node_id, None)
        await self.fetchers.close()
        self.timer.close()
        for log in self.logs.logs.values():
            log.retire()
        await self.replicas.close()
        self.disk.crash(keep_some=keep_some)
        return self.disk


async def values_of(log: PartitionLog) -> list[tuple[int, int, bytes | None]]:
    """Offset, leader epoch and value of every record of a log."""
    found: list[tuple[int, int, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = await log.read(offset, 1 << 20, log.log_end_offset)
        data = b"".join(bytes(buffer) for buffer in read.buffers)
        for position, header in iterate_headers(data):
            found += [
                (record.offset, header.leader_epoch, record.value)
                for record in decode_records(data, position)
                if record.offset >= offset
            ]
            offset = header.last_offset + 1
    return found


def broker_record(node_id: int, broker_epoch: int = 1) -> BrokerRecord:
    """A broker that is there."""
    return BrokerRecord(
        node_id=node_id,
        broker_epoch=broker_epoch,
        incarnation_id=bytes(16),
        listeners=(),
        rack=None,
        directories=(),
        is_fenced=False,
    )


def topic_records(partition_count: int = 1) -> list[MetadataRecord]:
    """The topic, without partitions, and brokers 0 to 3."""
    brokers: list[MetadataRecord] = [broker_record(node_id) for node_id in range(4)]
    return [*brokers, TopicRecord(name=TOPIC, topic_id=TOPIC_ID)]


def led_by(
    leader: int,
    leader_epoch: int,
    *,
    replicas: tuple[int, ...] = (0, 1),
    isr: tuple[int, ...] | None = None,
    index: int = 0,
    partition_epoch: int | None = None,
) -> PartitionRecord:
    """A partition's state. The ISR is the leader alone unless told, so that it commits alone."""
    return PartitionRecord(
        topic_id=TOPIC_ID,
        partition=index,
        replicas=replicas,
        isr=(leader,) if isr is None else isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch if partition_epoch is None else partition_epoch,
    )


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait, in virtual time, until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


async def soon(condition: Callable[[], bool]) -> None:
    """Wait some turns of the loop, in which no time passes, until a condition holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came about")
