"""A fetch of very many partitions: read a slice at a time, and read again when one has moved.

An ordinary fetch looks at all of its partitions in one turn of the loop, and again whenever one of
them moves; with thousands that holds the loop up. Here the first
movement is answered with all that there is then, even if that is less than the client would wait
for.
"""

import asyncio

from barnabas_broker.network.heavy_work import Pause
from barnabas_broker.purgatory.purgatory import DelayedOperation, Purgatory
from barnabas_broker.replication.fetching import Fetching, PartitionData


class Movement(DelayedOperation):
    """Waits until something has happened to one of the partitions, whatever it is."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.has_moved = asyncio.Event()

    def try_complete(self) -> bool:
        """It is tried when a partition has moved, and at no other time."""
        return self.force_complete()

    def on_complete(self) -> None:
        """Wake who waits."""
        self.has_moved.set()

    def on_expire(self) -> None:
        """Nothing of its own: an expired fetch is answered with what there is."""


async def fetch_many(
    fetching: Fetching, timeout_ms: int, purgatory: Purgatory, pause: Pause
) -> list[PartitionData]:
    """The results of a fetch, one for each partition, at once or when there is enough.

    Fewer where there is nobody any more to answer.
    """
    movement = Movement(timeout_ms)
    # Watched before they are read, or what moves in between would not be noticed.
    purgatory.watch(movement, fetching.keys)
    try:
        results = await fetching.read_in_slices(pause)
        if timeout_ms <= 0 or fetching.is_enough(results):
            return results
        await movement.has_moved.wait()
    finally:
        movement.cancel()
    return await fetching.read_in_slices(pause)
