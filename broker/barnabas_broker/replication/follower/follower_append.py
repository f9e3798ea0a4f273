"""Applies a leader's response for one partition: append, truncate, or wait.

Runs on the loop without a break: between looking at the partition and changing its log nothing can
make it a leader. Not here: sending requests (`replica_fetcher.py`) and building them
(`fetch_plan.py`).

Source: REP-4, REP-11 to REP-17, LOG-9, KIP-101, KIP-279. Invariants: a log that is led here, or
followed under another leader epoch, is never changed; the high watermark of a follower never passes
its own log end, nor what its leader sent for just this log.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.replication.follower.fetch_plan import PartitionFetchState, PartitionResponse
from barnabas_broker.replication.follower.truncation_plan import (
    LogEnds,
    OutOfRange,
    diverging_offset,
    out_of_range,
)
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.fetch import PartitionData

logger = logging.getLogger(__name__)

FindReplica = Callable[[TopicPartition], Partition | None]


class Step(Enum):
    """What comes next for a partition."""

    GO_ON = "fetch what follows"
    RETRY_SOON = "the leader is about to know better"
    RETRY_LATER = "something is wrong and may pass"
    PARK = "wait for newer metadata"
    FAIL = "a fault of our own: leave it alone"
    LOOK_UP = "look up where the leader's log starts and ends"


# The leader has not applied yet what we know of it, or is about to lose its leadership.
_SOON = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    )
)


class FollowerAppend:
    """Brings the logs of followed partitions in line with their leaders'."""

    def __init__(
        self,
        find: FindReplica,
        *,
        on_directory_error: Callable[[LogDirectoryError], None],
        note_truncations: Callable[[Sequence[PartitionLog]], Awaitable[None]],
        knows_epochs: Callable[[], bool],
    ) -> None:
        """`knows_epochs`: whether the metadata has every leader epoch of what was on disk."""
        self._find = find
        self._knows_epochs = knows_epochs
        self._on_directory_error = on_directory_error
        self._note_truncations = note_truncations
        # Partitions whose logs must be flushed before the leader gets their new end, in order.
        # Not the logs: a copy in another directory may take the place of one before that.
        self._unsynced: dict[Partition, None] = {}
        # Logs that were cut: that must be safe before other records come to the same places.
        self._cut: dict[PartitionLog, None] = {}
        self.bytes_in = 0
        self.truncation_count = 0

    # Beginning.

    def start(self, followed: PartitionFetchState) -> Step:
        """Stand a partition where its log ends."""
        partition = self._replica(followed)
        if partition is None:
            return Step.PARK
        log = partition.log
        try:
            if log.leader_epochs.latest < 0 and log.log_end_offset > log.high_watermark:
                # No epoch to compare with the leader: only what was committed is sure (REP-13).
                self._truncate(log, log.high_watermark)
        except LogDirectoryError as error:
            self._on_directory_error(error)
            return Step.PARK
        self._note_unsynced(partition)
        _stand(followed, log)
        return Step.GO_ON

    def _replica(self, followed: PartitionFetchState) -> Partition | None:
        """The partition, if it still is what is followed, under the same leader epoch."""
        partition = self._find(followed.topic_partition)
        if (
            partition is None
            or partition.is_leader
            or partition.leader_epoch != followed.leader_epoch
            or partition.topic_id != followed.key[0]
            or partition.log.is_offline
        ):
            return None
        return partition

    # Responses.

    def take(self, response: PartitionResponse) -> Step:
        """Apply the leader's response for one partition."""
        followed, data, is_late = response
        partition = self._replica(followed)
        if partition is None:
            return Step.PARK
        if data.error_code:
            return self._refused(followed, data.error_code)
        try:
            return self._take(partition, followed, data, is_late=is_late)
        except LogDirectoryError as error:
            self._on_directory_error(error)
            return Step.PARK
        except KafkaError as error:
            logger.warning(
                "%s-%d: what its leader sent is refused: %s", *partition_of(followed), error
            )
            _stand(followed, partition.log)
            return Step.RETRY_LATER
        except Exception:
            logger.exception("%s-%d is no longer replicated", *partition_of(followed))
            return Step.FAIL

    def _take(
        self,
        partition: Partition,
        followed: PartitionFetchState,
        data: PartitionData,
        *,
        is_late: bool,
    ) -> Step:
        log = partition.log
        diverging = data.diverging_epoch
        if diverging.epoch >= 0 or diverging.end_offset >= 0:
            return Step.GO_ON if is_late else self._diverge(partition, followed, data)
        if not is_late and _is_unverified(log, followed.leader_epoch, data.log_start_offset):
            self._start_anew(log, data.log_start_offset)
            _stand(followed, log)
            return Step.GO_ON
        if data.records and not is_late:
            if log.is_cut_unnoted:
                # There was no room to write that down: it is tried again before the next fetch.
                self._cut[log] = None
                _stand(followed, log)
                return Step.RETRY_LATER
            if log.log_end_offset != followed.fetch_offset:
                logger.error(
                    "%s-%d was fetched from %d, but ends at %d: it is no longer replicated",
                    *partition_of(followed),
                    followed.fetch_offset,
                    log.log_end_offset,
                )
                return Step.FAIL
            self._append(partition, followed, data.records)
        followed.failure_count = followed.logged_code = 0
        partition.take_leader_offsets(data.high_watermark, data.log_start_offset)
        followed.lag = max(0, data.high_watermark - log.log_end_offset)
        _stand(followed, log)
        return Step.GO_ON

    def _append(
        self, partition: Partition, followed: PartitionFetchState, records: Buffer | list[Buffer]
    ) -> None:
        log = partition.log
        if isinstance(records, list):
            records = records[0] if len(records) == 1 else b"".join(records)
        try:
            info = log.append_as_follower(records, followed.leader_epoch)
        finally:
            log.write_staged()
        self.bytes_in += info.size_bytes
        self._note_unsynced(partition)

    def _diverge(
        self, partition: Partition, followed: PartitionFetchState, data: PartitionData
    ) -> Step:
        """Cut the log to where it may still be the beginning of the leader's (REP-16).

        Perhaps in two steps: the next fetch, after the first is settled, diverges again.
        """
        log = partition.log
        before = _shape(log)
        offset = diverging_offset(
            log.leader_epochs,
            LogEnds(log.log_end_offset, log.high_watermark),
            data.diverging_epoch.epoch,
            data.diverging_epoch.end_offset,
        )
        if offset <= data.log_start_offset and log.segments.first.base_offset < log.log_end_offset:
            # The epoch may have ended long before: nobody knows what else differs.
            self._log_loss(log, offset)
            self._start_anew(log, data.log_start_offset)
        else:
            self._truncate(log, log.truncation_step(offset))
        _stand(followed, log)
        if _shape(log) == before:
            logger.error(
                "%s-%d: its leader has epoch %d end at %d, which leads no further",
                *partition_of(followed),
                data.diverging_epoch.epoch,
                data.diverging_epoch.end_offset,
            )
            return Step.RETRY_LATER
        return Step.GO_ON

    def ranged(self, followed: PartitionFetchState, start_offset: int, end_offset: int) -> Step:
        """Go on after OFFSET_OUT_OF_RANGE, by where the leader's log starts and ends (REP-12)."""
        partition = self._replica(followed)
        if partition is None:
            return Step.PARK
        log = partition.log
        try:
            match out_of_range(log.log_end_offset, start_offset, end_offset):
                case OutOfRange.TRUNCATE:
                    self._truncate(log, log.truncation_step(end_offset))
                case OutOfRange.START_ANEW:
                    self._start_anew(log, start_offset)
                case OutOfRange.GO_ON if self._has_impossible_epoch(followed, log):
                    self._cut_impossible_epochs(followed, log)
                case OutOfRange.GO_ON:
                    # No step forward: sent again at once, a puzzled leader would keep us busy.
                    _stand(followed, log)
                    return Step.RETRY_SOON
        except LogDirectoryError as error:
            self._on_directory_error(error)
            return Step.PARK
        _stand(followed, log)
        return Step.GO_ON

    def _has_impossible_epoch(self, followed: PartitionFetchState, log: PartitionLog) -> bool:
        """Whether the log has a leader epoch that no leader ever had.

        No CRC covers the epoch of a batch: lost power may leave another one in what was not synced.
        """
        return log.leader_epochs.latest > followed.leader_epoch and self._knows_epochs()

    def _cut_impossible_epochs(self, followed: PartitionFetchState, log: PartitionLog) -> None:
        """Cut the log to where the first of them begins: no leader can compare it beyond that."""
        entry = next(e for e in log.leader_epochs.entries if e.leader_epoch > followed.leader_epoch)
        logger.warning(
            "%s-%d has records of leader epoch %d, and no leader had one above %d",
            *partition_of(followed),
            entry.leader_epoch,
            followed.leader_epoch,
        )
        self._truncate(log, log.truncation_step(max(entry.start_offset, log.log_start_offset)))

    def _refused(self, followed: PartitionFetchState, code: int) -> Step:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return Step.LOOK_UP
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            return Step.RETRY_LATER  # newer metadata is on its way to us, and is applied at once
        if code in _SOON:
            return Step.RETRY_SOON
        if code != followed.logged_code:
            followed.logged_code = code
            logger.warning(
                "%s-%d: its leader responds with error %d", *partition_of(followed), code
            )
        return Step.RETRY_LATER

    # Truncation and flushing.

    def _start_anew(self, log: PartitionLog, start_offset: int) -> None:
        """Drop everything and go on where the leader's log starts."""
        logger.warning(
            "%s-%d ends at %d, its leader's log starts at %d: it starts anew there",
            *log.topic_partition,
            log.log_end_offset,
            start_offset,
        )
        log.truncate_fully_and_start_at(start_offset)
        self._truncated(log)

    def _log_loss(self, log: PartitionLog, offset: int) -> None:
        if offset < max(log.high_watermark, log.log_start_offset):
            # Data loss, for example after an unclean election.
            logger.error(
                "%s-%d is cut to %d, below its high watermark %d: its leader has other records",
                *log.topic_partition,
                offset,
                log.high_watermark,
            )

    def _truncate(self, log: PartitionLog, offset: int) -> None:
        end_offset = log.log_end_offset
        self._log_loss(log, offset)
        if log.truncate_to(offset):
            logger.info(
                "%s-%d is cut from %d to %d", *log.topic_partition, end_offset, log.log_end_offset
            )
            self._truncated(log)

    def _truncated(self, log: PartitionLog) -> None:
        self.truncation_count += 1
        self._cut[log] = None

    def _note_unsynced(self, partition: Partition) -> None:
        if partition.durable_end_offset < partition.log.log_end_offset:
            self._unsynced[partition] = None

    @property
    def is_unsettled(self) -> bool:
        """Whether `settle` has something to wait for."""
        return bool(self._unsynced or self._cut)

    def is_flushed(self, followed: PartitionFetchState) -> bool:
        """Whether a fetch of a partition tells nothing that its topic wants flushed first.

        If not, it is flushed once more, for which nobody waits.
        """
        partition = self._replica(followed)
        if partition is None or partition.durable_end_offset >= partition.log.log_end_offset:
            return True
        partition.log.start_flush()
        return False

    async def settle(self) -> list[TopicPartition]:
        """Make safe what the next fetch relies on, since a fetch offset acknowledges.

        Truncations and their recovery points, or a crash could mix what was cut with what came
        after; and records whose topic is acknowledged from the disk only. Returns the partitions
        that could not be flushed for want of room: they are not to be fetched before they are.
        """
        cut, self._cut = self._cut, {}
        if cut:
            await self._note_truncations(list(cut))
        unsynced, self._unsynced = self._unsynced, {}
        targets = {partition: partition.log.log_end_offset for partition in unsynced}
        for partition in unsynced:
            partition.log.start_flush()
        for partition, target in targets.items():
            try:
                await _flush(partition, target)
            except LogDirectoryError as error:
                self._on_directory_error(error)
            except KafkaError:
                logger.debug("%s is no longer in service", partition.log.directory)
        return [
            partition.topic_partition
            for partition, target in targets.items()
            if not partition.log.is_offline and partition.durable_end_offset < target
        ]


