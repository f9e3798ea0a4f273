"""What `send` returns: a future for one record's metadata, cheap enough for every record.

A `Delivery` is a pair (group, position). The group are the records that succeed or fail together: a
batch (`batch.py`), or, while the record waits for room or metadata, a group of its own that later
moves into a batch. So acknowledging a batch touches the group once and only those records that a
caller waits for: no asyncio future is created for the others.

Not here: when a group ends (`sender.py`).

Invariants: a group ends once; waiters are called in the order of positions; the failure of records
whose result nobody reads is logged once per group, when its last delivery is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple, TypeAlias

_log = logging.getLogger(__name__)

_new_tuple = tuple.__new__
_Waiter: TypeAlias = "tuple[int, Callable[[Delivery], object], Delivery]"


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is.

    `offset` is -1 where the broker does not return it (acks=0, or an old duplicate);
    `timestamp_ms` is by the broker's clock if the topic says so. Sizes are -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_bytes: int
    serialized_value_bytes: int


class DeliveryGroup:
    """Records that are acknowledged, or fail, together."""

    __slots__ = (
        "base_offset",
        "cancelled",
        "error",
        "is_done",
        "key_sizes",
        "log_append_time_ms",
        "moved_to",
        "partition",
        "timestamps",
        "topic",
        "value_sizes",
        "waiters",
        "was_seen",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.is_done = False
        self.error: BaseException | None = None
        self.was_seen = False
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.timestamps: list[int] = []
        # None while they are not known, or where every key is null.
        self.key_sizes: Sequence[int] | None = None
        self.value_sizes: Sequence[int] = ()
        # (position, what to call with the delivery, the delivery), in any order.
        self.waiters: list[_Waiter] | None = None
        # Records whose delivery was cancelled; they are sent all the same.
        self.cancelled: set[int] | None = None
        # First own position, group, first position there; rising, and it covers all records.
        self.moved_to: list[tuple[int, DeliveryGroup, int]] | None = None

    @property
    def name(self) -> str:
        """Where the records go, as far as that is decided."""
        return self.topic if self.partition < 0 else f"{self.topic}-{self.partition}"

    def metadata(self, position: int) -> RecordMetadata:
        """The metadata of an acknowledged record."""
        offset, timestamp = self.base_offset, self.log_append_time_ms
        if offset >= 0:
            offset += position
        if timestamp < 0:
            timestamp = self.timestamps[position]
        key_size = -1 if self.key_sizes is None else self.key_sizes[position]
        value_size = self.value_sizes[position]
        fields = (self.topic, self.partition, offset, timestamp, key_size, value_size)
        return _new_tuple(RecordMetadata, fields)

    def finish(self, base_offset: int, log_append_time_ms: int) -> None:
        """All records are in the log (or, with acks=0, on their way)."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.is_done = True
        self._notify_waiters()

    def fail(self, error: BaseException) -> None:
        """None of the records is known to be in the log."""
        self.error = error
        self.is_done = True
        self._notify_waiters()

    def move(self, parts: list[tuple[int, DeliveryGroup, int]]) -> None:
        """Move the records to other groups, and those who wait for them, too."""
        self.moved_to = parts
        waiters, self.waiters = self.waiters, None
        for position, call, delivery in waiters or ():
            group, at = self.resolve(position)
            group.add_waiter(at, call, delivery)
        cancelled, self.cancelled = self.cancelled, None
        for position in cancelled or ():
            group, at = self.resolve(position)
            group.add_cancelled(at)

    def resolve(self, position: int) -> tuple[DeliveryGroup, int]:
        """Where a record is now."""
        group = self
        while (parts := group.moved_to) is not None:
            first, target, target_first = parts[0]
            for part in parts:
                if part[0] > position:
                    break
                first, target, target_first = part
            group, position = target, target_first + position - first
        return group, position

    def unfinished_leaf(self) -> DeliveryGroup | None:
        """A group that holds records of this one by now and is not done; None if all are."""
        if self.moved_to is None:
            return None if self.is_done else self
        for _, group, _ in self.moved_to:
            leaf = group.unfinished_leaf()
            if leaf is not None:
                return leaf
        return None

    def add_waiter(
        self, position: int, call: Callable[[Delivery], object], delivery: Delivery
    ) -> None:
        """Call once the group is done; it must not be done yet."""
        if self.waiters is None:
            self.waiters = []
        self.waiters.append((position, call, delivery))

    def add_cancelled(self, position: int) -> None:
        """The delivery of this record was cancelled."""
        if self.cancelled is None:
            self.cancelled = set()
        self.cancelled.add(position)

    def take_waiters(self, position: int) -> list[_Waiter]:
        """Take out those who wait for one record."""
        taken = [waiter for waiter in self.waiters or () if waiter[0] == position]
        self.waiters = [waiter for waiter in self.waiters or () if waiter[0] != position]
        return taken

    def _notify_waiters(self) -> None:
        waiters, self.waiters = self.waiters, None
        if not waiters:
            return
        waiters.sort(key=_position)
        self._call(waiters)

    def _call(self, waiters: list[_Waiter]) -> None:
        for _, call, delivery in waiters:
            try:
                call(delivery)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException:  # a cancellation that it has met must not end the sender's turn
                _log.exception("a callback for %s failed", self.name)

    def cancel(self, position: int) -> None:
        """Cancel the delivery of a record, and call those who wait for it."""
        self.add_cancelled(position)
        self._call(self.take_waiters(position))

    def __del__(self) -> None:
        """Log a failure that nobody has read, as asyncio does for its futures."""
        if self.error is not None and not self.was_seen:
            _log.error(
                "%d records for %s were not delivered, and the error was never retrieved: %s",
                len(self.timestamps),
                self.name,
                self.error,
            )


