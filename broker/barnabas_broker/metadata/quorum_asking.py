"""What a node of the metadata log asks: the arbiter, other nodes, and the clock what is due.

Each answer is an event of its own. Not here: what is asked and what an answer means (`quorum_node`,
`quorum_timing`, `members_plan`).
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
from barnabas_broker.metadata.arbiter_access import ArbiterAccess, record_of, view_of
from barnabas_broker.metadata.history import ForeignHistoryError, new_history
from barnabas_broker.metadata.image import NO_LEADER
from barnabas_broker.metadata.leadership import MembersRefusedError
from barnabas_broker.metadata.members_plan import MemberSituation, has_to_hand_over, plan_members
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.quorum_effects import Effects, ReadRecord, Swap
from barnabas_broker.metadata.quorum_events import QuorumCallbacks, QuorumEvents
from barnabas_broker.metadata.quorum_fetches import FetchReply
from barnabas_broker.metadata.quorum_messages import (
    FetchAsked,
    FetchRefused,
    PromiseAnswered,
    PromiseAsked,
    RecordsAnswered,
    SnapshotAnswered,
)
from barnabas_broker.metadata.quorum_performing import Event
from barnabas_broker.metadata.quorum_questions import Question, Questions
from barnabas_broker.metadata.quorum_timing import Act, QuorumSettings
from barnabas_broker.metadata.quorum_transport_protocol import QuorumTransport
from barnabas_broker.metadata.refusals import Refusals
from barnabas_broker.metadata.replicated_log import ReplicatedLog
from barnabas_broker.metadata.snapshot import decode_snapshot
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import uuid_to_text
from barnabas_protocol.records.batch import check_crc, iterate_headers

logger = logging.getLogger(__name__)

# The winner of an epoch learns it by a reading; who knows it sooner asks again after that time.
REFUSED_AGAIN_SECONDS: Final = 0.02
OLD_READINGS_WARNED: Final = 3


class QuorumAsking(QuorumEvents):
    """The node's questions."""

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
        super().__init__(
            log,
            disk=disk,
            clock=clock,
            refusals=refusals,
            publisher=publisher,
            seat=seat,
            cluster_id=cluster_id,
            listener_name=listener_name,
            settings=settings,
            callbacks=callbacks,
        )
        self._access = ArbiterAccess(arbiter, self._record_read)
        self._questions = Questions(transport, self._question_lost)

    # ---- the arbiter -------------------------------------------------------------------------

    def _swap(self, swap: Swap) -> None:
        self._access.swap(swap, self._record_of)

    def _record_of(self, swap: Swap) -> ArbiterRecord:
        now_ms = self._clock.wall_ms()
        histories = self._history.ids
        if not histories:
            # Blank, and about to found a cluster: what is stored is taken over when it is read.
            histories = (new_history(self.cluster_id, self.seat.directory_id, now_ms),)
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
            self._observations.record_read(stored)
            effects = self.node.record_read(view_of(stored))
            self._warn_of_old_record(stored)
            return effects

        self._tell(Event(decide=decide))
        self._tell(Event(decide=self._look_now))

    def _warn_of_old_record(self, stored: Stored) -> None:
        if self.node.is_disk_old and not self._has_warned_of_disk:
            self._has_warned_of_disk = True
            logger.error(
                "this broker's disk is older than what it has acknowledged: its metadata log ends "
                "at %d, and by the arbiter's record it had everything up to %d. It was restored "
                "from a copy, and counts again when it has caught up with the others; without "
                "them, the last resort is `barnabas cluster recover`",
                self.log.log_end_offset,
                self.node.member_ends[self.seat].end_offset,
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
        """Whether this node is a new one, or a cluster by itself.

        One that knows of a history and has nothing of it is neither: it has read a record.
        """
        image = self.log.pending_image
        others = {*image.brokers, image.controller_id} - {self.seat.node_id, NO_LEADER}
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
            ", ".join(str(seat.node_id) for seat in sorted(members)),
        )
        return effects

    def _hand_over(self) -> Effects:
        """Let another member lead, which then lets this one leave the members."""
        logger.info("this node is to go for good: it lets another one lead the metadata log")
        self._timing.handed_over(self._clock.monotonic_ms())
        return self.node.give_up()

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
                self._observations.answered(node_id, answer)
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
