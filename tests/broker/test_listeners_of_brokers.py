"""Brokers that change from one listener for brokers to another, one after the other (SEC-89)."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from barnabas_broker.server import Server
from tests.support.certificates import Authority
from tests.support.in_process_broker import eventually
from tests.support.in_process_cluster import broker
from tests.support.processes import free_port

PLAIN, TLS = "REPLICATION://127.0.0.1:0", "REPLICATION_SSL://127.0.0.1:0"
# As the operator has them: docs/security-operations.md.
PHASES = {
    "Plain": {"listeners": PLAIN},
    "Listeners": {
        "listeners": f"{PLAIN},{TLS}",
        "barnabas.other.broker.listeners": "REPLICATION_SSL",
    },
    "Brokers": {
        "listeners": f"{PLAIN},{TLS}",
        "inter.broker.listener.name": "REPLICATION_SSL",
        "barnabas.other.broker.listeners": "REPLICATION",
    },
    "Audit": {"listeners": TLS, "inter.broker.listener.name": "REPLICATION_SSL"},
}
NEIGHBOURS = [*pairwise(PHASES), *pairwise(reversed(PHASES))]


def properties(
    directory: Path, authority: Authority, phase: str, host: str = "127.0.0.1"
) -> dict[str, str]:
    """What a broker has in a phase, with a certificate where it needs one."""
    found = dict(PHASES[phase])
    clients = "PLAINTEXT://127.0.0.1:0"
    found["listeners"] = f"{clients},{found['listeners']}".replace("127.0.0.1", host)
    if "REPLICATION_SSL" not in found["listeners"]:
        return found | {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT"
        }
    certificate, key = authority.issue(hosts=[host]).write(directory)
    anchors = directory / "ca.crt"
    anchors.write_bytes(authority.pem)
    names = [one.partition(":")[0] for one in found["listeners"].split(",")]
    return found | {
        "listener.security.protocol.map": ",".join(
            f"{name}:{'SSL' if name == 'REPLICATION_SSL' else 'PLAINTEXT'}" for name in names
        ),
        "barnabas.ssl.certificate.file": str(certificate),
        "barnabas.ssl.key.file": str(key),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(anchors),
        "listener.name.replication_ssl.ssl.client.auth": "required",
    }


@pytest.mark.parametrize(("leading", "joining"), NEIGHBOURS)
def test_brokers_of_neighbouring_phases_find_each_other(
    tmp_path: Path, leading: str, joining: str
) -> None:
    """SEC-89: whichever of the two leads the control plane, also for one that knows nothing but
    the arbiter's record."""
    authority = Authority()

    async def body() -> None:
        first = broker(tmp_path, 0, **properties(tmp_path / "first", authority, leading))
        second = broker(tmp_path, 1, **properties(tmp_path / "second", authority, joining))
        await first.start()
        try:
            async with asyncio.timeout(20):
                await second.start()

            async def both_are_there() -> bool:
                brokers = first.control.quorum.pending_image.brokers
                return len(brokers) == 2 and not any(one.fenced for one in brokers.values())

            await eventually(both_are_there)
        finally:
            await second.stop()
            await first.stop()

    asyncio.run(body())


@pytest.mark.parametrize("phases", [("Plain", "Audit"), ("Audit", "Plain")])
def test_brokers_that_all_changed_their_listener_while_they_were_stopped_find_each_other(
    tmp_path: Path, phases: Sequence[str]
) -> None:
    """SEC-89: as those of a Broker that was deleted and declared anew, secure or plain: what the
    metadata log says of the others is out of date, and nobody can write it anew before they are
    heard."""
    authority = Authority()
    ports = dict(zip(phases, (free_port(), free_port()), strict=True))

    def brokers(phase: str) -> list[Server]:
        found = []
        for node_id in range(3):
            folder = tmp_path / f"{phase}-{node_id}"
            mine = properties(folder, authority, phase, f"127.0.0.{2 + node_id}")
            name = "REPLICATION_SSL" if phase == "Audit" else "REPLICATION"
            clients, _, _ = mine["listeners"].partition(",")
            mine["listeners"] = f"{clients},{name}://127.0.0.{2 + node_id}:{ports[phase]}"
            found.append(broker(tmp_path, node_id, **mine))
        return found

    async def run(servers: list[Server]) -> None:
        async def all_are_members() -> bool:
            return all(
                len(server.control.quorum.record.members) == 3
                and server.membership.lifecycle.is_unfenced
                for server in servers
            )

        async with asyncio.timeout(60):
            await asyncio.gather(*(server.start() for server in servers))
            await eventually(all_are_members)
        for server in servers:
            await server.stop()

    async def body() -> None:
        for phase in phases:
            await run(brokers(phase))

    asyncio.run(body())
