"""The log-in of a connection: stands before everything else that would take its frames.

The shell around `SaslServerAuthenticator`: decodes its requests, gets verdicts, holds failures back
and counts. While a client logs in, no frame of it goes anywhere else but ApiVersions. Once it has,
the session hands frames to the dispatcher itself, and this wakes up again only when the client logs
in anew or its time is up: a request costs what it costs without SASL.

Invariants:
- The principal of a connection is set once, when its first log-in is complete, and stays.
- A connection that fails gets its answer, which never tells what was wrong, after the delay, and
  then ends; nothing of it is read meanwhile.
- A connection has logged in when its time is over, or ends; the same holds for logging in again.

Source: SEC-8, SEC-20 to SEC-22, SEC-30; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Set
from typing import Any, Final, Protocol

from barnabas_broker.config.sasl_settings import PLAIN, SCRAM_MECHANISMS, SaslSettings
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import secret_bytes
from barnabas_broker.network.host_counts import owner_of
from barnabas_broker.network.limited_lines import LimitedLines
from barnabas_broker.network.login_metrics import UNKNOWN, LoginMetrics
from barnabas_broker.network.login_verdicts import LoginVerdicts, Verdict
from barnabas_broker.network.login_work import TooManyLoginsError
from barnabas_broker.quotas.token_bucket import TokenBucket
from barnabas_broker.security.principal import Principal
from barnabas_protocol import codec
from barnabas_protocol.api import SERVED, ApiKey
from barnabas_protocol.connection.sasl import (
    Admission,
    CloseConnection,
    CredentialNeeded,
    OAuthBearerSaslServer,
    Outcome,
    PasswordGiven,
    PlainSaslServer,
    Question,
    Respond,
    RespondToken,
    SaslServer,
    SaslServerAuthenticator,
    ScramSaslServer,
    TokenGiven,
)
from barnabas_protocol.errors import ErrorCode, ParseError
from barnabas_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas_protocol.schema import Message

_log = logging.getLogger(__name__)

_Step = Outcome | Question
FAILURES_PER_SECOND: Final = 20.0
"""Of one address, or of a network of 64 bits of IPv6; who fails more often waits longer."""
FAILURE_DELAY_MS_MAX: Final = 10_000
SMALL_BYTES_MAX: Final = 8 * 1024
"""Before log-in nothing but a token is larger; what is refused amid tokens is read on the loop."""
ADDRESSES_MAX: Final = 10_000
"""Addresses whose failures are remembered, the last ones."""
_NONCE_BYTES: Final = 18
_OWN_KEYS: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_QUESTIONS: Final = (CredentialNeeded, PasswordGiven, TokenGiven)


class LoginRequest(Protocol):
    """A frame of a connection, and the place of its response."""

    frame: memoryview
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    def reply(self, parts: Any) -> None:
        """Respond."""
        ...


class LoginSession(Protocol):
    """What a log-in needs of its connection."""

    host: str
    listener_name: str
    principal: Principal
    is_closed: bool
    login_due_seconds: float
    """When it must have logged in, by the loop's clock; 0.0: the stage says how soon from now."""

    @property
    def in_flight_count(self) -> int:
        """Requests that have no response yet."""
        ...

    def begin_requests(self) -> None:
        """Have the next frames handled in the principal's name."""
        ...

    def take_frames_by_login(self) -> None:
        """Have the next frames come to the log-in again."""
        ...

    def dispatch_before_login(self, in_flight: Any) -> None:
        """Have one request handled that needs no log-in."""
        ...

    def hold(self) -> None:
        """Take no frame until `release`."""
        ...

    def release(self) -> None:
        """Undo `hold`."""
        ...

    def end(self, reason: str, kind: str) -> None:
        """Close when all that is in flight has its response."""
        ...

    def close(self, reason: str, kind: str) -> None:
        """Close."""
        ...

    def on_closed(self, callback: Callable[[], None]) -> None:
        """Have a callback run when the connection is lost."""
        ...


class LoginObserver(Protocol):
    """Is told of log-ins, for the audit."""

    def logged_in(self, session: LoginSession, mechanism: str, *, is_again: bool) -> None:
        """Somebody has logged in; the session knows who."""
        ...

    def login_failed(
        self, session: LoginSession, mechanism: str, username: str, reason: str
    ) -> None:
        """A log-in has failed; the name is the client's word, empty if it gave none."""
        ...


