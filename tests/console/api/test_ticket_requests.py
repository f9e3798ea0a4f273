"""`ticket_requests`: a link stands in for the header of one call of the API (CON-142)."""

import asyncio

from barnabas_console.api.ticket_requests import PATH_CHARACTERS_MAX
from tests.support.console_server import OWN, running_console


def test_a_link_of_the_page_works_once_and_without_our_header() -> None:
    async def run() -> None:
        async with running_console(timeout_ms=200, path_prefix="/x") as client:
            body = {"path": "/api/v1/session?a=1"}
            async with client.post("/x/api/v1/tickets", headers=OWN, json=body) as response:
                url = (await response.json())["url"]
            assert url.startswith("/x/api/v1/session?a=1&ticket=")
            for status in (200, 403):
                async with client.get(url) as response:
                    assert response.status == status

    asyncio.run(run())


def test_a_ticket_is_for_its_path_alone_and_never_for_another_method() -> None:
    async def run() -> None:
        async with running_console(timeout_ms=200) as client:

            async def ticket() -> str:
                body = {"path": "/api/v1/session"}
                async with client.post("/api/v1/tickets", headers=OWN, json=body) as response:
                    url: str = (await response.json())["url"]
                    return url.partition("?")[2]

            async with client.get(f"/api/v1/session?b=2&{await ticket()}") as response:
                assert response.status == 403
            async with client.post(f"/api/v1/tickets?{await ticket()}", json={}) as response:
                assert response.status == 403

    asyncio.run(run())


def test_tickets_are_for_the_api_alone() -> None:
    async def run() -> None:
        async with running_console() as client:
            for path in ("/", "//evil.example/api/v1/", "/api/v1/x?ticket=1", "/assets/1/app.js"):
                async with client.post(
                    "/api/v1/tickets", headers=OWN, json={"path": path}
                ) as response:
                    assert response.status == 400, path

    asyncio.run(run())


def test_a_ticket_for_an_endless_path_is_refused() -> None:
    """CON-172: a thousand tickets of two megabytes would fill the memory."""

    async def run() -> None:
        async with running_console(timeout_ms=200) as client:
            body = {"path": f"/api/v1/{'x' * PATH_CHARACTERS_MAX}"}
            async with client.post("/api/v1/tickets", headers=OWN, json=body) as response:
                assert response.status == 400

    asyncio.run(run())
