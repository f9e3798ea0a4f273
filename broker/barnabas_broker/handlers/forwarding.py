"""A client's request that only the active controller may carry out, sent on to it.

The frame travels as it came, and what comes back is the whole response frame with the client's own
correlation id: nothing is encoded anew.

Source: CTL-15, KIP-590. There is no principal to send along as long as there is no security.
"""

import asyncio
import ipaddress
from functools import partial
from typing import Any

from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.env.disk import Buffer
from barnabas_broker.network.session import Exchange
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.envelope import EnvelopeRequest


async def forward(channel: ControllerChannel, exchange: Exchange, timeout_ms: int) -> Buffer | None:
    """The response frame of the controller; None if that is this node by now.

    The task that runs this is cancelled if the client leaves: else clients that come and go would
    leave any number of them waiting for a controller.
    Raises: KafkaError: REQUEST_TIMED_OUT, or why the controller did not take the request.
    """
    task = asyncio.current_task()
    assert task is not None
    exchange.on_closed(partial(_cancel, task))
    envelope = EnvelopeRequest(
        request_data=exchange.frame,
        request_principal=b"",
        client_host_address=_packed(exchange.session.host),
    )
    try:
        response = await channel.forward(envelope, timeout_ms=timeout_ms)
    finally:
        exchange.on_abandoned = None
    if response is None:
        return None
    if response.error_code != ErrorCode.NONE or response.response_data is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller did not take the request")
    return response.response_data


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


def _packed(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return b""
