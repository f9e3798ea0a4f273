"""Brokers that obey Kafka's rules: what they answer, without faults (those are in `faults.py`).

All brokers share one picture and one log for each partition; a leader that moves takes the log with
it, so what was acknowledged stays. Coordinators are the broker that a hash of the name says.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, Uuid
from barnabas_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    create_topics,
    delete_topics,
    describe_cluster,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
)
from tests.client.consumer.model_log import ModelSessions
from tests.simulation.client.groups import Group
from tests.simulation.client.log import Log
from tests.simulation.client.transactions import Coordinator
from tests.simulation.client.world import Answer, Wire, World

PORT = 9092
Commit = Callable[[str, str, int, int], None]
VERSIONS: dict[ApiKey, tuple[int, int]] = {
    ApiKey.PRODUCE: (3, 13),
    ApiKey.FETCH: (4, 17),
    ApiKey.LIST_OFFSETS: (1, 8),
    ApiKey.METADATA: (0, 12),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (8, 10),
    ApiKey.FIND_COORDINATOR: (4, 6),
    ApiKey.JOIN_GROUP: (5, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (3, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (6, 6),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
}


class Kafka:
    """The cluster as a whole; `handle` answers a request as one of its brokers."""

    def __init__(
        self, world: World, broker_count: int = 2, *, is_version_2: bool = True, **limits: int
    ) -> None:
        self.world = world
        self.broker_ids = list(range(1, broker_count + 1))
        self.topics: dict[str, list[Log]] = {}
        self.graves: list[Log] = []
        self.groups: dict[str, Group] = {}
        self.coordinator = Coordinator(world, self._end_offsets, is_version_2=is_version_2)
        self.versions = dict(VERSIONS)
        for name, limit in limits.items():
            key = ApiKey[name.upper()]
            self.versions[key] = (self.versions[key][0], limit)
        self.on_commit: Commit = _ignore
        self._topic_count = 0
        self._sessions = {node_id: ModelSessions() for node_id in self.broker_ids}
        self._asked: dict[tuple[int, int, Any], fetch.FetchPartition] = {}
        self._waiting: list[asyncio.Future[None]] = []
        world.hosts = {f"b{node_id}": node_id for node_id in self.broker_ids}
        world.handle = self.handle
        self._handlers: dict[int, Callable[[int, int, Any], Answer]] = {
            key: getattr(self, f"_{key.name.lower()}") for key in VERSIONS
        }

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return ",".join(f"b{node_id}:{PORT}" for node_id in self.broker_ids)

    def handle(self, wire: Wire, key: int, version: int, request: Any) -> Answer:
        """The answer of the broker that a wire leads to."""
        return self._handlers[key](wire.node_id, version, request)

    # ---- what an administrator does --------------------------------------------------------

    def create(self, name: str, count: int) -> list[Log]:
        """Make a topic; one that is there is deleted before."""
        self.delete(name)
        self._topic_count += 1
        topic_id = zlib.crc32(name.encode()).to_bytes(8, "big") + self._topic_count.to_bytes(
            8, "big"
        )
        logs = [Log(name, topic_id, number) for number in range(count)]
        for log in logs:
            log.leader_id = self.broker_ids[log.number % len(self.broker_ids)]
        self.topics[name] = logs
        return logs

    def delete(self, name: str) -> None:
        """Delete a topic, and what groups have committed for it."""
        self.graves += self.topics.pop(name, [])
        for group in self.groups.values():
            group.offsets = {key: at for key, at in group.offsets.items() if key[0] != name}

    def add_partitions(self, name: str, count: int) -> None:
        """Let a topic have more partitions."""
        logs = self.topics[name]
        for number in range(len(logs), count):
            log = Log(name, logs[0].topic_id, number)
            log.leader_id = self.broker_ids[number % len(self.broker_ids)]
            logs.append(log)

    def move(self, log: Log) -> None:
        """Elect another leader."""
        at = self.broker_ids.index(log.leader_id)
        log.leader_id = self.broker_ids[(at + 1) % len(self.broker_ids)]
        log.leader_epoch += 1
        self.wake()

    def all_logs(self) -> list[Log]:
        """Those of topics that are, and of those that were."""
        return [*self.graves, *(log for logs in self.topics.values() for log in logs)]

    def log(self, name: str, number: int) -> Log | None:
        """A partition by name."""
        logs = self.topics.get(name, [])
        return logs[number] if 0 <= number < len(logs) else None

    def log_by_id(self, topic_id: Uuid, number: int) -> Log | None:
        """A partition by its topic's id."""
        name = self.name_of(topic_id)
        return None if name is None else self.log(name, number)

    def name_of(self, topic_id: Uuid) -> str | None:
        """The topic with an id."""
        for name, logs in self.topics.items():
            if logs and logs[0].topic_id == topic_id:
                return name
        return None

    def group(self, group_id: str) -> Group:
        """A group, made when it is first asked for."""
        if group_id not in self.groups:
            self.groups[group_id] = Group(self.world, group_id, self._partition_ids)
        return self.groups[group_id]

    def _partition_ids(self, names: Iterable[str]) -> list[tuple[Uuid, int]]:
        return [
            (log.topic_id, log.number)
            for name in sorted(names)
            for log in self.topics.get(name, [])
        ]

    def wake(self) -> None:
        """Let fetches that wait look again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    # ---- the cluster -----------------------------------------------------------------------

    def _api_versions(self, node_id: int, version: int, request: Any) -> Answer:
        answer = api_versions.ApiVersionsResponse(
            api_keys=[
                api_versions.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            ]
        )
        if self.coordinator.is_version_2:
            answer.finalized_features_epoch = 1
            answer.finalized_features = [
                api_versions.FinalizedFeatureKey(
                    name="transaction.version", max_version_level=2, min_version_level=2
                )
            ]
        return answer

    def _metadata(self, node_id: int, version: int, request: Any) -> Answer:
        return self.picture(request)

    def picture(self, request: metadata.MetadataRequest) -> metadata.MetadataResponse:
        """What Metadata says now."""
        names = list(self.topics)
        if request.topics is not None:
            names = [topic.name or "" for topic in request.topics]
        return metadata.MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(node_id=node_id, host=f"b{node_id}", port=PORT)
                for node_id in self.broker_ids
            ],
            cluster_id="stand-in",
            controller_id=self.broker_ids[0],
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> metadata.MetadataResponseTopic:
        logs = self.topics.get(name)
        if logs is None:
            return metadata.MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name
            )
        return metadata.MetadataResponseTopic(
            name=name,
            topic_id=logs[0].topic_id,
            partitions=[
                metadata.MetadataResponsePartition(
                    partition_index=log.number,
                    leader_id=log.leader_id,
                    leader_epoch=log.leader_epoch,
                    replica_nodes=self.broker_ids,
                    isr_nodes=self.broker_ids,
                )
                for log in logs
            ],
        )

    def _describe_cluster(self, node_id: int, version: int, request: Any) -> Answer:
        return describe_cluster.DescribeClusterResponse(
            cluster_id="stand-in",
            controller_id=self.broker_ids[0],
            brokers=[
                describe_cluster.DescribeClusterBroker(broker_id=one, host=f"b{one}", port=PORT)
                for one in self.broker_ids
            ],
        )

    def _create_topics(self, node_id: int, version: int, request: Any) -> Answer:
        results = []
        for topic in request.topics:
            code = ErrorCode.NONE
            if topic.name in self.topics:
                code = ErrorCode.TOPIC_ALREADY_EXISTS
            else:
                self.create(topic.name, max(1, topic.num_partitions))
            logs = self.topics[topic.name]
            results.append(
                create_topics.CreatableTopicResult(
                    name=topic.name,
                    topic_id=logs[0].topic_id,
                    error_code=code,
                    error_message=None,
                    num_partitions=len(logs),
                    replication_factor=1,
                    configs=[],
                )
            )
        return create_topics.CreateTopicsResponse(topics=results)

    def _delete_topics(self, node_id: int, version: int, request: Any) -> Answer:
        results = []
        for topic in request.topics:
            name = topic.name if topic.name is not None else self.name_of(topic.topic_id)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if name in self.topics:
                code = ErrorCode.NONE
                self.delete(name)
            results.append(
                delete_topics.DeletableTopicResult(
                    name=name, topic_id=topic.topic_id, error_code=code
                )
            )
        return delete_topics.DeleteTopicsResponse(responses=results)

    def _list_groups(self, node_id: int, version: int, request: Any) -> Answer:
        return list_groups.ListGroupsResponse(
            groups=[
                list_groups.ListedGroup(
                    group_id=name,
                    protocol_type="consumer",
                    group_state=group.state,
                    group_type="classic",
                )
                for name, group in self.groups.items()
                if self._coordinator_id(name) == node_id
            ]
        )

    # ---- records ---------------------------------------------------------------------------

    def _produce(self, node_id: int, version: int, request: Any) -> Answer:
        answer = produce.ProduceResponse(
            responses=[
                produce.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        self._append(node_id, version, request, topic, one)
                        for one in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )
        self.wake()
        return answer if request.acks else None

    def _append(
        self, node_id: int, version: int, request: Any, topic: Any, one: Any
    ) -> produce.PartitionProduceResponse:
        found = produce.PartitionProduceResponse(index=one.index, base_offset=-1)
        by_id = version >= 13
        log = (
            self.log_by_id(topic.topic_id, one.index) if by_id else self.log(topic.name, one.index)
        )
        if log is None:
            found.error_code = (
                ErrorCode.UNKNOWN_TOPIC_ID
                if by_id and self.name_of(topic.topic_id) is None
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        elif log.leader_id != node_id:
            found.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            found.current_leader = produce.LeaderIdAndEpoch(
                leader_id=log.leader_id, leader_epoch=log.leader_epoch
            )
        else:
            code = self._take_part(version, request, log, bytes(one.records))
            offset = -1
            if code is ErrorCode.NONE:
                code, offset = log.append(bytes(one.records))
            found.error_code, found.base_offset = code, offset
            first = log.batches[-1].values()[:1] if code is ErrorCode.NONE else ""
            self.world.tell(f"b{node_id} appends", log.topic, log.number, code.name, offset, first)
        return found

    def _take_part(self, version: int, request: Any, log: Log, data: bytes) -> ErrorCode:
        """See to it that a transactional batch belongs to a transaction."""
        name = request.transactional_id
        if name is None:
            return ErrorCode.NONE
        from barnabas_protocol.records.batch import read_header

        header = read_header(data)
        code = self.coordinator.check(name, header.producer_id, header.producer_epoch)
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is not ErrorCode.NONE:
            return code
        if not self.coordinator.has(name, log):
            if version < 12 or not self.coordinator.is_version_2:
                return ErrorCode.INVALID_TXN_STATE
            self.coordinator.add(name, log)
        return ErrorCode.NONE

    def _fetch(self, node_id: int, version: int, request: Any) -> Answer:
        code, session_id, offsets = self._sessions[node_id].resolve(request, version)
        for topic in request.topics:
            for one in topic.partitions:
                key = (topic.topic if version < 13 else topic.topic_id, one.partition)
                self._asked[node_id, session_id, key] = one
        if code:
            return fetch.FetchResponse(error_code=code)
        answer, has_news = self._read(node_id, version, request, session_id, offsets or {})
        if has_news or not request.max_wait_ms:
            return answer
        done: asyncio.Future[Any] = self.world.loop.create_future()
        until = self.world.loop.true_seconds + request.max_wait_ms / 1000

        def again(_: Any = None) -> None:
            if done.done():
                return
            answer, has_news = self._read(node_id, version, request, session_id, offsets or {})
            if has_news or self.world.loop.true_seconds >= until - 1e-9:
                done.set_result(answer)
            else:
                wait()

        def wait() -> None:
            future: asyncio.Future[None] = self.world.loop.create_future()
            self._waiting.append(future)
            future.add_done_callback(again)

        wait()
        self.world.at(until, again)
        return done

    def _read(
        self,
        node_id: int,
        version: int,
        request: Any,
        session_id: int,
        offsets: dict[Any, int],
    ) -> tuple[fetch.FetchResponse, bool]:
        left_bytes = request.max_bytes
        has_news = False
        topics = []
        for key, offset in offsets.items():
            asked = self._asked[node_id, session_id, key]
            data = self._partition_data(node_id, version, request, key, offset, asked, left_bytes)
            left_bytes -= len(data.records or b"")  # type: ignore[arg-type]
            is_news = bool(data.records) or data.error_code != 0 or data.diverging_epoch.epoch >= 0
            has_news = has_news or is_news
            if request.session_epoch > 0 and not is_news:
                continue
            topics.append(
                fetch.FetchableTopicResponse(
                    topic=key[0] if version < 13 else "",
                    topic_id=key[0] if version >= 13 else ZERO_UUID,
                    partitions=[data],
                )
            )
        return fetch.FetchResponse(session_id=session_id, responses=topics), has_news

    def _partition_data(
        self,
        node_id: int,
        version: int,
        request: Any,
        key: Any,
        offset: int,
        asked: fetch.FetchPartition,
        left_bytes: int,
    ) -> fetch.PartitionData:
        name = key[0] if version < 13 else self.name_of(key[0])
        log = None if name is None else self.log(name, key[1])
        data = fetch.PartitionData(
            partition_index=key[1], aborted_transactions=None, high_watermark=-1, records=b""
        )
        if log is None:
            data.error_code = (
                ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            return data
        data.high_watermark, data.last_stable_offset = log.end_offset, log.stable_offset
        data.log_start_offset = 0
        if log.leader_id != node_id:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            data.current_leader = fetch.LeaderIdAndEpoch(
                leader_id=log.leader_id, leader_epoch=log.leader_epoch
            )
        elif 0 <= asked.current_leader_epoch < log.leader_epoch:
            data.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.current_leader_epoch > log.leader_epoch:
            data.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not 0 <= offset <= log.end_offset:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif left_bytes > 0:
            end = log.stable_offset if request.isolation_level else log.end_offset
            data.records = log.read(offset, min(asked.partition_max_bytes, left_bytes), end)
            if request.isolation_level:
                data.aborted_transactions = [
                    fetch.AbortedTransaction(producer_id=producer_id, first_offset=first)
                    for producer_id, first in log.aborted_between(offset, end)
                ]
        return data

    def _list_offsets(self, node_id: int, version: int, request: Any) -> Answer:
        topics = []
        for topic in request.topics:
            rows = []
            for one in topic.partitions:
                log = self.log(topic.name, one.partition_index)
                row = list_offsets.ListOffsetsPartitionResponse(partition_index=one.partition_index)
                if log is None:
                    row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif log.leader_id != node_id:
                    row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif one.timestamp == -1:
                    row.offset = log.stable_offset if request.isolation_level else log.end_offset
                    row.leader_epoch = log.leader_epoch
                else:
                    row.offset, row.leader_epoch = 0, log.leader_epoch
                rows.append(row)
            topics.append(list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return list_offsets.ListOffsetsResponse(topics=topics)

    def _offset_for_leader_epoch(self, node_id: int, version: int, request: Any) -> Answer:
        topics = []
        for topic in request.topics:
            rows = []
            for one in topic.partitions:
                log = self.log(topic.topic, one.partition)
                row = offset_for_leader_epoch.EpochEndOffset(partition=one.partition)
                if log is None:
                    row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif log.leader_id != node_id:
                    row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif 0 <= one.current_leader_epoch < log.leader_epoch:
                    row.error_code = ErrorCode.FENCED_LEADER_EPOCH
                else:
                    row.leader_epoch, row.end_offset = log.epoch_end(one.leader_epoch)
                rows.append(row)
            topics.append(
                offset_for_leader_epoch.OffsetForLeaderTopicResult(
                    topic=topic.topic, partitions=rows
                )
            )
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=topics)

    # ---- producers' identities and transactions --------------------------------------------

    def _init_producer_id(self, node_id: int, version: int, request: Any) -> Answer:
        if request.transactional_id is None:
            return init_producer_id.InitProducerIdResponse(
                producer_id=self.coordinator.new_id(), producer_epoch=0
            )
        if self._coordinator_id(request.transactional_id) != node_id:
            return init_producer_id.InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR)
        code, producer_id, epoch = self.coordinator.initialize(
            request.transactional_id,
            request.transaction_timeout_ms,
            request.producer_id,
            request.producer_epoch,
        )
        self.wake()
        return init_producer_id.InitProducerIdResponse(
            error_code=code, producer_id=producer_id, producer_epoch=epoch
        )

    def _add_partitions_to_txn(self, node_id: int, version: int, request: Any) -> Answer:
        name = request.v3_and_below_transactional_id
        code = self._check_transaction(
            node_id, name, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        )
        topics = []
        for topic in request.v3_and_below_topics:
            rows = []
            for number in topic.partitions:
                log = self.log(topic.name, number)
                one = code
                if one is ErrorCode.NONE and log is None:
                    one = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif one is ErrorCode.NONE and log is not None:
                    self.coordinator.add(name, log)
                rows.append(
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=one
                    )
                )
            topics.append(
                add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                    name=topic.name, results_by_partition=rows
                )
            )
        return add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=topics
        )

    def _check_transaction(
        self, node_id: int, name: str, producer_id: int, epoch: int
    ) -> ErrorCode:
        if self._coordinator_id(name) != node_id:
            return ErrorCode.NOT_COORDINATOR
        return self.coordinator.check(name, producer_id, epoch)

    def _add_offsets_to_txn(self, node_id: int, version: int, request: Any) -> Answer:
        code = self._check_transaction(
            node_id, request.transactional_id, request.producer_id, request.producer_epoch
        )
        if code is ErrorCode.NONE:
            self.coordinator.add_group(request.transactional_id, request.group_id)
        return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code)

    def _end_txn(self, node_id: int, version: int, request: Any) -> Answer:
        if self._coordinator_id(request.transactional_id) != node_id:
            return end_txn.EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)
        code, producer_id, epoch = self.coordinator.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            version,
            is_committed=request.committed,
        )
        word = "commits" if request.committed else "aborts"
        self.world.tell(f"b{node_id}", word, request.transactional_id, code.name)
        self.wake()
        return end_txn.EndTxnResponse(
            error_code=code, producer_id=producer_id, producer_epoch=epoch
        )

    def _txn_offset_commit(self, node_id: int, version: int, request: Any) -> Answer:
        code = ErrorCode.NONE
        group = self.group(request.group_id)
        if self._coordinator_id(request.group_id) != node_id:
            code = ErrorCode.NOT_COORDINATOR
        else:
            code = self.coordinator.check(
                request.transactional_id, request.producer_id, request.producer_epoch
            )
            if code is ErrorCode.PRODUCER_FENCED:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.NONE and request.member_id:
            code = group.check_commit(
                request.member_id,
                request.generation_id_or_member_epoch,
                request.group_instance_id,
            )
        if code is ErrorCode.NONE:
            self.coordinator.add_group(request.transactional_id, request.group_id)
            pending = group.pending.setdefault(request.producer_id, {})
            for topic in request.topics:
                for one in topic.partitions:
                    pending[topic.name, one.partition_index] = one.committed_offset
        return txn_offset_commit.TxnOffsetCommitResponse(
            topics=[
                txn_offset_commit.TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        txn_offset_commit.TxnOffsetCommitResponsePartition(
                            partition_index=one.partition_index, error_code=code
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _end_offsets(self, group_id: str, producer_id: int, is_committed: bool) -> None:
        group = self.group(group_id)
        pending = group.pending.pop(producer_id, {})
        if is_committed:
            group.offsets |= pending

    # ---- groups ----------------------------------------------------------------------------

    def _coordinator_id(self, name: str) -> int:
        return self.broker_ids[zlib.crc32(name.encode()) % len(self.broker_ids)]

    def _find_coordinator(self, node_id: int, version: int, request: Any) -> Answer:
        return find_coordinator.FindCoordinatorResponse(
            coordinators=[
                find_coordinator.Coordinator(
                    key=key,
                    node_id=self._coordinator_id(key),
                    host=f"b{self._coordinator_id(key)}",
                    port=PORT,
                    error_message=None,
                )
                for key in request.coordinator_keys
            ]
        )

    def _join_group(self, node_id: int, version: int, request: Any) -> Answer:
        found: Answer = self.group(request.group_id).join(request)
        return found

    def _sync_group(self, node_id: int, version: int, request: Any) -> Answer:
        found: Answer = self.group(request.group_id).sync(request)
        return found

    def _heartbeat(self, node_id: int, version: int, request: Any) -> Answer:
        return self.group(request.group_id).beat(request)

    def _leave_group(self, node_id: int, version: int, request: Any) -> Answer:
        return self.group(request.group_id).leave(request)

    def _consumer_group_heartbeat(self, node_id: int, version: int, request: Any) -> Answer:
        return self.group(request.group_id).next_heartbeat(request)

    def _offset_commit(self, node_id: int, version: int, request: Any) -> Answer:
        group = self.group(request.group_id)
        refused = group.check_commit(
            request.member_id, request.generation_id_or_member_epoch, request.group_instance_id
        )
        topics = []
        for topic in request.topics:
            name = topic.name if version < 10 else self.name_of(topic.topic_id)
            rows = []
            for one in topic.partitions:
                code = refused
                if code is ErrorCode.NONE and (
                    name is None or self.log(name, one.partition_index) is None
                ):
                    code = (
                        ErrorCode.UNKNOWN_TOPIC_ID
                        if version >= 10
                        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                if code is ErrorCode.NONE and name is not None:
                    group.offsets[name, one.partition_index] = one.committed_offset
                    self.world.tell(
                        "group", request.group_id, "commits", name, one.partition_index,
                        one.committed_offset, "by", request.member_id,
                    )  # fmt: skip
                    self.on_commit(
                        request.group_id, name, one.partition_index, one.committed_offset
                    )
                rows.append(
                    offset_commit.OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=code
                    )
                )
            topics.append(
                offset_commit.OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=rows
                )
            )
        return offset_commit.OffsetCommitResponse(topics=topics)

    def _offset_fetch(self, node_id: int, version: int, request: Any) -> Answer:
        groups = []
        for asked in request.groups:
            group = self.group(asked.group_id)
            topics = []
            for topic in asked.topics or []:
                name = topic.name if version < 10 else self.name_of(topic.topic_id)
                topics.append(
                    offset_fetch.OffsetFetchResponseTopics(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=[
                            offset_fetch.OffsetFetchResponsePartitions(
                                partition_index=number,
                                committed_offset=group.offsets.get((name or "", number), -1),
                                metadata="",
                                error_code=self._fetch_code(group, name, number, request),
                            )
                            for number in topic.partition_indexes
                        ],
                    )
                )
            groups.append(
                offset_fetch.OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)
            )
        return offset_fetch.OffsetFetchResponse(groups=groups)

    def _fetch_code(self, group: Group, name: str | None, number: int, request: Any) -> ErrorCode:
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        is_open = any((name, number) in pending for pending in group.pending.values())
        if is_open and request.require_stable:
            return ErrorCode.UNSTABLE_OFFSET_COMMIT
        return ErrorCode.NONE


def _ignore(group_id: str, topic: str, partition: int, offset: int) -> None:
    """Nobody wants to know."""
