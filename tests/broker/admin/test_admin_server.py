"""The operators' port, over real HTTP."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas_broker.admin.admin_connections import CONNECTIONS_MAX
from barnabas_broker.admin.admin_server import AdminServer
from barnabas_broker.metrics.collector import MetricsCollector, Sample
from barnabas_broker.security.audit.audit_event import AuditSource
from tests.broker.admin.http_requests import WAIT_SECONDS, get


def with_server(
    work: Callable[[AdminServer, dict[str, Any], MetricsCollector], Coroutine[Any, Any, None]],
) -> None:
    async def run() -> None:
        state: dict[str, Any] = {"live": True, "ready": False, "status": {"node": 1}}
        collector = MetricsCollector()
        server = AdminServer(
            "127.0.0.1",
            0,
            lambda: state["live"],
            lambda: state["ready"],
            lambda: state["status"],
            collector,
        )
        await server.start()
        try:
            await work(server, state, collector)
        finally:
            await server.stop()
        with pytest.raises(ConnectionRefusedError):
            await get(server, "/live")

    asyncio.run(run())


def test_probes_follow_the_broker() -> None:
    async def work(server: AdminServer, state: dict[str, Any], _: MetricsCollector) -> None:
        assert (await get(server, "/live"))[::2] == (200, "live\n")
        assert (await get(server, "/ready"))[::2] == (503, "not ready\n")
        state.update(live=False, ready=True)
        assert (await get(server, "/live"))[::2] == (503, "not live\n")
        assert (await get(server, "/ready"))[::2] == (200, "ready\n")
        assert (await get(server, "/none"))[0] == 404

    with_server(work)


def test_the_first_page_leads_to_the_console_or_says_how_to_get_one() -> None:
    """CON-133."""

    async def work(server: AdminServer, _: dict[str, Any], __: MetricsCollector) -> None:
        status, headers, body = await get(server, "/")
        assert status == 200
        assert headers["content-type"].startswith("text/html")
        assert headers["content-security-policy"] == "default-src 'none'"
        assert "barnabas console" in body

    with_server(work)

    async def redirected() -> None:
        url = "https://console.example/kafka/"
        server = AdminServer(
            "127.0.0.1", 0, lambda: True, lambda: True, dict, MetricsCollector(), console_url=url
        )
        await server.start()
        try:
            status, headers, _ = await get(server, "/")
            assert (status, headers["location"]) == (302, url)
            assert (await get(server, "/status"))[0] == 200
        finally:
            await server.stop()

    asyncio.run(redirected())


def test_status_is_what_the_server_tells_as_json() -> None:
    async def work(server: AdminServer, state: dict[str, Any], _: MetricsCollector) -> None:
        status, headers, body = await get(server, "/status")
        assert status == 200
        assert headers["content-type"].startswith("application/json")
        assert json.loads(body) == {"node": 1}

    with_server(work)


def test_metrics_are_those_of_the_collector() -> None:
    async def work(server: AdminServer, state: dict[str, Any], collector: MetricsCollector) -> None:
        collector.register(lambda: [Sample("x_open", "gauge", "Open.", {}, 5)])
        status, headers, body = await get(server, "/metrics")
        assert status == 200
        assert headers["content-type"].startswith("text/plain")
        assert "\nx_open 5.0\n" in body

    with_server(work)


@pytest.mark.parametrize("path", ["/metrics", "/status"])
def test_one_request_is_read_for_in_a_turn_of_the_loop(path: str) -> None:
    """Each takes milliseconds: sixty-four at once held the loop up for half a second."""

    async def work(server: AdminServer, state: dict[str, Any], collector: MetricsCollector) -> None:
        loop, turns, read = asyncio.get_running_loop(), 0, []

        def count() -> None:
            nonlocal turns, again
            turns += 1
            again = loop.call_soon(count)

        class Status(dict[str, Any]):
            def items(self) -> Any:
                read.append(turns)
                return super().items()

        def source() -> list[Sample]:
            read.append(turns)
            return []

        again = loop.call_soon(count)
        state["status"] = Status(node=1)
        collector.register(source)
        answers = await asyncio.gather(*(get(server, path) for _ in range(20)))
        again.cancel()
        assert [status for status, _, _ in answers] == [200] * 20
        assert len(set(read)) == len(read) == 20

    with_server(work)


def test_a_hook_starts_the_drain_and_is_told_how_far_it_is() -> None:
    """`operator.md` 4: POST only; the wait is in seconds; a wrong one is refused."""

    async def run() -> None:
        asked: list[int | None] = []

        async def drain(timeout_ms: int | None, source: AuditSource) -> dict[str, Any]:
            asked.append(timeout_ms)
            return {"phase": "draining", "leaders": 2}

        async def undrain(source: AuditSource) -> dict[str, Any]:
            return {"state": "running"}

        server = AdminServer(
            "127.0.0.1", 0, lambda: True, lambda: True, dict, MetricsCollector(), drain, undrain
        )
        await server.start()
        try:
            status, _, body = await get(server, "/drain?timeout=30", "POST")
            assert (status, json.loads(body)["leaders"]) == (200, 2)
            assert (await get(server, "/drain", "POST"))[0] == 200
            for wrong in ("soon", "-1", "9" * 5000):
                assert (await get(server, f"/drain?timeout={wrong}", "POST"))[0] == 400
            assert (await get(server, "/drain", "GET"))[0] == 405
            assert (await get(server, "/drain", "POST", "evil.example"))[0] == 403
            assert asked == [30_000, None]
            status, _, body = await get(server, "/undrain", "POST")
            assert (status, json.loads(body)) == (200, {"state": "running"})
            assert (await get(server, "/undrain"))[0] == 405
        finally:
            await server.stop()

    asyncio.run(run())


def test_a_broker_that_does_not_run_has_nothing_to_drain() -> None:
    async def work(server: AdminServer, state: dict[str, Any], _: MetricsCollector) -> None:
        assert (await get(server, "/drain", "POST"))[0] == 503
        assert (await get(server, "/undrain", "POST"))[0] == 503

    with_server(work)


def test_silent_connections_make_room_for_probes() -> None:
    """Attack: 20,000 connections took all descriptors; the oldest idle one goes first."""

    async def work(server: AdminServer, state: dict[str, Any], _: MetricsCollector) -> None:
        silent = [
            await asyncio.open_connection("127.0.0.1", server.port)
            for _ in range(CONNECTIONS_MAX + 5)
        ]
        assert (await get(server, "/live"))[0] == 200
        assert server.connections.count <= CONNECTIONS_MAX
        async with asyncio.timeout(WAIT_SECONDS):
            with contextlib.suppress(ConnectionResetError):
                assert await silent[0][0].read() == b""
        for _reader, writer in silent:
            writer.close()

    with_server(work)
