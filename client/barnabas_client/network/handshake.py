"""What is said on a new connection before anything else: versions, then the log-in.

Pure: a generator-like machine. `begin` and `answer` give the next request with its version, or
None when the connection may be used. Re-authentication (KIP-368) begins at the second step.

    ApiVersions 4 -> (UNSUPPORTED_VERSION: again in a version the broker names) -> SaslHandshake 1
    -> SaslAuthenticate, as often as the mechanism needs -> done

Source: KIP-511 (ApiVersions), KIP-43 and KIP-152 (SASL), KIP-368 (session lifetime).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, assert_never

from barnabas_client.errors import (
    AuthenticationError,
    RetriableError,
    UnsupportedError,
    error_for,
)
from barnabas_client.network.sasl import SaslExchange
from barnabas_client.network.served_apis import ServedApis
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas_protocol.schema import Message

API_VERSIONS_VERSION: Final = 4
"""Version 5 adds the ids of the cluster and the node, which a proxy may not know (KIP-1242)."""
SOFTWARE_NAME: Final = "barnabas"

Step = tuple[Message, int]


class _Phase(Enum):
    VERSIONS = auto()
    MECHANISM = auto()
    TOKENS = auto()
    DONE = auto()


class Handshake:
    """One connection's beginning; `served` and `session_lifetime_ms` are its results."""

    def __init__(
        self, software_version: str, create_exchange: Callable[[], SaslExchange] | None
    ) -> None:
        self.served = ServedApis()
        self.session_lifetime_ms = 0
        self._software_version = software_version
        self._create_exchange = create_exchange
        self._exchange: SaslExchange | None = None
        self._phase = _Phase.DONE
        self._versions_version = API_VERSIONS_VERSION

    def begin(self) -> Step:
        """The first request of a new connection."""
        self._phase = _Phase.VERSIONS
        return self._versions_request()

    def begin_again(self) -> Step:
        """The first request of a re-authentication."""
        step = self._begin_login()
        assert step is not None
        return step

    def answer(self, response: Any) -> Step | None:
        """Take the answer to the last request; return the next one, None when all is done.

        Raises: AuthenticationError, UnsupportedError, or what the broker's error code says.
        """
        match self._phase:
            case _Phase.VERSIONS:
                return self._versions(response)
            case _Phase.MECHANISM:
                return self._mechanism(response)
            case _Phase.TOKENS:
                return self._token(response)
            case _Phase.DONE:
                raise AssertionError("nothing was asked")
            case _ as unreachable:
                assert_never(unreachable)

    def _versions_request(self) -> Step:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=self._software_version
        )
        return request, self._versions_version

    def _versions(self, response: ApiVersionsResponse) -> Step | None:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and self._versions_version > 0:
            ranges = ServedApis.from_answer(response)
            offered = ranges.newest(ApiKey.API_VERSIONS, maximum=self._versions_version - 1)
            self._versions_version = offered or 0
            return self._versions_request()
        if response.error_code != ErrorCode.NONE:
            raise error_for(response.error_code, "the broker refuses to tell its versions")
        self.served = ServedApis.from_answer(response)
        return self._begin_login()

    def _begin_login(self) -> Step | None:
        if self._create_exchange is None:
            self._phase = _Phase.DONE
            return None
        version = self.served.newest(ApiKey.SASL_HANDSHAKE, minimum=1)
        if version is None or self.served.newest(ApiKey.SASL_AUTHENTICATE) is None:
            raise UnsupportedError(
                "the broker does not offer SASL here: check security_protocol and the port"
            )
        self._exchange = self._create_exchange()
        self._phase = _Phase.MECHANISM
        return SaslHandshakeRequest(mechanism=self._exchange.mechanism), version

    def _mechanism(self, response: SaslHandshakeResponse) -> Step:
        assert self._exchange is not None
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise AuthenticationError(
                f"sasl_mechanism={self._exchange.mechanism} is not enabled on the broker, "
                f"which offers {', '.join(response.mechanisms) or 'none'}"
            )
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationError(
                "the broker's listener does not use SASL: set security_protocol to PLAINTEXT or "
                "SSL, or use its SASL port"
            )
        if response.error_code != ErrorCode.NONE:
            raise error_for(response.error_code, "the broker refuses to begin the log-in")
        self._phase = _Phase.TOKENS
        return self._authenticate(self._exchange.first())

    def _authenticate(self, token: bytes) -> Step:
        version = self.served.newest(ApiKey.SASL_AUTHENTICATE)
        assert version is not None
        return SaslAuthenticateRequest(auth_bytes=token), version

    def _token(self, response: SaslAuthenticateResponse) -> Step | None:
        exchange = self._exchange
        assert exchange is not None
        if response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            said = response.error_message or "no reason given"
            raise AuthenticationError(
                f"the broker refuses the {exchange.mechanism} credentials: {said}",
                ErrorCode.SASL_AUTHENTICATION_FAILED,
            )
        if response.error_code != ErrorCode.NONE:
            error = error_for(response.error_code, response.error_message)
            if isinstance(error, RetriableError):
                raise error
            raise AuthenticationError(f"the log-in failed: {error}", error.code)
        token = exchange.respond(bytes(response.auth_bytes))
        if token is not None:
            return self._authenticate(token)
        if not exchange.is_complete:
            raise AuthenticationError(f"{exchange.mechanism} ended without a result")
        self.session_lifetime_ms = response.session_lifetime_ms
        self._exchange = None
        self._phase = _Phase.DONE
        return None
