"""The log-in of one connection on a server: which requests are due, and what comes of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.sasl import (
    TOKEN_BYTES_MAX,
    Accepted,
    Admission,
    CloseConnection,
    OAuthBearerSaslClient,
    OAuthBearerSaslServer,
    PasswordGiven,
    PlainSaslServer,
    Respond,
    RespondToken,
    SaslServerAuthenticator,
    TokenGiven,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest

ALICE = b"\0alice\0secret"


def fresh(**more: Any) -> SaslServerAuthenticator:
    mechanisms = {"PLAIN": PlainSaslServer, "OAUTHBEARER": OAuthBearerSaslServer}
    return SaslServerAuthenticator(mechanisms, **more)


def handshake(
    login: SaslServerAuthenticator, mechanism: str = "PLAIN", version: int = 1, now_ms: int = 0
) -> Respond:
    return login.handshake(SaslHandshakeRequest(mechanism=mechanism), version, now_ms)


def authenticate(login: SaslServerAuthenticator, token: bytes, now_ms: int = 0) -> Any:
    return login.authenticate(SaslAuthenticateRequest(auth_bytes=token), now_ms)


def logged_in(now_ms: int = 0, lifetime_ms: int | None = None, **more: Any) -> Any:
    """A connection that alice has logged in on."""
    login = fresh(**more)
    handshake(login, now_ms=now_ms)
    assert isinstance(authenticate(login, ALICE, now_ms), PasswordGiven)
    outcome = login.provide(Accepted(username="alice", lifetime_ms=lifetime_ms), now_ms)
    assert isinstance(outcome, Respond)
    assert outcome.response.error_code == ErrorCode.NONE
    assert login.is_authenticated
    return login


def test_versions_come_once_before_the_handshake() -> None:
    """Anything else, and versions again, closes the connection; a refused version may be mended."""
    login = fresh()
    assert login.admit(ApiKey.API_VERSIONS, 0) is Admission.HANDLE
    assert login.admit(ApiKey.API_VERSIONS, 0) is Admission.HANDLE
    login.versions_sent()
    assert login.admit(ApiKey.API_VERSIONS, 0) is Admission.CLOSE
    assert login.admit(ApiKey.SASL_HANDSHAKE, 0) is Admission.HANDLE
    for key in (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE, 9_999):
        assert fresh().admit(key, 0) is Admission.CLOSE


def test_a_log_in_by_requests() -> None:
    """Handshake 1: tokens are in SaslAuthenticate."""
    login = fresh()
    outcome = handshake(login)
    assert outcome.response.error_code == ErrorCode.NONE
    assert not outcome.closes
    assert login.admit(ApiKey.METADATA, 0) is Admission.REFUSE
    assert login.admit(ApiKey.SASL_AUTHENTICATE, 0) is Admission.HANDLE
    assert authenticate(login, ALICE) == PasswordGiven("alice", "secret")
    assert not login.is_authenticated
    outcome = login.provide(Accepted(username="alice"), 0)
    assert outcome == Respond(SaslAuthenticateResponse(auth_bytes=b"", session_lifetime_ms=0))
    assert login.is_authenticated
    assert (login.username, login.mechanism) == ("alice", "PLAIN")
    assert login.admit(ApiKey.METADATA, 1 << 40) is Admission.HANDLE


def test_a_log_in_by_bare_tokens() -> None:
    """Handshake 0: tokens are frames of their own."""
    login = fresh()
    handshake(login, version=0)
    assert login.takes_bare_tokens
    assert login.admit(ApiKey.SASL_AUTHENTICATE, 0) is Admission.CLOSE
    assert login.receive_token(ALICE, 0) == PasswordGiven("alice", "secret")
    assert login.provide(Accepted(username="alice"), 0) == RespondToken(b"")
    assert login.is_authenticated
    assert not login.takes_bare_tokens
    assert isinstance(login.receive_token(ALICE, 0), CloseConnection)


def test_a_failure_with_bare_tokens_closes_without_a_word() -> None:
    """There is no form that could carry a reason."""
    login = fresh()
    handshake(login, version=0)
    login.receive_token(ALICE, 0)
    assert isinstance(login.provide(None, 0), CloseConnection)
    assert not login.is_authenticated


def test_an_unknown_mechanism_is_told_which_are_enabled() -> None:
    """In the order of the configuration."""
    outcome = handshake(fresh(), "GSSAPI")
    assert outcome.response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert outcome.response.mechanisms == ["PLAIN", "OAUTHBEARER"]
    assert outcome.closes


@pytest.mark.parametrize("token", [b"", b"\0a\0", bytes(TOKEN_BYTES_MAX + 1)])
def test_a_false_token_is_refused_with_a_response_and_then_closed(token: bytes) -> None:
    """A client that sees its connection closed tries again without end."""
    login = fresh()
    handshake(login)
    outcome = authenticate(login, token)
    assert outcome.closes
    assert outcome.response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert outcome.response.error_message == "Authentication failed: Invalid username or password"
    assert login.admit(ApiKey.SASL_HANDSHAKE, 0) is Admission.CLOSE
    assert login.admit(ApiKey.METADATA, 0) is Admission.CLOSE
    again = authenticate(login, ALICE)
    assert again.closes
    assert again.response.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_the_reason_of_a_refused_bearer_token_is_json() -> None:
    """KIP-255: clients read it."""
    login = fresh()
    handshake(login, "OAUTHBEARER")
    client = OAuthBearerSaslClient("abc")
    assert authenticate(login, client.first()) == TokenGiven("abc", "", {})
    challenge = login.provide(None, 0)
    assert isinstance(challenge, Respond)
    assert challenge.response.error_code == ErrorCode.NONE
    assert not challenge.closes
    acknowledgement = client.respond(challenge.response.auth_bytes)
    assert acknowledgement is not None
    refusal = authenticate(login, acknowledgement)
    assert refusal.closes
    assert refusal.response.error_message == '{"status":"invalid_token"}'


@pytest.mark.parametrize(
    ("limit_ms", "token_ms", "told_ms", "expires_at_ms"),
    [
        (0, None, 0, None),
        (5_000, None, 5_000, 6_000),
        (0, 3_000, 3_000, 4_000),
        (5_000, 3_000, 3_000, 4_000),
        (5_000, 9_000, 5_000, 6_000),
        (0, 0, 0, 1_000),
    ],
)
def test_a_session_ends_with_its_token_or_its_limit(
    limit_ms: int, token_ms: int | None, told_ms: int, expires_at_ms: int | None
) -> None:
    """KIP-368: the client is told, so that it logs in again in time."""
    login = fresh(session_lifetimes_ms={"PLAIN": limit_ms})
    handshake(login, now_ms=1_000)
    authenticate(login, ALICE, 1_000)
    outcome = login.provide(Accepted(username="alice", lifetime_ms=token_ms), 1_000)
    assert isinstance(outcome, Respond)
    assert isinstance(outcome.response, SaslAuthenticateResponse)
    assert outcome.response.session_lifetime_ms == told_ms
    assert login.expires_at_ms == expires_at_ms


def test_after_its_end_a_session_takes_a_new_log_in_only() -> None:
    """Everything else closes the connection."""
    login = logged_in(0, 2_000)
    assert login.admit(ApiKey.METADATA, 1_999) is Admission.HANDLE
    assert login.admit(ApiKey.METADATA, 2_000) is Admission.CLOSE
    assert login.admit(ApiKey.SASL_HANDSHAKE, 2_000) is Admission.HANDLE


def test_a_log_in_is_repeated_on_the_live_connection() -> None:
    """KIP-368: the same user by the same mechanism."""
    login = logged_in(0, 2_000)
    assert handshake(login, now_ms=1_500).response.error_code == ErrorCode.NONE
    assert login.admit(ApiKey.METADATA, 1_500) is Admission.REFUSE
    authenticate(login, ALICE, 1_500)
    login.provide(Accepted(username="alice", lifetime_ms=2_000), 1_600)
    assert login.is_authenticated
    assert login.expires_at_ms == 3_600


def test_a_log_in_is_not_repeated_at_once() -> None:
    """It would be a way to keep a broker busy; the session goes on."""
    login = logged_in(0, 2_000)
    outcome = handshake(login, now_ms=999)
    assert outcome.response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert not outcome.closes
    assert login.is_authenticated


def test_a_connection_stays_that_of_its_user() -> None:
    """What was permitted to one is not to another."""
    login = logged_in(0, 2_000)
    handshake(login, now_ms=1_500)
    authenticate(login, b"\0bob\0secret", 1_500)
    outcome = login.provide(Accepted(username="bob"), 1_500)
    assert isinstance(outcome, Respond)
    assert outcome.closes
    assert outcome.response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not login.is_authenticated


def test_a_connection_stays_with_its_mechanism() -> None:
    """SEC-30: as in Kafka the handshake is answered, and the next token refused."""
    login = logged_in()
    outcome = handshake(login, "OAUTHBEARER", now_ms=5_000)
    assert not outcome.closes
    refusal = authenticate(login, OAuthBearerSaslClient("abc").first(), 5_000)
    assert refusal.closes
    assert refusal.response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not login.is_authenticated


def test_a_token_without_a_handshake_is_refused_and_the_session_goes_on() -> None:
    """34, and the connection stays."""
    login = logged_in()
    assert login.admit(ApiKey.SASL_AUTHENTICATE, 0) is Admission.REFUSE
    outcome = authenticate(login, ALICE)
    assert outcome.response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert not outcome.closes
    assert login.is_authenticated


def test_a_second_handshake_amid_tokens_ends_the_log_in() -> None:
    """A shell that does not look at `admit` first is safe as well."""
    login = fresh()
    handshake(login)
    outcome = handshake(login)
    assert outcome.closes
    assert outcome.response.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_verdict_that_comes_too_late_logs_nobody_in() -> None:
    """A client that sends on while its password is verified has failed meanwhile."""
    login = fresh()
    handshake(login)
    assert isinstance(authenticate(login, ALICE), PasswordGiven)
    assert authenticate(login, ALICE).closes
    assert isinstance(login.provide(Accepted(username="alice"), 0), CloseConnection)
    assert not login.is_authenticated


MOVES = st.one_of(
    st.tuples(st.just("admit"), st.sampled_from([3, 17, 18, 36])),
    st.tuples(st.just("handshake"), st.sampled_from([0, 1])),
    st.tuples(st.just("token"), st.binary(max_size=20)),
    st.tuples(st.just("bare"), st.binary(max_size=20)),
    st.tuples(st.just("refuse"), st.none()),
)


@given(st.lists(MOVES, max_size=20))
def test_nobody_is_logged_in_without_a_verdict(moves: list[tuple[str, Any]]) -> None:
    """Whatever a client sends, and however often it is refused."""
    login = fresh()
    is_asked = False
    for name, value in moves:
        if name == "admit":
            login.admit(value, 0)
        elif name == "handshake":
            is_asked = False
            handshake(login, version=value)
        elif name == "refuse":
            if is_asked:
                login.provide(None, 0)
            is_asked = False
        else:
            take = authenticate if name == "token" else SaslServerAuthenticator.receive_token
            outcome = take(login, value, 0)
            is_asked = isinstance(outcome, PasswordGiven)
        assert not login.is_authenticated
        assert login.username is None
