"""The metadata log of this node: follows, leads, commits and publishes, by the rules of one node.

The shell around `node.QuorumNode`, as the rest of the broker sees it. It gives the node one
event at a time and carries out the effects in order, all of them before the next event (decision
0005). Not here: the rules; events and requests to others (`event_loop`,
`outbound_requests`); what is done to the disk (`image_log`, `promise_file`).

Invariants: one task touches the node and the log; a failure of the disk or a broken rule stops it
for good, and the owner of the broker hears of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from barnabas_broker.arbiter.arbiter import ArbiterError, Leader
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_log import PreparedRecords
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.description import QuorumDescription, describe
from barnabas_broker.metadata.quorum.effect_executor import EffectExecutor, Event, Hooks
from barnabas_broker.metadata.quorum.effects import Effects, Swap
from barnabas_broker.metadata.quorum.inbound_requests import FetchReply
from barnabas_broker.metadata.quorum.leadership import NotLeadingError
from barnabas_broker.metadata.quorum.members_plan import is_heir_missing
from barnabas_broker.metadata.quorum.messages import (
    ArbiterView,
    PromiseRequest,
    PromiseResponse,
    Proposal,
    QuorumFetchRequest,
)
from barnabas_broker.metadata.quorum.node import QuorumNode, Role
from barnabas_broker.metadata.quorum.outbound_requests import OutboundRequests
from barnabas_broker.metadata.quorum.registered_address import OwnListeners, registered_address
from barnabas_broker.metadata.quorum.timing import QuorumTiming
from barnabas_broker.metadata.records import MetadataRecord
from barnabas_broker.metadata.snapshot import SnapshotName
from barnabas_broker.metadata.snapshot_files import read_snapshot
from barnabas_broker.metrics.sample import Sample

logger = logging.getLogger(__name__)

# A clean stop tells the store that nobody leads; a store that is away is not waited for longer.
RESIGN_SECONDS_MAX: Final = 2
RESIGN_AGAIN_SECONDS: Final = 0.02
READING_SECONDS: Final = 0.05
# Who asks for a promise asks again before this is over; most of it is a flush.
PROMISE_SECONDS_MAX: Final = 5
# Others become members first, where without them nobody could lead; they have to be heard for that.
# On a busy machine that takes seconds, and without it nobody leads until this node is back.
HAND_OVER_SECONDS_MAX: Final = 5


class MetadataQuorum(OutboundRequests):
    """This node's part in the metadata log."""

    # ---- life --------------------------------------------------------------------------------

    async def recover(self) -> MetadataImage:
        """Read log and promise; returns the image of all that is on disk, committed or not.

        Raises: MetadataLogError, OSError.
        """
        image = await self.log.recover()
        self._history.read(self.cluster_id, self.log.log_end_offset)
        self.node = QuorumNode(
            self.voter, self.log, self._promise.read(), self.log.known_committed_offset
        )
        return image

    async def start(self, address: Leader, listener_names: Iterable[str]) -> None:
        """Take part, reached by others at an address. `recover` must have been awaited.

        The names are those of all listeners that this node has.
        """
        self._address = address
        self._own_listeners = OwnListeners(frozenset(listener_names), self._listener_name, address)
        node = self.node
        self._loop = asyncio.get_running_loop()
        self._timing = QuorumTiming(self._settings, self._clock.monotonic_ms())
        self._executor = EffectExecutor(
            node,
            self.log,
            self._promise,
            self._inbound,
            self._access,
            self._publish_queue,
            Hooks(
                enqueue=self._enqueue,
                request_promise=self._request_promise,
                fetch_records=self._fetch_records,
                fetch_snapshot_file=self._fetch_snapshot,
                swap=self._swap,
                lead=self._begin_epoch,
                committed=self._committed,
                stepped_down=self._stepped_down,
                save_recovery_points=self.callbacks.save_recovery_points,
                fail=self._fail,
            ),
        )
        self._publish_queue.start()
        if node.copy.high_watermark > 0:
            self._executor.publish(node.copy.high_watermark)
        self._refusals.on_refused_change.append(self._refused_changed)
        self._task = asyncio.create_task(self._run(), name="metadata quorum")
        self._enqueue(Event(decide=node.start))
        self._tick()

    async def stop(self) -> None:
        """Give leadership up, so that another takes over at once; then stop. Safe twice."""
        if self._task is not None and not self._is_stopping:
            self._is_stopping = True
            if self._failure is None and self.node.role is not Role.FOLLOWER:
                await self._find_heirs()
            if self._failure is None and self._may_be_recorded():
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
        await self._in_flight.close()
        await self._access.close()
        await self._snapshot_generator.close()
        if self._task is not None:
            await self._executor.close()
        await self._publish_queue.close()
        self._inbound.close()
        self._task = None

    async def _find_heirs(self) -> None:
        """Have members that can lead without this node: a young cluster may have no other."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER_SECONDS_MAX):
                while self._is_active and is_heir_missing(self._member_situation()):
                    self._enqueue(Event(decide=self._plan_members))
                    await self._settled()
                    await asyncio.sleep(RESIGN_AGAIN_SECONDS)

    def _may_be_recorded(self) -> bool:
        """Whether the record names this node as the leader, or may soon."""
        is_named = self.node.record.leader_id == self.voter.node_id
        return is_named or self.node.role is not Role.FOLLOWER or self._access.is_busy

    async def _resign(self) -> None:
        self._enqueue(Event(decide=self.node.resign))
        try:
            async with asyncio.timeout(RESIGN_SECONDS_MAX):
                await self._settled()
                # Another swap of this node may have come first: the record is newer than it knew.
                while self.node.record.leader_id == self.voter.node_id and self._failure is None:
                    self._enqueue(Event(decide=self._withdraw))
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
        """Return when the events until now, and what they requested of the arbiter, are done."""
        for _ in range(2):
            done = asyncio.Event()
            self._enqueue(Event(decide=tuple, work=partial(_set, done)))
            await done.wait()
            await self._access.settle()

    # ---- what is known -----------------------------------------------------------------------

    @property
    def controller_epoch(self) -> int:
        """The newest epoch that this node has promised or leads."""
        return self.node.promised_epoch

    @property
    def record(self) -> ArbiterView:
        """The arbiter's record as last read."""
        return self.node.record

    @property
    def is_arbiter_away(self) -> bool:
        """Whether the arbiter could not be read when this node last tried."""
        return self._access.is_away

    def samples(self) -> Iterator[Sample]:
        """What is told of the arbiter's record and its store."""
        return self._access.samples()

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
        return max((ms for voter, ms in heard.items() if voter.node_id == node_id), default=None)

    @property
    def leaders_heard_ms(self) -> Mapping[int, int]:
        """When the last node that led beside this one was last heard; empty if none ever was.

        A follower asks its leader all the time, so this is also since when that has been silent.
        """
        return self._observations.leader_heard_ms

    @property
    def majority_heard_ms(self) -> int | None:
        """While this node leads: when it last heard a majority, without which nobody else leads."""
        if not self._is_active:
            return None
        return self._observations.majority_heard_ms(self.node, self._clock.monotonic_ms())

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        """Where a node is reached by brokers: the newest that is known, committed or not."""
        leader = self._observations.leader_address
        if leader is not None and leader.node_id == node_id:
            return leader.address_by(self._listener_name)
        brokers = self.log.pending_image.brokers
        broker = brokers.get(node_id)
        if broker is None:
            return None
        return registered_address(broker, brokers.values(), self._own_listeners)

    def describe(self) -> QuorumDescription:
        """Who has the metadata log, and how far each copy is. Raises: NotLeadingError."""
        self._check_active()
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        return describe(self.node, self._observations, now_ms=now_ms, wall_ms=wall_ms)

    async def wait_for_change(self) -> None:
        """Return when the leader, or whether it is active, has changed."""
        await self._changed.wait()

    async def wait_for_reading(self) -> None:
        """Return when the arbiter's record may have been read once more.

        Raises: what stopped the quorum.
        """
        if self._failure is not None:
            raise self._failure
        await asyncio.sleep(READING_SECONDS)

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
        prepared = PreparedRecords(self.pending_image)
        prepared.add(records)
        return self.stage_prepared(prepared)

    def stage_prepared(self, prepared: PreparedRecords) -> int:
        """The same for records that were prepared for the pending image.

        Raises: NotLeadingError, also where there is another one: this node has led anew since.
        """
        self._check_active()
        if prepared.delta.image is not self.pending_image:
            raise NotLeadingError("the records are of an epoch that is over")
        try:
            return self.log.stage_prepared(prepared, self.node.promised_epoch)
        except (OSError, LogDirectoryError) as error:
            self._fail(error)
            raise NotLeadingError("the metadata log has failed") from error

    async def replicate(self) -> int:
        """Return the offset of the last staged record once it is committed.

        Raises: NotLeadingError: whether it will be committed is not known.
        """
        self._check_active()
        offset = self.log.pending_image.offset
        if offset > self.log.committed_image.offset:
            self._enqueue(Event(decide=self._written))
            await self._publish_queue.wait_committed(offset)
        return offset

    async def until_published(self, offset: int) -> None:
        """Return when all parts of this broker have acted on the committed records of an offset.

        Raises: NotLeadingError if this node stops leading before.
        """
        if offset > self._publish_queue.published_offset:
            await self._publish_queue.wait(offset)

    async def commit(self) -> int:
        """Return the offset of the last staged record once it is committed and published.

        Raises: NotLeadingError: whether it will be committed is not known.
        """
        offset = await self.replicate()
        await self.until_published(offset)
        return offset

    def _check_active(self) -> None:
        if not self._is_active:
            raise NotLeadingError("this node does not lead the metadata log")

    def _written(self) -> Effects:
        if not self._is_active:
            return ()
        self.log.write()
        self._inbound.release()
        return self.node.appended()

    # ---- for other nodes ---------------------------------------------------------------------

    async def on_promise_request(self, request: PromiseRequest) -> PromiseResponse:
        """Answer the winner of an epoch.

        The arbiter's record names each epoch before anybody asks for a promise of it. An epoch
        above the record's is a lie, and a promise of it would keep every true winner away.
        Raises: NotLeadingError if this node is stopping, does not get to it in time, or the record
        as it is now does not have the epoch.
        """
        self._check_open()
        try:
            async with asyncio.timeout(PROMISE_SECONDS_MAX):
                if not self._is_won(request.controller_epoch):
                    self._access.read()
                    await self._settled()
                    self._check_open()
                    if not self._is_won(request.controller_epoch):
                        raise NotLeadingError(
                            f"the arbiter's record has no epoch {request.controller_epoch}"
                        )
                reply = self._inbound.promise(request)
                self._enqueue(Event(decide=lambda: self.node.on_promise_request(request)))
                return await reply
        except TimeoutError:
            raise NotLeadingError(
                "the promise takes too long, or a later one was requested"
            ) from None

    def _is_won(self, controller_epoch: int) -> bool:
        """Whether the epoch is one that the arbiter's record, or a promise before, has named."""
        known = max(self.node.record.controller_epoch, self.node.promised_epoch)
        return controller_epoch <= known

    async def on_fetch_request(self, request: QuorumFetchRequest, wait_ms_max: int) -> FetchReply:
        """Answer a fetch, held back until there is something new or the wait is over.

        Raises: NotLeadingError if this node is stopping.
        """
        self._check_open()
        return await self._inbound.fetch(request, wait_ms_max)

    async def snapshot_bytes(self, name: LogEnd) -> bytes | None:
        """The content of a snapshot that a response has named; None if it is not there any more."""
        return await self._disk.run(
            read_snapshot,
            self._disk,
            self.log.directory,
            SnapshotName(name.end_offset, name.last_epoch),
        )

    def _check_open(self) -> None:
        if self._task is None or self._is_closed or self._failure is not None:
            raise NotLeadingError("this node does not take part in the metadata log now")


async def _set(event: asyncio.Event) -> None:
    event.set()
