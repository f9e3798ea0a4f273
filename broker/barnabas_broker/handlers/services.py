"""What a handler may use: the parts of the broker, put together by the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.controller.controller import Controller
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_broker.handlers.client_quotas import ClientQuotas
from barnabas_broker.handlers.producer_id_block import ProducerIdBlock
from barnabas_broker.handlers.topic_creation import TopicCreation
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.quorum.message_codec import QuorumRequestHandler
from barnabas_broker.network.heavy_work import HeavyWork
from barnabas_broker.network.peers import Peers
from barnabas_broker.replication.leader.fetch_session import FetchSessionCache
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.security.audit.audit import Audit
from barnabas_broker.security.authorizer import Authorizer
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.share.persister import SharePersister
from barnabas_broker.telemetry.client_metrics_manager import ClientMetricsManager

if TYPE_CHECKING:
    from barnabas_broker.coordinator.share.coordinator import ShareCoordinator
    from barnabas_broker.coordinator.transaction.coordinator import TransactionCoordinator
    from barnabas_broker.coordinator.transaction.marker_writer import MarkerWriter
    from barnabas_broker.coordinator.transaction.verification import TransactionVerification
    from barnabas_broker.share.share_partitions import SharePartitions


async def _serve_with_any(_: Mapping[str, str]) -> None:
    """Listeners without TLS."""


Spawn = Callable[[Coroutine[Any, Any, None]], None]


class TransactionServices(Protocol):
    """What handlers need of transactions."""

    @property
    def coordinator(self) -> TransactionCoordinator:
        """The coordinator of transactional ids."""
        ...

    @property
    def verification(self) -> TransactionVerification:
        """The questions to coordinators before the first append of a transaction."""
        ...

    @property
    def marker_writer(self) -> MarkerWriter:
        """What ends transactions in the partitions of this broker."""
        ...


class ShareStateServices(Protocol):
    """What handlers need of the state of share partitions."""

    @property
    def coordinator(self) -> ShareCoordinator:
        """The coordinator of share partitions."""
        ...

    @property
    def persister(self) -> SharePersister:
        """What reaches all share coordinators."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of one broker."""

    config: BrokerConfig
    dynamic: DynamicConfig
    clock: Clock
    random: Random
    logs: LogManager
    replicas: ReplicaManager
    fetch_sessions: FetchSessionCache
    controller: Controller
    groups: GroupCoordinator
    topic_creation: TopicCreation
    producer_ids: ProducerIdBlock
    load_transactions: Callable[[], TransactionServices]
    load_share_state: Callable[[], ShareStateServices]
    load_share_partitions: Callable[[], SharePartitions]
    spawn: Spawn
    heavy_work: HeavyWork
    quotas: ClientQuotas
    client_metrics: ClientMetricsManager
    broker_identity: BrokerIdentity
    quorum: QuorumRequestHandler | None = None
    channel: ControllerChannel | None = None
    peers: Peers | None = None
    authorizer: Authorizer | None = None  # without one everybody may do everything
    audit: Audit | None = None
    # Whether listeners could serve with other settings. Raises: ConfigError.
    check_listeners: Callable[[Mapping[str, str]], Awaitable[None]] = _serve_with_any
    # `dispatch.Api` by key: those that had requests since the start, with their counters.
    apis: dict[int, Any] = field(default_factory=dict)

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator, whose modules are loaded when it is first needed."""
        return self.load_transactions().coordinator

    @property
    def verification(self) -> TransactionVerification:
        """The questions to transaction coordinators."""
        return self.load_transactions().verification

    @property
    def marker_writer(self) -> MarkerWriter:
        """What ends transactions in the partitions of this broker."""
        return self.load_transactions().marker_writer

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The share coordinator, whose modules are loaded when it is first needed."""
        return self.load_share_state().coordinator

    @property
    def share_persister(self) -> SharePersister:
        """What keeps the state of share partitions."""
        return self.load_share_state().persister

    @property
    def share_partitions(self) -> SharePartitions:
        """The share partitions and share sessions, whose modules are loaded when first needed."""
        return self.load_share_partitions()

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that this broker has applied."""
        return self.replicas.image
