"""One partition on this broker: who leads it, what may be acknowledged, what may be read.

It decides about leadership, leader epochs, the ISR it asks for and the high watermark, and is the
only one that moves the log's. Storage is the log's, waiting is the purgatory's, what followers have
is in `follower_states`. Source: KIP-101 (leader epochs), KIP-497 (maximal ISR).
Invariants: the high watermark never falls while this broker leads, and never passes a member of the
maximal ISR; nothing is acknowledged before it is in the file, under the policy `group-fsync` not
before it is on the disk.
"""

import asyncio

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.append_info import AppendInfo
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.validator import CheckedBatch
from barnabas_broker.metadata.image import PartitionImage
from barnabas_broker.replication.partition_state import (
    INTERNAL_TOPICS,
    NO_EPOCH,
    FollowerView,
    PartitionState,
)
from barnabas_protocol.errors import ErrorCode, KafkaError

__all__ = ["INTERNAL_TOPICS", "NO_EPOCH", "Partition"]


class Partition(PartitionState):
    """A replica on this broker and, where it leads, the state of its leadership."""

    __slots__ = ()

    # Leadership.

    def become(self, image: PartitionImage) -> None:
        """Take over a newer state of the partition; an older one changes nothing (LEAD-12)."""
        known, was_leader = self.image, self.is_leader
        if image.partition_epoch < known.partition_epoch:
            return
        is_new_epoch = image.leader_epoch != known.leader_epoch
        if is_new_epoch:
            self._write()  # what is staged belongs to the old leader epoch
        if image.partition_epoch > known.partition_epoch:
            self.proposed_isr = None  # answered by this, or overtaken
        replaced = self._take(image)
        if self.is_leader and is_new_epoch:
            # Epochs that never came to us were another's: its followers may have cut their logs.
            goes_on = was_leader and image.leader_epoch == known.leader_epoch + 1
            self.start_leading(is_new_leader=not goes_on)
        elif self.is_leader:
            self._expand()
            self.advance()
        for node_id, view in list(self._views.items()):
            if node_id in replaced:
                view.replica_changed()
            elif is_new_epoch or image.replicas != known.replicas:
                view.leadership_changed()
        if is_new_epoch or image.isr != known.isr:
            self._on_progress(self)

    def stop_leading(self) -> None:
        """Answer those who wait and acknowledge nothing more: the replica is not ours any longer.

        Its partition is deleted or moved, so that no image comes for it (LEAD-10, LEAD-11).
        """
        self.is_leader = False
        self.proposed_isr = None
        for view in list(self._views.values()):
            view.leadership_changed()
        self._on_progress(self)

    def start_leading(self, *, is_new_leader: bool = True) -> None:
        """Record where the present leader epoch begins and see what is committed (LEAD-11)."""
        log, image, now_ms = self.log, self.image, self._context.now_ms()
        self.leading_since_offset = log.log_end_offset
        if is_new_leader:
            self.followers.begin_leading(image.isr, now_ms)
        else:
            self.followers.begin_leader_epoch(image.isr, log.log_end_offset, now_ms)
        if log.leader_epochs.latest != image.leader_epoch:
            log.leader_epochs.assign(image.leader_epoch, log.log_end_offset)
        if self.durable_end_offset < log.log_end_offset:
            # What recovery found may have been acknowledged: it must not wait for an append.
            self._flush()
        self.advance()

    def take_log(self, log: PartitionLog) -> None:
        """Serve another log from now on, that has what the last one had."""
        self.log = log
        if self.is_leader:
            if log.leader_epochs.latest < self.image.leader_epoch:
                log.leader_epochs.assign(self.image.leader_epoch, log.log_end_offset)
            if self.durable_end_offset < log.log_end_offset:
                self._flush()
            self.followers.excuse(self.image.isr, self._context.now_ms())
            if self.proposed_isr is not None:
                # Given up while the log was out of service, and perhaps in force: asked again.
                self._propose(self.proposed_isr)
            self.advance()

    # Append.

    def append(
        self,
        records: Buffer,
        acks: int,
        now_ms: int,
        *,
        internal: bool = False,
        checked: CheckedBatch | None = None,
    ) -> AppendInfo:
        """Validate and stage a batch; it is in the file when the loop turn has ended.

        Raises: KafkaError, HeavyBatchError; nothing is appended then.
        """
        log = self.log
        if log.is_offline or not self.is_leader:
            self.check_leader()
        in_sync_count = len(self.image.isr)
        if (
            acks == -1
            and in_sync_count < log.config.min_insync_replicas
            and in_sync_count < self.minimum_in_sync
        ):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            info = log.append_as_leader(
                records,
                self.image.leader_epoch,
                internal=internal,
                now_ms=now_ms,
                checked=checked,
            )
        except LogDirectoryError as error:
            self._on_directory_error(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except KafkaError:
            self.bytes_rejected += len(records)
            raise
        self.bytes_in += info.size_bytes
        self.records_in += info.record_count
        if not self._in_turn and not info.is_duplicate:
            self._in_turn = True
            self._turn.writer(self)
        return info

    def finish_turn(self) -> None:
        """Write what was staged in this turn, and see what is committed by it."""
        if not self._write():
            return
        if self._waits_for_fsync:
            self._flush()
        self.advance()

    def _write(self) -> bool:
        """Put what is staged into the file and tell the followers; False if the disk fails."""
        self._in_turn = False
        try:
            self.log.write_staged()
        except LogDirectoryError as error:
            self._on_directory_error(error)
            return False
        if self._views:
            for view in self._views.values():
                view.appended()
        return True

    def _flush(self) -> None:
        """Start one shared fsync; what arrives meanwhile gets the next one."""
        if self._flushing:
            return
        self._flushing = True
        task = asyncio.get_running_loop().create_task(self._flush_until_done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _flush_until_done(self) -> None:
        try:
            while self.log.recovery_point < self.log.log_end_offset and not self.log.is_offline:
                await self.log.flush()
                self.advance()
        except LogDirectoryError as error:
            self._on_directory_error(error)
        finally:
            self._flushing = False

    # Progress.

    def advance(self) -> None:
        """Raise the high watermark to what the whole maximal ISR has.

        Wakes those who wait for it (REP-1).
        """
        if not self.is_leader:
            return
        end_offset = self.durable_end_offset
        if self.is_replicated:
            high_watermark, context = self.log.high_watermark, self._context
            if end_offset <= high_watermark or self.is_under_min_isr:
                return  # REP-2
            end_offset = self.followers.lowest_end_offset(
                end_offset,
                self.maximal_isr,
                high_watermark,
                context.now_ms,
                context.lag_ms_max,
            )
        if self.log.advance_high_watermark(end_offset):
            if self._views:
                for view in self._views.values():
                    view.offsets_moved()
            self._on_progress(self)

    def take_leader_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Follow the offsets that the leader told, at most to the own log end (REP-4)."""
        log = self.log
        has_moved = log.advance_high_watermark(high_watermark)
        if log.advance_log_start_offset(log_start_offset) or has_moved:
            self._on_progress(self)

    # Followers.

    def view_of(self, node_id: int) -> FollowerView | None:
        """What is told of what a follower has to hear."""
        return self._views.get(node_id)

    def watch(self, node_id: int, view: FollowerView) -> None:
        """Tell a view of what a follower has to hear, in place of the one that was told before."""
        self._views[node_id] = view

    def unwatch(self, node_id: int, view: FollowerView) -> None:
        """Tell a view nothing more."""
        if self._views.get(node_id) is view:
            del self._views[node_id]

    def follower_fetched(
        self,
        node_id: int,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
    ) -> None:
        """Note how far a follower is: its fetch offset is its log end (REP-3).

        The fetch was found valid before: its offset is in the log, and its last epoch leads there.
        Raises: KafkaError 6 or 75, see `FollowerStates.fetching`.
        """
        state = self.followers.fetching(node_id, broker_epoch)
        has_moved = fetch_offset != state.log_end_offset
        has_start_moved = log_start_offset != state.log_start_offset
        state.fetched(broker_epoch, fetch_offset, log_start_offset, self.log.log_end_offset, now_ms)
        if node_id not in self.maximal_isr:
            self._expand()
        if has_moved:
            self.advance()
        if has_start_moved:
            self._on_progress(self)  # the low watermark may be another

    def low_watermark(self) -> int:
        """The log start that all live replicas have reached."""
        return self.followers.lowest_start_offset(self.log.log_start_offset)

    def start_offset_moved(self) -> None:
        """Have followers told of a new log start."""
        for view in self._views.values():
            view.offsets_moved(is_urgent=True)
        self._on_progress(self)

    # The ISR.

    def check_isr_shrink(self, now_ms: int) -> None:
        """Ask for an ISR without those that lag behind (REP-6), or with those that do no more."""
        if not self.is_leader or not self.is_replicated or self.log.is_offline:
            return
        if self.log.log_start_offset != self.told_start_offset:
            # Retention has moved it: followers hear of it with their next fetch.
            self.told_start_offset = self.log.log_start_offset
            for view in self._views.values():
                view.offsets_moved()
        if self.proposed_isr is not None:
            return
        isr = self.image.isr
        lagging = self.followers.lagging(
            isr, self.log.log_end_offset, now_ms, self._context.lag_ms_max()
        )
        if lagging:
            self._propose(tuple(node for node in isr if node not in lagging))
        self.brokers_changed()

    def forget_other_incarnations(self) -> None:
        """Forget what brokers fetched that are registered anew: before anything counts on it."""
        if self.is_leader and self.is_replicated:
            self.followers.forget_other_incarnations(self.image.isr, self._context.now_ms())

    def brokers_changed(self) -> None:
        """See who may join the ISR now that the metadata of brokers, or the time, is another."""
        if self.is_leader and self.is_replicated:
            self._expand()
            self.advance()

    def _expand(self) -> None:
        """Ask for an ISR with those that belong into it, one request at a time (REP-7, REP-8)."""
        isr = self.image.isr
        if self.proposed_isr is not None or len(isr) == len(self.image.replicas):
            return
        log, context = self.log, self._context
        joining = self.followers.joining(
            isr,
            max(log.high_watermark, self.leading_since_offset),
            log.log_end_offset,
            context.now_ms(),
            context.lag_ms_max(),
        )
        if joining:
            self._propose((*isr, *joining))

    def _propose(self, isr: tuple[int, ...]) -> None:
        # From now on the controller may have it: who is in either counts for the high watermark.
        self.proposed_isr = isr
        self.maximal_isr = frozenset((*self.image.isr, *isr))
        if not self._context.propose_isr(self, isr):
            self.isr_refused()

    def isr_refused(self) -> None:
        """Go back to the committed ISR: what was asked for is certainly not in force (REP-8)."""
        self.proposed_isr = None
        self.maximal_isr = frozenset(self.image.isr)
        self.advance()
