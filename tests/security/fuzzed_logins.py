"""Log-ins made of anything: any order, size, split and mechanism, from valid ones and from noise.

    python -m tests.security.fuzzed_logins INPUTS [SEED]

Each input is one frame. Ends with 1, and says of which seed, where one of them raises, gets in
without a credential, has anything handled but ApiVersions, SaslHandshake and SaslAuthenticate, or
leaves memory behind (SEC-112).
"""

import asyncio
import gc
import logging
import multiprocessing
import os
import random
import struct
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from barnabas_broker.config.sasl_settings import SaslSettings
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.principal import ANONYMOUS
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.sasl import (
    Accepted,
    OAuthBearerSaslClient,
    PlainSaslClient,
    SaslError,
    ScramSaslClient,
)
from barnabas_protocol.messages.api_versions import ApiVersionsRequest
from barnabas_protocol.messages.metadata import MetadataRequest
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas_protocol.web_tokens.token_rules import TokenRules, verified
from barnabas_protocol.web_tokens.web_token import TokenRefusedError
from tests.support.login_bench import (
    MECHANISMS,
    LoginBench,
    authenticate_frame,
    credential,
    frame,
)
from tests.support.session_bench import Client, framed
from tests.support.virtual_loop import run_virtual

ROUND = 50_000
"""Inputs of one listener."""
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


def a_proof(pick: random.Random, data: bytes) -> bytes:
    """A token of an exchange, often damaged, cut, doubled or of another time."""
    match pick.randrange(6):
        case 0 | 1:
            return data
        case 2:
            return data[: pick.randrange(len(data) + 1)]
        case 3:
            return data.replace(b"r=", b"r=x").replace(b"c=biws", pick.choice((b"c=biws", b"c=")))
        case 4:
            return data + pick.choice((b",", b",p=", data, b"\0", b",m=1"))
        case _:
            return mutated(pick, data)


async def an_exchange(bench: LoginBench, pick: random.Random) -> int:
    """SCRAM by somebody who reads what the server says, up to a proof that is often damaged."""
    client = await bench.connect()
    mechanism = pick.choice(("SCRAM-SHA-256", "SCRAM-SHA-512"))
    password = pick.choice(("right", "right", "wrong"))
    user = pick.choice(("alice", "alice", "nobody"))
    is_honest = (user, password) == ("alice", "right")
    sasl = ScramSaslClient(mechanism, user, password, f"nonce{pick.randrange(1 << 60)}")
    client.send(frame(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism)))
    token, count = sasl.first(), 1
    try:
        await client.answer()
        for _ in range(2):
            sent = a_proof(pick, token)
            is_honest = is_honest and sent == token
            count += 1
            client.send(authenticate_frame(sent))
            answer = await client.answer()
            *_, response = codec.decode_response(answer, ApiKey.SASL_AUTHENTICATE, 2)
            if response.error_code:
                break
            token = sasl.respond(bytes(response.auth_bytes)) or b""
    except (ConnectionError, SaslError):
        pass
    assert sasl.is_complete or not is_honest, "an honest client was refused"
    for session in bench.listener.sessions:
        got_in = session.principal != ANONYMOUS
        # Another proof may be the same in another spelling, never one without the password.
        assert not got_in or (user, password) == ("alice", "right"), (user, password)
    await left(bench, client)
    return count


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
    await left(bench, client)
    return len(inputs)


async def left(bench: LoginBench, client: Client) -> None:
    """End a connection, if the listener has not."""
    if not client.is_closed:
        client.transport.abort()
        await bench.until(lambda: not bench.listener.sessions)
    bench.clients.clear()


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
            one = an_exchange if pick.random() < 0.1 else one_connection
            count += await one(bench, pick)
            bench.handled.clear()
            if not first and count >= inputs // 10:
                first = object_count()
        assert object_count() - first < OBJECTS_MAX
        assert not bench.tasks
        assert bench.login_metrics.logins.total() > inputs // 1_000  # some of them get in
        return dict(bench.metrics.closed)


class Complaints(logging.Handler):
    """What is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines.append(record.getMessage())


def fuzzed(inputs: int, seed: int) -> dict[str, int]:
    """Run so many inputs; how connections were closed. Raises: AssertionError with the seed."""
    complaints = Complaints()
    root = logging.getLogger()
    level = root.level
    root.addHandler(complaints)
    root.setLevel(logging.ERROR)
    try:
        closed = run_virtual(fuzz(inputs, seed))
        assert not complaints.lines, complaints.lines
        assert "dispatch-failure" not in closed
    except BaseException as error:
        raise AssertionError(f"seed {seed}, {inputs} inputs: {error!r}") from error
    finally:
        root.removeHandler(complaints)
        root.setLevel(level)  # other tests of this process look for warnings
    return closed


def main() -> int:
    """Run them in as many processes as there are processors; 1 where something is wrong."""
    inputs = int(sys.argv[1]) if len(sys.argv) > 1 else ROUND
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rounds = [min(ROUND, inputs - begun) for begun in range(0, inputs, ROUND)]
    width = min(len(rounds), os.cpu_count() or 1)
    began, closed = time.perf_counter(), Counter[str]()
    spawn: Any = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(width, mp_context=spawn) as pool:
            for outcome in pool.map(fuzzed, rounds, range(first, first + len(rounds))):
                closed.update(outcome)
    except AssertionError as error:
        print(error)
        return 1
    seconds = time.perf_counter() - began
    ways = ", ".join(f"{kind} {count:,}" for kind, count in closed.most_common())
    print(f"{inputs:,} inputs in {seconds:.0f} s by {width} processes; closed by: {ways}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
