"""All that a broker tells Prometheus, registered in one place; read when it is scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.controller_metrics import controller_samples
from barnabas_broker.coordinator.group.group_lag import GroupLag
from barnabas_broker.coordinator.group.group_metrics import group_samples, lag_samples
from barnabas_broker.env.clock import Clock
from barnabas_broker.handlers.dispatch import Dispatcher
from barnabas_broker.lifecycle.broker_state import BrokerState, state_sample
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.manager.log_metrics import log_samples
from barnabas_broker.metadata.image_metrics import image_samples
from barnabas_broker.metadata.quorum.metadata_quorum import MetadataQuorum
from barnabas_broker.metrics.collector import MetricsCollector
from barnabas_broker.metrics.sample import MetricSource, Sample
from barnabas_broker.network.listeners import Listeners
from barnabas_broker.network.peers import Peers
from barnabas_broker.replication.replication_metrics import (
    leader_samples,
    partition_samples,
    replica_samples,
    replication_samples,
)
from barnabas_broker.replication.turn import Turn
from barnabas_broker.server.data_plane import DataPlane


def register_samples(
    collector: MetricsCollector,
    *,
    listeners: Listeners,
    data: DataPlane,
    turn: Turn,
    controller: Controller,
    quorum: MetadataQuorum,
    logs: LogManager,
    dispatcher: Dispatcher,
    state: Callable[[], BrokerState],
    drain: MetricSource,
    peers: Peers,
    clock: Clock,
) -> None:
    """Have the collector read from the parts of a broker."""
    register = collector.register
    register(listeners.samples)
    register(data.produce_purgatory.samples)
    register(data.fetch_purgatory.samples)
    register(turn.samples)
    register(lambda: controller_samples(controller))
    register(quorum.samples)
    register(lambda: log_samples(logs))
    register(lambda: partition_samples(data.replicas))
    register(lambda: replication_samples(data.replicas))
    lag = GroupLag(data.groups, data.replicas, peers, clock)
    collector.register_refresh(lag.refresh)
    register(lambda: group_samples(data.groups))
    register(lambda: lag_samples(data.groups, lag))
    register(lambda: _transaction_samples(data))
    register(lambda: _share_state_samples(data))
    register(lambda: data.share_serving.samples() if data.has_share_serving else ())
    register(drain)
    register(lambda: [state_sample(state())])
    register(lambda: image_samples(data.replicas.image))
    register(lambda: replica_samples(data.replicas))
    register(lambda: leader_samples(data.replicas))
    register(data.fetch_sessions.samples)
    register(dispatcher.samples)


def _transaction_samples(data: DataPlane) -> Iterable[Sample]:
    """What is told of transactions, since there have been any."""
    if not data.has_transactions:
        return ()
    from barnabas_broker.coordinator.transaction.transaction_metrics import transaction_samples

    return transaction_samples(data.transactions.coordinator, data.transactions.verification)


def _share_state_samples(data: DataPlane) -> Iterable[Sample]:
    """What is told of the state of share partitions, since there has been any."""
    if not data.has_share_state:
        return ()
    from barnabas_broker.coordinator.share.share_state_metrics import share_state_samples

    return share_state_samples(data.share_state.coordinator, data.share_state.persister)
