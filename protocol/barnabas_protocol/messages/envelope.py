"""Envelope (key 58): version 0, always flexible."""

from barnabas_protocol.schema import Buffer, Message, data, int16


class EnvelopeRequest(Message, versions=(0, 0), flexible=0):
    """Request of Envelope."""

    request_data: Buffer = data()
    request_principal: Buffer | None = data(nullable=0)
    client_host_address: Buffer = data()


class EnvelopeResponse(Message, versions=(0, 0), flexible=0):
    """Response of Envelope."""

    response_data: Buffer | None = data(nullable=0, default=None)
    error_code: int = int16()
