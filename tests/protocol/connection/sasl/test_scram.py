"""SCRAM: the vectors of its standards, both roles against each other, and who breaks its rules."""

import base64
import dataclasses
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_protocol.connection.sasl import (
    Authenticated,
    Challenge,
    CredentialNeeded,
    HashingNeeded,
    SaslError,
    ScramCredential,
    ScramSaslClient,
    ScramSaslServer,
    decoy_credential,
    salted_password,
    scram,
    scram_keys,
)

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
).encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def example() -> ScramSaslClient:
    return ScramSaslClient("SCRAM-SHA-256", "user", "pencil", NONCE)


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
    exchange = ScramSaslClient("SCRAM-SHA-512", username, password, "abc")
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
    with pytest.raises(SaslError, match=reason):
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
    with pytest.raises(SaslError, match=reason):
        exchange.respond(challenge)
    assert not exchange.is_complete


@settings(max_examples=30)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_do_anything_else_than_be_refused(first: bytes, second: bytes) -> None:
    """What comes from outside raises SaslError or is the protocol."""
    exchange = example()
    for challenge in (first, SERVER_FIRST, second):
        try:
            exchange.respond(challenge)
        except SaslError:
            continue
    assert not exchange.is_complete


def credential(
    mechanism: str = "SCRAM-SHA-256", *passwords: str, salt: bytes = b"salt", iterations: int = 4096
) -> ScramCredential:
    """What a server stores of some passwords of one user, the newest first."""
    return ScramCredential(
        salt=salt,
        iterations=iterations,
        keys=tuple(
            scram_keys(mechanism, salted_password(mechanism, password, salt, iterations))
            for password in passwords
        ),
    )


PENCIL_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
PENCIL = credential("SCRAM-SHA-256", "pencil", salt=PENCIL_SALT)
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FINAL = (
    f"c=biws,r={NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
).encode()


def server_at_final() -> ScramSaslServer:
    """The server of the standard's example, which awaits the client's final message."""
    server = ScramSaslServer("SCRAM-SHA-256", SERVER_NONCE)
    needed = server.receive(f"n,,n=user,r={NONCE}".encode())
    assert needed == CredentialNeeded("SCRAM-SHA-256", "user")
    assert server.provide(PENCIL) == Challenge(SERVER_FIRST)
    return server


def test_the_server_meets_the_example_of_the_standard() -> None:
    """RFC 7677, section 3, byte by byte."""
    server = server_at_final()
    assert server.receive(CLIENT_FINAL) == CredentialNeeded("SCRAM-SHA-256", "user")
    assert server.provide(PENCIL) == Authenticated("user", SERVER_FINAL, None)


@pytest.mark.parametrize(
    "later",
    [
        None,
        credential("SCRAM-SHA-256", "other", salt=PENCIL_SALT),
        credential("SCRAM-SHA-256", "pencil", salt=b"other"),
        credential("SCRAM-SHA-256", "pencil", salt=PENCIL_SALT, iterations=4097),
        dataclasses.replace(PENCIL, salt=b"other"),
        dataclasses.replace(PENCIL, iterations=4097),
    ],
)
def test_a_credential_that_went_meanwhile_lets_nobody_in(later: ScramCredential | None) -> None:
    """SEC-24: whoever holds an exchange back keeps nothing that was taken away since."""
    server = server_at_final()
    assert server.receive(CLIENT_FINAL) == CredentialNeeded("SCRAM-SHA-256", "user")
    with pytest.raises(SaslError, match="invalid credentials"):
        server.provide(later)


def test_a_password_that_changes_amid_the_exchange_is_good_while_it_overlaps() -> None:
    """SEC-27: the credential of that moment has both keys."""
    server = server_at_final()
    server.receive(CLIENT_FINAL)
    both = credential("SCRAM-SHA-256", "new", "pencil", salt=PENCIL_SALT)
    assert isinstance(server.provide(both), Authenticated)


