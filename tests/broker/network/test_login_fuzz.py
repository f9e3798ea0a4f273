"""Log-ins made of anything: any order, size, split and mechanism, from valid ones and from noise.

`LOGIN_FUZZ=1000000` runs as many inputs and says how fast; `LOGIN_SEED=n` begins elsewhere.
"""

import asyncio
import gc
import logging
import os
import random
import struct
import time

import pytest

from barnabas_broker.config.sasl_settings import SaslSettings
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.oauth.token_rules import TokenRules, verified
from barnabas_broker.security.oauth.web_token import TokenRefusedError
from barnabas_broker.security.principal import ANONYMOUS
from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.sasl import (
    Accepted,
    OAuthBearerSaslClient,
    PlainSaslClient,
    ScramSaslClient,
)
from barnabas_protocol.messages.api_versions import ApiVersionsRequest
from barnabas_protocol.messages.metadata import MetadataRequest
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.login_bench import (
    MECHANISMS,
    LoginBench,
    authenticate_frame,
    credential,
    frame,
)
from tests.support.session_bench import framed
from tests.support.virtual_loop import run_virtual

INPUTS = 20_000
OBJECTS_MAX = 3_000
"""What may be there more at the end than after the first tenth; addresses are remembered."""
RULES = TokenRules(
    issuers=frozenset("i"), audiences=frozenset("a"), algorithms=frozenset(("RS256",))
)
NAMES = (*MECHANISMS, "GSSAPI", "", "plain", "SCRAM-SHA-1", "\0", "é" * 40, "PLAIN ")
TOKENS = (
    b"",
    b"\0",
    b"\x01",
    b"n,,",
    b"\xff" * 9,
    b"n,a=alice,n=alice,r=x",
    b"p=tls-unique,,n=alice,r=x",
    b"n,,n=al=2Cice,r=x",
    b"n,,m=1,n=alice,r=x",
    b"c=biws,r=xy,p=AAAA",
    b"c=biws,r=,p=",
    PlainSaslClient("alice", "right").first(),
    PlainSaslClient("alice", "wrong").first(),
    b"bob\0alice\0right",
    ScramSaslClient("SCRAM-SHA-512", "alice", "right", "nonce").first(),
    OAuthBearerSaslClient("a.b.c").first(),
    OAuthBearerSaslClient("eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.e30.e30").first(),
)


class Tokens:
    """Verifies tokens by no key at all."""

    async def verify(self, token: str, host: str) -> Accepted | None:
        try:
            verified(token, {}, RULES, 0)
        except TokenRefusedError:
            return None
        raise AssertionError("a token was taken")


def an_input(pick: random.Random) -> bytes:
    """One frame, of those that are due or any other, often damaged."""
    kind = pick.randrange(8)
    if kind == 0:
        body = frame(ApiKey.API_VERSIONS, pick.choice((0, 3, 4)), ApiVersionsRequest())
    elif kind <= 2:
        request = SaslHandshakeRequest(mechanism=pick.choice(NAMES))
        body = frame(ApiKey.SASL_HANDSHAKE, pick.randrange(2), request)
    elif kind <= 4:
        body = authenticate_frame(mutated(pick, pick.choice(TOKENS)), pick.randrange(3))
    elif kind == 5:
        body = mutated(pick, pick.choice(TOKENS))  # a token without a header
    elif kind == 6:
        body = frame(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    else:
        body = struct.pack(">hh", pick.randrange(-5, 100), pick.randrange(-2, 20)) + pick.randbytes(
            9
        )
    body = mutated(pick, body)
    if pick.random() < 0.02:
        return struct.pack(">i", pick.choice((-1, -(1 << 31), 524_289, (1 << 31) - 1))) + body
    return framed(body)


def a_beginning(pick: random.Random) -> list[bytes]:
    """Often what is due, so that what follows is looked at."""
    if pick.random() < 0.4:
        return []
    mechanism, version = pick.choice(MECHANISMS), pick.choice((0, 1, 1))
    request = SaslHandshakeRequest(mechanism=mechanism)
    inputs = [framed(frame(ApiKey.SASL_HANDSHAKE, version, request))]
    if mechanism == "PLAIN" and pick.random() < 0.5:
        token = PlainSaslClient("alice", "right").first()
        inputs.append(framed(authenticate_frame(token) if version else token))
    return inputs


def mutated(pick: random.Random, data: bytes) -> bytes:
    if not data or pick.random() < 0.6:
        return data
    changed = bytearray(data)
    for _ in range(pick.randint(1, 3)):
        place = pick.randrange(len(changed) + 1)
        match pick.randrange(3):
            case 0:
                changed[place : place + 1] = bytes((pick.randrange(256),))
            case 1:
                del changed[place : place + pick.randint(1, 5)]
            case _:
                changed[place:place] = pick.randbytes(pick.randint(1, 5))
    return bytes(changed)


async def one_connection(bench: LoginBench, pick: random.Random) -> int:
    """Send some inputs, split anywhere; how many those were."""
    client = await bench.connect()
    inputs = [*a_beginning(pick), *(an_input(pick) for _ in range(pick.randint(1, 6)))]
    data = b"".join(inputs)
    while data and not client.is_closed:
        size = pick.randint(1, len(data)) if pick.random() < 0.5 else len(data)
        client.transport.write(data[:size])
        data = data[size:]
        await asyncio.sleep(0)
    await asyncio.sleep(0.2)  # behind the delay of failures
    for session in bench.listener.sessions:
        assert session.login is not None
        assert (session.principal == ANONYMOUS) == (session.login.username is None)
    if not client.is_closed:
        client.transport.abort()
        await bench.until(lambda: not bench.listener.sessions)
    bench.clients.clear()
    return len(inputs)


def object_count() -> int:
    gc.collect()
    return len(gc.get_objects())


async def fuzz(inputs: int, seed: int) -> dict[str, int]:
    """Run so many inputs; how connections were closed."""
    pick = random.Random(seed)
    settings = SaslSettings(mechanisms=MECHANISMS, plain_users={"alice": "right"})
    stored = [credential("alice", "right", name) for name in MECHANISMS if name.startswith("SC")]
    async with LoginBench(*stored, settings=settings, tokens=Tokens()) as bench:
        allowed = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}

        def handle(in_flight: InFlightRequest) -> None:
            before = in_flight.principal
            bench.handle(in_flight)
            assert before != ANONYMOUS or in_flight.api_key in allowed

        bench.dispatch = handle
        count, first = 0, 0
        while count < inputs:
            count += await one_connection(bench, pick)
            bench.handled.clear()
            if not first and count >= inputs // 10:
                first = object_count()
        assert object_count() - first < OBJECTS_MAX
        assert not bench.tasks
        assert bench.login_metrics.logins.total() > inputs // 1_000  # some of them get in
        return dict(bench.metrics.closed)


def test_no_input_breaks_the_log_in(caplog: pytest.LogCaptureFixture) -> None:
    """SEC-112: no exception, nothing but 17, 18 and 36 handled before log-in, memory flat."""
    inputs = int(os.environ.get("LOGIN_FUZZ", INPUTS))
    seed = int(os.environ.get("LOGIN_SEED", "1"))
    caplog.set_level(logging.ERROR)
    began = time.perf_counter()
    try:
        closed = run_virtual(fuzz(inputs, seed))
    except BaseException as error:
        raise AssertionError(f"LOGIN_SEED={seed} LOGIN_FUZZ={inputs}: {error!r}") from error
    print(f"{inputs / (time.perf_counter() - began):.0f} inputs a second, closed by {closed}")
    assert caplog.records == []
    assert "dispatch-failure" not in closed
