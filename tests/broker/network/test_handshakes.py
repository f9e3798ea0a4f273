"""TLS handshakes on real sockets, by both loops: limits, deadlines, what is refused and how."""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.config.sasl_settings import SaslSettings
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.network import handshakes as handshakes_module
from barnabas_broker.network.half_open import HalfOpenConnections
from barnabas_broker.network.login import FailureRates, LoginStage
from barnabas_broker.network.login_metrics import LoginMetrics
from barnabas_broker.network.login_verdicts import LoadedCredentials, LoginVerdicts
from barnabas_broker.network.login_work import LoginWork
from barnabas_broker.security.credentials import ScramCredentials
from tests.support.certificates import Authority
from tests.support.secure_bench import AUTHORITY, WAIT_SECONDS, SecureBench, on_both_loops

# The beginning of a ClientHello: a record of a handshake that never becomes whole.
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def blocking_handshake(port: int, context: ssl.SSLContext) -> None:
    """Raises: ssl.SSLError, of which the listener is told."""
    with (
        socket.create_connection(("127.0.0.1", port)) as connected,
        context.wrap_socket(connected, server_hostname="localhost"),
    ):
        pass


def test_frames_of_any_size_go_both_ways(tmp_path: Path) -> None:
    """SEC-1, SEC-8: small ones, those of several records, and more than is encrypted at a time."""

    async def work(bench: SecureBench) -> None:
        for size in (0, 1, 16_383, 16_384, 70_000, 5_000_000):
            await bench.echoes(bench.context(), size)
        assert bench.outcomes() == {"completed": 6}

    on_both_loops(SecureBench, tmp_path, work)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"\x00\x00\x00\x14\x00\x12\x00\x03", "Kafka's protocol without TLS"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "speaks HTTP, not TLS"),
        (b"\xff\xff", "does not speak TLS"),
        (b"\x16\x03\x01\x00\x05hello", "the handshake failed"),
    ],
)
def test_what_is_no_tls_is_told_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes, words: str
) -> None:
    """SEC-8: by name, so that whoever reads the log knows which setting is wrong."""

    async def work(bench: SecureBench) -> None:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            async with bench.streams(None) as (reader, writer):
                writer.write(sent)
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()
        (line,) = [record.getMessage() for record in caplog.records]
        assert words in line
        assert "\n" not in line
        assert "127.0.0.1" in line

    on_both_loops(SecureBench, tmp_path, work)


def test_who_comes_and_goes_without_a_byte_is_not_worth_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-60: so brokers find out whether another one listens (decision 0008)."""

    async def work(bench: SecureBench) -> None:
        with caplog.at_level(logging.INFO):
            for one in bench.silent():
                one.close()
            await bench.until(lambda: bench.outcomes().get("peer") == 1)
        assert caplog.records == []

    on_both_loops(SecureBench, tmp_path, work)


def test_a_certificate_that_is_wrong_or_missing_is_told_to_both_sides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-3, SEC-8: the client gets an alert, not a closed connection; the log says why."""

    async def refused(bench: SecureBench, context: ssl.SSLContext) -> str:
        with pytest.raises(ssl.SSLError) as error:
            async with bench.streams(context) as (reader, writer):
                writer.write(b"\0\0\0\0")
                await reader.read(1)
        return str(error.value.reason)

    async def work(bench: SecureBench) -> None:
        caplog.clear()
        other = Authority("Another").issue("mallory")
        with caplog.at_level(logging.WARNING):
            assert "CERTIFICATE_REQUIRED" in await refused(bench, bench.context())
            assert "UNKNOWN_CA" in await refused(bench, bench.context(other))
            distrusting = ssl.create_default_context(cadata=Authority("X").pem.decode())
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.to_thread(blocking_handshake, bench.listener.port, distrusting)
            await bench.until(lambda: len(caplog.records) == 3)
            # One on asyncio says nothing of why it goes.
            assert "CERTIFICATE_VERIFY_FAILED" in await refused(bench, distrusting)
            await bench.until(lambda: len(caplog.records) == 4)
        lines = [record.getMessage() for record in caplog.records]
        assert "shows no certificate, which ssl.client.auth=required demands" in lines[0]
        assert "its certificate is not accepted: unable to get local issuer" in lines[1]
        assert "does not accept this broker's certificate (unknown ca)" in lines[2]
        assert "as one does that refuses this certificate" in lines[3]
        await bench.echoes(bench.context(AUTHORITY.issue("alice")))
        assert bench.outcomes() == {"tls": 1, "certificate": 2, "left": 1, "completed": 1}

    on_both_loops(SecureBench, tmp_path, work, client_auth="required")