async def _flush(partition: Partition, target: int) -> None:
    """Flush up to an offset whichever log the partition has, when it ends, in its place."""
    while not partition.log.is_offline:
        log = partition.log
        await log.flush(target)
        if partition.log is log:
            return


def _is_unverified(log: PartitionLog, leader_epoch: int, leader_start_offset: int) -> bool:
    """Whether all of a log is deleted at its leader, and its end is perhaps not the leader's.

    A leader cannot compare what it has deleted. What is committed, or was written under this very
    leader, is the same; a former leader may have appended other records, which would come back with
    a log start that was not written down, and make batches duplicates that the leader never had.
    """
    end_offset = log.log_end_offset
    return (
        log.high_watermark < end_offset <= leader_start_offset
        and log.leader_epochs.latest < leader_epoch
    )


def _shape(log: PartitionLog) -> tuple[int, int, int]:
    """What a truncation changes; that of an empty last segment comes first, and alone."""
    return log.log_end_offset, log.leader_epochs.latest, log.segments.active.base_offset


def partition_of(followed: PartitionFetchState) -> TopicPartition:
    """Its name, for the log."""
    return followed.topic_partition


def _stand(followed: PartitionFetchState, log: PartitionLog) -> None:
    followed.stand_at(log.log_end_offset, log.leader_epochs.latest, log.log_start_offset)
