"""Probes and metrics of the operator."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

from barnabas_operator.http_server import HttpServer
from barnabas_operator.kubernetes.api import ForbiddenError, UnavailableError
from barnabas_operator.kubernetes.kinds import LEASE, TOPIC
from barnabas_operator.metrics import OperatorMetrics
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.work_queue import ReconcileResult, WorkQueue

KEY = Key(kind=KeyKind.TOPICS, namespace="ns", name="demo")
Get = Callable[[str], Awaitable[tuple[int, str]]]


def run(
    test: Callable[[Get], Awaitable[None]], trouble: list[str], metrics: OperatorMetrics
) -> None:
    async def body() -> None:
        server = HttpServer(
            metrics,
            host="127.0.0.1",
            port=0,
            trouble=lambda: trouble[0],
            unreadiness=lambda: trouble[1],
        )
        await server.start()
        async with aiohttp.ClientSession() as session:

            async def get(path: str) -> tuple[int, str]:
                url = f"http://127.0.0.1:{server.port}{path}"
                async with session.get(url) as answer:
                    return answer.status, await answer.text()

            await test(get)
        await server.close()
        await server.close()

    asyncio.run(body())


def test_probes_say_why_they_fail() -> None:
    trouble = ["", "starting"]

    async def test(get: Get) -> None:
        assert await get("/live") == (200, "ok\n")
        assert await get("/ready") == (503, "starting\n")
        trouble[:] = ["work has waited for 400 s", ""]
        assert await get("/live") == (503, "work has waited for 400 s\n")
        assert await get("/ready") == (200, "ok\n")

    run(test, trouble, OperatorMetrics())


def test_metrics_count_work_writes_and_resources() -> None:
    """operator.md 8, item 14: zero idle writes is a promise with a metric; the Lease is none."""
    metrics = OperatorMetrics()
    metrics.request("patch_status", TOPIC, 200)
    metrics.request("patch_status", TOPIC, 409)
    metrics.request("list", TOPIC, 200)
    metrics.request("patch", LEASE, 200)
    errors = (None, UnavailableError("x"), ForbiddenError("x"), TimeoutError(), ValueError())
    for error in errors:
        metrics.finished(ReconcileResult(key=KEY, seconds=0.2, error=error))
    metrics.resources(TOPIC, KEY, 3, 1)
    metrics.lead(True)

    async def test(get: Get) -> None:
        status, text = await get("/metrics")
        assert status == 200
        lines = set(text.splitlines())
        wanted = {
            'barnabas_operator_api_writes_total{kind="Topic",verb="patch_status"} 2.0',
            'barnabas_operator_api_requests_total{code="409",kind="Topic",verb="patch_status"} 1.0',
            "barnabas_operator_leader 1.0",
            'barnabas_operator_reconcile_seconds_count{kind="topics"} 5.0',
        }
        of_broker = 'barnabas_operator_resources{broker="demo",kind="Topic",namespace="ns"'
        wanted |= {f'{of_broker},ready="true"}} 3.0', f'{of_broker},ready="false"}} 1.0'}
        results = ("done", "api", "forbidden", "timeout", "failed")
        wanted |= {
            f'barnabas_operator_reconciles_total{{kind="topics",result="{result}"}} 1.0'
            for result in results
        }
        assert wanted <= lines
        assert 'barnabas_operator_api_writes_total{kind="Lease"' not in text
        assert "process_resident_memory_bytes" in text

    run(test, ["", ""], metrics)


def test_the_gauges_of_the_queue_are_read_when_they_are_scraped() -> None:
    metrics = OperatorMetrics()

    async def reconcile(_: Key) -> None:
        return None

    async def body() -> None:
        queue = WorkQueue(reconcile)
        metrics.watch_queue(queue)
        assert metrics.registry.get_sample_value("barnabas_operator_queue_depth") == 0
        queue.add(KEY, 0)
        assert metrics.registry.get_sample_value("barnabas_operator_queue_depth") == 1

    asyncio.run(body())