def test_a_name_without_a_rule_has_no_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-4."""

    async def work(bench: SecureBench) -> None:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            async with bench.streams(bench.context(AUTHORITY.issue("bob"))) as (reader, _):
                assert await reader.read() == b""
        (line,) = [record.getMessage() for record in caplog.records]
        assert "no rule of ssl.principal.mapping.rules matches CN=bob" in line
        await bench.echoes(bench.context(AUTHORITY.issue("alice")))

    on_both_loops(
        SecureBench, tmp_path, work, client_auth="required", mapping_rules="RULE:^CN=(alice)$/$1/"
    )


@pytest.mark.parametrize("sends", [b"", HALF_HELLO])
def test_a_handshake_that_does_not_end_is_cut(tmp_path: Path, sends: bytes) -> None:
    """SEC-8: after `barnabas.login.timeout.ms`, with or without a byte."""

    async def work(bench: SecureBench) -> None:
        (silent,) = bench.silent(sends)
        await bench.until(lambda: bench.outcomes() == {"slow-handshake": 1})
        await bench.until(lambda: bench.half_open.total == 0)
        silent.close()

    on_both_loops(SecureBench, tmp_path, work, timeout_ms=100)


def test_handshake_and_log_in_have_one_deadline(tmp_path: Path) -> None:
    """SEC-8: `barnabas.login.timeout.ms` runs from the accepted connection on."""

    async def work(bench: SecureBench) -> None:
        settings, clock = SaslSettings(mechanisms=("SCRAM-SHA-512",)), SystemClock()
        credentials = LoadedCredentials(ScramCredentials(b"own"), clock)
        bench.listener.login = LoginStage(
            settings,
            LoginVerdicts(settings, credentials, LoginWork(RealDisk().run)),
            clock=clock,
            rates=FailureRates(clock),
            metrics=LoginMetrics(),
            spawn=asyncio.ensure_future,
            timeout_ms=60_000,
        )
        async with bench.streams(bench.context()) as (reader, _):
            async with asyncio.timeout(WAIT_SECONDS):
                assert await reader.read() == b""
        assert bench.metrics.closed == {"login-overdue": 1}

    on_both_loops(SecureBench, tmp_path, work, timeout_ms=2_000)


def test_half_open_connections_are_limited_by_address_and_in_all(tmp_path: Path) -> None:
    """SEC-8: counted at accept, so floods of handshakes meet it; who is through counts no more."""

    async def work(bench: SecureBench) -> None:
        context = bench.context()
        through = [bench.streams(context) for _ in range(3)]
        for one in through:
            await one.__aenter__()
        await bench.until(lambda: bench.half_open.total == 0)
        silent = bench.silent(count=4)
        refused = bench.metrics.rejected
        await bench.until(lambda: refused.get("half-open-connections-per-ip") == 1)
        assert (bench.half_open.total, bench.limits.total) == (3, 6)
        for one in silent:
            one.close()
        await bench.until(lambda: bench.half_open.total == 0)
        await bench.echoes(context)
        for one in through:
            await one.__aexit__(None, None, None)
        bench.half_open.total_max = 2
        silent = bench.silent(count=3)
        await bench.until(lambda: refused.get("half-open-connections") == 1)
        for one in silent:
            one.close()

    on_both_loops(SecureBench, tmp_path, work, half_open_per_ip_max=3)


def test_who_is_stuck_gives_way_to_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-8: few handshakes are made at once, and an attacker cannot keep all of them."""
    monkeypatch.setattr(handshakes_module, "STUCK_SECONDS", 0.2)

    async def work(bench: SecureBench) -> None:
        stuck = bench.silent(HALF_HELLO, count=20)
        await bench.until(lambda: bench.half_open.total == 20)
        assert bench.handshakes.under_way_count <= 2  # an address has half of the units
        await bench.echoes(bench.context())
        for one in stuck:
            one.close()

    on_both_loops(SecureBench, tmp_path, work, units_max=4)


def test_no_more_handshakes_are_under_way_than_the_loop_can_bear(tmp_path: Path) -> None:
    """SEC-8: a hundred clients at once all get through, a few at a time."""

    async def work(bench: SecureBench) -> None:
        context = bench.context()
        await asyncio.gather(*(bench.echoes(context) for _ in range(100)))
        assert 1 < bench.handshakes.most_under_way <= handshakes_module.UNITS_OF_CLIENTS // 2
        assert bench.outcomes() == {"completed": 100}

    on_both_loops(SecureBench, tmp_path, work)


def test_a_renewal_is_for_new_connections_and_closes_none(tmp_path: Path) -> None:
    """SEC-5, SEC-6."""

    async def work(bench: SecureBench) -> None:
        context = bench.context()
        first = await bench.echoes(context)
        async with bench.streams(context) as (reader, writer):
            for _ in range(3):
                AUTHORITY.issue().write(bench.directory)
                assert bench.tls.poll(int(time.time() * 1000))
                assert await bench.echoes(context) != first
                writer.write(b"\0\0\0\x01x")
                assert await reader.readexactly(5) == b"\0\0\0\x01x"
        assert bench.metrics.closed.keys() <= {"peer", "network-error"}

    on_both_loops(SecureBench, tmp_path, work)


def test_a_stop_ends_handshakes_wherever_they_are(tmp_path: Path) -> None:
    """SEC-8, STOP-9: silent ones, waiting ones and those under way; nothing is left."""

    async def work(bench: SecureBench) -> None:
        silent = bench.silent(count=3) + bench.silent(HALF_HELLO, count=20)
        await bench.until(lambda: bench.half_open.total == 23)
        await bench.listener.close(1_000)
        assert bench.half_open.total == 0
        await bench.until(lambda: bench.outcomes() == {"shutdown": 23})
        for one in silent:
            one.close()

    on_both_loops(SecureBench, tmp_path, work)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=60))
@settings(deadline=None)
def test_half_open_counts_are_those_of_a_list(steps: list[tuple[bool, str]]) -> None:
    """SEC-8: nothing is left of addresses that are gone."""
    counts, model = HalfOpenConnections(5, 2), []
    for enters, host in steps:
        if enters:
            allowed = len(model) < 5 and model.count(host) < 2
            assert (counts.enter(host) is None) == allowed
            if allowed:
                model.append(host)
        elif host in model:
            model.remove(host)
            counts.leave(host)
    assert counts.total == len(model)
