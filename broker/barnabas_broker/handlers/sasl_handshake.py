"""SaslHandshake (17), versions 0 and 1: on a connection that has logged in, or needs no log-in.

Before log-in it does not come here, nor does what follows a handshake: `network.login` takes that.
Source: KIP-43, KIP-152, KIP-368; SEC-20.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


def handle(
    services: Services, in_flight: InFlightRequest, request: SaslHandshakeRequest
) -> SaslHandshakeResponse | None:
    """Leave it to the connection's log-in; without one there is nothing to log in to."""
    login = in_flight.session.login
    if login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    login.take(in_flight)
    return None


def failed(request: SaslHandshakeRequest, error: KafkaError) -> SaslHandshakeResponse:
    """The error alone."""
    return SaslHandshakeResponse(error_code=error.code)
