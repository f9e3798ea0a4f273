"""The broker's share of producer ids.

A block from the controller, given out one by one, renewed when it is used up (CTL-15).
"""

import asyncio

from barnabas_broker.controller.controller import Controller


class ProducerIdBlock:
    """Ids that are nobody else's."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._next = 0
        self._end = 0
        self._renewal = asyncio.Lock()  # a whole block is asked for once, however many wait

    async def take(self) -> int:
        """The next id."""
        while self._next >= self._end:
            async with self._renewal:
                if self._next >= self._end:
                    first, count = await self._controller.allocate_producer_ids()
                    self._next, self._end = first, first + count
        producer_id = self._next
        self._next += 1
        return producer_id