def test_both_roles_meet_the_example_of_the_first_standard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RFC 5802, section 5: SHA-1, which nobody is offered, by the same steps."""
    monkeypatch.setitem(scram.MECHANISMS, "SCRAM-SHA-1", "sha1")
    nonce, more = "fyko+d2lbbFgONRv9qkxdawL", "3rfcNHYJY1ZVvWVs7j"
    client = ScramSaslClient("SCRAM-SHA-1", "user", "pencil", nonce)
    server = ScramSaslServer("SCRAM-SHA-1", more)
    assert client.first() == f"n,,n=user,r={nonce}".encode()
    assert isinstance(server.receive(client.first()), CredentialNeeded)
    stored = credential("SCRAM-SHA-1", "pencil", salt=base64.b64decode("QSXCR+Q6sek8bf92"))
    challenge = server.provide(stored)
    assert challenge.token == f"r={nonce}{more},s=QSXCR+Q6sek8bf92,i=4096".encode()
    final = client.respond(challenge.token)
    assert final == f"c=biws,r={nonce}{more},p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=".encode()
    assert isinstance(server.receive(final), CredentialNeeded)
    done = server.provide(stored)
    assert done == Authenticated("user", b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=", None)
    assert client.respond(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") is None
    assert client.is_complete


def log_in(client: ScramSaslClient, stored: ScramCredential, nonce: str = "server") -> str:
    """Run both roles against each other; who has logged in."""
    server = ScramSaslServer(client.mechanism, nonce)
    needed = server.receive(client.first())
    assert isinstance(needed, CredentialNeeded)
    final = client.respond(server.provide(stored).token)
    assert final is not None
    assert server.receive(final) == needed
    step = server.provide(stored)
    assert isinstance(step, Authenticated)
    assert client.respond(step.token) is None
    assert client.is_complete
    assert step.username == needed.username
    return step.username


WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]), WORDS, WORDS)
def test_both_roles_agree_on_any_name_and_password(
    mechanism: str, username: str, password: str
) -> None:
    """Also with the characters that need escapes."""
    client = ScramSaslClient(mechanism, username, password, "abc")
    assert log_in(client, credential(mechanism, password)) == username


def test_a_wrong_password_fails_in_the_end() -> None:
    """As does a name that nobody has: names cannot be probed."""
    for stored in (PENCIL, decoy_credential("SCRAM-SHA-256", "user", b"secret of the cluster")):
        with pytest.raises(SaslError, match="invalid credentials"):
            log_in(ScramSaslClient("SCRAM-SHA-256", "user", "wrong", NONCE), stored)


def test_a_decoy_is_always_the_same_for_a_name() -> None:
    """Another salt each time would give it away; each cluster has its own."""
    decoy = decoy_credential("SCRAM-SHA-512", "a", b"x")
    assert decoy == decoy_credential("SCRAM-SHA-512", "a", b"x")
    others = [
        decoy_credential("SCRAM-SHA-512", "b", b"x"),
        decoy_credential("SCRAM-SHA-512", "a", b"y"),
        decoy_credential("SCRAM-SHA-256", "a", b"x"),
    ]
    assert decoy.salt not in [other.salt for other in others]
    assert decoy.iterations == 4096


def test_without_a_credential_the_log_in_ends() -> None:
    """For stores that have no decoys."""
    server = ScramSaslServer("SCRAM-SHA-256", "x")
    server.receive(example().first())
    with pytest.raises(SaslError, match="invalid credentials"):
        server.provide(None)
    with pytest.raises(SaslError, match="not due"):
        server.receive(CLIENT_FINAL)


@pytest.mark.parametrize("password", ["new", "old"])
def test_both_passwords_work_while_one_is_being_changed(password: str) -> None:
    """The server signs with the key that fits, so any client believes it."""
    stored = credential("SCRAM-SHA-256", "new", "old")
    assert log_in(ScramSaslClient("SCRAM-SHA-256", "user", password, NONCE), stored) == "user"


def test_a_recorded_log_in_proves_nothing_later() -> None:
    """Replay: the server's nonce is another."""
    server = ScramSaslServer("SCRAM-SHA-256", "another")
    server.receive(f"n,,n=user,r={NONCE}".encode())
    server.provide(PENCIL)
    with pytest.raises(SaslError, match="nonce"):
        server.receive(CLIENT_FINAL)


