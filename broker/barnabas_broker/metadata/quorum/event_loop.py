"""The event loop of one node of the metadata log: one event at a time, with all its effects.

The state of the shell around `node.QuorumNode`, and the task that alone touches node and log
(decision 0005). Not here: requests to others and what is due (`outbound_requests`), requests of
others (`metadata_quorum`), how effects are carried out (`effect_executor`).

Invariant: a failure of the disk or a broken rule stops it for good, and the owner of the broker
hears of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from barnabas_broker.arbiter.arbiter import Leader
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.metadata.connection_refusals import ConnectionRefusals
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_log import ImageLog
from barnabas_broker.metadata.publish_queue import PublishQueue
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum.effect_executor import EffectExecutor, Event
from barnabas_broker.metadata.quorum.effects import Effects
from barnabas_broker.metadata.quorum.history import History
from barnabas_broker.metadata.quorum.inbound_requests import InboundFetch, InboundRequests
from barnabas_broker.metadata.quorum.leadership import NotLeadingError
from barnabas_broker.metadata.quorum.node import QuorumNode, Role
from barnabas_broker.metadata.quorum.observations import Observations
from barnabas_broker.metadata.quorum.promise_file import PromiseFile
from barnabas_broker.metadata.quorum.timing import QuorumSettings, QuorumTiming
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_broker.metadata.replicated_log import ReplicatedLog
from barnabas_broker.metadata.snapshot import SnapshotName
from barnabas_broker.metadata.snapshot_generator import SnapshotGenerator
from barnabas_protocol.ids import ZERO_UUID

logger = logging.getLogger(__name__)


async def _nothing_to_save() -> None:
    """For logs without checkpoints."""


async def _nothing_to_forget() -> None:
    """For logs without checkpoints."""


async def _adopt_nothing(cluster_id: str) -> bool:
    """For nodes that have a cluster."""
    return False


@dataclass(slots=True, kw_only=True)
class QuorumCallbacks:
    """What the owner of the quorum is called back for."""

    on_failure: Callable[[BaseException], None]
    on_lead: Callable[[int], Awaitable[None] | None] = lambda epoch: None
    on_step_down: Callable[[], None] = lambda: None
    # Called after truncations: no recovery point may lie above what is flushed.
    save_recovery_points: Callable[[], Awaitable[None]] = _nothing_to_save
    # Forget the high watermark on disk: another history decides what is committed.
    forget_high_watermark: Callable[[], Awaitable[None]] = _nothing_to_forget
    # Raises where an image is of a level that this release does not know.
    check_image: Callable[[MetadataImage], None] = lambda image: None
    # Whether nothing in the log directories speaks against a new cluster.
    may_found: Callable[[], bool] = lambda: True
    # Take another cluster's id, if this node is blank; returns whether it did.
    adopt_cluster_id: Callable[[str], Awaitable[bool]] = _adopt_nothing


class QuorumEventLoop:
    """The events of one node, and what it has become by them."""

    def __init__(
        self,
        log: ReplicatedLog,
        *,
        disk: Disk,
        clock: Clock,
        refusals: ConnectionRefusals,
        publisher: MetadataPublisher,
        voter: Voter,
        cluster_id: str,
        listener_name: str,
        settings: QuorumSettings,
        callbacks: QuorumCallbacks,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._refusals = refusals
        self._settings = settings
        self._listener_name = listener_name
        self.callbacks = callbacks
        self.voter = voter
        self.cluster_id = cluster_id
        self.publisher = publisher
        self.log = ImageLog(log, disk, clock)
        self.log.check = callbacks.check_image
        self._promise = PromiseFile(disk, log.directory)
        self._history = History(disk, log.directory)
        self._publish_queue = PublishQueue(publisher, self._fail)
        self._inbound = InboundRequests(self._enqueue_fetch)
        self._snapshot_generator = SnapshotGenerator(
            self.log, disk, clock, settings.snapshot_interval_bytes
        )
        self._observations = Observations(voter, settings, clock)
        self._events: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._activation: asyncio.Future[None] | None = None
        self._loading: asyncio.Future[None] | None = None
        self._look: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._is_active = False
        self._is_stopping = False
        self._is_closed = False
        self._failure: BaseException | None = None
        self._has_warned = False
        self._old_readings = 0
        self._has_warned_of_disk = False
        self.node: QuorumNode
        self._executor: EffectExecutor
        self._timing: QuorumTiming
        self._loop: asyncio.AbstractEventLoop
        self._address = Leader(voter.node_id, "", 0)

    @property
    def role(self) -> Role:
        """What this node is to the metadata log now."""
        return self.node.role

    @property
    def history(self) -> bytes:
        """The history that this node's copy is of; zero: blank."""
        return self._history.ids[0] if self._history.ids else ZERO_UUID

    @property
    def is_active(self) -> bool:
        """Whether this node leads, and has committed a record of its own epoch."""
        return self._is_active

    @property
    def leader_id(self) -> int | None:
        """Who leads, as far as this node knows."""
        if self.node.role is Role.FOLLOWER:
            return self.node.leader_id
        return self.voter.node_id if self._is_active else None

    # ---- events ------------------------------------------------------------------------------

    def _enqueue(self, event: Event) -> None:
        self._events.append(event)
        self._wake.set()

    async def _run(self) -> None:
        try:
            while True:
                if not self._events:
                    self._wake.clear()
                    await self._wake.wait()
                event = self._events.popleft()
                known = (self.node.role, self.leader_id)
                if event.work is not None:
                    await event.work()
                for effect in event.decide():
                    await self._executor.execute(effect, event)
                self._observations.note_role(self.node.role)
                self._note_change(known)
                self._snapshot_generator.start_if_due(self._trim)
        except Exception as error:
            self._fail(error)

    def _note_change(self, known: tuple[Role, int | None]) -> None:
        if known == (self.node.role, self.leader_id):
            return
        self._changed.set()
        self._changed = asyncio.Event()
        if self.node.role is Role.FOLLOWER and self.leader_id is not None:
            logger.info("node %d leads the control plane", self.leader_id)

    def _fail(self, error: BaseException) -> None:
        """Take no part any more: what the disk holds is not known, or a rule is broken."""
        if self._failure is not None or self._is_closed:
            return
        self._failure = error
        logger.critical("the metadata log of this node fails", exc_info=error)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._stepped_down()
        self._publish_queue.refuse("the metadata log has failed")
        # A new event: who waits for the next change must not go round and round.
        self._changed.set()
        self._changed = asyncio.Event()
        self._inbound.close()
        self.callbacks.on_failure(error)

    def _begin_epoch(self, controller_epoch: int) -> None:
        logger.info("this node leads the control plane in controller epoch %d", controller_epoch)
        self.log.begin_epoch(controller_epoch, self.voter.node_id, self.cluster_id)

    def _committed(self) -> None:
        """Activate the controller when the first record of its epoch is committed."""
        if self.node.role is not Role.LEADING or self._is_active:
            return
        self._is_active = True
        try:
            activated = self.callbacks.on_lead(self.node.promised_epoch)
        except Exception:
            self._not_activated()
        else:
            if activated is not None:
                self._activation = asyncio.ensure_future(self._activate(activated))

    async def _activate(self, activated: Awaitable[None]) -> None:
        try:
            await activated
        except NotLeadingError:
            logger.info("this node stopped leading before its controller was active")
        except Exception:
            self._not_activated()

    def _not_activated(self) -> None:
        """Let another lead: nobody would act for who leads and cannot (CTL-7)."""
        logger.exception("the controller could not be activated")
        self._enqueue(Event(decide=self.node.resign))

    def _stepped_down(self) -> None:
        self._publish_queue.refuse("this node does not lead the metadata log any more")
        if self._is_active:
            self._is_active = False
            logger.info("this node does not lead the control plane any more")
            self.callbacks.on_step_down()

    def _trim(self, name: SnapshotName) -> None:
        async def trim() -> None:
            await self.log.trim(name)

        self._enqueue(Event(decide=tuple, work=trim))

    def _enqueue_fetch(self, incoming: InboundFetch) -> None:
        request = incoming.request

        def decide() -> Effects:
            if request.controller_epoch == self.node.promised_epoch:
                end_offset = self.node.copy.log.log_end_offset
                self._observations.fetched(request.voter, request.end.end_offset, end_offset)
            return self.node.on_fetch_request(request)

        self._enqueue(Event(decide=decide, incoming=incoming))
