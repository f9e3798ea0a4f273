"""`GET kubernetes`, read from an API server by the pod's account (CON-122, CON-132)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from barnabas_client.admin.admin import Admin
from barnabas_console.kubernetes.api_reader import GROUP, ApiReader, KubernetesError
from tests.support.console_server import running_console, told
from tests.support.in_process_broker import running_broker
from tests.support.listed_resources import api_server, lists, resource
from tests.support.real_api_server import RealApiServer, hyperkube


async def shown(
    tmp_path: Path, pages: dict[str, list[list[dict[str, Any]]]], status: int = 200, **settings: Any
) -> dict[str, Any]:
    async with running_broker(tmp_path) as broker, TestServer(api_server(pages)) as server:
        url = str(server.make_url("/"))
        settings = {"kubernetes": url, "kubernetes_namespace": "shop", **settings}
        async with running_console(f"127.0.0.1:{broker.port}", **settings) as console:
            return await told(console, "/kubernetes", status)


def test_our_resources_and_what_happened_to_them_are_shown(tmp_path: Path) -> None:
    """All pages of a list; events of other people's pods are left out."""
    facts = asyncio.run(shown(tmp_path, lists()))
    assert [row["name"] for row in facts["brokers"]["rows"]] == ["demo"]
    assert [row["topic"] for row in facts["topics"]["rows"]] == ["orders", "refunds"]
    assert [row["about"] for row in facts["events"]] == ["Topic orders"]


def test_an_account_that_may_not_is_told_with_the_command_that_shows_it(tmp_path: Path) -> None:
    error = asyncio.run(shown(tmp_path, {}, 502))
    assert "forbidden" in error["message"]
    assert error["hint"].endswith("can-i list brokers.barnabas.dev -n shop")


def test_without_kubernetes_it_says_so(tmp_path: Path) -> None:
    error = asyncio.run(shown(tmp_path, {}, 501, kubernetes=""))
    assert error["error"] == "NOT_ON_KUBERNETES"


@pytest.mark.parametrize("says", [True, False])
def test_all_pages_give_one_answer_whether_a_broker_may_be_stopped(
    tmp_path: Path, says: bool
) -> None:
    """CON-110, CON-122: the operator's no, and the console's own look, on each of them."""

    async def run() -> None:
        demo, other = resource("Broker", "demo"), resource("Broker", "other")
        pages = lists()
        pages[f"{GROUP}/namespaces/shop/brokers"] = [[demo, other]]
        async with (
            running_broker(tmp_path) as broker,
            TestServer(api_server(pages)) as server,
            Admin(f"127.0.0.1:{broker.port}") as admin,
        ):
            cluster = await admin.cluster.describe()
            node_id = cluster.brokers[0].node_id
            member = {"id": node_id, "phase": "Ready", "safeToDrain": says}
            demo["status"].update(clusterId=cluster.cluster_id, brokers=[member])
            foreign = {"id": node_id, "phase": "Ready", "safeToDrain": not says}
            other["status"].update(clusterId="another", brokers=[foreign])
            url = str(server.make_url("/"))
            settings: dict[str, Any] = {"kubernetes": url, "kubernetes_namespace": "shop"}
            async with running_console(f"127.0.0.1:{broker.port}", **settings) as console:
                (started,) = (await told(console, "/overview"))["brokers"]
                (listed,) = (await told(console, "/brokers"))["rows"]
                single = await told(console, f"/brokers/{node_id}")
                ours, theirs = (await told(console, "/kubernetes"))["brokers"]["rows"]
        expected = ("yes", None) if says else ("no", "the operator says so")
        for found in (started, listed, single, ours["brokers"][0]):
            assert (found["safe"], found["reason"]) == expected
        assert theirs["brokers"][0]["safe"] == ("no" if says else "yes")

    asyncio.run(run())


def test_an_endless_list_ends() -> None:
    """An API server that always has another page."""

    async def endless(request: web.Request) -> web.Response:
        items = [resource("Topic", str(number)) for number in range(500)]
        return web.json_response({"items": items, "metadata": {"continue": "more"}})

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", endless)
        async with TestServer(app) as server:
            reader = ApiReader(str(server.make_url("/")))
            found = await reader.list(f"{GROUP}/topics")
            assert (len(found.items), found.is_whole) == (5_000, False)
            await reader.close()

    asyncio.run(run())


def test_a_huge_answer_is_refused() -> None:
    async def huge(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(17):
            await response.write(b" " * (1 << 20))
        return response

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", huge)
        async with TestServer(app) as server:
            reader = ApiReader(str(server.make_url("/")))
            with pytest.raises(KubernetesError, match="too large"):
                await reader.list(f"{GROUP}/topics")
            await reader.close()

    asyncio.run(run())


@pytest.mark.skipif(hyperkube() is None, reason="the lab was never built here (make e2e builds it)")
def test_a_real_api_server_is_read_by_a_pods_account(tmp_path: Path) -> None:
    """The files that the kubelet puts into a pod: token, authority, namespace."""

    async def run(server: RealApiServer) -> None:
        account = tmp_path / "account"
        account.mkdir()
        (account / "token").write_text("barnabas-tests")
        (account / "namespace").write_text("default")
        authority = server.directory / "certificates" / "apiserver.crt"
        (account / "ca.crt").write_bytes(authority.read_bytes())
        reader = ApiReader(server.address, account=account)
        assert reader.namespace == "default"
        assert (await reader.list(f"{GROUP}/topics")).items == []
        (account / "token").write_text("nobody's")
        with pytest.raises(KubernetesError, match="401"):
            await reader.list(f"{GROUP}/topics")
        await reader.close()

    with RealApiServer(tmp_path / "server") as server:
        asyncio.run(run(server))
