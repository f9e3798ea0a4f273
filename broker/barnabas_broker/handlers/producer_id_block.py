"""The broker's share of producer ids.

A block from the controller, given out one by one, renewed when it is used up (CTL-15).
"""

import asyncio
from collections.abc import Callable

from barnabas_broker.controller.channel import ControllerChannel
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


class ProducerIdBlock:
    """Ids that are nobody else's."""

    def __init__(
        self,
        channel: ControllerChannel,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        """`broker_epoch` is that of this broker's newest registration, -1 if there is none."""
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._next = 0
        self._end = 0
        self._renewal = asyncio.Lock()  # one request for a block, however many wait

    async def take(self) -> int:
        """The next id.

        Raises: KafkaError, of the controller or because there is none.
        """
        while self._next >= self._end:
            async with self._renewal:
                if self._next >= self._end:
                    await self._renew()
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _renew(self) -> None:
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch()
        )
        response: AllocateProducerIdsResponse = await self._channel.send(
            request, timeout_ms=self._timeout_ms
        )
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(_for_clients(response.error_code))
        self._next = response.producer_id_start
        self._end = self._next + response.producer_id_len


def _for_clients(code: int) -> ErrorCode:
    """The error for a producer: of this broker's registration it knows nothing, so it retries."""
    if code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode(code)
