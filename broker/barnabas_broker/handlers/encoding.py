"""Responses as frames: on the loop, or in a thread where that takes long."""

from barnabas_broker.handlers.request_limits import check_answer
from barnabas_broker.network.heavy_work import HeavyWork
from barnabas_broker.network.session import Exchange
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.schema import Message


def encoded(exchange: Exchange, response: Message) -> bytes:
    """The frame of a response."""
    return codec.encode_response(
        response, exchange.api_key, exchange.api_version, exchange.correlation_id
    )


async def encoded_apart(heavy_work: HeavyWork, exchange: Exchange, response: Message) -> bytes:
    """The frame of a response, made in a thread.

    Raises: ConnectionGoneError; KafkaError where it is too large.
    """
    frame = await heavy_work.run(exchange, encoded, exchange, response)
    check_answer(ApiKey(exchange.api_key), frame)
    return frame
