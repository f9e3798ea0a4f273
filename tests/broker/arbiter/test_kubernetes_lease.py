"""What is particular to the Lease: requests, tokens, rights, others who write to it."""

import asyncio
from pathlib import Path

import pytest

from barnabas_broker.arbiter.arbiter import (
    ArbiterError,
    ArbiterRecord,
    Leader,
    Member,
    Stored,
    SwapOutcome,
)
from barnabas_broker.arbiter.kubernetes_lease import KubernetesLeaseArbiter
from barnabas_broker.env.kubernetes_api import (
    TOKEN_AGE_MS_MAX,
    KubernetesAccess,
    KubernetesApi,
    server_of_pod,
)
from tests.support.fake_api_server import FakeApiServer
from tests.support.processes import free_port
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk
from tests.support.tls_files import TlsFiles

RECORD = ArbiterRecord("c", 1, Leader(0, "h", 1), (Member(0, bytes(16)),), 5)


class Pod:
    """A broker's view: its clock, its mounted files, its arbiter."""

    def __init__(self, server: str, authority_file: str | None = None) -> None:
        self.clock = SimulatedClock()
        self.disk = SimulatedDisk()
        self.disk.make_directories("pod")
        self.mount_token("first")
        access = KubernetesAccess(server, "pod/token", authority_file, 20_000)
        self.arbiter = KubernetesLeaseArbiter(
            KubernetesApi(self.disk, self.clock, access), "messages", "arbiter", 1
        )

    def mount_token(self, token: str) -> None:
        self.disk.write_atomically("pod/token", token.encode() + b"\n")


def test_token_is_read_again_when_it_is_old_or_refused() -> None:
    """The kubelet renews it in its file; the old one is good for a while, but not for ever."""

    async def run() -> None:
        async with FakeApiServer(tokens={"first", "second"}) as server:
            pod = Pod(server.address)
            await pod.arbiter.read()
            pod.mount_token("second")
            pod.clock.advance(TOKEN_AGE_MS_MAX - 1)
            await pod.arbiter.read()
            assert server.authorizations == ["Bearer first"] * 2
            pod.clock.advance(1)
            await pod.arbiter.read()
            assert server.authorizations[2:] == ["Bearer second"]
            pod.mount_token("third")
            server.tokens = {"third"}
            assert await pod.arbiter.compare_and_swap(0, RECORD) is SwapOutcome.STORED
            assert server.authorizations[3:] == ["Bearer second", "Bearer third"]
            server.tokens = set()
            with pytest.raises(ArbiterError, match="status 401"):
                await pod.arbiter.read()
            pod.disk.remove("pod/token")
            pod.clock.advance(TOKEN_AGE_MS_MAX)
            with pytest.raises(ArbiterError, match="token"):
                await pod.arbiter.read()
            await pod.arbiter.close()

    asyncio.run(run())


def test_lease_made_beforehand_is_used_and_keeps_what_others_wrote() -> None:
    """Brokers then need the rights to get and update this one Lease, and no other."""

    async def run() -> None:
        async with FakeApiServer() as server:
            pod = Pod(server.address)
            server.put("arbiter", {"metadata": {"name": "arbiter", "labels": {"a": "b"}}})
            stored = await pod.arbiter.read()
            assert stored.record is None
            assert await pod.arbiter.compare_and_swap(0, RECORD) is SwapOutcome.CONFLICT
            assert await pod.arbiter.compare_and_swap(stored.token, RECORD) is SwapOutcome.STORED
            assert server.leases["arbiter"]["metadata"]["labels"] == {"a": "b"}
            assert (await pod.arbiter.read()).record == RECORD
            await pod.arbiter.close()

    asyncio.run(run())


def test_swap_by_a_client_that_has_not_read_finds_the_lease_itself() -> None:
    """The token may come from another client: what is to be kept is read first."""

    async def run() -> None:
        async with FakeApiServer() as server:
            pod, other = Pod(server.address), Pod(server.address)
            assert await pod.arbiter.compare_and_swap(0, RECORD) is SwapOutcome.STORED
            token = (await pod.arbiter.read()).token
            server.leases["arbiter"]["metadata"]["labels"] = {"a": "b"}
            assert await other.arbiter.compare_and_swap(token, RECORD) is SwapOutcome.STORED
            assert server.leases["arbiter"]["metadata"]["labels"] == {"a": "b"}
            await pod.arbiter.close()
            await other.arbiter.close()

    asyncio.run(run())


def test_lease_that_was_removed_and_made_anew_is_another_one() -> None:
    """A PUT may create a Lease: the uid keeps it from bringing an old record back."""

    async def run() -> None:
        async with FakeApiServer() as server:
            pod = Pod(server.address)
            await pod.arbiter.compare_and_swap(0, RECORD)
            seen = await pod.arbiter.read()
            del server.leases["arbiter"]
            assert await pod.arbiter.compare_and_swap(seen.token, RECORD) is SwapOutcome.CONFLICT
            assert server.leases == {}
            server.put("arbiter", {"metadata": {"name": "arbiter"}})
            # Even if the version happened to be the same.
            server.leases["arbiter"]["metadata"]["resourceVersion"] = str(seen.token)
            assert await pod.arbiter.compare_and_swap(seen.token, RECORD) is SwapOutcome.CONFLICT
            assert await pod.arbiter.read() == Stored(None, seen.token)
            await pod.arbiter.close()

    asyncio.run(run())


def test_only_the_api_servers_own_word_means_that_there_is_no_lease() -> None:
    """A 404 of a proxy or a wrong address must not begin a new epoch."""

    async def run() -> None:
        async with FakeApiServer() as server:
            pod = Pod(server.address + "/elsewhere")
            with pytest.raises(ArbiterError, match="status 404"):
                await pod.arbiter.read()
            assert await pod.arbiter.compare_and_swap(0, RECORD) is SwapOutcome.UNKNOWN
            assert await pod.arbiter.compare_and_swap(7, RECORD) is SwapOutcome.UNKNOWN
            await pod.arbiter.close()
        refused = Pod(f"http://127.0.0.1:{free_port()}")
        with pytest.raises(ArbiterError):
            await refused.arbiter.read()
        assert await refused.arbiter.compare_and_swap(0, RECORD) is SwapOutcome.UNKNOWN
        await refused.arbiter.close()

    asyncio.run(run())


def test_certificate_of_the_api_server_is_checked_and_a_new_authority_is_read(
    tmp_path: Path,
) -> None:
    """The authority's file may be renewed while the broker runs."""
    files = TlsFiles(tmp_path / "tls").create()
    mounted = tmp_path / "ca.crt"
    mounted.write_bytes(files.other_authority.read_bytes())

    async def run() -> None:
        async with FakeApiServer(tls=files) as server:
            pod = Pod(server.address.replace("127.0.0.1", "localhost"), str(mounted))
            with pytest.raises(ArbiterError, match="certificate"):
                await pod.arbiter.read()
            mounted.write_bytes(files.authority.read_bytes())
            assert await pod.arbiter.read() == Stored(None, 0)
            await pod.arbiter.close()
            missing = Pod(server.address, str(tmp_path / "nothing"))
            with pytest.raises(ArbiterError, match="nothing"):
                await missing.arbiter.read()
            await missing.arbiter.close()

    asyncio.run(run())


def test_pod_knows_its_api_server() -> None:
    """From the kubelet's variables, IPv6 too."""
    assert server_of_pod({}) is None
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert server_of_pod(pod) == "https://10.0.0.1:6443"
    assert server_of_pod({"KUBERNETES_SERVICE_HOST": "fd00::1"}) == "https://[fd00::1]:443"
