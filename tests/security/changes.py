"""Authorities and passwords that change in a cluster under load: nobody notices (SEC-113).

`python -m tests.security.changes 10 100` changes the authority of three brokers ten times and the
password of a user a hundred times. The brokers know each other by certificates and their clients by
SCRAM. Meanwhile a client produces with acks=all by one connection, and others connect anew all the
time, by the present password and, as long as both are good, by the former one.

An authority changes as the operator changes it: its anchor first, everywhere, then leaf after leaf,
and at last the former anchor goes. The verdict: no failed request, no connection that a broker has
closed, and each broker's new leaf in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from barnabas_broker.server import Server
from barnabas_client import Admin, Producer
from barnabas_client.admin.values.scram import ScramMechanism, ScramUpsertion
from tests.support.certificates import Authority
from tests.support.in_process_cluster import broker

HOST = "localhost"
NODES = range(3)
KINDS = ("present", "former")
USER, MECHANISM = "mover", ScramMechanism.SHA_512
MECHANISM_NAME = "SCRAM-SHA-512"
SALT, ITERATIONS = bytes(range(24)), 4096
LISTENERS = {
    "listeners": f"PLAINTEXT://{HOST}:0,CLIENTS://{HOST}:0,REPLICATION://{HOST}:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL,REPLICATION:SSL",
    "listener.name.clients.sasl.enabled.mechanisms": MECHANISM_NAME,
    "listener.name.replication.ssl.client.auth": "required",
    "ssl.truststore.type": "PEM",
    "barnabas.scram.previous.credential.ms": "600000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


@dataclass(slots=True)
class Verdict:
    """What a run has seen."""

    authority_changes: int = 0
    password_changes: int = 0
    records: int = 0
    log_ins: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    closed: Counter[str] = field(default_factory=Counter)

    @property
    def is_good(self) -> bool:
        """Whether nothing failed, and nothing was closed but by clients."""
        return not self.failures and not self.closed.keys() - {"peer"}


class Changes:
    """Three brokers, their files, and what is done to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority("Authority 0")
        self.verdict = Verdict()
        self.passwords = ["password 0"]
        self.is_over = False
        self.servers: list[Server] = []
        # Of two changes within one log-in the former password would be one too many.
        self.former_in_use = asyncio.Lock()

    async def run(self, authorities: int, passwords: int) -> Verdict:
        """Change each so often under load; passwords between the authorities."""
        self._write_anchors(self.authority)
        for node_id in NODES:
            self._write_leaf(node_id)
        self.servers = [
            broker(self.directory / "data", node_id, **self._properties(node_id))
            for node_id in NODES
        ]
        await asyncio.gather(*(server.start() for server in self.servers))
        try:
            await self._set_password(self.passwords[0])
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._produce())
                tasks.create_task(self._log_in("present", -1, contextlib.nullcontext()))
                tasks.create_task(self._log_in("former", -2, self.former_in_use))
                await self._change(authorities, passwords)
                self.is_over = True
            for server in self.servers:
                self.verdict.closed.update(server.listeners.metrics.closed)
        finally:
            for server in self.servers:
                await server.stop()
        return self.verdict

    def _properties(self, node_id: int) -> dict[str, str]:
        folder = self._folder(node_id)
        return {
            **LISTENERS,
            "barnabas.ssl.certificate.file": str(folder / "tls.crt"),
            "barnabas.ssl.key.file": str(folder / "tls.key"),
            "ssl.truststore.location": str(self.directory / "ca.crt"),
        }

    def _folder(self, node_id: int) -> Path:
        return self.directory / f"broker-{node_id}"

    def _write_anchors(self, *authorities: Authority) -> None:
        content = b"".join(authority.pem for authority in authorities)
        (self.directory / "ca.crt").write_bytes(content)

    def _write_leaf(self, node_id: int) -> None:
        self.authority.issue(f"broker-{node_id}").write(self._folder(node_id))

    async def _look(self, servers: Iterable[Server]) -> None:
        """Have brokers look at their files, as they do every five seconds."""
        for server in servers:
            await server.tls.poll(asyncio.to_thread)
            for name, listener in server.tls.by_listener.items():
                if listener.last_error:
                    self.verdict.failures.append(f"{name}: {listener.last_error}")

    async def _change(self, authorities: int, passwords: int) -> None:
        each = max(passwords // max(authorities, 1), 1)
        for number in range(1, authorities + 1):
            await self._change_authority(number)
            for _ in range(each):
                await self._change_password()

    async def _change_authority(self, number: int) -> None:
        former, following = self.authority, Authority(f"Authority {number}")
        self._write_anchors(former, following)
        await self._look(self.servers)
        self.authority = following
        for node_id, server in zip(NODES, self.servers, strict=True):
            self._write_leaf(node_id)
            await self._look([server])
            await self._until_used()
        self._write_anchors(following)
        await self._look(self.servers)
        await self._until_used()
        self.verdict.authority_changes += 1

    async def _change_password(self) -> None:
        password = f"password {len(self.passwords)}"
        async with self.former_in_use:
            await self._set_password(password)
            self.passwords.append(password)
        self.verdict.password_changes += 1
        await self._until_used()

    async def _set_password(self, password: str) -> None:
        """With the same salt each time, so that the former one stays good (SEC-27)."""
        upsertion = ScramUpsertion(
            user=USER, mechanism=MECHANISM, password=password, iterations=ITERATIONS, salt=SALT
        )
        async with Admin(f"{HOST}:{self.servers[0].port}") as admin:
            (await admin.scram.alter([upsertion])).unwrap()
        # A broker knows it when it has that record of the metadata.
        wanted = max(one.control.quorum.pending_image.offset for one in self.servers)
        async with asyncio.timeout(20):
            while any(one.publisher.image.offset < wanted for one in self.servers):
                await asyncio.sleep(0.005)

    async def _until_used(self) -> None:
        """Return when each client has got on twice, or one has failed."""
        seen = (self.verdict.records, dict(self.verdict.log_ins))

        def has_got_on() -> bool:
            records, log_ins = seen
            return self.verdict.records > records and all(
                self.verdict.log_ins[kind] > log_ins.get(kind, 0) + 1 for kind in KINDS
            )

        async with asyncio.timeout(60):
            while not (has_got_on() or self.verdict.failures):
                await asyncio.sleep(0.005)

    def _settings(self, password: str) -> dict[str, Any]:
        ports = [server.listeners.named("CLIENTS").port for server in self.servers]
        return {
            "bootstrap_servers": ",".join(f"{HOST}:{port}" for port in ports),
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM_NAME,
            "sasl_username": USER,
            "sasl_password": password,
            "ssl_cafile": str(self.directory / "ca.crt"),
            "acks": "all",
        }

    async def _produce(self) -> None:
        """One producer for all of it."""
        try:
            async with Producer(**self._settings(self.passwords[0])) as producer:
                while not self.is_over:
                    await producer.send("topic", bytes(100))
                    await producer.flush()
                    self.verdict.records += 1
        except Exception as error:
            self.verdict.failures.append(f"produce: {error!r}")

    async def _log_in(
        self, kind: str, position: int, turn: contextlib.AbstractAsyncContextManager[None]
    ) -> None:
        """New producers, by the password at this place from the end, or the first there is."""
        while not self.is_over:
            async with turn:
                password = self.passwords[max(position, -len(self.passwords))]
                try:
                    async with Producer(**self._settings(password)) as producer:
                        await producer.send("other", b"x")
                        await producer.flush()
                    self.verdict.log_ins[kind] += 1
                except Exception as error:
                    self.verdict.failures.append(f"{kind} password: {error!r}")
                    return


async def change_under_load(directory: Path, authorities: int, passwords: int) -> Verdict:
    """What so many changes come to."""
    return await Changes(directory).run(authorities, passwords)


def main(arguments: list[str]) -> int:
    """Print the verdict; 1 where it is not good."""
    # What goes wrong is in the verdict.
    logging.disable(logging.WARNING)
    authorities, passwords = (int(one) for one in arguments) if arguments else (10, 100)
    with tempfile.TemporaryDirectory() as directory:
        verdict = uvloop.run(change_under_load(Path(directory), authorities, passwords))
    print(verdict)
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
