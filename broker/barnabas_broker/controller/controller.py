"""The active controller: decides what the metadata log says, while this node leads that log.

`activate` and `resign` follow the leadership of the metadata log; in between, commands go through
one event queue (`event_queue`). Not here: the commands (`administration`, `broker_commands`), what
they decide (`topics`, `brokers`, `elections` and so on), nor who leads (the metadata quorum).

Invariant: each controller epoch has its own queue; nothing of an earlier epoch is acted on later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller import eligible_replicas, leader_balance
from barnabas_broker.controller.administration import Administration
from barnabas_broker.controller.broker_commands import BrokerCommands
from barnabas_broker.controller.broker_session_monitor import BrokerSessionMonitor
from barnabas_broker.controller.broker_sessions import BrokerSessions
from barnabas_broker.controller.controller_metrics import ControllerMetrics
from barnabas_broker.controller.elections import topic_configs
from barnabas_broker.controller.eligible_replicas import MIN_IN_SYNC
from barnabas_broker.controller.event_queue import Command, ControllerLog, EventQueue, Reply
from barnabas_broker.controller.log_comparison import (
    LogComparison,
    RequestLogEnds,
    TopicIdPartition,
    no_log_ends,
)
from barnabas_broker.controller.replica_limit import UNLIMITED
from barnabas_broker.controller.scheduled_elections import ScheduledElections
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_broker.metadata.connection_refusals import ConnectionRefusals, NoConnectionRefusals
from barnabas_broker.metadata.image import MetadataImage
from barnabas_protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class Controller(BrokerCommands, Administration):
    """The controller of one node, active or not."""

    def __init__(
        self,
        *,
        node_id: int,
        config: BrokerConfig,
        dynamic_config: DynamicConfig,
        metadata_log: ControllerLog,
        clock: Clock,
        random: Random,
        on_failure: Callable[[BaseException], None],
        refused: ConnectionRefusals | None = None,
        request_log_ends: RequestLogEnds | None = None,
        replicas_max: int = UNLIMITED,
    ) -> None:
        """`on_failure` is called when the log fails while this node leads it.

        `refused` knows which nodes refuse connections; `request_log_ends` requests of brokers how
        far their replicas reach: without it, none respond.
        """
        self._node_id = node_id
        self._replicas_max = replicas_max
        self._config = config
        self._dynamic_config = dynamic_config
        self._log = metadata_log
        self._clock = clock
        self._random = random
        self._on_failure = on_failure
        self._queue: EventQueue | None = None
        self._configs = topic_configs(dynamic_config)
        self._refused = refused or NoConnectionRefusals()
        self._sessions = BrokerSessions(
            config.broker_session_timeout_ms,
            config.broker_fence_on_refused_ms,
            grace_ms=config.broker_heartbeat_interval_ms,
        )
        self._session_monitor = BrokerSessionMonitor(
            self._sessions,
            self._refused,
            clock,
            image=lambda: metadata_log.pending_image,
            fence=self.fence_lost,
        )
        self._scheduled_elections = ScheduledElections(
            self.enqueue,
            self._configs,
            balance_interval_seconds=config.leader_imbalance_check_interval_seconds
            if config.auto_leader_rebalance_enable
            else None,
            cordoned=self._sessions.cordoned_brokers,
            cordoned_directories=self._sessions.cordoned_directories,
        )
        self.comparison = LogComparison(
            clock=clock,
            image=lambda: metadata_log.pending_image,
            configs=self._configs,
            ask=request_log_ends or no_log_ends,
            enqueue=self.enqueue,
            wait_ms_max=config.broker_session_timeout_ms,
        )
        self.metrics = ControllerMetrics()

    @property
    def is_active(self) -> bool:
        """Whether this node is the controller and takes commands."""
        return self._queue is not None and self._queue.is_open

    @property
    def active_image(self) -> MetadataImage:
        """What this node decides on as the active controller; empty if it is not."""
        return self._log.pending_image if self.is_active else MetadataImage.empty()

    @property
    def dynamic_config(self) -> DynamicConfig:
        """The settings in force, for those who describe them."""
        return self._dynamic_config

    @property
    def _min_in_sync(self) -> str:
        """This broker's own `min.insync.replicas`, for a cluster that has none."""
        return str(self._dynamic_config.value(MIN_IN_SYNC))

    @property
    def queue_length(self) -> int:
        """Commands that wait."""
        return 0 if self._queue is None else len(self._queue)

    # ---- life --------------------------------------------------------------------------------

    def activate(self, controller_epoch: int, heard_ms: Mapping[int, int] | None = None) -> None:
        """Take commands from now on: this node leads the metadata log in a new epoch (CTL-6).

        The log must hold a committed record of the epoch. `heard_ms`: when the node that led before
        was last heard. Returns at once.
        """
        self.resign()
        logger.info("this node is the controller in epoch %d", controller_epoch)
        self._sessions.begin(self._log.pending_image, self._clock.monotonic_ms(), heard_ms)
        self._queue = EventQueue(
            self._log, self._clock, self.metrics, self._on_failure, self.comparison.note
        )
        self._queue.start()
        self._scheduled_elections.start()
        self.comparison.start()
        self._session_monitor.start()

    def expect_no_heartbeats(self) -> None:
        """Fence nobody in this epoch: for a broker without others, which sends none."""
        self._session_monitor.stop()

    def resign(self) -> None:
        """Stop being the controller before anything else happens (CTL-4); safe at any time.

        Everybody who waits is told to look for the next one.
        """
        self._session_monitor.stop()
        self._scheduled_elections.stop()
        self.comparison.stop()
        if self._queue is not None and self._queue.is_open:
            logger.info("this node is no longer the controller")
            self._queue.fail()

    async def close(self) -> None:
        """Answer what is queued, then stop. Safe before a start and a second time."""
        self._session_monitor.stop()
        self._scheduled_elections.stop()
        self.comparison.stop()
        if self._queue is not None:
            await self._queue.close()

    async def submit(self, command: Command[Reply], *, is_prompt: bool = False) -> Reply:
        """Run a command in its turn and return its reply once its records are committed.

        And, unless it is prompt, once this broker has acted on them.
        Raises: KafkaError: the command's own, 41 when this node is not the controller, 7 when the
        queue is full, -1 for a fault of ours.
        """
        if self._queue is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return await self._queue.submit(command, is_prompt=is_prompt)

    def enqueue(self, command: Command[Reply]) -> asyncio.Future[Reply]:
        """Have a command run in its turn, however full the queue is.

        Raises: KafkaError 41 when this node is not the controller.
        """
        if self._queue is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return self._queue.enqueue(command)

    def _elect_offline(self) -> None:
        self._scheduled_elections.elect_offline()

    async def _best_logs(
        self, asked: Sequence[tuple[str, int]] | None
    ) -> dict[TopicIdPartition, list[int]]:
        image = self.active_image
        if not eligible_replicas.is_on(image):
            return {}
        return await self.comparison.best_logs(leader_balance.places(image, asked))
