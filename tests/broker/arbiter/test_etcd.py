"""What is particular to etcd: several endpoints, users, certificates; on real servers."""

import asyncio
import contextlib
import uuid
from pathlib import Path

import pytest
from aiohttp import web

from barnabas_broker.arbiter.arbiter import (
    ArbiterError,
    ArbiterRecord,
    Leader,
    Member,
    Stored,
    SwapOutcome,
)
from barnabas_broker.arbiter.decided_swap import swap_until_decided
from barnabas_broker.arbiter.election import Verdict
from barnabas_broker.arbiter.etcd import EtcdArbiter, EtcdSettings
from barnabas_broker.env.http_client import TlsSettings
from tests.support.arbiter_faults import Fault
from tests.support.etcd_process import EtcdProcess, etcd_cluster
from tests.support.fake_api_server import FakeApiServer
from tests.support.faulty_gateway import FaultyGateway
from tests.support.processes import free_port
from tests.support.tls_files import TlsFiles

RECORD = ArbiterRecord("c", 1, Leader(0, "h", 1), (Member(0, bytes(16)),), 5)


def is_txn(method: str, path: str) -> bool:
    return path.endswith("/txn")


def arbiter(*endpoints: str, key: str | None = None, timeout_ms: int = 20_000) -> EtcdArbiter:
    return EtcdArbiter(
        EtcdSettings(endpoints, key or str(uuid.uuid4()), request_timeout_ms=timeout_ms)
    )


def test_server_that_is_not_etcd_is_an_error() -> None:
    """A wrong address must not look like an etcd without the key."""

    async def run() -> None:
        async with FakeApiServer() as server:
            client = arbiter(server.address)
            with pytest.raises(ArbiterError):
                await client.read()
            assert await client.compare_and_swap(0, RECORD) is SwapOutcome.UNKNOWN
            await client.close()

    asyncio.run(run())


@pytest.mark.parametrize("values", ["[[]]", '["value"]', '{"0": 1}', "[{}]", '[{"value": "%"}]'])
def test_response_that_is_not_etcd_s_is_an_error(values: str) -> None:
    """`docs/formats/arbiter.md`: nothing is concluded from it, and it ends no reading for good."""

    async def respond(request: web.Request) -> web.Response:
        return web.Response(text=f'{{"header": {{}}, "kvs": {values}}}')

    async def run() -> None:
        application = web.Application()
        application.router.add_post("/v3/kv/range", respond)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        client = arbiter(f"http://127.0.0.1:{runner.addresses[0][1]}")
        with pytest.raises(ArbiterError):
            await client.read()
        await client.close()
        await runner.cleanup()

    asyncio.run(run())


@pytest.mark.interop
def test_endpoint_that_answers_is_found_and_kept(etcd: EtcdProcess) -> None:
    """Reads go on at once; a swap only where nobody can have seen it."""

    async def run() -> None:
        async with FaultyGateway(etcd.endpoint, is_txn, (200, {})) as gateway:
            nobody = f"http://127.0.0.1:{free_port()}"
            client = arbiter(nobody, gateway.address, etcd.endpoint)
            assert await client.compare_and_swap(0, RECORD) is SwapOutcome.STORED
            stored = await client.read()
            assert [status for _, _, status in gateway.requests] == [200, 200]
            gateway.faults.append(Fault.LOST_REPLY)
            outcome = await client.compare_and_swap(stored.token, RECORD._replace(renewed_ms=6))
            assert outcome is SwapOutcome.UNKNOWN  # not sent to the next endpoint
            assert (await client.read()).record == RECORD._replace(renewed_ms=6)
            assert [status for _, _, status in gateway.requests] == [200, 200, 0]
            gateway.is_away = True
            behind = arbiter(gateway.address, etcd.endpoint)
            assert await behind.read() == Stored(None, 0)
            nowhere = arbiter(nobody, nobody)
            with pytest.raises(ArbiterError, match="etcd"):
                await nowhere.read()
            for each in (client, behind, nowhere):
                await each.close()

    asyncio.run(run())


