"""Requests of one node of the metadata log: to the arbiter, to other nodes; and what is due when.

Each response is an event of its own. Not here: what is requested and what a response means (`node`,
`timing`, `members_plan`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, assert_never

from barnabas_broker.arbiter.arbiter import Arbiter, ArbiterRecord, Stored
from barnabas_broker.arbiter.election import ForeignClusterError
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer, Disk
from barnabas_broker.metadata.connection_refusals import ConnectionRefusals
from barnabas_broker.metadata.image import NO_LEADER
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum.arbiter_access import ArbiterAccess, record_of, view_of
from barnabas_broker.metadata.quorum.effect_executor import Event
from barnabas_broker.metadata.quorum.effects import Effects, ReadRecord, Swap
from barnabas_broker.metadata.quorum.event_loop import QuorumCallbacks, QuorumEventLoop
from barnabas_broker.metadata.quorum.history import ForeignHistoryError, new_history
from barnabas_broker.metadata.quorum.in_flight_requests import InFlightRequests, OutboundRequest
from barnabas_broker.metadata.quorum.inbound_requests import FetchReply
from barnabas_broker.metadata.quorum.leadership import MembersRefusedError
from barnabas_broker.metadata.quorum.members_plan import (
    MemberSituation,
    has_to_hand_over,
    plan_members,
)
from barnabas_broker.metadata.quorum.messages import (
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    RecordsResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.timing import Act, QuorumSettings
from barnabas_broker.metadata.quorum.transport import QuorumTransport
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_broker.metadata.replicated_log import ReplicatedLog
from barnabas_broker.metadata.snapshot import decode_snapshot
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import uuid_to_text
from barnabas_protocol.records.batch import check_crc, iterate_headers

logger = logging.getLogger(__name__)

# The winner of an epoch learns it by a reading; who knows it sooner sends again after that time.
REFUSED_AGAIN_SECONDS: Final = 0.02
OLD_READINGS_WARNED: Final = 3


class OutboundRequests(QuorumEventLoop):
    """The node's requests to others, on top of its events."""

    def __init__(
        self,
        log: ReplicatedLog,
        *,
        disk: Disk,
        clock: Clock,
        arbiter: Arbiter,
        transport: QuorumTransport,
        refusals: ConnectionRefusals,
        publisher: MetadataPublisher,
        voter: Voter,
        cluster_id: str,
        listener_name: str,
        settings: QuorumSettings,
        callbacks: QuorumCallbacks,
    ) -> None:
        """`listener_name` is the listener by which brokers reach one another."""
        super().__init__(
            log,
            disk=disk,
            clock=clock,
            refusals=refusals,
            publisher=publisher,
            voter=voter,
            cluster_id=cluster_id,
            listener_name=listener_name,
            settings=settings,
            callbacks=callbacks,
        )
        self._access = ArbiterAccess(arbiter, self._record_read)
        self._in_flight = InFlightRequests(transport, self._request_failed)

    # ---- the arbiter -------------------------------------------------------------------------

    def _swap(self, swap: Swap) -> None:
        self._access.swap(swap, self._record_of)

    def _record_of(self, swap: Swap) -> ArbiterRecord:
        now_ms = self._clock.wall_ms()
        histories = self._history.ids
        if not histories:
            # Blank, and about to found a cluster: what is stored is taken over when it is read.
            histories = (new_history(self.cluster_id, self.voter.directory_id, now_ms),)
        return record_of(
            swap,
            self.cluster_id,
            self._address,
            now_ms,
            histories=histories,
            ends=self.node.member_ends,
        )

    async def _take_history(self, record: ArbiterRecord) -> bool:
        """Belong to the record's history, if this node may; returns whether it does."""
        history, theirs = self._history, record.histories
        if not theirs or theirs == history.ids:
            if theirs and not history.is_written():
                await history.write(theirs)
            return True
        if history.ids and history.ids[0] not in theirs:
            self._fail(
                ForeignHistoryError(
                    f"the arbiter's record is of another history of cluster {self.cluster_id}: "
                    f"{uuid_to_text(theirs[0])}, founded without what this broker has "
                    f"({uuid_to_text(history.ids[0])}, up to offset {self.log.log_end_offset}). "
                    "Nothing was removed. Stop the broker that leads, and bring the arbiter's "
                    "record back; the last resort is `barnabas cluster recover` with the broker "
                    "whose log is the best"
                )
            )
            return False
        if history.ids and history.ids[0] != theirs[0]:
            logger.warning(
                "the metadata was recovered by `barnabas cluster recover`: what only this broker "
                "has of it is given up"
            )
            await self.callbacks.forget_high_watermark()
            self.node.copy.known_committed_offset = 0
            self.node.member_ends.clear()
        await history.write(theirs)
        return True

    async def _record_read(self, stored: Stored) -> None:
        try:
            await self._take_record(stored)
        except OSError as error:
            # The disk of the metadata log: as in any other step, this node takes no part any more.
            self._fail(error)

    async def _take_record(self, stored: Stored) -> None:
        record = stored.record
        if record is not None and record.cluster_id != self.cluster_id:
            if not await self.callbacks.adopt_cluster_id(record.cluster_id):
                self._fail(
                    ForeignClusterError(
                        f"the arbiter's record is of cluster {record.cluster_id}, "
                        f"not of {self.cluster_id}. Nothing was removed. Where this is the right "
                        "arbiter, a broker with an empty disk has founded that cluster: stop it, "
                        "and bring the arbiter's record back"
                    )
                )
                return
            self.cluster_id = record.cluster_id
        if record is not None and not await self._take_history(record):
            return

        def decide() -> Effects:
            view = view_of(stored)
            effects = self.node.record_read(view)
            self._observations.record_read(stored, is_obeyed=self.node.record == view)
            self._warn_of_old_record(stored)
            return effects

        self._enqueue(Event(decide=decide))
        self._enqueue(Event(decide=self._look_now))

    def _warn_of_old_record(self, stored: Stored) -> None:
        if self.node.is_disk_old and not self._has_warned_of_disk:
            self._has_warned_of_disk = True
            logger.error(
                "this broker's disk is older than what it has acknowledged: its metadata log ends "
                "at %d, and by the arbiter's record it had everything up to %d. It was restored "
                "from a copy, and counts again when it has caught up with the others; without "
                "them, the last resort is `barnabas cluster recover`",
                self.log.log_end_offset,
                self.node.member_ends[self.voter].end_offset,
            )
        epoch = 0 if stored.record is None else stored.record.controller_epoch
        is_old = 0 < epoch < self.node.promised_epoch
        self._old_readings = self._old_readings + 1 if is_old else 0
        # One reading may have been under way when the epoch was promised.
        if self._old_readings == OLD_READINGS_WARNED:
            logger.error(
                "the arbiter's record is of controller epoch %d, but %d was promised: an old copy "
                "of it was brought back. Nobody takes over by it. Bring the newest one back; the "
                "last resort is `barnabas cluster recover` with the broker whose log is the best",
                epoch,
                self.node.promised_epoch,
            )

    # ---- time --------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_stopping or self._failure is not None:
            return
        situation = self._observations.situation(
            self.node,
            refused_since_ms=self._refusals.refused_since_ms,
            may_found=self._may_found(),
            is_waiting=self._in_flight.has_any or self._access.is_busy,
        )
        for act in self._timing.due(situation):
            self._enqueue(Event(decide=self._decision(act)))
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
            case Act.RESIGN:
                return node.resign
            case Act.RETRY_REQUESTS:
                return node.retry_requests
            case Act.MEMBERS:
                return self._plan_members
            case _:
                assert_never(act)

    def _may_found(self) -> bool:
        """Whether this node is a new one, or a cluster by itself.

        One that knows of a history and has nothing of it is neither: it has read a record.
        """
        image = self.log.pending_image
        others = {*image.brokers, image.controller_id} - {self.voter.node_id, NO_LEADER}
        is_blank = not self.log.log_end_offset
        is_new = is_blank and not self._history.ids and self.callbacks.may_found()
        if not others and (is_new or not is_blank):
            return True
        if not self._has_warned and self.node.record.token >= 0 and not self.node.record.members:
            self._has_warned = True
            logger.error(
                "the arbiter has no record, and %s: nobody leads the control plane. Bring the "
                "record back; the last resort is `barnabas cluster recover`",
                f"brokers {', '.join(map(str, sorted(others)))} belong to this cluster"
                if others
                else "this broker has partitions, or knows of a cluster, but has no metadata log",
            )
        return False

    def _member_situation(self) -> MemberSituation:
        return self._observations.member_situation(self.node, self.log.committed_image)

    def _plan_members(self) -> Effects:
        if not self._is_active:
            return ()
        situation = self._member_situation()
        members = plan_members(situation)
        if members is None:
            return self._hand_over() if has_to_hand_over(situation) else ()
        try:
            effects = self.node.change_members(members)
        except MembersRefusedError as error:
            logger.debug("the members stay as they are for now: %s", error)
            return ()
        logger.info(
            "asking for members %s of the metadata log",
            ", ".join(str(voter.node_id) for voter in sorted(members)),
        )
        return effects

    def _hand_over(self) -> Effects:
        """Let another member lead, which then lets this one leave the members."""
        logger.info("this node is to go for good: it lets another one lead the metadata log")
        self._timing.handed_over(self._clock.monotonic_ms())
        return self.node.resign()

    def _refused_changed(self, node_id: int) -> None:
        self._look_now()

    # ---- requests to other nodes -------------------------------------------------------------

    def _request_promise(self, node_id: int, request: PromiseRequest) -> None:
        def on_response(response: PromiseResponse) -> None:
            def decide() -> Effects:
                if response.promised_epoch == self.node.promised_epoch:
                    self._observations.heard(response.voter)
                return self.node.on_promise_response(response)

            self._enqueue(Event(decide=decide))

        self._in_flight.promise(node_id, request, on_response)

    def _fetch_records(self, node_id: int, request: QuorumFetchRequest) -> None:
        def on_response(reply: FetchReply) -> None:
            response, records = reply
            if isinstance(response, FetchRefused):
                self._refused(node_id, response)
            elif isinstance(response, RecordsResponse):
                if not are_records(records, response):
                    logger.error("node %d has sent damaged records", node_id)
                    return
                self._observations.responded(node_id, response)
            self._enqueue(
                Event(decide=lambda: self.node.on_fetch_response(response), records=records)
            )

        self._in_flight.fetch(node_id, request, on_response)

    def _fetch_snapshot(self, response: SnapshotResponse) -> None:
        def on_response(data: bytes) -> None:
            self._loading = asyncio.ensure_future(self._load_snapshot(response, data))

        self._in_flight.snapshot(response, on_response)

    async def _load_snapshot(self, response: SnapshotResponse, data: bytes) -> None:
        try:
            image = await self._disk.run(decode_snapshot, data)
            if (image.epoch, image.offset + 1) != response.snapshot:
                raise ParseError(f"it ends at {image.offset + 1} of epoch {image.epoch}", 0)
        except ParseError as error:
            logger.error("node %d has sent a bad snapshot: %s", response.source.node_id, error)
            self._enqueue(Event(decide=lambda: self.node.snapshot_failed(response)))
            return
        self._enqueue(
            Event(decide=lambda: self.node.snapshot_fetched(response), snapshot=(data, image))
        )

    def _request_failed(self, node_id: int, request: OutboundRequest) -> None:
        self._refusals.suspect(node_id)
        match request:
            case QuorumFetchRequest():
                self._doubt(node_id)
                self._enqueue(Event(decide=lambda: self.node.unreachable(node_id)))
            case SnapshotResponse():
                self._enqueue(Event(decide=lambda: self.node.snapshot_failed(request)))
            case PromiseRequest():
                pass

    def _refused(self, node_id: int, response: FetchRefused) -> None:
        if response.controller_epoch >= self.node.promised_epoch:
            self._doubt(node_id)
        elif self._again is None or self._again.when() <= self._loop.time():
            # The winner has not read yet that it has won.
            again = Event(decide=self.node.retry_requests)
            self._again = self._loop.call_later(REFUSED_AGAIN_SECONDS, self._enqueue, again)

    def _doubt(self, node_id: int) -> None:
        if node_id == self.node.record.leader_id and not self._observations.is_doubted:
            self._observations.is_doubted = True
            self._look_now()


def are_records(records: Buffer, response: RecordsResponse) -> bool:
    """Whether these are the batches that the response says, undamaged."""
    next_offset = response.requested.end_offset
    try:
        for position, header in iterate_headers(records):
            if header.base_offset != next_offset or not check_crc(records, position, header):
                return False
            next_offset = header.last_offset + 1
    except ParseError:
        return False
    return next_offset == response.end_offset
