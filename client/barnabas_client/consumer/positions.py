"""Finds positions: committed offsets, the reset policy, validation after a leader change.

One background task at a time sends the requests, so that partitions with a position are read
meanwhile; errors wait for the next poll. Not here: the requests to leaders (`offsets_lookup.py`)
and to the coordinator (`commits.py`).

Source: CON-5, KIP-320 (validation, truncation), KIP-1106 (reset by duration).
Invariants: a response changes a partition only if it is still in the phase, and at the position,
of the request; a failed look-up is repeated with backoff for as long as it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.offsets_lookup import (
    EpochEnd,
    LookupRound,
    OffsetAndTimestamp,
    list_epoch_ends,
    list_offsets,
)
from barnabas_client.consumer.partition_state import (
    EARLIEST,
    LATEST,
    PartitionState,
    Position,
    PositionPhase,
)
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import (
    BarnabasError,
    ClosedError,
    LogTruncatedError,
    MembershipLostError,
    NoOffsetError,
    OffsetOutOfRangeError,
    RetriableError,
)
from barnabas_client.network.client import Client
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition

CommittedOffsets = Mapping[TopicPartition, OffsetAndMetadata | None]
FetchCommitted = Callable[[set[TopicPartition]], Awaitable[CommittedOffsets]]

# How often a look-up that failed is tried again while the program polls and does not seek.
_FAILED_RETRY_MS: Final = 1000


class PositionFinder:
    """Brings the partitions of one subscription from UNKNOWN, RESET and VALIDATING to READY."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        *,
        fetch_committed: FetchCommitted | None,
        on_change: Callable[[], None],
    ) -> None:
        """`fetch_committed` is None without a group; `on_change` follows positions and errors."""
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._fetch_committed = fetch_committed
        self._on_change = on_change
        self._clock = client.environment.clock
        self._task: asyncio.Task[None] | None = None
        self._is_due = asyncio.Event()
        self._error: BarnabasError | None = None
        # The positions of the partitions that the error is about: a seek makes it void. Empty: the
        # error is always raised.
        self._error_at: dict[TopicPartition, tuple[PartitionState, PositionPhase, int]] = {}
        self._attempt = 0

    def request(self) -> None:
        """Look for partitions without a position soon; cheap, may be called at any time."""
        self._is_due.set()
        if (self._task is None or self._task.done()) and not self._client.has_ended:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="positions")

    @property
    def has_error(self) -> bool:
        """Whether `raise_error` may."""
        return self._error is not None or (
            self._task is not None and self._task.done() and self._task.exception() is not None
        )

    def raise_error(self) -> None:
        """Raise the error of the background task since the last call."""
        error, self._error = self._error, None
        if error is not None and self._is_error_current():
            raise error
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            task.result()

    def reset_or_fail(self, partition: TopicPartition, state: PartitionState) -> None:
        """Apply the reset policy to a position outside of the log.

        Raises: OffsetOutOfRangeError with the policy none; the position stays.
        """
        if self._settings.auto_offset_reset == "none":
            raise OffsetOutOfRangeError(
                f"{partition} has no offset {state.offset}, and auto_offset_reset is none: seek",
                ErrorCode.OFFSET_OUT_OF_RANGE,
                {partition: state.offset},
            )
        state.request_reset()
        self.request()

    def truncate(
        self, partition: TopicPartition, state: PartitionState, end: EpochEnd | None
    ) -> LogTruncatedError | None:
        """Apply the reset policy to a log that was truncated below the position.

        `end` is where the logs still agree. Returns the error to raise with the policy none.
        """
        if self._settings.auto_offset_reset != "none":
            if end is None:
                state.request_reset()
            else:
                topic_id = state.topic_id
                state.seek(end.end_offset, end.leader_epoch)
                state.topic_id = topic_id  # perhaps another topic has the name, and cut nothing
            return None
        agreed = None if end is None else end.end_offset
        return LogTruncatedError(
            f"{partition} was truncated to {'an unknown offset' if agreed is None else agreed},"
            f" below the position {state.offset}, and auto_offset_reset is none: seek",
            {partition: state.offset},
            {partition: agreed},
        )

    async def close(self) -> None:
        """Stop the background task."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _run(self) -> None:
        """Rounds until no partition lacks a position."""
        while True:
            self._is_due.clear()
            try:
                await self._find_committed()
                await self._reset()
                await self._validate()
            except ClosedError:
                return
            except BarnabasError as error:
                self._fail(error)
            wait_ms = self._next_retry_ms()
            if wait_ms is None and not self._is_due.is_set():
                self._attempt = 0
                return
            if wait_ms:
                self._attempt += 1
                try:
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._is_due.wait()
                except TimeoutError:
                    pass

    def _due(self, phase: PositionPhase) -> dict[TopicPartition, PartitionState]:
        now_ms = self._clock.monotonic_ms()
        return {
            partition: state
            for partition, state in self._subscription.assigned.items()
            if state.phase is phase and state.retry_at_ms <= now_ms
        }

    def _next_retry_ms(self) -> int | None:
        """How long until something is due; None if every partition has its position."""
        waiting = [
            state.retry_at_ms
            for state in self._subscription.assigned.values()
            if state.phase is not PositionPhase.READY
        ]
        return max(0, min(waiting) - self._clock.monotonic_ms()) if waiting else None

    def _delay(self, states: Mapping[TopicPartition, PartitionState], delay_ms: int) -> None:
        at_ms = self._clock.monotonic_ms() + max(1, delay_ms)
        for state in states.values():
            state.retry_at_ms = at_ms

    def _is_current(self, partition: TopicPartition, state: PartitionState) -> bool:
        return self._subscription.assigned.get(partition) is state

    def _fail(self, error: BarnabasError, *about: TopicPartition) -> None:
        assigned = self._subscription.assigned
        at = {
            partition: (state, state.phase, state.offset)
            for partition in about
            if (state := assigned.get(partition)) is not None
        }
        if at or not about:
            self._error, self._error_at = error, at
        self._on_change()

    def _is_error_current(self) -> bool:
        """Whether any partition of the error is still at its position."""
        return not self._error_at or any(
            self._is_current(partition, state) and (state.phase, state.offset) == (phase, offset)
            for partition, (state, phase, offset) in self._error_at.items()
        )

    async def _find_committed(self) -> None:
        """Use the committed offset; without one, apply the reset policy."""
        unknown = self._due(PositionPhase.UNKNOWN)
        if not unknown:
            return
        committed: CommittedOffsets = {}
        if self._fetch_committed is not None:
            try:
                committed = await self._fetch_committed(set(unknown))
            except BarnabasError as error:
                # A membership that is over is no error here: the next poll joins again.
                if isinstance(error, RetriableError | MembershipLostError):
                    self._delay(unknown, self._client.backoff_ms(self._attempt))
                    return
                self._delay(unknown, _FAILED_RETRY_MS)
                raise
        lost: dict[TopicPartition, int | None] = {}
        for partition, state in unknown.items():
            if not self._is_current(partition, state) or state.phase is not PositionPhase.UNKNOWN:
                continue
            offset = committed.get(partition)
            if offset is not None:
                state.seek(offset.offset, offset.leader_epoch)
            elif self._settings.auto_offset_reset == "none":
                lost[partition] = None
                self._delay({partition: state}, _FAILED_RETRY_MS)
            else:
                state.request_reset()
        if lost:
            names = ", ".join(sorted(f"{topic}-{partition}" for topic, partition in lost))
            message = f"no committed offset of {names}, and auto_offset_reset is none: seek"
            self._fail(NoOffsetError(message, None, lost), *lost)
        self._on_change()

    async def _reset(self) -> None:
        """Look up the offsets of points in time, batched per leader."""
        due = self._due(PositionPhase.RESET)
        if not due:
            return
        wanted = {partition: self._reset_timestamp_ms(state) for partition, state in due.items()}
        outcome = await self._list_offsets(wanted)
        # A time after the last record has no offset: reading begins at the end.
        ends = {partition: LATEST for partition, offset in outcome.found.items() if offset is None}
        if ends:
            late = await self._list_offsets(ends)
            outcome.found.update(late.found)
            outcome.retriable.update(late.retriable)
            outcome.failed.update(late.failed)
        for partition, found in outcome.found.items():
            state = due[partition]
            is_same = (
                self._is_current(partition, state)
                and state.phase is PositionPhase.RESET
                and state.reset_timestamp_ms == wanted[partition]
            )
            if found is not None and is_same:
                # Without an epoch: the offset was just looked up, and needs no validation.
                state.seek(found.offset)
        self._note_errors(due, outcome)

    async def _list_offsets(
        self, timestamps_ms: dict[TopicPartition, int]
    ) -> LookupRound[OffsetAndTimestamp | None]:
        return await list_offsets(
            self._client,
            timestamps_ms,
            isolation_level=int(self._settings.isolation_level == "read_committed"),
        )

    def _reset_timestamp_ms(self, state: PartitionState) -> int:
        if state.reset_timestamp_ms is None:
            duration_ms = self._settings.offset_reset_duration_ms
            if duration_ms is None:
                is_earliest = self._settings.auto_offset_reset == "earliest"
                state.reset_timestamp_ms = EARLIEST if is_earliest else LATEST
            else:
                state.reset_timestamp_ms = self._clock.wall_ms() - duration_ms
        return state.reset_timestamp_ms

    async def _validate(self) -> None:
        """Validate positions at the new leaders."""
        due = self._due(PositionPhase.VALIDATING)
        if not due:
            return
        requested: dict[TopicPartition, Position] = {}
        for partition, state in due.items():
            position = state.position
            assert position is not None, "only known positions are validated"
            requested[partition] = position
            # The leader may have changed again since validation was found to be due.
            known = self._client.cluster.partition(*partition)
            if known is not None:
                state.current_leader_epoch = known.leader_epoch
        outcome = await list_epoch_ends(
            self._client, {partition: one.leader_epoch for partition, one in requested.items()}
        )
        for partition, end in outcome.found.items():
            state = due[partition]
            if self._is_current(partition, state):
                self._handle_epoch_end(partition, state, requested[partition], end)
        self._note_errors(due, outcome)

    def _handle_epoch_end(
        self, partition: TopicPartition, state: PartitionState, requested: Position, end: EpochEnd
    ) -> None:
        """Keep the position, truncate or fail, by the end of the epoch in the leader's log."""
        if state.phase is not PositionPhase.VALIDATING or state.position != requested:
            return
        is_known = end.end_offset >= 0 and end.leader_epoch >= 0
        if is_known and end.end_offset >= requested.offset:
            state.complete_validation(requested)
            return
        error = self.truncate(partition, state, end if is_known else None)
        if error is not None:
            self._delay({partition: state}, _FAILED_RETRY_MS)
            self._fail(error, partition)

    def _note_errors(
        self,
        due: dict[TopicPartition, PartitionState],
        outcome: LookupRound[OffsetAndTimestamp | None] | LookupRound[EpochEnd],
    ) -> None:
        if outcome.retriable:
            states = {partition: due[partition] for partition in outcome.retriable}
            self._delay(states, self._client.backoff_ms(self._attempt))
            self._client.request_refresh()
        for partition, error in outcome.failed.items():
            self._delay({partition: due[partition]}, _FAILED_RETRY_MS)
            self._fail(error, partition)
        self._on_change()
