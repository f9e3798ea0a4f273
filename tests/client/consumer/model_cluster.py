"""A cluster that stands in for `network.Client`: brokers that serve consumers from `ModelLog`s.

The seam is the one that `contract` of the network layer describes. Time is that of the virtual
loop. Tests break it on purpose: `errors` answers a partition's fetches with a code, `silent` and
`unreachable` brokers do not answer, sessions can be forgotten.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from types import MappingProxyType
from typing import Any

from barnabas_client.cluster.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.env import Environment
from barnabas_client.errors import BrokerUnreachableError, DisconnectedError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas_protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset as EpochEnd,
)
from barnabas_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.client.consumer.model_log import ModelLog, ModelSessions, topic_id_of
from tests.support.virtual_loop import VirtualClock, run_virtual

ROUND_TRIP_SECONDS = 0.002


class ModelCluster:
    """Plays `network.Client` for one consumer."""

    has_ended = False

    def __init__(self, *partitions: TopicPartition, version: int = 17, **settings: Any) -> None:
        self.settings = ConsumerSettings.create(
            {"bootstrap_servers": "model:1", "auto_offset_reset": "earliest", **settings}
        )
        self.environment = Environment(clock=VirtualClock(asyncio.get_running_loop()))
        self.fetch_version = version
        self.logs = {partition: ModelLog() for partition in partitions}
        self.sessions = {1: ModelSessions(), 2: ModelSessions()}
        self.nodes = {
            node_id: Node(node_id=node_id, host="model", port=node_id) for node_id in self.sessions
        }
        self.fetches: list[tuple[int, FetchRequest, int]] = []
        self.errors: dict[TopicPartition, deque[int]] = {}
        self.unreachable: set[int] = set()
        self.disconnects_next: set[int] = set()
        self.disconnect_error: Exception = DisconnectedError("lost")
        self.preferred: dict[TopicPartition, int] = {}
        self.tells_leaders = False
        self.checks_divergence = True
        self.epoch_lookups = 0
        self.refreshes = 0
        self.in_flight: dict[int, int] = {}
        self._callbacks: list[Callable[[ClusterMetadata], None]] = []
        self.cluster = ClusterMetadata()
        self.publish()

    def consumer(self, **settings: Any) -> Consumer:
        """A consumer on this cluster."""
        return Consumer("model:1", client=self, **_given(self.settings), **settings)  # type: ignore[arg-type]

    # ---- the cluster ---------------------------------------------------------------------

    def publish(self) -> None:
        """Let metadata say how things are."""
        topics: dict[str, dict[int, PartitionMetadata]] = {}
        for (topic, number), log in self.logs.items():
            topics.setdefault(topic, {})[number] = PartitionMetadata(
                partition=number, leader_id=log.leader_id, leader_epoch=log.leader_epoch
            )
        self.cluster = ClusterMetadata(
            version=self.cluster.version + 1,
            nodes=MappingProxyType(dict(self.nodes)),
            topics=MappingProxyType(
                {
                    name: TopicMetadata(
                        name=name, topic_id=self.topic_id(name), partitions=partitions
                    )
                    for name, partitions in topics.items()
                }
            ),
        )
        for callback in list(self._callbacks):
            callback(self.cluster)

    def topic_id(self, name: str) -> bytes:
        return ZERO_UUID if self.fetch_version < 13 else topic_id_of(name)

    # ---- network.Client ------------------------------------------------------------------

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def known_version(self, node_id: int, api: ApiKey) -> int | None:
        return None if node_id in self.unreachable else self.fetch_version

    async def version(self, node_id: int, api: ApiKey) -> int:
        return self.fetch_version

    def is_ready(self, node_id: int) -> bool:
        return node_id not in self.unreachable

    async def ready(self, node_id: int) -> None:
        await asyncio.sleep(ROUND_TRIP_SECONDS)
        if node_id in self.unreachable:
            raise BrokerUnreachableError(f"broker {node_id}")

    def backoff_ms(self, attempt: int) -> int:
        return 100

    def request_refresh(self) -> None:
        self.refreshes += 1
        asyncio.get_running_loop().call_later(ROUND_TRIP_SECONDS, self.publish)

    def want_topics(self, names: Iterable[str]) -> None:
        pass

    def set_wanted_topics(self, names: Iterable[str]) -> None:
        pass

    def want_all_topics(self, wants_all: bool) -> None:
        pass

    def on_metadata(self, callback: Callable[[ClusterMetadata], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def apply_leader_hint(
        self, topic: str, number: int, leader_id: int, leader_epoch: int, endpoints: object = ()
    ) -> bool:
        known = self.cluster.partition(topic, number)
        if known is None or known.leader_epoch >= leader_epoch:
            return False
        self.publish()
        return True

    async def request(self, node_id: int, request: Any, **_: Any) -> Any:
        await asyncio.sleep(ROUND_TRIP_SECONDS)
        if node_id in self.unreachable:
            raise BrokerUnreachableError(f"broker {node_id}")
        if isinstance(request, ListOffsetsRequest):
            return self._list_offsets(node_id, request)
        assert isinstance(request, OffsetForLeaderEpochRequest)
        self.epoch_lookups += 1
        return self._epoch_ends(node_id, request)

    def send_now(
        self, node_id: int, request: FetchRequest, version: int, *, timeout_ms: int
    ) -> asyncio.Future[FetchResponse]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[FetchResponse] = loop.create_future()
        self.fetches.append((node_id, request, version))
        if request.session_epoch >= 0:
            self.in_flight[node_id] = self.in_flight.get(node_id, 0) + 1
            assert self.in_flight[node_id] == 1, "one fetch per broker"
        deadline = loop.time() + request.max_wait_ms / 1000
        if node_id in self.disconnects_next:
            self.disconnects_next.discard(node_id)
            loop.call_later(
                ROUND_TRIP_SECONDS,
                lambda: self._finish(node_id, future, self.disconnect_error),
            )
            return future
        error, session_id, offsets = self.sessions[node_id].resolve(request, version)

        def answer() -> None:
            if future.cancelled():
                return
            response, has_news = self._fetch(node_id, request, version, session_id, offsets)
            response.error_code = error
            if has_news or error or loop.time() >= deadline:
                self._finish(node_id, future, response)
            else:
                loop.call_later(ROUND_TRIP_SECONDS, answer)

        loop.call_later(ROUND_TRIP_SECONDS, answer)
        return future

    def _finish(
        self,
        node_id: int,
        future: asyncio.Future[FetchResponse],
        outcome: FetchResponse | Exception,
    ) -> None:
        self.in_flight[node_id] = self.in_flight.get(node_id, 0) - 1
        if future.cancelled():
            return
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    # ---- brokers -------------------------------------------------------------------------

    def _fetch(
        self,
        node_id: int,
        request: FetchRequest,
        version: int,
        session_id: int,
        offsets: dict[Any, int] | None,
    ) -> tuple[FetchResponse, bool]:
        asked = {
            (topic.topic if version < 13 else topic.topic_id, one.partition): one
            for topic in request.topics
            for one in topic.partitions
        }
        self._known = {**getattr(self, "_known", {}), **{(node_id, k): v for k, v in asked.items()}}
        topics: list[FetchableTopicResponse] = []
        has_news = False
        left_bytes = request.max_bytes
        for key, offset in (offsets or {}).items():
            wanted = self._known[node_id, key]
            name = key[0] if version < 13 else _name_of(self.logs, key[0])
            partition = TopicPartition(name, key[1])
            replica_id = self.preferred.get(partition) if request.rack_id else None
            data = self._read(node_id, partition, wanted, offset, left_bytes)
            if node_id == self.logs[partition].leader_id and replica_id is not None:
                data.preferred_read_replica, data.records = replica_id, b""
            data.aborted_transactions = (
                data.aborted_transactions if request.isolation_level else None
            )
            is_news = bool(data.records) or data.error_code != 0 or data.diverging_epoch.epoch >= 0
            is_news = is_news or data.preferred_read_replica >= 0
            left_bytes -= len(data.records or b"")
            has_news = has_news or is_news
            if request.session_epoch > 0 and not is_news:
                continue
            topics.append(
                FetchableTopicResponse(
                    topic=name if version < 13 else "",
                    topic_id=ZERO_UUID if version < 13 else key[0],
                    partitions=[data],
                )
            )
        return FetchResponse(session_id=session_id, responses=topics), has_news

    def _read(
        self,
        node_id: int,
        partition: TopicPartition,
        asked: FetchPartition,
        offset: int,
        left_bytes: int,
    ) -> PartitionData:
        log = self.logs[partition]
        stable = log.end_offset if log.stable_offset is None else log.stable_offset
        data = PartitionData(
            partition_index=partition.partition,
            high_watermark=log.end_offset,
            last_stable_offset=stable,
            log_start_offset=log.start_offset,
            records=b"",
        )
        scripted = self.errors.get(partition)
        if scripted:
            data.error_code = scripted.popleft()
        elif node_id != log.leader_id and self.preferred.get(partition) != node_id:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if self.tells_leaders:
                data.current_leader = LeaderIdAndEpoch(
                    leader_id=log.leader_id, leader_epoch=log.leader_epoch
                )
        elif 0 <= asked.current_leader_epoch < log.leader_epoch:
            data.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif not log.start_offset <= offset <= log.end_offset and not self._diverges(log, asked):
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif self._diverges(log, asked):
            epoch, end_offset = log.epoch_end(asked.last_fetched_epoch)
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        elif left_bytes > 0:
            data.records = log.read(offset, min(asked.partition_max_bytes, left_bytes))
            data.aborted_transactions = [
                AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in log.aborted
            ]
        return data

    def _diverges(self, log: ModelLog, asked: FetchPartition) -> bool:
        if not self.checks_divergence or asked.last_fetched_epoch < 0:
            return False
        epoch, end_offset = log.epoch_end(asked.last_fetched_epoch)
        return epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset

    def _list_offsets(self, node_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for one in topic.partitions:
                log = self.logs[TopicPartition(topic.name, one.partition_index)]
                row = ListOffsetsPartitionResponse(partition_index=one.partition_index)
                if node_id != log.leader_id:
                    row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif one.timestamp == -2:
                    row.offset = log.start_offset
                elif one.timestamp == -1:
                    is_cut = request.isolation_level and log.stable_offset is not None
                    row.offset = (log.stable_offset or 0) if is_cut else log.end_offset
                else:
                    row.offset = log.offset_at(one.timestamp)
                    row.timestamp = one.timestamp
                rows.append(row)
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)

    def _epoch_ends(
        self, node_id: int, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for one in topic.partitions:
                log = self.logs[TopicPartition(topic.topic, one.partition)]
                row = EpochEnd(partition=one.partition, error_code=0)
                if node_id != log.leader_id:
                    row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif one.current_leader_epoch < log.leader_epoch:
                    row.error_code = ErrorCode.FENCED_LEADER_EPOCH
                else:
                    row.leader_epoch, row.end_offset = log.epoch_end(one.leader_epoch)
                rows.append(row)
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
        return OffsetForLeaderEpochResponse(topics=topics)


def run_model(work: Coroutine[Any, Any, None]) -> None:
    """Run on virtual time; a task that is left behind fails."""

    async def run() -> None:
        await work
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, others

    run_virtual(run())


def _given(settings: ConsumerSettings) -> dict[str, Any]:
    """The settings that differ from the defaults."""
    plain = ConsumerSettings.create({"bootstrap_servers": "model:1"})
    names = [name for name in settings.__dataclass_fields__ if name != "bootstrap_servers"]
    return {
        name: getattr(settings, name)
        for name in names
        if getattr(settings, name) != getattr(plain, name)
    }


def _name_of(logs: dict[TopicPartition, ModelLog], topic_id: bytes) -> str:
    return next(topic for topic, _ in logs if topic_id_of(topic) == topic_id)
