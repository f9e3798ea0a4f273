"""The client's half of PLAIN and SCRAM."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_client.errors import AuthenticationError
from barnabas_client.network.sasl import PlainExchange, ScramExchange, create_exchange

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
).encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def example() -> ScramExchange:
    return ScramExchange("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_example_of_the_standard_is_met() -> None:
    """RFC 7677, section 3, byte by byte."""
    exchange = example()
    assert exchange.first() == f"n,,n=user,r={NONCE}".encode()
    assert (
        exchange.respond(SERVER_FIRST)
        == (
            f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        ).encode()
    )
    assert not exchange.is_complete
    assert exchange.respond(SERVER_FINAL) is None
    assert exchange.is_complete


@settings(max_examples=20)  # four thousand rounds of hashing each
@given(
    username=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    password=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_a_server_that_knows_the_password_is_believed(username: str, password: str) -> None:
    """RFC 5802: any name and password, also with the characters that need escapes."""
    exchange = ScramExchange("SCRAM-SHA-512", username, password, "abc")
    first = exchange.first().decode()
    name = first[len("n,,n=") : -len(",r=abc")]
    assert "," not in name
    assert name.replace("=2C", ",").replace("=3D", "=") == username
    server_first = f"r=abcdef,s={base64.b64encode(b'salt').decode()},i=4096"
    final = exchange.respond(server_first.encode())
    assert final is not None
    without_proof = final.decode().rpartition(",p=")[0]
    message = f"{first[3:]},{server_first},{without_proof}".encode()
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), b"salt", 4096)
    key = hmac.digest(salted, b"Server Key", "sha512")
    signature = base64.b64encode(hmac.digest(key, message, "sha512")).decode()
    assert exchange.respond(f"v={signature}".encode()) is None
    assert exchange.is_complete


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(), "nonce"),
        (f"r={NONCE}x,s=W22Z,i=1".encode(), "iteration count is 1,"),
        (f"r={NONCE}x,s=W22Z,i=2000000000".encode(), "iteration count"),
        (f"r={NONCE}x,s=W22Z,i=9999999".encode(), "iteration count"),
        (f"r={NONCE}x,s=W22Z,i=-4096".encode(), "iteration count"),
        (f"r={NONCE}x,s=W22Z".encode(), "iteration count"),
        (f"r={NONCE}x,s=!!,i=4096".encode(), "salt"),
        (f"m=x,r={NONCE}x,s=W22Z,i=4096".encode(), "extension"),
        (b"\xff\xfe", "UTF-8"),
        (b"", "nonce"),
    ],
)
def test_a_false_first_message_is_refused(challenge: bytes, reason: str) -> None:
    """Nothing is proven to a server that does not play by the rules."""
    with pytest.raises(AuthenticationError, match=reason):
        example().respond(challenge)


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "signature is wrong"),
        (b"v=", "signature"),
        (b"e=other-error", "other-error"),
        (b"", "signature"),
    ],
)
def test_a_false_signature_is_refused(challenge: bytes, reason: str) -> None:
    """The server has to know the password, too."""
    exchange = example()
    exchange.respond(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match=reason):
        exchange.respond(challenge)
    assert not exchange.is_complete


@settings(max_examples=30)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_do_anything_else_than_be_refused(first: bytes, second: bytes) -> None:
    """What comes from outside raises AuthenticationError or is the protocol."""
    exchange = example()
    for challenge in (first, SERVER_FIRST, second):
        try:
            exchange.respond(challenge)
        except AuthenticationError:
            continue
    assert not exchange.is_complete


def test_plain_sends_name_and_password() -> None:
    """RFC 4616."""
    exchange = create_exchange("PLAIN", "älice", "secret", "")
    assert exchange.first() == "\0älice\0secret".encode()
    assert exchange.respond(b"") is None
    assert exchange.is_complete
    with pytest.raises(AuthenticationError, match="NUL"):
        PlainExchange("a\0b", "c")
