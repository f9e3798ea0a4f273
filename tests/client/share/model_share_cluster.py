"""Brokers with share groups that a test speaks for, and the client that a consumer sees them by.

`ModelShareCluster` holds the records' states as KIP-932 describes them, plainly; each consumer gets
a `ModelClient` of its own, which stands in for `network.Client`. Time is that of the virtual loop.
Tests break it on purpose: `refusals` answer whole requests of a node with codes, `fetch_errors` and
`acknowledge_errors` those of one partition, `cut` requests lose their responses.

Checked at every request: one request in flight for each member and node; epochs in a row.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from barnabas_client.cluster.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from barnabas_client.env import Environment
from barnabas_client.errors import DisconnectedError, UnsupportedError
from barnabas_client.network.client import CoordinatorType
from barnabas_client.share.acquisition import TopicIdPartition
from barnabas_client.share.share_consumer import ShareConsumer
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import share_acknowledge, share_fetch
from barnabas_protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.virtual_loop import VirtualClock

ROUND_TRIP_SECONDS = 0.002
COORDINATOR_ID = 7
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = range(4)
_STATE_BY_TYPE = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}
_seeds = iter(range(1 << 30))


def topic_id_of(name: str) -> bytes:
    return name.encode().ljust(16, b"-")


@dataclass
class OffsetState:
    """One offset of a share partition."""

    state: int = AVAILABLE
    delivery_count: int = 0
    member_id: str = ""
    lock_until: float = 0.0


@dataclass
class SharePartition:
    """One partition with its records, and the state of each offset."""

    leader_id: int = 1
    leader_epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    states: list[OffsetState] = field(default_factory=list)
    #: How often each offset became final by an Accept.
    accepted: list[int] = field(default_factory=list)

    def append(self, *values: bytes | None) -> None:
        """One batch with a record per value; None is a hole that compaction left."""
        base = len(self.states)
        records = [
            Record(base + at, 5, None, value)
            for at, value in enumerate(values)
            if value is not None
        ]
        self.batches.append(
            encode_batch(
                records, base_offset=base, last_offset_delta=len(values) - 1, leader_epoch=0
            )
        )
        self.states += [OffsetState() for _ in values]
        self.accepted += [0 for _ in values]


@dataclass
class _Session:
    epoch: int = 0
    partitions: dict[TopicIdPartition, None] = field(default_factory=dict)


class ModelShareCluster:
    """Nodes 1 and 2, and a share group whose members have all partitions."""

    def __init__(self, *counts: int, lock_ms: int = 30_000, delivery_limit: int = 5) -> None:
        self.loop = asyncio.get_running_loop()
        self.lock_ms = lock_ms
        self.delivery_limit = delivery_limit
        self.partitions = {
            TopicPartition("t", n): SharePartition() for n in range(sum(counts) or 1)
        }
        self.versions = {
            ApiKey.SHARE_GROUP_HEARTBEAT: 1,
            ApiKey.SHARE_FETCH: 2,
            ApiKey.SHARE_ACKNOWLEDGE: 2,
        }
        self.sessions: dict[tuple[int, str], _Session] = {}
        self.members: dict[str, int] = {}
        #: What members are assigned; all partitions where there is none.
        self.assigned: list[TopicPartition] | None = None
        self.requests: list[tuple[int, Any]] = []
        self.heartbeats: list[ShareGroupHeartbeatRequest] = []
        self.refusals: dict[int, deque[int]] = {}
        self.fetch_errors: dict[TopicPartition, deque[int]] = {}
        self.acknowledge_errors: dict[TopicPartition, deque[int]] = {}
        self.cut: deque[int] = deque()
        self.in_flight: set[tuple[int, str]] = set()
        self.clients: list[ModelClient] = []
        self.epoch = 1
        #: Whether leaders and sessions stay.
        self.is_calm = True

    # ---- what tests call -------------------------------------------------------------------

    def consumer(self, **settings: Any) -> ShareConsumer:
        """A share consumer on this cluster, subscribed to `t`."""
        client: Any = ModelClient(self)
        self.clients.append(client)
        callback = settings.pop("acknowledgement_callback", None)
        consumer = ShareConsumer(
            "model:1",
            client=client,
            acknowledgement_callback=callback,
            **{"group_id": "g", **settings},
        )
        consumer.subscribe(["t"])
        return consumer

    def __getitem__(self, number: int) -> SharePartition:
        """The partition `t-<number>`."""
        return self.partitions[TopicPartition("t", number)]

    def states(self, number: int = 0) -> list[int]:
        """The states of the offsets of `t-<number>`, expired locks given back."""
        self._expire(self[number])
        return [one.state for one in self[number].states]

    def move(self, number: int, leader_id: int, *, is_told: bool = True) -> None:
        """Elect another leader, who knows of no locks; clients hear of it if they are told."""
        partition = self[number]
        partition.leader_id = leader_id
        partition.leader_epoch += 1
        for one in partition.states:
            if one.state == ACQUIRED:
                self._give_back(one)
        if is_told:
            self.publish()

    @staticmethod
    def no_refusals() -> deque[int]:
        """A node's codes, none yet."""
        return deque()

    def publish(self) -> None:
        """Let all clients have new metadata."""
        for client in self.clients:
            client.publish()

    def drop_sessions(self, member_id: str | None = None) -> None:
        """Connections are lost: sessions are gone and their locks released (SHR-21)."""
        for key in [key for key in self.sessions if member_id in (None, key[1])]:
            self._end_session(*key)

    def sent(self, kind: type[Any]) -> list[Any]:
        """The requests of one kind."""
        return [request for _, request in self.requests if isinstance(request, kind)]

    # ---- the group -------------------------------------------------------------------------

    def heartbeat(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        self.heartbeats.append(request)
        member_id = request.member_id
        if request.member_epoch == -1:
            self.members.pop(member_id, None)
            return ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=-1)
        if request.member_epoch == 0:
            assert request.subscribed_topic_names is not None
            self.members[member_id] = self.epoch
        elif member_id not in self.members:
            return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        chosen = list(self.partitions) if self.assigned is None else self.assigned
        rows = [
            TopicPartitions(topic_id=topic_id_of(name), partitions=[number])
            for name, number in chosen
        ]
        return ShareGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=self.members[member_id],
            heartbeat_interval_ms=1000,
            assignment=Assignment(topic_partitions=rows),
        )

    # ---- leaders ---------------------------------------------------------------------------

    async def serve(self, node_id: int, request: Any) -> Any:
        """Answer one request of a share session."""
        key = (node_id, request.member_id)
        assert key not in self.in_flight, "two requests of one session are in flight"
        self.in_flight.add(key)
        self.requests.append((node_id, request))
        try:
            await asyncio.sleep(ROUND_TRIP_SECONDS)
            is_fetch = isinstance(request, share_fetch.ShareFetchRequest)
            response = await (self._fetch if is_fetch else self._acknowledge)(node_id, request)
            if self.cut and self.cut[0] == node_id:
                self.cut.popleft()
                self._end_session(*key)
                raise DisconnectedError("cut off")
            return response
        finally:
            self.in_flight.discard(key)

    def _session(self, node_id: int, request: Any) -> tuple[int, _Session]:
        key = (node_id, request.member_id)
        refusals = self.refusals.get(node_id)
        if refusals:
            code = refusals.popleft()
            if code == ErrorCode.SHARE_SESSION_NOT_FOUND:
                self._end_session(*key)
            return code, _Session()
        epoch = request.share_session_epoch
        if epoch == 0:
            assert isinstance(request, share_fetch.ShareFetchRequest)
            self.sessions[key] = _Session(epoch=1)
            return 0, self.sessions[key]
        session = self.sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND, _Session()
        if epoch != -1:
            if epoch != session.epoch:
                return ErrorCode.INVALID_SHARE_SESSION_EPOCH, _Session()
            session.epoch += 1
        return 0, session

    async def _fetch(self, node_id: int, request: Any) -> share_fetch.ShareFetchResponse:
        code, session = self._session(node_id, request)
        if code:
            return share_fetch.ShareFetchResponse(error_code=code)
        response = share_fetch.ShareFetchResponse(acquisition_lock_timeout_ms=self.lock_ms)
        rows: dict[TopicIdPartition, share_fetch.PartitionData] = {}
        for topic in request.topics:
            for one in topic.partitions:
                key = TopicIdPartition(topic.topic_id, one.partition_index)
                session.partitions[key] = None
                if one.acknowledgement_batches:
                    assert request.share_session_epoch != 0
                    data = rows[key] = share_fetch.PartitionData(partition_index=key.partition)
                    data.acknowledge_error_code = self._take(
                        node_id, request.member_id, key, one.acknowledgement_batches
                    )
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                del session.partitions[TopicIdPartition(forgotten.topic_id, number)]
        deadline = self.loop.time() + request.max_wait_ms / 1000
        while not self._read(node_id, request, session, rows) and self.loop.time() < deadline:
            await asyncio.sleep(0.01)
        by_topic: dict[bytes, share_fetch.ShareFetchableTopicResponse] = {}
        for key, data in rows.items():
            by_topic.setdefault(
                key.topic_id, share_fetch.ShareFetchableTopicResponse(topic_id=key.topic_id)
            ).partitions.append(data)
        response.responses = list(by_topic.values())
        return response

    def _read(
        self,
        node_id: int,
        request: Any,
        session: _Session,
        rows: dict[TopicIdPartition, share_fetch.PartitionData],
    ) -> bool:
        """Acquire what there is into the rows; whether there was anything."""
        has_news = False
        left = request.max_records
        for key in session.partitions:
            partition = self._partition(key)
            data = share_fetch.PartitionData(partition_index=key.partition)
            errors = self.fetch_errors.get(TopicPartition("t", key.partition))
            if errors:
                data.error_code = errors.popleft()
            elif partition.leader_id != node_id:
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                data.current_leader = share_fetch.LeaderIdAndEpoch(
                    leader_id=partition.leader_id, leader_epoch=partition.leader_epoch
                )
            else:
                acquired = self._acquire(partition, request.member_id, left)
                left -= sum(last - first + 1 for first, last, _ in acquired)
                if not acquired:
                    continue
                data.records = b"".join(partition.batches)
                data.acquired_records = [
                    share_fetch.AcquiredRecords(
                        first_offset=first, last_offset=last, delivery_count=count
                    )
                    for first, last, count in acquired
                ]
            has_news = True
            before = rows.get(key)
            if before is not None:
                data.acknowledge_error_code = before.acknowledge_error_code
            rows[key] = data
        return has_news

    def _acquire(
        self, partition: SharePartition, member_id: str, count_max: int
    ) -> list[tuple[int, int, int]]:
        self._expire(partition)
        ranges: list[tuple[int, int, int]] = []
        for offset, one in enumerate(partition.states):
            if one.state != AVAILABLE or count_max <= 0:
                continue
            count_max -= 1
            one.state, one.member_id = ACQUIRED, member_id
            one.delivery_count += 1
            one.lock_until = self.loop.time() + self.lock_ms / 1000
            if ranges and ranges[-1][1:] == (offset - 1, one.delivery_count):
                ranges[-1] = (ranges[-1][0], offset, one.delivery_count)
            else:
                ranges.append((offset, offset, one.delivery_count))
        return ranges

    async def _acknowledge(
        self, node_id: int, request: Any
    ) -> share_acknowledge.ShareAcknowledgeResponse:
        code, _ = self._session(node_id, request)
        response = share_acknowledge.ShareAcknowledgeResponse(
            error_code=code, acquisition_lock_timeout_ms=self.lock_ms
        )
        for topic in () if code else request.topics:
            row = share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=topic.topic_id)
            response.responses.append(row)
            for one in topic.partitions:
                key = TopicIdPartition(topic.topic_id, one.partition_index)
                kinds = {
                    kind for each in one.acknowledgement_batches for kind in each.acknowledge_types
                }
                assert request.is_renew_ack or 4 not in kinds
                data = share_acknowledge.PartitionData(
                    partition_index=key.partition,
                    error_code=self._take(
                        node_id, request.member_id, key, one.acknowledgement_batches
                    ),
                )
                row.partitions.append(data)
        if not code and request.share_session_epoch == -1:
            self._end_session(node_id, request.member_id)
        return response

    def _take(
        self, node_id: int, member_id: str, key: TopicIdPartition, batches: Iterable[Any]
    ) -> int:
        """Acknowledge all or nothing (SHR-16)."""
        partition = self._partition(key)
        errors = self.acknowledge_errors.get(TopicPartition("t", key.partition))
        if errors:
            return errors.popleft()
        if partition.leader_id != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._expire(partition)
        rows, end = [], -1
        for one in batches:
            assert end < one.first_offset <= one.last_offset
            assert len(one.acknowledge_types) == 1
            end = one.last_offset
            rows += [
                (offset, one.acknowledge_types[0])
                for offset in range(one.first_offset, one.last_offset + 1)
            ]
        for offset, _ in rows:
            held = partition.states[offset]
            if held.state != ACQUIRED or held.member_id != member_id:
                return ErrorCode.INVALID_RECORD_STATE
        for offset, kind in rows:
            held = partition.states[offset]
            if kind == 4:
                held.lock_until = self.loop.time() + self.lock_ms / 1000
            elif kind == 2:
                self._give_back(held)
            else:
                held.state = _STATE_BY_TYPE[kind]
                partition.accepted[offset] += kind == 1
        return ErrorCode.NONE

    def _partition(self, key: TopicIdPartition) -> SharePartition:
        assert key.topic_id == topic_id_of("t")
        return self[key.partition]

    def _expire(self, partition: SharePartition) -> None:
        for one in partition.states:
            if one.state == ACQUIRED and self.loop.time() >= one.lock_until:
                self._give_back(one)

    def _give_back(self, one: OffsetState) -> None:
        is_over = one.delivery_count >= self.delivery_limit
        one.state = ARCHIVED if is_over else AVAILABLE

    def _end_session(self, node_id: int, member_id: str) -> None:
        self.sessions.pop((node_id, member_id), None)
        for partition in self.partitions.values():
            for one in partition.states:
                is_here = partition.leader_id == node_id and one.member_id == member_id
                if one.state == ACQUIRED and is_here:
                    self._give_back(one)


