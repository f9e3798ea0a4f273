"""The console's HTTP server: what every request passes, and attacks on all of its routes."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from barnabas_console.api.route_kinds import changes
from barnabas_console.security.response_headers import CONTENT_SECURITY_POLICY
from tests.support.console_server import OWN, running_console, told
from tests.support.in_process_broker import running_broker

Client = TestClient[Any, Any]


def api_routes(client: Client) -> list[tuple[str, str, object]]:
    """All routes of the API as the application has them: method, a path, handler."""
    app = client.server.app  # type: ignore[attr-defined]
    found = [
        (route.method, re.sub(r"\{[^}]*\}", "0", route.resource.canonical), route.handler)
        for route in app.router.routes()
        if route.resource is not None and "/api/" in route.resource.canonical
    ]
    assert found
    return found


def test_every_route_refuses_who_is_not_the_page() -> None:
    """CON-142, CON-172: read off the application, so that no new route is forgotten."""
    attacks: list[dict[str, str]] = [
        {},
        {"X-Barnabas-Console": "0"},
        {**OWN, "Origin": "http://evil.example"},
        {**OWN, "Origin": "null"},
        {**OWN, "Host": "evil.example"},
        {**OWN, "Sec-Fetch-Site": "cross-site"},
    ]

    async def run() -> None:
        async with running_console() as client:
            for method, path, _ in api_routes(client):
                for headers in attacks:
                    for suffix in ("", "?ticket=guessed"):
                        async with client.request(
                            method, path + suffix, headers=headers, json={}
                        ) as response:
                            assert response.status == 403, (method, path, headers)
                            if method != "HEAD":
                                assert (await response.json())["error"] == "FORBIDDEN"
                            assert "Access-Control-Allow-Origin" not in response.headers

    asyncio.run(run())


def test_a_page_of_another_cluster_can_do_nothing_here() -> None:
    """A forwarded port leads to another console while the page is open: the page says prod."""

    async def run() -> None:
        async with running_console(cluster_name="dev café") as client:
            for method, path, _ in api_routes(client):
                headers = {**OWN, "X-Barnabas-Cluster": "prod"}
                async with client.request(method, path, headers=headers, json={}) as response:
                    assert response.status == 409, (method, path)
                    if method != "HEAD":
                        assert (await response.json())["error"] == "ANOTHER_CLUSTER"
            headers = {**OWN, "X-Barnabas-Cluster": "dev%20caf%C3%A9"}
            async with client.get("/api/v1/session", headers=headers) as response:
                assert response.status == 200

    asyncio.run(run())


def test_a_read_only_console_has_no_route_that_changes_anything() -> None:
    """CON-143, CON-172."""

    async def run() -> None:
        async with running_console() as client:
            all_of_them = api_routes(client)
        async with running_console(is_read_only=True) as client:
            left = api_routes(client)
            assert not [path for method, path, handler in left if changes(method, handler)]
            for method, path, handler in all_of_them:
                if changes(method, handler):
                    async with client.request(method, path, headers=OWN, json={}) as response:
                        assert response.status in (404, 405), (method, path)

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/", "/local/topics/orders", "/api/v1/session", "/assets/1/x"])
def test_every_response_has_the_headers_of_security(path: str) -> None:
    """CON-142: refusals and what is not there included."""

    async def run() -> None:
        async with running_console(timeout_ms=200) as client, client.get(path) as response:
            assert response.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Cache-Control"] == "no-store"

    asyncio.run(run())


def test_the_page_is_there_for_every_path_and_its_files_are_immutable() -> None:
    """CON-124, CON-138: a deep link opens the page; under a prefix, too."""

    async def run() -> None:
        async with running_console(path_prefix="/console") as client:
            async with client.get("/console/local/groups/billing") as response:
                page = await response.text()
                assert response.status == 200
            async with client.get("/local/groups/billing") as response:
                assert response.status == 404
            assert 'content="/console"' in page
            assert "{{" not in page

    asyncio.run(run())


def test_the_session_says_who_looks_at_what(tmp_path: Path) -> None:
    """CON-130."""

    async def run() -> None:
        async with (
            running_broker(tmp_path) as broker,
            running_console(f"127.0.0.1:{broker.port}", cluster_name="orders") as client,
        ):
            session = await told(client, "/session")
            assert session["principal"] == "User:ANONYMOUS"
            assert session["cluster"] == "orders"
            assert session["read_only"] is False
            assert {"METADATA", "FETCH"} <= set(session["apis"])

    asyncio.run(run())


def test_what_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    """CON-160: a page that polls gets 304."""

    async def run() -> None:
        async with (
            running_broker(tmp_path) as broker,
            running_console(f"127.0.0.1:{broker.port}") as client,
        ):
            async with client.get("/api/v1/session", headers=OWN) as response:
                tag = response.headers["ETag"]
            headers = {**OWN, "If-None-Match": tag}
            async with client.get("/api/v1/session", headers=headers) as response:
                assert response.status == 304
                assert await response.read() == b""

    asyncio.run(run())


def test_the_page_comes_without_any_broker() -> None:
    """CON-153: an error is shown on a page, so the page is there first."""

    async def run() -> None:
        async with running_console(timeout_ms=300) as client:
            async with client.get("/") as response:
                assert response.status == 200
            assert (await told(client, "/session"))["apis"] is None

    asyncio.run(run())
