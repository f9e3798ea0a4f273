"""The admin HTTP comes when the broker serves, or when that takes long."""

import asyncio

import pytest

from barnabas_broker.admin import deferred_admin_server as late_admin
from barnabas_broker.admin.admin_server import AdminServer
from barnabas_broker.admin.deferred_admin_server import DeferredAdminServer
from barnabas_broker.metrics.collector import MetricsCollector
from tests.broker.admin.http_requests import get
from tests.support.in_process_broker import eventually


def test_a_broker_that_is_not_ready_for_long_can_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`operator.md` 4: a long recovery is not killed for want of a liveness answer."""
    monkeypatch.setattr(late_admin, "START_SECONDS_MAX", 0.01)

    async def run() -> None:
        admin = AdminServer("127.0.0.1", 0, lambda: True, lambda: False, dict, MetricsCollector())
        tasks: list[asyncio.Task[None]] = []
        late = DeferredAdminServer(
            admin, lambda work: tasks.append(asyncio.ensure_future(work)), lambda error: None
        )

        async def answers() -> bool:
            return admin.port != 0

        await eventually(answers)
        assert (await get(admin, "/live"))[0] == 200
        assert (await get(admin, "/ready"))[0] == 503
        late.start()
        assert len(tasks) == 1
        await late.stop()

    asyncio.run(run())


def test_an_admin_http_that_is_stopped_early_never_starts() -> None:
    async def run() -> None:
        admin = AdminServer("127.0.0.1", 0, lambda: True, lambda: True, dict, MetricsCollector())
        tasks: list[asyncio.Task[None]] = []
        late = DeferredAdminServer(
            admin, lambda work: tasks.append(asyncio.ensure_future(work)), lambda error: None
        )
        await late.stop()
        late.start()
        assert not tasks

    asyncio.run(run())
