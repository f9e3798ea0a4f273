"""What a client requests on a new connection before anything else: versions, then the log-in.

Pure: `begin` and `receive` give the next request with its version, or None when the connection may
be used; or what is to be hashed, and `provide` gives the next. Re-authentication (KIP-368) begins
at the second step.

    ApiVersions 4 -> (UNSUPPORTED_VERSION: again in a version the broker names) -> SaslHandshake 1
    -> SaslAuthenticate, as often as the mechanism needs -> done

Source: KIP-511 (ApiVersions), KIP-43 and KIP-152 (SASL), KIP-368 (session lifetime).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.api_versions import NodeApiVersions
from barnabas_protocol.connection.sasl.mechanism import HashingNeeded
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas_protocol.schema import Message

if TYPE_CHECKING:
    from barnabas_protocol.connection.sasl import HashingSaslClient, SaslClient

API_VERSIONS_VERSION: Final = 4
"""Version 5 adds the ids of the cluster and the node, which a proxy may not know (KIP-1242)."""

Step = tuple[Message, int]


class Refusal(Enum):
    """At what a handshake fails."""

    VERSIONS = auto()
    """The server responds to ApiVersions with an error."""
    NO_SASL = auto()
    """The server does not offer the APIs of SASL."""
    NOT_A_SASL_LISTENER = auto()
    MECHANISM = auto()
    """The mechanism is not enabled; `offered` are."""
    LOGIN_BEGIN = auto()
    """The server responds to SaslHandshake with another error."""
    CREDENTIALS = auto()
    LOGIN = auto()
    """The server responds to SaslAuthenticate with another error."""
    INCOMPLETE = auto()
    """The server has nothing more to send, but has not proven what the mechanism demands."""


_REFUSALS: Final[dict[int, Refusal]] = {
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: Refusal.MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE: Refusal.NOT_A_SASL_LISTENER,
}


class HandshakeError(Exception):
    """The server refuses the handshake, or does not offer what it needs."""

    def __init__(
        self,
        refusal: Refusal,
        *,
        mechanism: str = "",
        error_code: int = ErrorCode.NONE,
        message: str | None = None,
        offered: Sequence[str] = (),
    ) -> None:
        super().__init__(f"{refusal.name}, error code {error_code}: {message}")
        self.refusal = refusal
        self.mechanism = mechanism
        self.error_code = error_code
        self.message = message
        self.offered = offered


class _Phase(Enum):
    VERSIONS = auto()
    MECHANISM = auto()
    TOKENS = auto()
    DONE = auto()


class Handshake:
    """One connection's beginning; `versions` and `session_lifetime_ms` are its results."""

    def __init__(
        self,
        software_name: str,
        software_version: str,
        create_sasl_client: Callable[[], SaslClient] | None = None,
    ) -> None:
        self.versions = NodeApiVersions()
        self.session_lifetime_ms = 0
        self._software = (software_name, software_version)
        self._create_sasl_client = create_sasl_client
        self._sasl_client: SaslClient | None = None
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

    def receive(self, response: Any) -> Step | HashingNeeded | None:
        """Take the response to the last request; return the next one, None when all is done.

        What is to be hashed before there is a next one is returned instead.

        Raises: HandshakeError; what the mechanism raises, SaslError by our own ones.
        """
        match self._phase:
            case _Phase.VERSIONS:
                return self._versions(response)
            case _Phase.MECHANISM:
                return self._mechanism(response)
            case _Phase.TOKENS:
                return self._token(response)
            case _Phase.DONE:
                raise AssertionError("no request of the handshake is in flight")
            case _ as unreachable:
                assert_never(unreachable)

    def provide(self, hashed: bytes) -> Step:
        """The request that hashing was needed for."""
        assert self._sasl_client is not None
        return self._authenticate(cast("HashingSaslClient", self._sasl_client).provide(hashed))

    def _versions_request(self) -> Step:
        name, version = self._software
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        return request, self._versions_version

    def _versions(self, response: ApiVersionsResponse) -> Step | None:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and self._versions_version > 0:
            versions = NodeApiVersions.from_response(response)
            offered = versions.newest(ApiKey.API_VERSIONS, maximum=self._versions_version - 1)
            self._versions_version = offered or 0
            return self._versions_request()
        if response.error_code != ErrorCode.NONE:
            raise HandshakeError(Refusal.VERSIONS, error_code=response.error_code)
        self.versions = NodeApiVersions.from_response(response)
        return self._begin_login()

    def _begin_login(self) -> Step | None:
        if self._create_sasl_client is None:
            self._phase = _Phase.DONE
            return None
        version = self.versions.newest(ApiKey.SASL_HANDSHAKE, minimum=1)
        if version is None or self.versions.newest(ApiKey.SASL_AUTHENTICATE) is None:
            raise HandshakeError(Refusal.NO_SASL)
        self._sasl_client = self._create_sasl_client()
        self._phase = _Phase.MECHANISM
        return SaslHandshakeRequest(mechanism=self._sasl_client.mechanism), version

    def _mechanism(self, response: SaslHandshakeResponse) -> Step:
        sasl_client = self._sasl_client
        assert sasl_client is not None
        if response.error_code != ErrorCode.NONE:
            raise HandshakeError(
                _REFUSALS.get(response.error_code, Refusal.LOGIN_BEGIN),
                mechanism=sasl_client.mechanism,
                error_code=response.error_code,
                offered=response.mechanisms,
            )
        self._phase = _Phase.TOKENS
        return self._authenticate(sasl_client.first())

    def _authenticate(self, token: bytes) -> Step:
        version = self.versions.newest(ApiKey.SASL_AUTHENTICATE)
        assert version is not None
        return SaslAuthenticateRequest(auth_bytes=token), version

    def _token(self, response: SaslAuthenticateResponse) -> Step | HashingNeeded | None:
        sasl_client = self._sasl_client
        assert sasl_client is not None
        code, mechanism = response.error_code, sasl_client.mechanism
        if code != ErrorCode.NONE:
            is_refused = code == ErrorCode.SASL_AUTHENTICATION_FAILED
            raise HandshakeError(
                Refusal.CREDENTIALS if is_refused else Refusal.LOGIN,
                mechanism=mechanism,
                error_code=code,
                message=response.error_message,
            )
        token = sasl_client.respond(bytes(response.auth_bytes))
        if isinstance(token, HashingNeeded):
            return token
        if token is not None:
            return self._authenticate(token)
        if not sasl_client.is_complete:
            raise HandshakeError(Refusal.INCOMPLETE, mechanism=mechanism)
        self.session_lifetime_ms = response.session_lifetime_ms
        self._sasl_client = None
        self._phase = _Phase.DONE
        return None
