"""The metadata log of this node: follows, leads, commits and publishes, by the rules of one node.

The shell around `quorum_node.QuorumNode`: it tells the node one event at a time and carries out the
effects in order, all of them before the next event (decision 0005). Not here: the rules; what is
done to the disk (`image_log`, `promise_file`); the other nodes (`quorum_questions`,
`quorum_fetches`), the store (`arbiter_access`), when to act (`quorum_timing`), subscribers
(`publishing`).

Invariants: one task touches the node and the log; a failure of the disk or a broken rule stops it
for good, and the owner of the broker hears of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

from barnabas_broker.arbiter.arbiter import Arbiter, ArbiterError, ArbiterRecord, Leader, Stored
from barnabas_broker.arbiter.election import ForeignClusterError
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer, Disk
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.metadata.arbiter_access import ArbiterAccess, record_of, view_of
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_log import ImageLog
from barnabas_broker.metadata.leadership import MembersRefusedError, NotLeadingError
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.members_plan import plan_members
from barnabas_broker.metadata.promise_file import PromiseFile
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.publishing import Publishing
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.quorum_effects import Effects, ReadRecord, Swap
from barnabas_broker.metadata.quorum_fetches import FetchReply, IncomingFetch, IncomingRequests
from barnabas_broker.metadata.quorum_messages import (
    ArbiterView,
    FetchAsked,
    FetchRefused,
    PromiseAnswered,
    PromiseAsked,
    Proposal,
    RecordsAnswered,
    SnapshotAnswered,
)
from barnabas_broker.metadata.quorum_node import QuorumNode, Role
from barnabas_broker.metadata.quorum_observations import Observations
from barnabas_broker.metadata.quorum_performing import Event, Hooks, Performing
from barnabas_broker.metadata.quorum_questions import Question, Questions
from barnabas_broker.metadata.quorum_timing import Act, QuorumSettings, QuorumTiming
from barnabas_broker.metadata.quorum_transport_protocol import QuorumTransport, Refusals
from barnabas_broker.metadata.records import MetadataRecord
from barnabas_broker.metadata.replicated_log import ReplicatedLog
from barnabas_broker.metadata.snapshot import SnapshotName, decode_snapshot
from barnabas_broker.metadata.snapshot_files import read_snapshot
from barnabas_broker.metadata.snapshotting import Snapshotting
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import check_crc, iterate_headers

logger = logging.getLogger(__name__)

# A clean stop tells the store that nobody leads; a store that is away is not waited for longer.
RESIGN_SECONDS_MAX: Final = 2
RESIGN_AGAIN_SECONDS: Final = 0.02
REFUSED_AGAIN_SECONDS: Final = 0.02


async def _nothing_to_save() -> None:
    """For logs without checkpoints."""


async def _adopt_nothing(cluster_id: str) -> bool:
    """For nodes that have a cluster."""
    return False


@dataclass(slots=True, kw_only=True)
class QuorumCallbacks:
    """What the owner of the quorum wants to be told, and does for it."""

    on_failure: Callable[[BaseException], None]
    on_lead: Callable[[int], Awaitable[None] | None] = lambda epoch: None
    on_step_down: Callable[[], None] = lambda: None
    # Called after truncations: no recovery point may lie above what is flushed.
    save_recovery_points: Callable[[], Awaitable[None]] = _nothing_to_save
    # Take another cluster's id, if this node is blank; returns whether it did.
    adopt_cluster_id: Callable[[str], Awaitable[bool]] = _adopt_nothing


class MetadataQuorum:
    """This node's part in the metadata log."""

    def __init__(
        self,
        log: ReplicatedLog,
        *,
        disk: Disk,
        clock: Clock,
        arbiter: Arbiter,
        transport: QuorumTransport,
        refusals: Refusals,
        publisher: MetadataPublisher,
        seat: Seat,
        cluster_id: str,
        listener_name: str,
        settings: QuorumSettings,
        callbacks: QuorumCallbacks,
    ) -> None:
        """`listener_name` is the listener by which brokers reach one another."""
        self._disk = disk
        self._clock = clock
        self._refusals = refusals
        self._settings = settings
        self._listener_name = listener_name
        self.callbacks = callbacks
        self.seat = seat
        self.cluster_id = cluster_id
        self.publisher = publisher
        self.log = ImageLog(log, disk, clock)
        self._promise = PromiseFile(disk, log.directory)
        self._publishing = Publishing(publisher)
        self._access = ArbiterAccess(arbiter, self._record_read)
        self._questions = Questions(transport, self._question_lost)
        self._incoming = IncomingRequests(self._tell_fetch)
        self._snapshotting = Snapshotting(self.log, disk, clock, settings.snapshot_interval_bytes)
        self._observations = Observations(seat, settings, clock)
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
        self.node: QuorumNode
        self._performing: Performing
        self._timing: QuorumTiming
        self._loop: asyncio.AbstractEventLoop
        self._address = Leader(seat.node_id, "", 0)

    # ---- life --------------------------------------------------------------------------------

    async def recover(self) -> MetadataImage:
        """Read log and promise; returns the image of all that is on disk, committed or not.

        Raises: MetadataLogError, OSError.
        """
        image = await self.log.recover()
        self.node = QuorumNode(self.seat, self.log, self._promise.read())
        return image

    async def start(self, address: Leader) -> None:
        """Take part, reached by others at an address. `recover` must have been awaited."""
        self._address = address
        node = self.node
        self._loop = asyncio.get_running_loop()
        self._timing = QuorumTiming(self._settings, self._clock.monotonic_ms())
        self._performing = Performing(
            node,
            self.log,
            self._promise,
            self._incoming,
            self._access,
            self._publishing,
            Hooks(
                tell=self._tell,
                ask_promise=self._ask_promise,
                ask_fetch=self._ask_fetch,
                ask_snapshot=self._ask_snapshot,
                swap=self._swap,
                lead=self._begin_epoch,
                committed=self._committed,
                stepped_down=self._stepped_down,
                save_recovery_points=self.callbacks.save_recovery_points,
                fail=self._fail,
            ),
        )
        self._publishing.start()
        if node.copy.high_watermark > 0:
            self._performing.publish(node.copy.high_watermark)
        self._refusals.on_refused_change.append(self._refused_changed)
        self._task = asyncio.create_task(self._run(), name="metadata quorum")
        self._tell(Event(decide=node.start))
        self._tick()

    async def stop(self) -> None:
        """Give leadership up, so that another takes over at once; then stop. Safe twice."""
        if self._task is not None and not self._is_stopping:
            self._is_stopping = True
            if self._failure is None and self.node.role is not Role.FOLLOWER:
                await self._resign()
        await self.abandon()

    async def abandon(self) -> None:
        """Stop at once, as a process does that is killed: nobody is told. Safe twice."""
        self._is_stopping = self._is_closed = True
        for timer in (self._look, self._again):
            if timer is not None:
                timer.cancel()
        if self._refused_changed in self._refusals.on_refused_change:
            self._refusals.on_refused_change.remove(self._refused_changed)
        futures = (self._task, self._activation, self._loading)
        tasks = [task for task in futures if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._questions.close()
        await self._access.close()
        await self._snapshotting.close()
        if self._task is not None:
            await self._performing.close()
        await self._publishing.close()
        self._incoming.close()
        self._task = None

    async def _resign(self) -> None:
        self._tell(Event(decide=self.node.give_up))
        try:
            async with asyncio.timeout(RESIGN_SECONDS_MAX):
                await self._settled()
                # Another swap of this node may have come first: the record is newer than it knew.
                while self.node.record.leader_id == self.seat.node_id and self._failure is None:
                    self._tell(Event(decide=self._withdraw))
                    await self._settled()
                    await asyncio.sleep(RESIGN_AGAIN_SECONDS)  # the store may be away
        except TimeoutError:
            logger.warning("the arbiter was not told that this node stops leading")

    def _withdraw(self) -> Effects:
        record = self.node.record
        resigned = Proposal(
            controller_epoch=record.controller_epoch, leader_id=None, members=record.members
        )
        return (Swap(expected_token=record.token, proposal=resigned),)

    async def _settled(self) -> None:
        """Return when the events until now, and what they asked of the arbiter, are done."""
        for _ in range(2):
            done = asyncio.Event()
            self._tell(Event(decide=tuple, work=partial(_set, done)))
            await done.wait()
            await self._access.settle()

    # ---- what is known -----------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """What this node is to the metadata log now."""
        return self.node.role

    @property
    def is_active(self) -> bool:
        """Whether this node leads, and has committed a record of its own epoch."""
        return self._is_active

    @property
    def leader_id(self) -> int | None:
        """Who leads, as far as this node knows."""
        if self.node.role is Role.FOLLOWER:
            return self.node.leader_id
        return self.seat.node_id if self._is_active else None

    @property
    def controller_epoch(self) -> int:
        """The newest epoch that this node has promised or leads."""
        return self.node.promised_epoch

    @property
    def record(self) -> ArbiterView:
        """The arbiter's record as last read."""
        return self.node.record

    @property
    def high_watermark(self) -> int:
        """Everything below is known to be committed."""
        return self.node.copy.high_watermark

    @property
    def is_caught_up(self) -> bool:
        """Whether all is published that was committed when this node last heard of the leader."""
        known = self._observations.leader_high_watermark
        if self.node.role is not Role.FOLLOWER:
            return self._is_active and self.publisher.image.offset + 1 >= self.high_watermark
        if known is None or known[0] != self.node.promised_epoch:
            return False
        return self.publisher.image.offset + 1 >= known[1]

    def last_fetch_ms(self, node_id: int) -> int | None:
        """When a node last fetched the metadata log from this one, monotonic; None: never."""
        heard = self._observations.heard_ms
        return max((ms for seat, ms in heard.items() if seat.node_id == node_id), default=None)

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        """Where a node is reached by brokers: the newest that is known, committed or not."""
        leader = self._observations.leader_address
        if leader is not None and leader.node_id == node_id:
            return leader.host, leader.port
        broker = self.log.pending_image.brokers.get(node_id)
        listener = None if broker is None else broker.listeners.get(self._listener_name)
        return None if listener is None else (listener.host, listener.port)

    async def wait_for_change(self) -> None:
        """Return when the leader, or whether it is active, has changed."""
        await self._changed.wait()

    async def until_active(self, seconds_max: float | None = None) -> None:
        """Return when this node leads and has committed a record of its own epoch.

        Raises: what stopped the quorum; ArbiterError if that takes longer than the given time.
        """
        try:
            async with asyncio.timeout(seconds_max):
                while not self._is_active:
                    if self._failure is not None:
                        raise self._failure
                    await self.wait_for_change()
        except TimeoutError:
            raise ArbiterError(f"this node does not lead after {seconds_max} s") from None

    # ---- for the controller ------------------------------------------------------------------

    @property
    def pending_image(self) -> MetadataImage:
        """The image with everything that is written or staged."""
        return self.log.pending_image

    def stage(self, records: Sequence[MetadataRecord]) -> int:
        """Take records that commit or vanish together; returns the offset of the last.

        Raises: NotLeadingError; InconsistentRecordError, and then nothing is staged.
        """
        self._check_active()
        try:
            return self.log.stage(records, self.node.promised_epoch)
        except (OSError, LogDirectoryError) as error:
            self._fail(error)
            raise NotLeadingError("the metadata log has failed") from error

    async def commit(self) -> int:
        """Return the offset of the last staged record once it is committed and published.

        Raises: NotLeadingError: whether it will be committed is not known.
        """
        self._check_active()
        offset = self.log.pending_image.offset
        if offset > self._publishing.published_offset:
            self._tell(Event(decide=self._written))
            await self._publishing.wait(offset)
        return offset

    def _check_active(self) -> None:
        if not self._is_active:
            raise NotLeadingError("this node does not lead the metadata log")

    def _written(self) -> Effects:
        if not self._is_active:
            return ()
        self.log.write()
        self._incoming.release()
        return self.node.appended()

    # ---- for other nodes ---------------------------------------------------------------------

    async def promise_asked(self, asked: PromiseAsked) -> PromiseAnswered:
        """Answer the winner of an epoch. Raises: NotLeadingError if this node stops meanwhile."""
        self._check_open()
        reply = self._incoming.promise(asked)
        self._tell(Event(decide=lambda: self.node.promise_asked(asked)))
        return await reply

    async def fetch_asked(self, asked: FetchAsked, wait_ms_max: int) -> FetchReply:
        """Answer a fetch, held back until there is something new or the wait is over.

        Raises: NotLeadingError if this node is stopping.
        """
        self._check_open()
        return await self._incoming.fetch(asked, wait_ms_max)

    async def snapshot_bytes(self, name: LogEnd) -> bytes | None:
        """The content of a snapshot that an answer has named; None if it is not there any more."""
        return await self._disk.run(
            read_snapshot,
            self._disk,
            self.log.directory,
            SnapshotName(name.end_offset, name.last_epoch),
        )

    def _check_open(self) -> None:
        if self._task is None or self._is_closed or self._failure is not None:
            raise NotLeadingError("this node does not take part in the metadata log now")

    def _tell_fetch(self, incoming: IncomingFetch) -> None:
        asked = incoming.asked

        def decide() -> Effects:
            if asked.controller_epoch == self.node.promised_epoch:
                self._observations.heard(asked.seat)
            return self.node.fetch_asked(asked)

        self._tell(Event(decide=decide, incoming=incoming))

    # ---- events ------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
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
                    await self._performing.perform(effect, event)
                self._observations.note_role(self.node.role)
                self._note_change(known)
                self._snapshotting.start_if_due(self._trim)
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
        self._publishing.refuse("the metadata log has failed")
        # A new event: who waits for the next change must not go round and round.
        self._changed.set()
        self._changed = asyncio.Event()
        self._incoming.close()
        self.callbacks.on_failure(error)

    def _begin_epoch(self, controller_epoch: int) -> None:
        logger.info("this node leads the control plane in controller epoch %d", controller_epoch)
        self.log.begin_epoch(controller_epoch, self.seat.node_id, self.cluster_id)

    def _committed(self) -> None:
        """Activate the controller when the first record of its epoch is committed."""
        if self.node.role is not Role.LEADING or self._is_active:
            return
        self._is_active = True
        told = self.callbacks.on_lead(self.node.promised_epoch)
        if told is not None:
            self._activation = asyncio.ensure_future(self._activate(told))

    async def _activate(self, told: Awaitable[None]) -> None:
        try:
            await told
        except NotLeadingError:
            logger.info("this node stopped leading before its controller was active")
        except Exception:
            logger.exception("the controller could not be activated")
            self._tell(Event(decide=lambda: self.node.give_up()))  # CTL-7

    def _stepped_down(self) -> None:
        self._publishing.refuse("this node does not lead the metadata log any more")
        if self._is_active:
            self._is_active = False
            logger.info("this node does not lead the control plane any more")
            self.callbacks.on_step_down()

    def _trim(self, name: SnapshotName) -> None:
        async def trim() -> None:
            await self.log.trim(name)

        self._tell(Event(decide=tuple, work=trim))

    # ---- the arbiter -------------------------------------------------------------------------

    def _swap(self, swap: Swap) -> None:
        self._access.swap(swap, self._record_of)

    def _record_of(self, swap: Swap) -> ArbiterRecord:
        return record_of(swap, self.cluster_id, self._address, self._clock.wall_ms())

    async def _record_read(self, stored: Stored) -> None:
        record = stored.record
        if record is not None and record.cluster_id != self.cluster_id:
            if not await self.callbacks.adopt_cluster_id(record.cluster_id):
                self._fail(
                    ForeignClusterError(
                        f"the arbiter's record is of cluster {record.cluster_id}, "
                        f"not of {self.cluster_id}"
                    )
                )
                return
            self.cluster_id = record.cluster_id

        def decide() -> Effects:
            self._observations.record_read(stored)
            return self.node.record_read(view_of(stored))

        self._tell(Event(decide=decide))
        self._tell(Event(decide=self._look_now))

    # ---- time --------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_stopping or self._failure is not None:
            return
        situation = self._observations.situation(
            self.node,
            refused_since_ms=self._refusals.refused_since_ms,
            may_found=self._may_found(),
            is_waiting=self._questions.has_any or self._access.is_busy,
        )
        for act in self._timing.due(situation):
            self._tell(Event(decide=self._decision(act)))
        delay_ms = self._timing.next_look_ms(situation)
        self._look = self._loop.call_later(delay_ms / 1000, self._tick)

    def _look_now(self) -> Effects:
        """See at once what is due, for something has changed."""
        if self._look is not None:
            self._look.cancel()
        self._tick()
        return ()

    def _decision(self, act: Act) -> Callable[[], Effects]:
        node = self.node
        match act:
            case Act.READ:
                return lambda: (ReadRecord(),)
            case Act.FOUND:
                return node.found_cluster
            case Act.TAKE_OVER:
                return node.take_over
            case Act.RENEW:
                return node.renew
            case Act.GIVE_UP:
                return node.give_up
            case Act.ASK_AGAIN:
                return node.ask_again
            case Act.MEMBERS:
                return self._plan_members
            case _:
                assert_never(act)

    def _may_found(self) -> bool:
        others = self.log.pending_image.brokers.keys() - {self.seat.node_id}
        if not others:
            return True
        if not self._has_warned and self.node.record.token >= 0 and not self.node.record.members:
            self._has_warned = True
            logger.error(
                "the arbiter has no record, and brokers %s belong to this cluster: nobody leads "
                "the control plane. Bring the record back; the last resort is "
                "`barnabas cluster recover`",
                ", ".join(map(str, sorted(others))),
            )
        return False

    def _plan_members(self) -> Effects:
        if not self._is_active:
            return ()
        situation = self._observations.member_situation(self.node, self.log.committed_image)
        members = plan_members(situation)
        if members is None:
            return ()
        try:
            effects = self.node.change_members(members)
        except MembersRefusedError as error:
            logger.debug("the members stay as they are for now: %s", error)
            return ()
        logger.info(
            "asking for members %s of the metadata log",
            ", ".join(str(seat.node_id) for seat in sorted(members)),
        )
        return effects

    def _refused_changed(self, node_id: int) -> None:
        self._look_now()

    # ---- questions to others -----------------------------------------------------------------

    def _ask_promise(self, node_id: int, asked: PromiseAsked) -> None:
        def told(answer: PromiseAnswered) -> None:
            def decide() -> Effects:
                if answer.promised_epoch == self.node.promised_epoch:
                    self._observations.heard(answer.seat)
                return self.node.promise_answered(answer)

            self._tell(Event(decide=decide))

        self._questions.promise(node_id, asked, told)

    def _ask_fetch(self, node_id: int, asked: FetchAsked) -> None:
        def told(reply: FetchReply) -> None:
            answer, records = reply
            if isinstance(answer, FetchRefused):
                self._refused(node_id, answer)
            elif isinstance(answer, RecordsAnswered):
                if not are_records(records, answer):
                    logger.error("node %d has answered with damaged records", node_id)
                    return
                self._observations.answered(answer)
            self._tell(Event(decide=lambda: self.node.fetch_answered(answer), records=records))

        self._questions.fetch(node_id, asked, told)

    def _ask_snapshot(self, answer: SnapshotAnswered) -> None:
        def told(data: bytes) -> None:
            self._loading = asyncio.ensure_future(self._load_snapshot(answer, data))

        self._questions.snapshot(answer, told)

    async def _load_snapshot(self, answer: SnapshotAnswered, data: bytes) -> None:
        try:
            image = await self._disk.run(decode_snapshot, data)
            if (image.epoch, image.offset + 1) != answer.snapshot:
                raise ParseError(f"it ends at {image.offset + 1} of epoch {image.epoch}", 0)
        except ParseError as error:
            logger.error("node %d has sent a bad snapshot: %s", answer.source.node_id, error)
            self._tell(Event(decide=lambda: self.node.snapshot_failed(answer)))
            return
        self._tell(Event(decide=lambda: self.node.snapshot_fetched(answer), snapshot=(data, image)))

    def _question_lost(self, node_id: int, question: Question) -> None:
        self._refusals.suspect(node_id)
        match question:
            case FetchAsked():
                self._doubt(node_id)
                self._tell(Event(decide=lambda: self.node.unreachable(node_id)))
            case SnapshotAnswered():
                self._tell(Event(decide=lambda: self.node.snapshot_failed(question)))
            case PromiseAsked():
                pass

    def _refused(self, node_id: int, answer: FetchRefused) -> None:
        if answer.controller_epoch >= self.node.promised_epoch:
            self._doubt(node_id)
        elif self._again is None or self._again.when() <= self._loop.time():
            # The winner has not read yet that it has won.
            again = Event(decide=self.node.ask_again)
            self._again = self._loop.call_later(REFUSED_AGAIN_SECONDS, self._tell, again)

    def _doubt(self, node_id: int) -> None:
        if node_id == self.node.record.leader_id and not self._observations.is_doubted:
            self._observations.is_doubted = True
            self._look_now()


async def _set(event: asyncio.Event) -> None:
    event.set()


def are_records(records: Buffer, answer: RecordsAnswered) -> bool:
    """Whether these are the batches that the answer says, undamaged."""
    next_offset = answer.asked.end_offset
    try:
        for position, header in iterate_headers(records):
            if header.base_offset != next_offset or not check_crc(records, position, header):
                return False
            next_offset = header.last_offset + 1
    except ParseError:
        return False
    return next_offset == answer.end_offset