def test_an_exchange_ends_once() -> None:
    """Neither after success nor after failure can more be tried."""
    server = server_at_final()
    server.receive(CLIENT_FINAL)
    with pytest.raises(SaslError, match="not due"):
        server.receive(CLIENT_FINAL)
    server = server_at_final()
    with pytest.raises(SaslError):
        server.receive(b"c=biws,r=x,p=AAAA")
    with pytest.raises(SaslError, match="not due"):
        server.receive(CLIENT_FINAL)
    with pytest.raises(SaslError, match="no credential"):
        server.provide(PENCIL)
    client = example()
    client.respond(SERVER_FIRST)
    client.respond(SERVER_FINAL)
    with pytest.raises(SaslError, match="after the last"):
        client.respond(SERVER_FINAL)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "malformed"),
        (b"n", "malformed"),
        (b"n,,", "malformed"),
        (b"y,,n=user,r=abc", "channel binding"),
        (b"p=tls-unique,,n=user,r=abc", "channel binding"),
        (b"n,,m=x,n=user,r=abc", "malformed"),
        (b"n,,n=user", "malformed"),
        (b"n,,n=,r=abc", "no name"),
        (b"n,,n=user,r=", "no nonce"),
        (b"n,,n=user,r=a b", "no nonce"),
        (b"n,,n=us=er,r=abc", "escape"),
        (b"n,,n=us=2cer,r=abc", "escape"),
        (b"n,a=other,n=user,r=abc", "authorization id"),
        (b"n,user,n=user,r=abc", "authorization id"),
        (b"n,,n=\xff,r=abc", "UTF-8"),
        (b"n,,n=" + bytes(20_000) + b",r=abc", "bytes"),
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes, reason: str) -> None:
    """Before anything is looked up."""
    with pytest.raises(SaslError, match=reason):
        ScramSaslServer("SCRAM-SHA-256", "x").receive(message)


def test_a_user_may_name_itself_and_extensions_are_ignored() -> None:
    """RFC 5802: the authorization id is that of the name, and is bound by the final message."""
    server = ScramSaslServer("SCRAM-SHA-256", "x")
    first = b"n,a=us=2Cer,n=us=2Cer,r=abc,ext=1"
    assert server.receive(first) == CredentialNeeded("SCRAM-SHA-256", "us,er")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "malformed"),
        (b"p=AAAA", "malformed"),
        (b"c=biws,p=AAAA", "malformed"),
        (CLIENT_FINAL.replace(b"biws", b"eSws"), "channel binding"),
        (CLIENT_FINAL.replace(b"r=r", b"r=R"), "nonce"),
        (CLIENT_FINAL.replace(SERVER_NONCE.encode(), b""), "nonce"),
        (CLIENT_FINAL.replace(b",p=", b"x,p="), "nonce"),
        (CLIENT_FINAL.replace(b"p=d", b"p=D"), "invalid credentials"),
        (CLIENT_FINAL[:-3], "proof"),
        (CLIENT_FINAL.partition(b",p=")[0] + b",p=AAAA", "invalid credentials"),
        (CLIENT_FINAL.partition(b",p=")[0] + b",p=", "proof"),
        (CLIENT_FINAL.partition(b",p=")[0] + b",ext=1,p=AAAA", "invalid credentials"),
        (bytes(20_000), "bytes"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_false_final_message_is_refused(message: bytes, reason: str) -> None:
    """Each part of it is checked."""
    server = server_at_final()
    with pytest.raises(SaslError, match=reason):
        server.receive(message)
        server.provide(PENCIL)


@settings(max_examples=50)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_log_anybody_in(first: bytes, second: bytes) -> None:
    """Whatever comes is refused, or leads to the next question."""
    server = ScramSaslServer("SCRAM-SHA-256", "x")
    for message in (b"n,,n=" + first, second):
        try:
            step = server.receive(message)
            if isinstance(step, CredentialNeeded):
                server.provide(PENCIL)
                continue
        except SaslError:
            continue
        raise AssertionError(step)


def test_a_server_cannot_make_a_client_read_for_ever() -> None:
    """Over-long messages are not even decoded."""
    with pytest.raises(SaslError, match="bytes"):
        example().respond(SERVER_FIRST + b"," + bytes(20_000))


def test_nothing_shown_holds_a_secret() -> None:
    """What is logged by accident."""
    assert "pencil" not in repr(PENCIL)
    for key in (*PENCIL.keys[0],):
        assert repr(key) not in repr(PENCIL)


def test_a_password_is_hashed_wherever_the_caller_likes() -> None:
    """A server decides how long it takes: not on the loop of a client."""
    names = ("SCRAM-SHA-256", "user", "pencil", NONCE)
    here, apart = ScramSaslClient(*names), ScramSaslClient(*names, hashes_apart=True)
    needed = apart.respond(SERVER_FIRST)
    assert isinstance(needed, HashingNeeded)
    assert apart.provide(needed.compute()) == here.respond(SERVER_FIRST)
    assert apart.respond(SERVER_FINAL) is None
    assert apart.is_complete
