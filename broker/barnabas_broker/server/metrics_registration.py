"""All that a broker tells Prometheus, registered in one place; read when it is scraped."""

from __future__ import annotations

from collections.abc import Callable

from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.controller_metrics import controller_samples
from barnabas_broker.env.clock import Clock
from barnabas_broker.handlers.dispatch import Dispatcher
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.metrics.collector import MetricsCollector
from barnabas_broker.metrics.sample import MetricSource
from barnabas_broker.network.peers import Peers
from barnabas_broker.network.turn import Turn
from barnabas_broker.server.broker_metrics import broker_samples, partition_samples
from barnabas_broker.server.broker_state import BrokerState
from barnabas_broker.server.data_plane import DataPlane
from barnabas_broker.server.group_lag import GroupLag
from barnabas_broker.server.group_metrics import group_samples, lag_samples
from barnabas_broker.server.listeners import Listeners
from barnabas_broker.server.log_metrics import log_samples
from barnabas_broker.server.loop_metrics import turn_samples
from barnabas_broker.server.replication_metrics import replication_samples


def register_samples(
    collector: MetricsCollector,
    *,
    listeners: Listeners,
    data: DataPlane,
    turn: Turn,
    controller: Controller,
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
    register(lambda: turn_samples(turn))
    register(lambda: controller_samples(controller))
    register(lambda: log_samples(logs))
    register(lambda: partition_samples(data.replicas))
    register(lambda: replication_samples(data.replicas))
    lag = GroupLag(data.groups, data.replicas, peers, clock)
    collector.register_refresh(lag.refresh)
    register(lambda: group_samples(data.groups))
    register(lambda: lag_samples(data.groups, lag))
    register(drain)
    register(lambda: broker_samples(data.replicas, dispatcher, data.fetch_sessions, state))