class FailureRates:
    """How often log-ins from each address have failed lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def delay_ms(self, host: str) -> int:
        """Count a failure; how long its answer is to be held back for this."""
        host = owner_of(host)
        bucket = self._buckets.get(host)
        if bucket is None:
            if len(self._buckets) >= ADDRESSES_MAX:
                self._buckets.popitem(last=False)
            bucket = self._buckets[host] = TokenBucket(self._clock)
            bucket.rate = FAILURES_PER_SECOND
        self._buckets.move_to_end(host)
        bucket.take(1)
        return min(bucket.throttle_ms, FAILURE_DELAY_MS_MAX)


class LoginStage:
    """What the log-ins on one listener share."""

    def __init__(
        self,
        settings: SaslSettings,
        verdicts: LoginVerdicts,
        *,
        clock: Clock,
        rates: FailureRates,
        metrics: LoginMetrics,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        timeout_ms: int,
    ) -> None:
        """A log-in may take `timeout_ms`; on a connection with TLS, its handshake included."""
        self.timeout_ms = timeout_ms
        self.lines = LimitedLines(_log, clock)
        self.settings = settings
        self.verdicts = verdicts
        self.clock = clock
        self.rates = rates
        self.metrics = metrics
        self.spawn = spawn
        self.observer: LoginObserver | None = None
        self.refuse: Callable[[Any, ErrorCode], None] = _refuse_without_form
        """Responds to a request of any API in its own form with an error."""
        # Where connections end with their credentials: by the name of the user.
        self._logins: dict[str, dict[Login, None]] = {}
        self._mechanisms = {name: _exchange_of(name) for name in settings.mechanisms}

    def joined(self, login: Login, username: str) -> None:
        """Remember a connection of a user, if it may have to end."""
        if self.settings.ends_on_credential_change:
            self._logins.setdefault(username, {})[login] = None

    def left(self, login: Login, username: str) -> None:
        """Forget a connection."""
        of_user = self._logins.get(username)
        if of_user is not None and of_user.pop(login, True) is None and not of_user:
            del self._logins[username]

    @property
    def users(self) -> Set[str]:
        """Who has connections that end with a credential."""
        return self._logins.keys()

    def end_connections(self, username: str, mechanism: str) -> None:
        """Close what a user has logged in with a credential that is not good any more."""
        by_password = self.settings.plain_users is None
        for login in list(self._logins.get(username, ())):
            if login.mechanism == mechanism or (by_password and login.mechanism == PLAIN):
                login.end("the credential of its log-in has changed", "credential-changed")

    def authenticator(self) -> SaslServerAuthenticator:
        """The state of a new connection."""
        return SaslServerAuthenticator(
            self._mechanisms, session_lifetimes_ms=self.settings.session_lifetimes_ms
        )


def _exchange_of(mechanism: str) -> Callable[[], SaslServer]:
    if mechanism in SCRAM_MECHANISMS:
        return lambda: ScramSaslServer(mechanism, secret_bytes(_NONCE_BYTES).hex())
    return PlainSaslServer if mechanism == PlainSaslServer.mechanism else OAuthBearerSaslServer


def _refuse_without_form(in_flight: Any, code: ErrorCode) -> None:
    raise ParseError(f"nobody can respond to api {in_flight.api_key} with {code.name}")


class Login:
    """The log-ins of one connection."""

    __slots__ = (
        "_authenticator",
        "_claimed",
        "_has_logged_in",
        "_loop",
        "_session",
        "_stage",
        "_timer",
        "_waiting",
        "is_through",
    )

    def __init__(
        self, session: LoginSession, stage: LoginStage, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Begin: from now on its time runs."""
        self._session = session
        self._stage = stage
        self._loop = loop
        self._authenticator = stage.authenticator()
        self._waiting: asyncio.Task[None] | None = None  # for a verdict
        self._claimed = ""  # the name that the client has given
        self._has_logged_in = False
        self.is_through = False  # frames go to the dispatcher
        self._timer: asyncio.TimerHandle | None = None
        self._set_deadline(session.login_due_seconds)
        session.on_closed(self._gone)

    @property
    def mechanism(self) -> str:
        """The mechanism of the last log-in that was complete; empty before."""
        return self._authenticator.mechanism

    @property
    def username(self) -> str | None:
        """Who has logged in."""
        return self._authenticator.username

    def versions_sent(self) -> None:
        """Take note that the client has learned the versions; before log-in it may once."""
        self._authenticator.versions_sent()

    def take(self, in_flight: LoginRequest) -> None:
        """Take a frame while the connection logs in, or when its log-in is over.

        Raises: ParseError; the connection is to be closed then.
        """
        authenticator, now_ms = self._authenticator, self._stage.clock.monotonic_ms()
        self._check_size(in_flight.frame)
        if authenticator.takes_bare_tokens:
            self._follow(in_flight, authenticator.receive_token(bytes(in_flight.frame), now_ms))
            return
        header = codec.read_request_header(in_flight.frame)
        key, version = header.api_key, header.api_version
        in_flight.api_key, in_flight.api_version = key, version
        in_flight.correlation_id, in_flight.client_id = header.correlation_id, header.client_id
        match authenticator.admit(key, now_ms):
            case Admission.CLOSE:
                self._close_early(in_flight, key)
            case Admission.REFUSE:
                self._refuse(in_flight, key)
            case Admission.HANDLE if key in _OWN_KEYS:
                outcome = self._exchanged(in_flight, header.position, now_ms)
                self._follow(in_flight, outcome)
            case Admission.HANDLE:
                self._session.dispatch_before_login(in_flight)

    def _check_size(self, frame: memoryview) -> None:
        """Raises: ParseError for what no client sends that wants to log in, or logs in again."""
        size, authenticator = len(frame), self._authenticator
        if size <= SMALL_BYTES_MAX:
            return
        is_bare = authenticator.takes_bare_tokens
        key = ApiKey.SASL_AUTHENTICATE if is_bare else int.from_bytes(frame[:2], signed=True)
        # Whoever has logged in may send larger frames, but none to log in again by.
        if key in _OWN_KEYS and size > self._stage.settings.receive_bytes_max:
            raise ParseError(f"{size} bytes of a log-in")
        if key != ApiKey.SASL_AUTHENTICATE and not authenticator.is_authenticated:
            raise ParseError(f"api {key} with {size} bytes before log-in")

    def _exchanged(self, in_flight: LoginRequest, position: int, now_ms: int) -> _Step:
        """What comes of a SaslHandshake or SaslAuthenticate. Raises: ParseError."""
        key, version = ApiKey(in_flight.api_key), in_flight.api_version
        minimum, maximum = SERVED[key]
        if not minimum <= version <= maximum:
            raise ParseError(f"{key.name} version {version} is not served")
        request, _ = codec.decode(codec.request_class(key), in_flight.frame, version, position)
        authenticator = self._authenticator
        if isinstance(request, SaslAuthenticateRequest):
            return authenticator.authenticate(request, now_ms)
        assert isinstance(request, SaslHandshakeRequest)
        if authenticator.is_authenticated:
            self.is_through = False
            self._session.take_frames_by_login()
            self._set_deadline()
        outcome = authenticator.handshake(request, version, now_ms)
        if authenticator.is_authenticated:  # too soon for another log-in: the session goes on
            self._begin_requests()
        return outcome

    # What comes of them.

    def _follow(self, in_flight: LoginRequest, step: _Step) -> None:
        """Do what an exchange wants next, asking for verdicts until it does not need any."""
        while isinstance(step, _QUESTIONS):
            self._claimed = getattr(step, "username", "")
            verdict = self._stage.verdicts.of(step, self._session.host)
            if isinstance(verdict, Awaitable):
                self._session.hold()
                self._stage.spawn(self._follow_later(in_flight, verdict))
                return
            step = self._authenticator.provide(verdict, self._stage.clock.monotonic_ms())
        self._perform(in_flight, step)

    async def _follow_later(self, in_flight: LoginRequest, verdict: Awaitable[Verdict]) -> None:
        session, self._waiting = self._session, asyncio.current_task()
        if session.is_closed and self._waiting is not None:
            self._waiting.cancel()  # it has ended before this began
        try:
            provision = await verdict
        except TooManyLoginsError:
            # No word: a client that is told of a failed log-in does not try again.
            session.close("too many log-ins wait", "login-overload")
            return
        except Exception as error:
            # Whoever cannot be verified does not get in.
            message = "the log-in of %s has got no verdict"
            self._stage.lines.write("verdict", message, session.host, error=error)
            session.close(f"the log-in has got no verdict: {error}", "login-failure")
            return
        finally:
            self._waiting = None
            session.release()
        if session.is_closed:
            return
        self._follow(
            in_flight, self._authenticator.provide(provision, self._stage.clock.monotonic_ms())
        )

    def _perform(self, in_flight: LoginRequest, outcome: Outcome) -> None:
        match outcome:
            case RespondToken():
                in_flight.reply([outcome.token])
            case Respond() if outcome.closes:
                self._fail(in_flight, outcome.response, outcome.reason)
                return
            case Respond():
                in_flight.reply([_encoded(in_flight, outcome.response)])
            case CloseConnection():
                self._fail(in_flight, None, outcome.reason)
                return
        if self._authenticator.is_authenticated and not self.is_through:
            self._logged_in()

    def _logged_in(self) -> None:
        stage, session, authenticator = self._stage, self._session, self._authenticator
        username = authenticator.username
        assert username is not None
        is_again = self._has_logged_in
        counts = stage.metrics.reauthentications if is_again else stage.metrics.logins
        counts[authenticator.mechanism] += 1
        if not is_again:
            session.principal = Principal.user(username)
            self._has_logged_in = True
            stage.joined(self, username)
        self._begin_requests()
        if stage.observer is not None:
            stage.observer.logged_in(session, authenticator.mechanism, is_again=is_again)

    def _begin_requests(self) -> None:
        self.is_through = True
        self._cancel_timer()
        expires_at_ms = self._authenticator.expires_at_ms
        if expires_at_ms is not None:
            rest_ms = expires_at_ms - self._stage.clock.monotonic_ms()
            self._timer = self._loop.call_later(max(rest_ms, 0) / 1000, self._expire)
        self._session.begin_requests()

    # Ends.

    def _expire(self) -> None:
        """Look at the next frame: only a new log-in is taken from now on.

        What is parked has as long as a log-in, whatever time its client has given it.
        """
        self.is_through = False
        self._session.take_frames_by_login()
        seconds = self._stage.timeout_ms / 1000
        self._timer = self._loop.call_later(seconds, self._end_parked)

    def _end_parked(self) -> None:
        self._timer = None
        if self._session.in_flight_count:
            self._stage.metrics.expired[self._authenticator.mechanism] += 1
            self._session.close("a request from before the end of the log-in", "login-expired")

    def _set_deadline(self, due_seconds: float = 0.0) -> None:
        self._cancel_timer()
        due_seconds = due_seconds or self._loop.time() + self._stage.timeout_ms / 1000
        self._timer = self._loop.call_at(due_seconds, self._overdue)

    def _overdue(self) -> None:
        self._timer = None
        self._stage.metrics.overdue += 1
        self._session.close(f"no log-in within {self._stage.timeout_ms} ms", "login-overdue")

    def _close_early(self, in_flight: LoginRequest, key: int) -> None:
        """Close for a request that is not due: before log-in, or after its end."""
        metrics, mechanism = self._stage.metrics, self._authenticator.mechanism
        if self._authenticator.is_authenticated:
            metrics.expired[mechanism] += 1
            self._session.close(f"api {key} after the end of the log-in", "login-expired")
        else:
            self._fail(in_flight, None, f"api {key} before log-in")

    def _refuse(self, in_flight: LoginRequest, key: int) -> None:
        """Respond with 34, and end a connection that was to send a token."""
        if self._authenticator.is_authenticated:
            response = SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            in_flight.reply([_encoded(in_flight, response)])
            return
        self._count_failure(f"api {key} in place of a token")
        self._later(self._refuse_now, in_flight)

    def _refuse_now(self, in_flight: LoginRequest) -> None:
        try:
            self._stage.refuse(in_flight, ErrorCode.ILLEGAL_SASL_STATE)
        except ParseError as error:
            self._session.close(str(error), "malformed-request")
            return
        self._session.end("another request than a token", "login-failure")

    def _fail(self, in_flight: LoginRequest, response: Message | None, reason: str) -> None:
        """Answer, after the delay, that the log-in has failed, and end the connection."""
        self._count_failure(reason)
        self._later(self._fail_now, in_flight, response, reason)

    def _count_failure(self, reason: str) -> None:
        stage, begun = self._stage, self._authenticator.begun
        mechanism = begun if begun in stage.settings.mechanisms else UNKNOWN
        metrics = stage.metrics
        counts = metrics.reauthentication_failures if self._has_logged_in else metrics.failures
        counts[mechanism] += 1
        if stage.observer is not None:
            stage.observer.login_failed(self._session, mechanism, self._claimed, reason)

    def _later(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function after the delay of failures; nothing is read until then."""
        stage, session = self._stage, self._session
        session.hold()
        delay_ms = max(stage.settings.failure_delay_ms, stage.rates.delay_ms(session.host))
        self._cancel_timer()
        self._timer = self._loop.call_later(delay_ms / 1000, function, *arguments)

    def _fail_now(self, in_flight: LoginRequest, response: Message | None, reason: str) -> None:
        self._timer = None
        if response is None:
            self._session.close(reason, "login-failure")
        else:
            in_flight.reply([_encoded(in_flight, response)])
            self._session.end(reason, "login-failure")

    def end(self, reason: str, kind: str) -> None:
        """Close the connection."""
        self._session.close(reason, kind)

    def _gone(self) -> None:
        self._cancel_timer()
        if self._waiting is not None:
            self._waiting.cancel()
        if self.username is not None:
            self._stage.left(self, self.username)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _encoded(in_flight: LoginRequest, response: Message) -> bytes:
    return codec.encode_response(
        response, in_flight.api_key, in_flight.api_version, in_flight.correlation_id
    )
