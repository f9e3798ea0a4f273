"""The log-in of one connection on a server: which requests are due, and what comes of them.

    INITIAL -> (ApiVersions, once) -> SaslHandshake -> tokens -> AUTHENTICATED
    AUTHENTICATED -> SaslHandshake -> tokens -> AUTHENTICATED     (re-authentication, KIP-368)
    anything that fails -> FAILED

After SaslHandshake 1 tokens travel in SaslAuthenticate; after SaslHandshake 0 they are frames of
their own without a header (`receive_token`), and a failure closes the connection without a word.
Pure: an exchange that needs a credential or a verdict hands its question out, and `provide` goes
on. Not here: how long the response to a failed log-in is held back.

Source: KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.sasl.mechanism import (
    TOKEN_BYTES_MAX,
    Authenticated,
    Challenge,
    Provision,
    Question,
    SaslError,
    SaslServer,
    ServerStep,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

REAUTHENTICATION_MS_MIN: Final = 1_000
"""A connection that logs in again sooner is refused."""

FAILED: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
)
PLAIN_FAILED: Final = "Authentication failed: Invalid username or password"
"""Kafka's words, which people search for; the same for every cause."""


class Admission(Enum):
    """What to do with a request, before it is handled."""

    HANDLE = auto()
    REFUSE = auto()
    """Respond in its own form with ILLEGAL_SASL_STATE."""
    CLOSE = auto()
    """Close without a response."""


class Respond(NamedTuple):
    """Send a response; the connection is to be closed behind it if `closes`.

    The reason is for the log: it may say more than the client is told.
    """

    response: SaslHandshakeResponse | SaslAuthenticateResponse
    closes: bool = False
    reason: str = ""


class RespondToken(NamedTuple):
    """Send a token as a frame without a header."""

    token: bytes


class CloseConnection(NamedTuple):
    """Close without a word; the reason is for the log."""

    reason: str


Outcome: TypeAlias = Respond | RespondToken | CloseConnection


class _Phase(Enum):
    INITIAL = auto()
    VERSIONS_KNOWN = auto()
    TOKENS = auto()
    BARE_TOKENS = auto()
    AUTHENTICATED = auto()
    FAILED = auto()


