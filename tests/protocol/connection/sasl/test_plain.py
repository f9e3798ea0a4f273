"""PLAIN, in both roles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.connection.sasl import (
    Accepted,
    Authenticated,
    PasswordGiven,
    PlainSaslClient,
    PlainSaslServer,
    SaslError,
)

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


def test_the_client_sends_name_and_password() -> None:
    """RFC 4616."""
    client = PlainSaslClient("älice", "secret")
    assert client.first() == "\0älice\0secret".encode()
    assert client.respond(b"") is None
    assert client.is_complete


@pytest.mark.parametrize(("username", "password"), [("a\0b", "c"), ("a", "b\0c")])
def test_the_client_sends_no_nul(username: str, password: str) -> None:
    """It would move the border between name and password."""
    with pytest.raises(SaslError, match="NUL"):
        PlainSaslClient(username, password)


@given(WORDS, WORDS)
def test_both_roles_agree(username: str, password: str) -> None:
    """Any name and password."""
    server = PlainSaslServer()
    given_ = server.receive(PlainSaslClient(username, password).first())
    assert given_ == PasswordGiven(username, password)
    accepted = Accepted(username=username, lifetime_ms=7)
    assert server.provide(accepted) == Authenticated(username, b"", 7)


def test_a_refused_password_ends_the_log_in() -> None:
    """And a second try needs a second exchange."""
    server = PlainSaslServer()
    server.receive(b"\0a\0b")
    with pytest.raises(SaslError, match="invalid username or password"):
        server.provide(None)
    with pytest.raises(SaslError, match="nothing is to be verified"):
        server.provide(Accepted(username="a"))
    with pytest.raises(SaslError, match="second token"):
        server.receive(b"\0a\0b")


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"", "three parts"),
        (b"a\0b", "three parts"),
        (b"a\0a\0b\0c", "three parts"),
        (b"\0\0b", "empty"),
        (b"\0a\0", "empty"),
        (b"x\0a\0b", "authorization id"),
        (b"\0\xff\0b", "UTF-8"),
        (b"\0a\0" + bytes([97]) * 70_000, "too long"),
    ],
)
def test_a_malformed_token_is_refused(token: bytes, reason: str) -> None:
    """Before anything is verified."""
    with pytest.raises(SaslError, match=reason):
        PlainSaslServer().receive(token)


def test_one_may_name_oneself() -> None:
    """RFC 4616: the authorization id may be that of the name."""
    assert PlainSaslServer().receive(b"a\0a\0b") == PasswordGiven("a", "b")


def test_a_password_is_not_shown() -> None:
    """What is logged by accident."""
    assert "secret" not in repr(PasswordGiven("a", "secret"))
