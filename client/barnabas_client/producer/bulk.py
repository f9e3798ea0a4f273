"""Many records at once: `Producer.send_many`, for those who have them in columns.

What `Producer.send` does for each record is done here for as many as fit into the open batch; the
record that does not fit goes the long way, which opens the next batch. So the order is that of the
call, limits and errors are those of `send`, and a record costs a tenth of a microsecond.

Not here: turning records into bytes (`record_encoding.py`), partitions of keys in columns
(`key_columns.py`).

Invariants: between two waits no more is put in line than one batch's first record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import accumulate, repeat
from operator import add
from typing import Any

from barnabas_client.errors import UsageError
from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.delivery import Delivery, DeliveryGroup, finished
from barnabas_client.producer.preparation import TIMESTAMP_MS_MAX
from barnabas_client.producer.queues import TopicQueues
from barnabas_client.producer.record_encoding import RECORD_OVERHEAD_BYTES, Headers


class Deliveries:
    """The promise that many records are acknowledged: `await` it for their number.

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

    def __await__(self) -> Generator[Any, None, int]:
        """Wait until all are acknowledged or have failed.

        Raises: what kept the first one that failed from being delivered.
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
    """Where the records of the group are by now."""
    if group.moved_to is None:
        yield group
    for _, part, _ in group.moved_to or ():
        yield from _leaves(part)


class BulkMethods:
    """The part of `Producer` that takes many records."""

    _open_topics: dict[str, TopicQueues]
    _wall_ms: Callable[[], int]

    def _send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Delivery:
        raise NotImplementedError

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """See `Producer.send`."""
        raise NotImplementedError

    async def drain(self) -> None:
        """See `Producer.drain`."""
        raise NotImplementedError

    async def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> Deliveries:
        """Send records of a topic in their order, as `send` and `drain` would one by one.

        The sequences are as long as `values`; keys are all null, and times those of this call, if
        they are not given. It is fast for bytes without headers, of one partition if there are
        keys. Waits while there is no room, not for acknowledgements: await what it returns, too.
        Raises: UsageError and its kinds if a record cannot be sent as it is: those before it are
        on their way.
        """
        columns = {"keys": keys, "timestamps_ms": timestamps_ms, "headers": headers}
        for name, column in columns.items():
            if column is not None and len(column) != len(values):
                raise UsageError(f"{len(column)} {name} for {len(values)} values: give one each")
        if timestamps_ms is None:
            timestamps_ms = [self._wall_ms()] * len(values)
        is_of_one = keys is None or partition is not None
        if headers is None and is_of_one and _are_plain(values, keys, timestamps_ms):
            return await self._send_plain(topic, values, keys, partition, timestamps_ms)
        deliveries = Deliveries(len(values))
        for index, value in enumerate(values):
            key = None if keys is None else keys[index]
            named = () if headers is None else headers[index]
            time = timestamps_ms[index]
            sent = self.send(
                topic, value, key=key, partition=partition, timestamp_ms=time, headers=named
            )
            deliveries.add(sent[0])
            await self.drain()
        return deliveries

    async def _send_plain(
        self,
        topic: str,
        values: Sequence[bytes],
        keys: Sequence[bytes] | None,
        partition: int | None,
        timestamps_ms: Sequence[int],
    ) -> Deliveries:
        count = len(values)
        deliveries = Deliveries(count)
        sizes = map(add, map(len, values), repeat(RECORD_OVERHEAD_BYTES))
        if keys is not None:
            sizes = map(add, sizes, map(len, keys))
        ends = list(accumulate(sizes, initial=0))
        position = 0
        while position < count:
            batch = self._open_batch(topic, partition, is_keyed=keys is not None)
            if batch is not None:
                # The sizes up to `stop` fit in: it is the last end that is not beyond the room.
                room_end = ends[position] + batch.room_bytes
                stop = bisect_right(ends, room_end, position) - 1
                if stop > position:
                    batch.values += values[position:stop]
                    batch.timestamps += timestamps_ms[position:stop]
                    if keys is not None:
                        batch.keys += keys[position:stop]  # type: ignore[operator]
                    batch.room_bytes -= ends[stop] - ends[position]
                    deliveries.add(batch)
                    position = stop
                    continue
            key = None if keys is None else keys[position]
            time = timestamps_ms[position]
            deliveries.add(self._send(topic, values[position], key, partition, time, ())[0])
            position += 1
            await self.drain()
        return deliveries

    def _open_batch(
        self, topic: str, partition: int | None, *, is_keyed: bool
    ) -> ProducerBatch | None:
        """A batch that plain records may be added to, as in `Producer.send`."""
        queues = self._open_topics.get(topic)
        if queues is None:
            return None
        if partition is None:
            batch = queues.sticky.open_batch
        elif 0 <= partition < len(queues.queues):
            batch = queues.queues[partition].open_batch
        else:
            return None
        if batch is None or not (batch.is_keyed if is_keyed else batch.is_plain):
            return None
        return batch


def _are_plain(
    values: Sequence[Any], keys: Sequence[Any] | None, timestamps_ms: Sequence[Any]
) -> bool:
    """Whether nothing needs to be said about any of them, nor converted."""
    if not values or set(map(type, values)) != {bytes}:
        return False
    if keys is not None and set(map(type, keys)) != {bytes}:
        return False
    if set(map(type, timestamps_ms)) != {int}:
        return False
    return bool(min(timestamps_ms) >= 0 and max(timestamps_ms) <= TIMESTAMP_MS_MAX)
