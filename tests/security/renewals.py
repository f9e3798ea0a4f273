"""Renewals of certificates under load: nothing fails and nothing closes (SEC-113).

`python -m tests.security.renewals 1000` renews a broker's leaf so often while a client produces
with acks=all by one connection and another client connects anew all the time. Every tenth renewal
is half written first, or does not fit; every hundredth comes with a new authority, whose bundle is
there before its leaves, as an operator changes authorities. The verdict: no failed request, no
connection closed by the broker, and each whole pair served to who connects next.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from barnabas_broker.server import Server
from barnabas_client import Producer
from tests.support.certificates import Authority, Issued
from tests.support.in_process_broker import running_broker

HOST = "localhost"
SPOILED_EVERY = 10
AUTHORITY_EVERY = 100
WAIT_SECONDS = 20


@dataclass(slots=True)
class Verdict:
    """What a run has seen."""

    renewals: int = 0
    refused_pairs: int = 0
    authority_changes: int = 0
    records: int = 0
    new_connections: int = 0
    failures: list[str] = field(default_factory=list)
    closed: Counter[str] = field(default_factory=Counter)

    @property
    def is_good(self) -> bool:
        """Whether nothing failed, and nothing was closed but by clients."""
        return not self.failures and not self.closed.keys() - {"peer"}


class Renewals:
    """A broker, its files, and what is done to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority("Authority 0")
        self.verdict = Verdict()
        self.is_over = False
        self._write_anchors(self.authority)
        self.authority.issue().write(directory)

    def _write_anchors(self, *authorities: Authority) -> None:
        content = b"".join(authority.pem for authority in authorities)
        (self.directory / "ca.crt").write_bytes(content)

    async def run(self, count: int) -> Verdict:
        """Renew so often under load."""
        async with running_broker(
            self.directory / "data",
            **{
                "listeners": f"SSL://{HOST}:0,REPLICATION://127.0.0.1:0",
                "barnabas.ssl.certificate.file": str(self.directory / "tls.crt"),
                "barnabas.ssl.key.file": str(self.directory / "tls.key"),
                "ssl.truststore.location": str(self.directory / "ca.crt"),
            },
        ) as server:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._produce(server))
                tasks.create_task(self._connect(server))
                await self._renew(server, count)
                self.is_over = True
            self.verdict.closed.update(server.listeners.metrics.closed)
        return self.verdict

    def _settings(self, server: Server) -> dict[str, str]:
        return {
            "bootstrap_servers": f"{HOST}:{server.port}",
            "security_protocol": "SSL",
            "ssl_cafile": str(self.directory / "ca.crt"),
        }

    async def _produce(self, server: Server) -> None:
        """One connection for all of it."""
        async with Producer(**self._settings(server), acks="all") as producer:
            while not self.is_over:
                try:
                    await producer.send("topic", bytes(100))
                    self.verdict.records += 1
                except Exception as error:
                    self.verdict.failures.append(f"produce: {error!r}")
                    return

    async def _connect(self, server: Server) -> None:
        """A new connection for each record, with the anchors of the moment."""
        while not self.is_over:
            try:
                async with Producer(**self._settings(server), acks="all") as producer:
                    await producer.send("other", b"x")
                self.verdict.new_connections += 1
            except Exception as error:
                self.verdict.failures.append(f"connect: {error!r}")
                return

    async def _renew(self, server: Server, count: int) -> None:
        tls = server.tls.by_listener["SSL"]
        for number in range(1, count + 1):
            if number % AUTHORITY_EVERY == 0:
                # Both are trusted before the first leaf of the new one is shown.
                old, self.authority = self.authority, Authority(f"Authority {number}")
                self._write_anchors(old, self.authority)
                await self._look(server)
                self.verdict.authority_changes += 1
            leaf = self.authority.issue()
            if number % SPOILED_EVERY == 0:
                await self._spoil(server, leaf)
            leaf.write(self.directory)
            await self._look(server)
            if tls.loaded.material.own != leaf.certificate:
                self.verdict.failures.append(f"renewal {number} is not served: {tls.last_error}")
            self.verdict.renewals += 1
            await self._until_produced()

    async def _until_produced(self) -> None:
        """Return when the client that produces has got on, or has failed."""
        before = self.verdict.records
        async with asyncio.timeout(WAIT_SECONDS):
            while self.verdict.records == before and not self.verdict.failures:
                await asyncio.sleep(0.001)

    async def _spoil(self, server: Server, leaf: Issued) -> None:
        """Half of a pair, then a pair that does not fit: the old is served on."""
        tls = server.tls.by_listener["SSL"]
        served, refused = tls.server, tls.failed_reloads
        key = self.directory / "tls.key"
        key.write_bytes(leaf.key_pem[:60])
        await self._look(server)
        key.write_bytes(leaf.key_pem)
        await self._look(server)
        if tls.server is not served or tls.failed_reloads != refused + 2:
            self.verdict.failures.append("a pair that cannot serve was taken over")
        self.verdict.refused_pairs += 2

    async def _look(self, server: Server) -> None:
        """Have the broker look at its files, as it does every five seconds; let others work."""
        await server.tls.poll(asyncio.to_thread)
        await asyncio.sleep(0)


async def renew_under_load(directory: Path, count: int) -> Verdict:
    """What so many renewals come to."""
    return await Renewals(directory).run(count)


def main(arguments: list[str]) -> int:
    """Print the verdict; 1 where it is not good."""
    # Brokers warn of each pair that they refuse, and the verdict counts them.
    logging.disable(logging.WARNING)
    count = int(arguments[0]) if arguments else 1000
    with tempfile.TemporaryDirectory() as directory:
        verdict = uvloop.run(renew_under_load(Path(directory), count))
    print(verdict)
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
