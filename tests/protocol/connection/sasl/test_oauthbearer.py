"""OAUTHBEARER, in both roles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.connection.sasl import (
    Accepted,
    Authenticated,
    Challenge,
    OAuthBearerSaslClient,
    OAuthBearerSaslServer,
    SaslError,
    TokenGiven,
)
from barnabas_protocol.connection.sasl.oauthbearer import BYTES_MAX, INVALID_TOKEN

TOKENS = st.from_regex(r"\A[-_.~+/A-Za-z0-9]+=*\Z")


@given(TOKENS, st.dictionaries(st.from_regex(r"\A[b-z]+\Z"), st.from_regex(r"\A[!-~ ]+\Z")))
def test_both_roles_agree(token: str, extensions: dict[str, str]) -> None:
    """Any token, with KIP-342's extensions."""
    server, client = OAuthBearerSaslServer(), OAuthBearerSaslClient(token, extensions)
    assert server.receive(client.first()) == TokenGiven(token, "", extensions)
    done = server.provide(Accepted(username="system", lifetime_ms=9))
    assert done == Authenticated("system", b"", 9)
    assert client.respond(b"") is None
    assert client.is_complete


def test_a_refused_token_is_acknowledged_before_the_end() -> None:
    """RFC 7628, section 3.2.3: the client has the last word, and the reason is JSON."""
    server, client = OAuthBearerSaslServer(), OAuthBearerSaslClient("abc")
    server.receive(client.first())
    assert server.provide(None) == Challenge(INVALID_TOKEN.encode())
    assert client.respond(INVALID_TOKEN.encode()) == b"\x01"
    assert not client.is_complete
    with pytest.raises(SaslError, match="invalid_token"):
        server.receive(b"\x01")
    with pytest.raises(SaslError, match="not due"):
        server.receive(client.first())
    with pytest.raises(SaslError, match="invalid_token"):
        client.respond(b"")


def test_a_token_of_somebody_else_is_refused() -> None:
    """The authorization id is whom the client wants to be."""
    server = OAuthBearerSaslServer()
    given_ = server.receive(b"n,a=me,\x01auth=Bearer abc\x01\x01")
    assert given_ == TokenGiven("abc", "me", {})
    assert isinstance(server.provide(Accepted(username="you")), Challenge)
    server = OAuthBearerSaslServer()
    server.receive(b"n,a=me,\x01auth=Bearer abc\x01\x01")
    assert isinstance(server.provide(Accepted(username="me")), Authenticated)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "malformed"),
        (b"y,,\x01auth=Bearer abc\x01\x01", "malformed"),
        (b"n,me,\x01auth=Bearer abc\x01\x01", "malformed"),
        (b"n,,x\x01auth=Bearer abc\x01\x01", "malformed"),
        (b"n,,\x01auth=Bearer abc\x01", "does not end"),
        (b"n,,\x01auth=Bearer abc", "does not end"),
        (b"n,,\x01a=b\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Basic abc\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer a b\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer \x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01", "twice"),
        (b"n,,\x01auth=Bearer a\x01k\xc3\xa9y=1\x01\x01", "extension"),
        (b"n,,\x01auth=Bearer a\x01key=\x01\x01", "extension"),
        (b"n,,\x01auth=Bearer \xff\x01\x01", "UTF-8"),
        (b"n,,\x01auth=Bearer " + b"a" * BYTES_MAX + b"\x01\x01", "too long"),
    ],
)
def test_a_malformed_message_is_refused(message: bytes, reason: str) -> None:
    """Before anything is verified."""
    with pytest.raises(SaslError, match=reason):
        OAuthBearerSaslServer().receive(message)


@given(st.binary(max_size=100))
def test_no_bytes_do_anything_else_than_be_refused_or_verified(message: bytes) -> None:
    """Nobody is logged in by a message alone."""
    for data in (message, b"n,,\x01" + message):
        try:
            assert isinstance(OAuthBearerSaslServer().receive(data), TokenGiven)
        except SaslError:
            continue


def test_a_verdict_is_given_once_and_when_it_is_due() -> None:
    """Else a second one could turn a refusal."""
    server = OAuthBearerSaslServer()
    with pytest.raises(SaslError, match="nothing is to be verified"):
        server.provide(Accepted(username="a"))
    server = OAuthBearerSaslServer()
    server.receive(b"n,,\x01auth=Bearer abc\x01\x01")
    server.provide(None)
    with pytest.raises(SaslError, match="nothing is to be verified"):
        server.provide(Accepted(username="a"))


@pytest.mark.parametrize(
    ("token", "extensions"),
    [("a b", {}), ("", {}), ("a\x01b", {}), ("a", {"auth": "x"}), ("a", {"k": "\x01"})],
)
def test_the_client_sends_nothing_that_could_be_taken_for_something_else(
    token: str, extensions: dict[str, str]
) -> None:
    """A token comes from a file or a service."""
    with pytest.raises(SaslError):
        OAuthBearerSaslClient(token, extensions)


def test_a_token_is_not_shown() -> None:
    """What is logged by accident."""
    assert "secret" not in repr(TokenGiven("secret", "me", {}))