@pytest.mark.interop
def test_users_sign_in_and_again_when_their_token_is_void(tmp_path: Path) -> None:
    """A token ends with a restart of the server and after some minutes without use."""
    with EtcdProcess(tmp_path) as etcd:
        for name in ("root", "barnabas"):
            etcd.call("auth/user/add", {"name": name, "password": "secret"})
            etcd.call("auth/role/add", {"name": name})
            etcd.call("auth/user/grant", {"user": name, "role": name})
        permission = {"permType": "READWRITE", "key": "a2V5"}  # "key"
        etcd.call("auth/role/grant", {"name": "barnabas", "perm": permission})
        etcd.call("auth/enable", {})

        def signed_in(key: str = "key", password: str = "secret") -> EtcdArbiter:
            return EtcdArbiter(
                EtcdSettings((etcd.endpoint,), key, username="barnabas", password=password)
            )

        async def run() -> None:
            client = signed_in()
            assert await client.compare_and_swap(0, RECORD) is SwapOutcome.STORED
            stored = await client.read()
            assert stored.record == RECORD
            etcd.kill()
            etcd.start()
            # The first try may meet the connection of before.
            decided = await swap_until_decided(client, stored.token, RECORD._replace(renewed_ms=6))
            assert decided.verdict is Verdict.WON
            await client.close()
            for refused in (
                arbiter(etcd.endpoint, key="key"),
                signed_in(password="wrong"),
                signed_in(key="other"),
            ):
                with pytest.raises(ArbiterError, match="etcd"):
                    await refused.read()
                assert await refused.compare_and_swap(0, RECORD) is SwapOutcome.UNKNOWN
                await refused.close()

        asyncio.run(run())


@pytest.mark.interop
def test_certificates_are_checked_on_both_sides(tmp_path: Path) -> None:
    """A server with another authority is not trusted; a client without a certificate neither."""
    files = TlsFiles(tmp_path / "tls").create("localhost")
    authority, other = str(files.authority), str(files.other_authority)
    ours = str(files.client_certificate), str(files.client_key)

    async def run(endpoint: str) -> None:
        fits = EtcdArbiter(EtcdSettings((endpoint,), "key", tls=TlsSettings(authority, *ours)))
        assert await fits.compare_and_swap(0, RECORD) is SwapOutcome.STORED
        assert (await fits.read()).record == RECORD
        await fits.close()
        for tls in (TlsSettings(authority), TlsSettings(other, *ours), TlsSettings()):
            refused = EtcdArbiter(EtcdSettings((endpoint,), "key", tls=tls))
            with pytest.raises(ArbiterError):
                await refused.read()
            await refused.close()

    with EtcdProcess(tmp_path / "etcd", files) as etcd:
        asyncio.run(run(etcd.endpoint))


@pytest.mark.interop
def test_what_etcd_has_stored_survives_its_kill(tmp_path: Path) -> None:
    """Rule 1: the epoch must never go back."""

    async def run(etcd: EtcdProcess) -> None:
        client = arbiter(etcd.endpoint, key="key")
        assert await client.compare_and_swap(0, RECORD) is SwapOutcome.STORED
        stored = await client.read()
        etcd.kill()
        with pytest.raises(ArbiterError):
            await client.read()
        assert await client.compare_and_swap(stored.token, RECORD) is SwapOutcome.UNKNOWN
        etcd.start()
        assert await client.read() == stored
        await client.close()

    with EtcdProcess(tmp_path) as etcd:
        asyncio.run(run(etcd))


@pytest.mark.interop
def test_server_without_a_majority_tells_nothing_old(tmp_path: Path) -> None:
    """A reading that is not confirmed by a majority could be of an epoch that is over."""

    async def run(servers: list[EtcdProcess]) -> None:
        endpoints = [server.endpoint for server in servers]
        client = arbiter(*endpoints, key="key", timeout_ms=9000)
        assert (await swap_until_decided(client, 0, RECORD)).verdict is Verdict.WON
        for server in servers[1:]:
            server.kill()
        with pytest.raises(ArbiterError):
            await arbiter_of_first.read()
        outcome = await arbiter_of_first.compare_and_swap(0, RECORD)
        assert outcome is SwapOutcome.UNKNOWN
        servers[1].start()
        stored = await read_when_there(client)
        assert stored.record == RECORD
        tried = RECORD._replace(controller_epoch=2)
        decided = await swap_until_decided(client, stored.token, tried)
        assert decided.verdict is Verdict.WON
        for each in (client, arbiter_of_first):
            await each.close()

    async def read_when_there(client: EtcdArbiter) -> Stored:
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(ArbiterError):
                    return await client.read()

    with etcd_cluster(tmp_path) as servers:
        arbiter_of_first = arbiter(servers[0].endpoint, key="key", timeout_ms=1000)
        asyncio.run(run(servers))
