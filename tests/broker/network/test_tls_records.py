"""What a hostile client may put into TLS: long handshakes, key updates, very many records."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas_broker.env.tls_records import BLANK_RECORDS_MAX, RECORDS_EARN_BLANK
from barnabas_broker.network.decryption_turns import (
    BLANK_BYTES,
    RECORD_BYTES_MIN,
    RESUMED_MAX,
    TURN_BYTES,
    DecryptionTurn,
    DecryptionTurns,
)
from tests.support.secure_bench import AUTHORITY, SecureBench, on_both_loops
from tests.support.tls13_client import Tls13Client

LARGE_CHAIN = 60  # certificates, of which each has some 400 bytes


async def connected(bench: SecureBench) -> Tls13Client:
    key_log = bench.directory / "secrets"
    return await asyncio.to_thread(Tls13Client.connect, bench.listener.port, key_log)


async def echoed(client: Tls13Client, sent: bytes, count: int) -> bool:
    """Whether so many encrypted bytes come back, at least, before the connection ends."""

    def exchange() -> bool:
        got = 0
        with contextlib.suppress(OSError):
            client.socket.sendall(sent)
            while got < count:
                data = client.socket.recv(1 << 20)
                if not data:
                    break
                got += len(data)
        return got >= count

    return await asyncio.to_thread(exchange)


async def ended(client: Tls13Client, sent: bytes) -> None:
    """Send, and read until the other end has closed."""

    def read() -> None:
        with contextlib.suppress(ConnectionError):
            client.socket.sendall(sent)
            while client.socket.recv(1 << 20):
                pass

    await asyncio.to_thread(read)


@pytest.mark.parametrize("is_requested", [False, True])
def test_key_updates_without_end_are_cut_off(tmp_path: Path, is_requested: bool) -> None:
    """SEC-8: OpenSSL carries out ten thousand of them in one call, which takes a second."""

    async def work(bench: SecureBench) -> None:
        client = await connected(bench)
        updates = [
            client.key_update(is_requested=is_requested) for _ in range(BLANK_RECORDS_MAX + 1)
        ]
        await ended(client, b"".join(updates))
        client.socket.close()
        await bench.echoes(bench.context())

    on_both_loops(SecureBench, tmp_path, work, client_auth="requested")


def test_who_sends_data_may_renew_keys(tmp_path: Path) -> None:
    """RFC 8446 section 4.6.3: clients do after some gigabytes."""

    async def work(bench: SecureBench) -> None:
        client = await connected(bench)
        sent, frames = b"", 0
        for _ in range(3 * BLANK_RECORDS_MAX):
            sent += client.key_update()
            for _ in range(RECORDS_EARN_BLANK):
                sent += client.record(struct.pack(">i", 1_000) + bytes(1_000))
                frames += 1
        assert await echoed(client, sent, frames * 1_000)
        client.socket.close()

    on_both_loops(SecureBench, tmp_path, work, client_auth="requested")


def test_a_frame_of_very_many_records_arrives_as_a_whole(tmp_path: Path) -> None:
    """SEC-8: what is beyond a turn's share is read in later ones, though nothing more arrives."""

    async def work(bench: SecureBench) -> None:
        client, size = await connected(bench), 5 * TURN_BYTES // RECORD_BYTES_MIN
        sent = client.record(struct.pack(">i", size))
        sent += b"".join(client.record(b"x") for _ in range(size))
        assert await echoed(client, sent, size)
        client.socket.close()

    on_both_loops(SecureBench, tmp_path, work, client_auth="requested")


def test_a_chain_without_end_is_cut_off_before_it_is_read(tmp_path: Path) -> None:
    """SEC-8: OpenSSL takes 100 KiB of certificates, and a fifth of a millisecond for each."""

    async def work(bench: SecureBench) -> None:
        alice = AUTHORITY.issue("alice")
        await bench.echoes(bench.context(alice))
        chain, key = alice.write(bench.directory / "client")
        chain.write_bytes(alice.chain_pem + AUTHORITY.pem * LARGE_CHAIN)
        context = bench.context()
        context.load_cert_chain(chain, key)
        with pytest.raises((ssl.SSLError, OSError, asyncio.IncompleteReadError)):
            await bench.echoes(context)
        assert bench.outcomes() == {"completed": 1, "tls": 1}

    on_both_loops(SecureBench, tmp_path, work, client_auth="requested")


class _Loop:
    """A loop's `call_soon`, run by hand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def run(self) -> None:
        """One turn."""
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


class _Encrypted:
    """An end of TLS with records that wait."""

    def __init__(self, turns: DecryptionTurns, records: int, *, is_blank: bool = False) -> None:
        self.may_take: Callable[[int], bool] = lambda size: True
        self.was_blank: Callable[[], None] = lambda: None
        self.records, self.is_blank = records, is_blank
        self.turn = DecryptionTurn(turns, self, self.read)

    def read(self) -> None:
        """Take records until there is none, or no time for them."""
        while self.records and self.may_take(22):
            self.records -= 1
            if self.is_blank:
                self.was_blank()


@pytest.mark.parametrize(
    ("is_blank", "share"),
    [(False, TURN_BYTES // RECORD_BYTES_MIN), (True, TURN_BYTES // BLANK_BYTES)],
)
def test_connections_share_what_a_turn_decrypts(is_blank: bool, share: int) -> None:
    """SEC-8: however many there are; and none of them waits for ever."""
    loop = _Loop()
    turns = DecryptionTurns(loop)  # type: ignore[arg-type]
    ends = [_Encrypted(turns, 10, is_blank=is_blank) for _ in range(200)]
    left = 2_000
    for end in ends:
        end.read()
    while left:
        now = sum(end.records for end in ends)
        assert left - share - RESUMED_MAX <= now < left
        left = now
        loop.run()
