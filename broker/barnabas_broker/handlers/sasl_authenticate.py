"""SaslAuthenticate (36), versions 0 to 2: on a connection that has logged in, or needs no log-in.

Before log-in it does not come here, nor does what follows a handshake: `network.login` takes that.
Source: KIP-43, KIP-152, KIP-368; SEC-20.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(
    services: Services, in_flight: InFlightRequest, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | None:
    """Leave it to the connection's log-in; without one there is nothing to log in to."""
    login = in_flight.session.login
    if login is None:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    login.take(in_flight)
    return None


def failed(request: SaslAuthenticateRequest, error: KafkaError) -> SaslAuthenticateResponse:
    """The error alone."""
    return SaslAuthenticateResponse(error_code=error.code)
