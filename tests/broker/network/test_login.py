"""The log-in of connections: what stands before it, how it fails, and how it is repeated."""

import asyncio
import struct
from typing import Any

import pytest

from barnabas_broker.config.sasl_settings import SaslSettings
from barnabas_broker.network.login import FAILURE_DELAY_MS_MAX, SMALL_BYTES_MAX
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_protocol.api import SERVED, ApiKey
from barnabas_protocol.connection.sasl import (
    Accepted,
    OAuthBearerSaslClient,
    PlainSaslClient,
    ScramSaslClient,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.api_versions import ApiVersionsRequest
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.login_bench import (
    MECHANISMS,
    LoginBench,
    authenticate,
    authenticate_frame,
    credential,
    exchange,
    frame,
    handshake,
    log_in,
    received,
)
from tests.support.session_bench import Client
from tests.support.virtual_loop import run_virtual

ALICE = Principal.user("alice")
VERSIONS = frame(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
METADATA = frame(ApiKey.METADATA, 12, MetadataRequest(topics=[]))


def settings(**more: Any) -> SaslSettings:
    return SaslSettings(mechanisms=MECHANISMS, **more)


def on_bench(work: Any, *stored: Any, **options: Any) -> None:
    async def run() -> None:
        alice = stored or (credential("alice", "right"),)
        async with LoginBench(*alice, **options) as bench:
            await work(bench)
            assert not bench.tasks

    run_virtual(run())


def now() -> float:
    return asyncio.get_running_loop().time()


async def request(client: Client) -> Any:
    client.send(METADATA)
    return await received(client, ApiKey.METADATA, 12)


def test_who_has_logged_in_may_go_on() -> None:
    """SEC-20: versions, handshake, tokens; then frames go to the dispatcher, as their user's."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        client.send(VERSIONS)
        await received(client, ApiKey.API_VERSIONS, 3)
        await bench.until(lambda: bool(bench.listener.sessions))
        assert bench.session.principal == ANONYMOUS
        assert (await log_in(client, "alice", "right")).session_lifetime_ms == 0
        assert bench.session.principal == ALICE
        await request(client)
        names = [MetadataRequestTopic(name="t" * 30_000)] * 20
        large = frame(ApiKey.METADATA, 12, MetadataRequest(topics=names))
        assert len(large) > bench.stage.settings.receive_bytes_max
        client.send(large)
        await received(client, ApiKey.METADATA, 12)

    on_bench(work)


@pytest.mark.parametrize(
    "first",
    [METADATA, authenticate_frame(b"x"), frame(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())],
)
def test_anything_else_before_the_handshake_closes(first: bytes) -> None:
    """SEC-20, NET-17: ApiVersions is due once."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        client.send(VERSIONS, first)
        await received(client, ApiKey.API_VERSIONS, 3)
        await client.closed()
        assert client.data == b""
        assert bench.handled == [ApiKey.API_VERSIONS]
        assert bench.login_metrics.failures == {"none": 1}

    on_bench(work)


def test_versions_that_are_not_served_may_be_asked_again() -> None:
    """SEC-20: an error of ApiVersions does not end it; older clients begin with a newer version."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        client.send(frame(ApiKey.API_VERSIONS, 4, ApiVersionsRequest()))
        response = await received(client, ApiKey.API_VERSIONS, 3)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        client.send(VERSIONS)
        await received(client, ApiKey.API_VERSIONS, 3)
        await log_in(client, "alice", "right")
        await request(client)

    on_bench(work)


def test_tokens_may_be_frames_of_their_own() -> None:
    """SEC-20: after handshake 0; their failure closes without a word."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        await handshake(client, "SCRAM-SHA-512", 0)
        sasl = ScramSaslClient("SCRAM-SHA-512", "alice", "right", "nonce")
        client.send(sasl.first())
        token = sasl.respond(await client.answer())
        assert token is not None
        client.send(token)
        assert sasl.respond(await client.answer()) is None
        await request(client)
        other = await bench.connect()
        await handshake(other, "PLAIN", 0)
        other.send(PlainSaslClient("alice", "wrong").first())
        await other.closed()
        assert other.data == b""

    on_bench(work)


def test_an_unknown_mechanism_is_told_which_are_enabled() -> None:
    """SEC-20: 33 with the list, then the connection closes."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        response = await handshake(client, "GSSAPI")
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == list(MECHANISMS)
        await client.closed()

    on_bench(work)


def test_another_request_amid_tokens_is_refused() -> None:
    """SEC-20: in its own form with 34; then the connection closes."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        await handshake(client, "PLAIN")
        client.send(METADATA)
        response = await received(client, ApiKey.SASL_AUTHENTICATE, 1)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        await client.closed()
        assert bench.handled == []

    on_bench(work)


@pytest.mark.parametrize("key", sorted(set(SERVED) - {ApiKey.SASL_AUTHENTICATE}))
@pytest.mark.parametrize("is_amid", [False, True])
def test_only_tokens_are_large_before_log_in(key: ApiKey, is_amid: bool) -> None:
    """SEC-8, SEC-20: half a megabyte of elements took a third of a second to read and refuse."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        if is_amid:
            await handshake(client, "PLAIN")
        header = struct.pack(">hhih", key, SERVED[key][0], 7, -1)
        client.send(header + bytes(SMALL_BYTES_MAX))
        await client.closed()
        assert client.data == b""
        assert bench.metrics.closed == {"malformed-request": 1}

    on_bench(work)


@pytest.mark.parametrize("size", [524_289, 1 << 30])
def test_frames_before_log_in_are_small(size: int) -> None:
    """SEC-8, CVE-2022-34917: who is nobody yet commits no memory."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        client.transport.write(size.to_bytes(4, "big"))
        await client.closed()
        assert bench.metrics.closed == {"oversize": 1}

    on_bench(work)


@pytest.mark.parametrize(
    ("user", "password", "mechanism"),
    [
        ("alice", "wrong", "SCRAM-SHA-512"),
        ("nobody", "right", "SCRAM-SHA-512"),
        ("alice", "right", "SCRAM-SHA-256"),
    ],
)
def test_a_failure_is_held_back_and_tells_nothing(user: str, password: str, mechanism: str) -> None:
    """SEC-21, SEC-26, NET-17: the answer comes after the delay, the same for all."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        begun = now()
        response = await log_in(client, user, password, mechanism)
        assert now() - begun >= 0.1
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {mechanism}"
        )
        await client.closed()
        assert bench.login_metrics.failures == {mechanism: 1}

    on_bench(work)


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0nobody\0right", b"x"])
def test_a_refusal_of_plain_has_kafka_s_words(token: bytes) -> None:
    """SEC-21, SEC-110: other ones than SCRAM's, and the same for every cause."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        await handshake(client, "PLAIN")
        client.send(authenticate_frame(token))
        response = await received(client, ApiKey.SASL_AUTHENTICATE, 2)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message == "Authentication failed: Invalid username or password"

    on_bench(work)


def test_nothing_is_read_while_a_failure_is_held_back() -> None:
    """SEC-21: what a client sends behind a false token is not looked at."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        await handshake(client, "PLAIN")
        good = authenticate_frame(PlainSaslClient("alice", "right").first())
        client.send(authenticate_frame(b"x"), good, METADATA)
        response = await received(client, ApiKey.SASL_AUTHENTICATE, 2)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        await client.closed()
        assert client.data == b""
        assert bench.handled == []

    on_bench(work, settings=settings(failure_delay_ms=5_000))


def test_who_fails_often_waits_longer() -> None:
    """SEC-22: by address, so that guessing does not pay; others do not wait."""

    async def work(bench: LoginBench) -> None:
        async def fail() -> float:
            client = await bench.connect()
            begun = now()
            await handshake(client, "PLAIN")
            await authenticate(client, b"x")
            return now() - begun

        delays = [
            delay for _ in range(3) for delay in await asyncio.gather(*[fail() for _ in range(200)])
        ]
        assert min(delays) < 0.2
        assert 1 < max(delays) <= FAILURE_DELAY_MS_MAX / 1000 + 0.1
        assert bench.stage.rates.delay_ms("10.0.0.9") == 0

    on_bench(work)


def test_nobody_gets_in_before_the_credentials_are_loaded() -> None:
    """SEC-21, BOOT-3: log-ins wait, by every mechanism that needs them."""

    async def work(bench: LoginBench) -> None:
        scram, plain = await bench.connect(), await bench.connect()
        await handshake(plain, "PLAIN")
        plain.send(authenticate_frame(PlainSaslClient("alice", "right").first()))
        work = asyncio.create_task(log_in(scram, "alice", "right"))
        await asyncio.sleep(5)
        assert plain.data == b""
        assert not work.done()
        bench.load()
        assert (await work).error_code == ErrorCode.NONE
        response = await received(plain, ApiKey.SASL_AUTHENTICATE, 2)
        assert response.error_code == ErrorCode.NONE

    on_bench(work, is_loaded=False)


def test_a_log_in_has_a_deadline() -> None:
    """SEC-8: whoever connects and does not log in goes, as does who never gets a verdict."""

    async def work(bench: LoginBench) -> None:
        idle, waiting = await bench.connect(), await bench.connect()
        await handshake(waiting, "SCRAM-SHA-512")
        waiting.send(authenticate_frame(b"n,,n=alice,r=nonce"))
        await asyncio.sleep(1.9)
        assert not idle.is_closed
        await asyncio.sleep(0.2)
        assert idle.is_closed
        assert waiting.is_closed
        assert bench.metrics.closed == {"login-overdue": 2}
        assert bench.login_metrics.overdue == 2
        assert not bench.tasks  # nobody waits for a verdict

    on_bench(work, is_loaded=False, timeout_ms=2_000)


def test_logging_in_again_has_a_deadline() -> None:
    """SEC-8, SEC-30: whoever begins it and stops amid it goes; who is through stays."""

    async def work(bench: LoginBench) -> None:
        stopped, through = await bench.connect(), await bench.connect()
        for client in (stopped, through):
            await log_in(client, "alice", "right")
        await asyncio.sleep(1.5)
        await handshake(stopped, "SCRAM-SHA-512")
        await log_in(through, "alice", "right")
        await asyncio.sleep(1.9)
        assert not stopped.is_closed
        await asyncio.sleep(0.2)
        assert stopped.is_closed
        await request(through)

    on_bench(work, timeout_ms=2_000)


@pytest.mark.parametrize("version", [0, 1])
def test_tokens_of_who_logs_in_again_are_no_larger(version: int) -> None:
    """SEC-8: frames of a hundred megabytes are for records; a token was copied before it was
    refused."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        await log_in(client, "alice", "right")
        await asyncio.sleep(1.5)
        await handshake(client, "SCRAM-SHA-512", version)
        token = bytes(bench.stage.settings.receive_bytes_max)
        client.send(token + b"x" if version == 0 else authenticate_frame(token))
        await client.closed()
        assert client.data == b""
        assert bench.metrics.closed == {"malformed-request": 1}

    on_bench(work)


@pytest.mark.parametrize("is_again", [False, True])
@pytest.mark.parametrize("now_stored", [(), (credential("alice", "other"),)])
def test_an_exchange_that_is_held_back_keeps_no_credential(
    is_again: bool, now_stored: tuple[Any, ...]
) -> None:
    """SEC-24, SEC-30: the proof is judged by what there is when it comes."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        if is_again:
            await log_in(client, "alice", "right")
            await asyncio.sleep(1.5)
        await handshake(client, "SCRAM-SHA-512")
        sasl = ScramSaslClient("SCRAM-SHA-512", "alice", "right", "nonce")
        first = await authenticate(client, sasl.first())
        proof = sasl.respond(bytes(first.auth_bytes))
        assert proof is not None
        bench.stored = {record.key: record for record in now_stored}
        bench.load()
        response = await authenticate(client, proof)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        await client.closed()

    on_bench(work)


@pytest.mark.parametrize(
    ("now_stored", "is_good"),
    [
        (credential("alice", "new", former=("right", 1 << 60)), True),
        (credential("alice", "new"), False),
        (None, False),
    ],
)
def test_a_password_is_judged_by_what_there_is_once_it_is_hashed(
    now_stored: Any, is_good: bool
) -> None:
    """SEC-23, SEC-27: a log-in that waits for its turn keeps no password that was taken away."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        await handshake(client, "PLAIN")
        bench.threads.clear()
        client.send(authenticate_frame(PlainSaslClient("alice", "right").first()))
        await asyncio.sleep(0.1)
        bench.stored = {} if now_stored is None else {now_stored.key: now_stored}
        bench.load()
        bench.threads.set()
        response = await received(client, ApiKey.SASL_AUTHENTICATE, 2)
        assert (response.error_code == ErrorCode.NONE) == is_good

    on_bench(work)


def test_plain_is_verified_by_the_stored_keys_or_by_the_configured_users() -> None:
    """SEC-23: `user_NAME` of the configuration alone, where there are any."""

    async def by_stored(bench: LoginBench) -> None:
        await try_all(bench, {("alice", "right")})

    async def by_configuration(bench: LoginBench) -> None:
        await try_all(bench, {("bob", "secret")})

    async def try_all(bench: LoginBench, good: set[tuple[str, str]]) -> None:
        for user, password in (
            ("alice", "right"),
            ("alice", "wrong"),
            ("bob", "secret"),
            ("c", "x"),
        ):
            client = await bench.connect()
            await handshake(client, "PLAIN")
            response = await authenticate(client, PlainSaslClient(user, password).first())
            assert (response.error_code == ErrorCode.NONE) == ((user, password) in good)

    on_bench(by_stored)
    on_bench(by_stored, credential("alice", "right", "SCRAM-SHA-256"))
    on_bench(by_configuration, settings=settings(plain_users={"bob": "secret"}))


def test_the_password_before_stays_good_for_a_while() -> None:
    """SEC-27: for clients of either password, by SCRAM and by PLAIN."""
    alice = credential("alice", "new", former=("old", 1 << 60))

    async def work(bench: LoginBench) -> None:
        for password, is_good in (("new", True), ("old", True), ("older", False)):
            client = await bench.connect()
            response = await log_in(client, "alice", password)
            assert (response.error_code == ErrorCode.NONE) == is_good
            other = await bench.connect()
            await handshake(other, "PLAIN")
            response = await authenticate(other, PlainSaslClient("alice", password).first())
            assert (response.error_code == ErrorCode.NONE) == is_good

    on_bench(work, alice)


class Tokens:
    """Takes every token as bob's for two seconds, but "bad"."""

    async def verify(self, token: str, host: str) -> Accepted | None:
        return None if token == "bad" else Accepted(username=token, lifetime_ms=2_000)


def test_a_refused_bearer_token_is_told_as_json() -> None:
    """SEC-28: error 0 with the JSON, the client acknowledges, then 58 with it."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        await handshake(client, "OAUTHBEARER")
        response = await authenticate(client, OAuthBearerSaslClient("bad").first())
        assert response.error_code == ErrorCode.NONE
        assert bytes(response.auth_bytes) == b'{"status":"invalid_token"}'
        response = await authenticate(client, b"\x01")
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message == '{"status":"invalid_token"}'
        await client.closed()

    on_bench(work, tokens=Tokens())


def test_a_session_lasts_as_long_as_its_token_and_its_limit() -> None:
    """SEC-30: the client is told the shorter."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        await handshake(client, "OAUTHBEARER")
        assert (await exchange(client, OAuthBearerSaslClient("bob"))).session_lifetime_ms == 2_000
        other = await bench.connect()
        assert (await log_in(other, "alice", "right")).session_lifetime_ms == 5_000

    lifetimes = {"SCRAM-SHA-512": 5_000, "OAUTHBEARER": 3_000}
    on_bench(work, tokens=Tokens(), settings=settings(session_lifetimes_ms=lifetimes))


def test_after_its_end_a_request_closes_the_connection() -> None:
    """SEC-30: counted; another log-in is taken."""

    async def work(bench: LoginBench) -> None:
        late, again = await bench.connect(), await bench.connect()
        await log_in(late, "alice", "right")
        await log_in(again, "alice", "right")
        await asyncio.sleep(4.9)
        await request(late)
        await asyncio.sleep(0.2)
        late.send(METADATA)
        await late.closed()
        assert bench.login_metrics.expired == {"SCRAM-SHA-512": 1}
        assert (await log_in(again, "alice", "right")).session_lifetime_ms == 5_000
        await request(again)
        assert bench.login_metrics.reauthentications == {"SCRAM-SHA-512": 1}

    on_bench(work, settings=settings(session_lifetimes_ms={"SCRAM-SHA-512": 5_000}))


def test_what_is_parked_does_not_outlive_its_log_in() -> None:
    """SEC-30: a fetch that would wait for weeks is no way to read with a token that has ended."""

    async def work(bench: LoginBench) -> None:
        parked, again, idle = [await bench.connect() for _ in range(3)]
        for client in (parked, again, idle):
            await log_in(client, "alice", "right")
        bench.dispatch = lambda in_flight: None  # nobody responds
        parked.send(METADATA)
        await asyncio.sleep(5)
        assert (await log_in(again, "alice", "right")).error_code == ErrorCode.NONE
        again.send(METADATA)
        await asyncio.sleep(1.9)
        assert not parked.is_closed
        await asyncio.sleep(0.2)
        assert [client.is_closed for client in (parked, again, idle)] == [True, False, False]
        assert bench.login_metrics.expired == {"SCRAM-SHA-512": 1}
        # Kafka's clients may log in again whenever they have something to request.
        assert (await log_in(idle, "alice", "right")).error_code == ErrorCode.NONE

    lifetimes = {"SCRAM-SHA-512": 5_000}
    on_bench(work, settings=settings(session_lifetimes_ms=lifetimes), timeout_ms=2_000)


def test_a_log_in_is_repeated_on_the_live_connection() -> None:
    """SEC-30: requests amid it are refused; what was sent before is answered before."""

    async def work(bench: LoginBench) -> None:
        client, other = await bench.connect(), await bench.connect()
        for one in (client, other):
            await log_in(one, "alice", "right")
        await asyncio.sleep(1.5)
        client.send(
            METADATA,
            frame(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512")),
        )
        await received(client, ApiKey.METADATA, 12)
        await received(client, ApiKey.SASL_HANDSHAKE, 1)
        await exchange(client, ScramSaslClient("SCRAM-SHA-512", "alice", "right", "nonce"))
        await request(client)
        await handshake(other, "SCRAM-SHA-512")
        other.send(METADATA)
        await received(other, ApiKey.SASL_AUTHENTICATE, 1)
        await other.closed()

    on_bench(work)


def test_a_log_in_is_not_repeated_at_once() -> None:
    """SEC-30: 34, and the session goes on."""

    async def work(bench: LoginBench) -> None:
        client = await bench.connect()
        await log_in(client, "alice", "right")
        response = await handshake(client, "SCRAM-SHA-512")
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        await request(client)
        response = await authenticate(client, b"x")
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        await request(client)

    on_bench(work)


def test_a_connection_stays_its_users() -> None:
    """SEC-30: another principal is 58, another mechanism is refused at the next token."""
    stored = (credential("alice", "right"), credential("bob", "right"))

    async def work(bench: LoginBench) -> None:
        client, other = await bench.connect(), await bench.connect()
        for one in (client, other):
            await log_in(one, "alice", "right")
        await asyncio.sleep(1.5)
        response = await log_in(client, "bob", "right")
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert (await handshake(other, "PLAIN")).error_code == ErrorCode.NONE
        response = await authenticate(other, PlainSaslClient("alice", "right").first())
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        for one in (client, other):
            await one.closed()
        counts = bench.login_metrics.reauthentication_failures
        assert counts == {"SCRAM-SHA-512": 1, "PLAIN": 1}

    on_bench(work, *stored)


def test_other_dispatchers_do_not_take_who_has_not_logged_in() -> None:
    """SEC-20: a broker that begins to serve, or to measure, must not open its doors."""

    async def work(bench: LoginBench) -> None:
        guest, user = await bench.connect(), await bench.connect()
        await log_in(user, "alice", "right")
        taken: list[int] = []

        def take(in_flight: Any) -> None:
            bench.handle(in_flight)
            taken.append(in_flight.api_key)

        bench.listener.dispatch_to(take)
        await request(user)
        guest.send(METADATA)
        await guest.closed()
        assert taken == [ApiKey.METADATA]

    on_bench(work)


def test_connections_end_with_their_credentials_where_that_is_wanted() -> None:
    """SEC-30: of the user and mechanism that changed; Kafka leaves them."""
    stored = (
        credential("alice", "right"),
        credential("alice", "right", "SCRAM-SHA-256"),
        credential("bob", "right"),
    )

    async def connections(bench: LoginBench) -> list[Client]:
        clients = []
        for user, mechanism in (
            ("alice", "SCRAM-SHA-512"),
            ("alice", "SCRAM-SHA-256"),
            ("bob", "SCRAM-SHA-512"),
        ):
            client = await bench.connect()
            await log_in(client, user, "right", mechanism)
            clients.append(client)
        bench.stage.end_connections("alice", "SCRAM-SHA-512")
        await asyncio.sleep(1)
        return clients

    async def ends(bench: LoginBench) -> None:
        clients = await connections(bench)
        assert [client.is_closed for client in clients] == [True, False, False]

    async def stays(bench: LoginBench) -> None:
        assert not any(client.is_closed for client in await connections(bench))

    on_bench(ends, *stored, settings=settings(ends_on_credential_change=True))
    on_bench(stays, *stored)