class ModelClient:
    """Plays `network.Client` for one consumer."""

    has_ended = False

    def __init__(self, model: ModelShareCluster) -> None:
        self.model = model
        self.environment = Environment(
            clock=VirtualClock(model.loop), random=random.Random(next(_seeds))
        )
        self.cluster = ClusterMetadata()
        self.is_unreachable = False
        self.is_connecting = False
        self.member_id = ""
        self._callbacks: list[Callable[[ClusterMetadata], None]] = []
        self.publish()

    def publish(self) -> None:
        """Have metadata as things are."""
        topic_id = topic_id_of("t")
        partitions = {
            one.partition: PartitionMetadata(
                partition=one.partition, leader_id=each.leader_id, leader_epoch=each.leader_epoch
            )
            for one, each in self.model.partitions.items()
        }
        self.cluster = ClusterMetadata(
            version=self.cluster.version + 1,
            nodes=MappingProxyType(
                {node_id: Node(node_id=node_id, host="model", port=node_id) for node_id in (1, 2)}
            ),
            topics=MappingProxyType(
                {"t": TopicMetadata(name="t", topic_id=topic_id, partitions=partitions)}
            ),
            topic_names=MappingProxyType({topic_id: "t"}),
        )
        for callback in list(self._callbacks):
            callback(self.cluster)

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def coordinator(
        self, kind: CoordinatorType, key: str, *, timeout_ms: int | None = None
    ) -> int:
        assert kind is CoordinatorType.GROUP
        return COORDINATOR_ID

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        pass

    async def version(self, node_id: int, api: ApiKey) -> int:
        if api not in self.model.versions:
            raise UnsupportedError(f"{api.name} is not served")
        return self.model.versions[api]

    async def ready(self, node_id: int) -> None:
        while self.is_connecting:
            await asyncio.sleep(1)
        if self.is_unreachable:
            raise DisconnectedError("out of reach")

    async def request(
        self,
        node_id: int,
        request: Any,
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        if self.is_unreachable:
            raise DisconnectedError("out of reach")
        self.member_id = request.member_id
        if node_id == COORDINATOR_ID:
            await asyncio.sleep(ROUND_TRIP_SECONDS)
            return self.model.heartbeat(request)
        return await self.model.serve(node_id, request)

    def apply_leader_hint(
        self,
        topic: str,
        partition: int,
        leader_id: int,
        leader_epoch: int,
        endpoints: Iterable[Node] = (),
    ) -> bool:
        known = self.cluster.partition(topic, partition)
        if known is not None and known.leader_epoch >= leader_epoch:
            return False
        self.publish()
        return True

    def backoff_ms(self, attempt: int) -> int:
        return int(min(1000, 100 * 2**attempt))

    def request_refresh(self) -> None:
        self.model.loop.call_later(0.05, self.publish)

    def set_wanted_topics(self, names: Any) -> None:
        pass

    def on_metadata(self, callback: Callable[[ClusterMetadata], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)
