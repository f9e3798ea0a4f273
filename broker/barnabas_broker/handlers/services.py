"""What a handler may use: the parts of the broker, put together by the server."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.controller.controller import Controller
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_broker.handlers.producer_id_block import ProducerIdBlock
from barnabas_broker.handlers.topic_creation import TopicCreation
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.quorum_wire import QuorumAnswers
from barnabas_broker.network.heavy_work import HeavyWork
from barnabas_broker.network.peers import Peers
from barnabas_broker.replication.fetch_session import FetchSessionCache
from barnabas_broker.replication.replica_manager import ReplicaManager

Spawn = Callable[[Coroutine[Any, Any, None]], None]


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
    spawn: Spawn
    heavy_work: HeavyWork
    quorum: QuorumAnswers | None = None
    channel: ControllerChannel | None = None
    peers: Peers | None = None
    # `dispatch.Api` by key: those that were asked for since the start, with their counters.
    apis: dict[int, Any] = field(default_factory=dict)

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that this broker has applied."""
        return self.replicas.image
