"""The transaction coordinator of a broker, and its ways to other brokers: built and connected.

Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.features import TRANSACTION_VERSION
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.pipeline import RuntimeSettings
from barnabas_broker.coordinator.transaction.coordinator import (
    TRANSACTION_STATE_TOPIC,
    TransactionCoordinator,
    TransactionSettings,
)
from barnabas_broker.coordinator.transaction.marker_writer import MarkerWriter
from barnabas_broker.coordinator.transaction.verification import TransactionVerification
from barnabas_broker.env.clock import Clock
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.network.peers import Peers
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.replication.committed_writer import CommittedWriter
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_protocol.api import ApiKey, newest_version
from barnabas_protocol.hashing import coordinator_partition
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas_protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NO_LEADER = -1


class _MarkerDestinations:
    """The leaders of partitions, for the markers that end transactions."""

    def __init__(self, parts: TransactionParts) -> None:
        self._parts = parts

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        partition = self._parts.image().topics.partition(topic_partition)
        return None if partition is None else partition.leader

    async def send(self, node_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        parts = self._parts
        if node_id == parts.node_id:
            return await parts.marker_writer.write(request)
        response: WriteTxnMarkersResponse = await parts.peers.request(
            node_id,
            request,
            newest_version(ApiKey.WRITE_TXN_MARKERS),
            channel="transaction-markers",
            timeout_ms=parts.timeout_ms,
        )
        return response


class _Coordinators:
    """The coordinators of transactional ids, for leaders that verify or add partitions."""

    def __init__(self, parts: TransactionParts) -> None:
        self._parts = parts

    def node_of(self, transactional_id: str) -> int | None:
        topic = self._parts.image().topics.by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None or not topic.partitions:
            return None
        index = coordinator_partition(transactional_id, len(topic.partitions))
        leader = topic.partitions[index].leader
        return None if leader == NO_LEADER else leader

    def own(self, node_id: int) -> TransactionCoordinator | None:
        return self._parts.coordinator if node_id == self._parts.node_id else None

    async def send(
        self, node_id: int, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        parts = self._parts
        response: AddPartitionsToTxnResponse = await parts.peers.request(
            node_id,
            request,
            newest_version(ApiKey.ADD_PARTITIONS_TO_TXN),
            channel="transaction-partitions",
            timeout_ms=parts.timeout_ms,
        )
        return response


class TransactionParts:
    """The coordinator, the markers that are written here, and the questions to coordinators."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        dynamic: DynamicConfig,
        clock: Clock,
        timer: Timer,
        topics: Topics,
        image: Callable[[], MetadataImage],
        node_id: int,
        peers: Peers,
        replicas: ReplicaManager,
        writer: CommittedWriter,
        groups: GroupCoordinator,
        take_producer_id: Callable[[], Awaitable[int]],
    ) -> None:
        """Make the parts; partitions come with the images that are applied."""
        self.image = image
        self.node_id = node_id
        self.peers = peers
        self.timeout_ms = config.request_timeout_ms
        self.coordinator = TransactionCoordinator(
            settings=TransactionSettings.of(config),
            writer=writer,
            clock=clock,
            timer=timer,
            topics=topics,
            destinations=_MarkerDestinations(self),
            take_producer_id=take_producer_id,
            transaction_version=lambda: image().features.get(TRANSACTION_VERSION, 0),
            runtime_settings=RuntimeSettings(
                commit_timeout_ms=config.offsets_commit_timeout_ms,
                load_buffer_bytes=config.transaction_state_log_load_buffer_size,
            ),
        )
        retry = (
            config.add_partitions_to_txn_retry_backoff_ms,
            config.add_partitions_to_txn_retry_backoff_max_ms,
        )
        self.verification = TransactionVerification(
            _Coordinators(self),
            verifies=lambda: bool(dynamic.value("transaction.partition.verification.enable")),
            add_retry_ms=lambda: retry,
        )
        self.marker_writer = MarkerWriter(replicas, writer, groups, self.verification, clock)

    async def close(self) -> None:
        """Answer what waits and stop."""
        await self.coordinator.close()
        await self.verification.close()
