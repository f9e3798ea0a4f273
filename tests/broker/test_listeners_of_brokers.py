"""Brokers that change from one listener for brokers to another, one after the other (SEC-89)."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.in_process_broker import eventually
from tests.support.in_process_cluster import broker

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


def properties(directory: Path, authority: Authority, phase: str) -> dict[str, str]:
    """What a broker has in a phase, with a certificate where it needs one."""
    found = dict(PHASES[phase])
    clients = "PLAINTEXT://127.0.0.1:0"
    found["listeners"] = f"{clients},{found['listeners']}"
    if "REPLICATION_SSL" not in found["listeners"]:
        return found | {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT"
        }
    certificate, key = authority.issue().write(directory)
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