class SaslServerAuthenticator:
    """The log-ins of one connection, one after the other."""

    def __init__(
        self,
        mechanisms: Mapping[str, Callable[[], SaslServer]],
        *,
        session_lifetimes_ms: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Make one for a new connection.

        `mechanisms` makes an exchange for each mechanism that is enabled, in the order in which
        clients learn them. A session lasts as long as its token and at most
        `session_lifetimes_ms` of its mechanism; 0 is no limit.
        """
        self.username: str | None = None
        """Who has logged in."""
        self.mechanism = ""
        self.expires_at_ms: int | None = None
        """When the session ends unless the client logs in again."""
        self._mechanisms = mechanisms
        self._session_lifetimes_ms = session_lifetimes_ms
        self.begun = ""
        """The mechanism of the last handshake, one of those that are enabled."""
        self._phase = _Phase.INITIAL
        self._exchange: SaslServer | None = None
        self._since_ms = 0

    @property
    def is_authenticated(self) -> bool:
        """Whether requests may be handled in the user's name."""
        return self._phase is _Phase.AUTHENTICATED

    @property
    def takes_bare_tokens(self) -> bool:
        """Whether the next frame is a token without a header."""
        return self._phase is _Phase.BARE_TOKENS

    def admit(self, key: int, now_ms: int) -> Admission:
        """Return what to do with a request of an API that has arrived now."""
        match self._phase:
            case _Phase.INITIAL | _Phase.VERSIONS_KNOWN:
                is_due = key == ApiKey.SASL_HANDSHAKE or (
                    key == ApiKey.API_VERSIONS and self._phase is _Phase.INITIAL
                )
                return Admission.HANDLE if is_due else Admission.CLOSE
            case _Phase.TOKENS:
                return Admission.HANDLE if key == ApiKey.SASL_AUTHENTICATE else Admission.REFUSE
            case _Phase.AUTHENTICATED:
                if key == ApiKey.SASL_HANDSHAKE:
                    return Admission.HANDLE
                if self.expires_at_ms is not None and now_ms >= self.expires_at_ms:
                    return Admission.CLOSE
                return Admission.REFUSE if key == ApiKey.SASL_AUTHENTICATE else Admission.HANDLE
            case _Phase.BARE_TOKENS | _Phase.FAILED:
                return Admission.CLOSE

    def versions_sent(self) -> None:
        """Take note that ApiVersions got a response without an error; it is not due again."""
        if self._phase is _Phase.INITIAL:
            self._phase = _Phase.VERSIONS_KNOWN

    def handshake(self, request: SaslHandshakeRequest, version: int, now_ms: int) -> Respond:
        """Begin a log-in, or a re-authentication."""
        is_again = self._phase is _Phase.AUTHENTICATED
        if is_again and now_ms - self._since_ms < REAUTHENTICATION_MS_MIN:
            return Respond(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        if self._phase not in (_Phase.INITIAL, _Phase.VERSIONS_KNOWN, _Phase.AUTHENTICATED):
            return self._refuse_handshake(ErrorCode.ILLEGAL_SASL_STATE)
        create = self._mechanisms.get(request.mechanism)
        if create is None:
            return self._refuse_handshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        # Of another mechanism than before, as in Kafka, the next token is refused.
        is_other = is_again and request.mechanism != self.mechanism
        self._exchange = None if is_other else create()
        self.begun = request.mechanism
        self._phase = _Phase.TOKENS if version > 0 else _Phase.BARE_TOKENS
        return Respond(SaslHandshakeResponse(mechanisms=list(self._mechanisms)))

    def _refuse_handshake(self, code: ErrorCode) -> Respond:
        self._phase = _Phase.FAILED
        response = SaslHandshakeResponse(error_code=code, mechanisms=list(self._mechanisms))
        return Respond(response, closes=True, reason=code.name)

    def authenticate(self, request: SaslAuthenticateRequest, now_ms: int) -> Outcome | Question:
        """Take the token in a request."""
        if self._phase is not _Phase.TOKENS:
            code = ErrorCode.ILLEGAL_SASL_STATE
            response = SaslAuthenticateResponse(error_code=code)
            return Respond(response, closes=not self.username, reason=code.name)
        return self._take(bytes(request.auth_bytes), now_ms)

    def receive_token(self, token: bytes, now_ms: int) -> Outcome | Question:
        """Take a token that came as a frame of its own."""
        if self._phase is not _Phase.BARE_TOKENS:
            self._phase = _Phase.FAILED
            return CloseConnection("a token came without a header")
        return self._take(token, now_ms)

    def provide(self, provision: Provision | None, now_ms: int) -> Outcome | Question:
        """Go on with what the last question was about; None if there is no such thing."""
        exchange = self._exchange
        if exchange is None:
            return CloseConnection("the log-in has ended before its verdict came")
        try:
            return self._follow(exchange.provide(provision), now_ms)
        except SaslError as error:
            return self._fail(error)

    def _take(self, token: bytes, now_ms: int) -> Outcome | Question:
        exchange = self._exchange
        if exchange is None:
            return self._fail(SaslError(self.begun, f"the log-in before was by {self.mechanism}"))
        try:
            if len(token) > TOKEN_BYTES_MAX:
                raise SaslError(exchange.mechanism, "the token is too long")
            return self._follow(exchange.receive(token), now_ms)
        except SaslError as error:
            return self._fail(error)

    def _follow(self, step: ServerStep, now_ms: int) -> Outcome | Question:
        if isinstance(step, Challenge):
            return self._token_out(step.token, 0)
        if isinstance(step, Authenticated):
            return self._complete(step, now_ms)
        return step

    def _complete(self, step: Authenticated, now_ms: int) -> Outcome:
        exchange, self._exchange = self._exchange, None
        assert exchange is not None
        if self.username is not None and step.username != self.username:
            return self._fail(SaslError(exchange.mechanism, "the user is another than before"))
        lifetime_ms_max = self._session_lifetimes_ms.get(exchange.mechanism, 0)
        limits = (lifetime_ms_max or None, step.lifetime_ms)
        lifetime_ms = min((limit for limit in limits if limit is not None), default=0)
        outcome = self._token_out(step.token, lifetime_ms)
        self._phase = _Phase.AUTHENTICATED
        self.username, self.mechanism, self._since_ms = step.username, exchange.mechanism, now_ms
        is_limited = any(limit is not None for limit in limits)
        self.expires_at_ms = now_ms + lifetime_ms if is_limited else None
        return outcome

    def _token_out(self, token: bytes, lifetime_ms: int) -> Outcome:
        if self._phase is _Phase.BARE_TOKENS:
            return RespondToken(token)
        response = SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)
        return Respond(response)

    def _fail(self, error: SaslError) -> Outcome:
        was_bare = self._phase is _Phase.BARE_TOKENS
        self._phase, self._exchange = _Phase.FAILED, None
        if was_bare:
            return CloseConnection(str(error))
        # OAUTHBEARER's refusal is JSON for the client to read. Others learn nothing of the cause.
        if error.reason.startswith("{"):
            text = error.reason
        else:
            text = PLAIN_FAILED if error.mechanism == "PLAIN" else FAILED.format(error.mechanism)
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text
        )
        return Respond(response, closes=True, reason=str(error))