def _position(waiter: _Waiter) -> int:
    return waiter[0]


class Delivery(tuple[DeliveryGroup, int]):
    """A future for a record's metadata: `await` it, or read it later.

    It has the methods of asyncio's futures, so that `gather` and `wait` take it as it is.
    Cancelling it, or a task that awaits it, does not stop the record from being sent.
    """

    __slots__ = ()

    # What makes asyncio.isfuture() true; without it `gather` would make a task of each.
    _asyncio_future_blocking = False

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop in which the producer runs."""
        return asyncio.get_running_loop()

    def done(self) -> bool:
        """Whether the record is acknowledged, has failed, or its delivery was cancelled."""
        group, position = self[0].resolve(self[1])
        return group.is_done or (group.cancelled is not None and position in group.cancelled)

    def cancel(self, msg: object = None) -> bool:
        """Cancel the delivery; the record is sent all the same."""
        group, position = self[0].resolve(self[1])
        if self.done():
            return False
        group.cancel(position)
        return True

    def cancelled(self) -> bool:
        """Whether the delivery was cancelled."""
        group, position = self[0].resolve(self[1])
        return group.cancelled is not None and position in group.cancelled

    def result(self) -> RecordMetadata:
        """The metadata of the record.

        Raises: the error of a record that failed; asyncio.InvalidStateError if not done.
        """
        group, position = self._settled()
        if group.error is not None:
            group.was_seen = True
            # One error serves many: without this each raise would lengthen its traceback.
            raise group.error.with_traceback(None)
        return group.metadata(position)

    def exception(self) -> BaseException | None:
        """The error of a record that failed, or None.

        Raises: asyncio.InvalidStateError if not done.
        """
        group, _ = self._settled()
        group.was_seen = True
        return group.error

    def _settled(self) -> tuple[DeliveryGroup, int]:
        group, position = self[0].resolve(self[1])
        if group.cancelled is not None and position in group.cancelled:
            raise asyncio.CancelledError
        if not group.is_done:
            raise asyncio.InvalidStateError("the record is not delivered yet")
        return group, position

    def _make_cancelled_error(self) -> asyncio.CancelledError:
        """Return what `gather` raises for a child that was cancelled, as asyncio's futures do."""
        return asyncio.CancelledError()

    def add_done_callback(
        self, callback: Callable[[Delivery], object], *, context: Context | None = None
    ) -> None:
        """Call with this delivery when it is done, from the sender, in the order of offsets.

        If it is done already the call is made by the loop, soon.
        """
        if self.done():
            asyncio.get_running_loop().call_soon(callback, self, context=context)
            return
        # Not in the context, unlike asyncio: the callback runs in that of the sender.
        group, position = self[0].resolve(self[1])
        group.add_waiter(position, callback, self)

    def remove_done_callback(self, callback: Callable[[Delivery], object]) -> int:
        """Do not call this function; return how often it would have been called."""
        group, position = self[0].resolve(self[1])
        waiters = group.waiters or []
        kept = [w for w in waiters if not (w[0] == position and w[1] == callback)]
        group.waiters = kept
        return len(waiters) - len(kept)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait for the acknowledgement."""
        if not self.done():
            group, position = self[0].resolve(self[1])
            waiter = asyncio.get_running_loop().create_future()
            group.add_waiter(position, partial(_wake, waiter), self)
            yield from waiter
        return self.result()

    def __repr__(self) -> str:
        """Return where the record goes and how it stands."""
        group, position = self[0].resolve(self[1])
        state = "in flight"
        if group.is_done:
            state = "acknowledged" if group.error is None else f"failed: {group.error}"
        return f"<Delivery {group.name} record {position}: {state}>"

    # A future is equal to itself only.
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__


class Deliveries:
    """A future for many records: `await` it for their number.

    Awaiting raises the first failure. A batch fails as a whole, so that a failure may be that of
    another record which was sent into the same batch.
    """

    __slots__ = ("_groups", "count")

    def __init__(self, count: int) -> None:
        self.count = count
        self._groups: list[DeliveryGroup] = []

    def add(self, group: DeliveryGroup) -> None:
        """Records of this group belong to it, too."""
        if not self._groups or self._groups[-1] is not group:
            self._groups.append(group)

    def done(self) -> bool:
        """Whether all are acknowledged or have failed, so that awaiting does not wait."""
        return all(group.unfinished_leaf() is None for group in self._groups)

    def first_offsets(self) -> Iterator[tuple[int, int]]:
        """Of each batch that has some of the records: its partition and first offset, or -1.

        Only for records that are acknowledged.
        """
        for group in self._groups:
            for leaf in _leaves(group):
                yield leaf.partition, leaf.base_offset

    def have_broker_times(self) -> bool:
        """Whether the broker put its own time in place of those given (LogAppendTime).

        Only for records that are acknowledged.
        """
        return any(
            leaf.log_append_time_ms >= 0 for group in self._groups for leaf in _leaves(group)
        )

    def __await__(self) -> Generator[Any, None, int]:
        """Wait until all are acknowledged or have failed.

        Raises: the error of the first one that failed.
        """
        return self._wait().__await__()

    async def _wait(self) -> int:
        await finished(self._groups)
        first: BaseException | None = None
        for group in self._groups:
            for leaf in _leaves(group):
                leaf.was_seen = True
                first = first or leaf.error
        if first is not None:
            raise first.with_traceback(None)
        return self.count


def _leaves(group: DeliveryGroup) -> Iterator[DeliveryGroup]:
    """The groups that the records of the group have moved to."""
    if group.moved_to is None:
        yield group
    for _, part, _ in group.moved_to or ():
        yield from _leaves(part)


async def finished(groups: Sequence[DeliveryGroup]) -> None:
    """Wait until all groups, wherever their records moved, are done."""
    for group in groups:
        while (leaf := group.unfinished_leaf()) is not None:
            waiter = asyncio.get_running_loop().create_future()
            leaf.add_waiter(0, partial(_wake, waiter), Delivery((leaf, 0)))
            await waiter


def _wake(waiter: asyncio.Future[None], _: Delivery) -> None:
    if not waiter.done():
        waiter.set_result(None)
