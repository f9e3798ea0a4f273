"""Evictions at an API server that asks the operator: refused with 429, later let through."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from barnabas_operator.eviction.webhook_server import PATH, WebhookServer
from barnabas_operator.kubernetes.kinds import BROKER, EVENT
from tests.operator.eviction.certificates import webhook_certificates
from tests.operator.eviction.eviction_world import HEALTHY, NAMES, SHORT, EvictionWorld
from tests.support.evicting_user import EvictingUser
from tests.support.operator_thread import OperatorThread, running_operator
from tests.support.operator_world import OperatorWorld, operator_world, until
from tests.support.real_api_server import RealApiServer

World = RealApiServer | None
DRY = {"dryRun": ["All"]}


@asynccontextmanager
async def brokers(world: OperatorWorld) -> AsyncIterator[tuple[EvictionWorld, EvictingUser]]:
    """Three brokers with ready pods, and somebody who evicts them."""
    evictions = EvictionWorld(world.api, world.namespace)
    user = EvictingUser(world.server, world.namespace)
    await evictions.put_brokers()
    await evictions.put_pod("web-abc", {"app": "web"})
    try:
        yield evictions, user
    finally:
        await user.clean_up("web-abc", *(f"demo-{number}" for number in NAMES))
        await evictions.clean_up()


async def until_asked(user: EvictingUser) -> None:
    """Wait until the API server has heard of the webhook, which refuses just now."""

    async def is_refused() -> bool:
        return (await user.evict("demo-1", **DRY))[0] == 429

    await until(is_refused, lambda: "evictions are not refused")


def test_an_eviction_is_refused_with_429_until_the_broker_can_be_spared(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 4, row Eviction: upon 429 kubectl drain asks again; 500 would end it."""

    async def run() -> None:
        certificates, authority = webhook_certificates(tmp_path)
        async with operator_world(tmp_path, real_or_fake) as world, brokers(world) as made:
            evictions, user = made
            server = WebhookServer(evictions.evictions(), certificates, host="127.0.0.1", port=0)
            await server.start()
            try:
                evictions.view = SHORT
                await user.register(f"https://localhost:{server.port}{PATH}", authority)
                await until_asked(user)
                # Dry runs have left nothing.
                assert await evictions.note(1) == ""
                status, message, _ = await user.evict("demo-1")
                assert status == 429
                assert "cannot be spared yet: broker 1: orders-0 cannot spare it" in message
                assert await evictions.note(1) != ""
                # Pods of others are none of the webhook's business.
                assert (await user.evict("web-abc", **DRY))[0] == 201
                evictions.view = HEALTHY
                status, _, warnings = await user.evict("demo-1", gracePeriodSeconds=1, **DRY)
                assert status == 201
                assert "grace period of 1 s" in warnings[0]
                assert (await user.evict("demo-1"))[0] == 201
                events = await world.api.list(EVENT, namespace=world.namespace)
                reasons = [one["reason"] for one in events]
                assert reasons.count("EvictionDeferred") == 1
                evictions.view = SHORT
            finally:
                await server.close()
            # Nobody answers any more: the drain goes on.
            assert (await user.evict("demo-2"))[0] == 201

    asyncio.run(run())


def test_replicas_that_wait_for_the_lease_answer_as_the_leader_does(
    tmp_path: Path, real_or_fake: World
) -> None:
    """The Service knows no leader, and each of them has to be right."""

    async def run() -> None:
        certificates, authority = webhook_certificates(tmp_path)
        async with operator_world(tmp_path, real_or_fake) as world, brokers(world) as made:
            evictions, user = made
            settings = world.settings(webhook_certificates=str(certificates), webhook_port=0)
            async with running_operator(settings, ()), running_operator(settings, ()) as waiting:
                await user.register(await address_of(waiting), authority)
                await until_asked(user)
                status, message, _ = await user.evict("demo-1")
                # Nobody answers at demo-bootstrap.
                assert status == 429
                assert "the brokers do not answer" in message
                assert await evictions.note(1) != ""
                pause = {"spec": {"paused": True}}
                await world.api.patch(BROKER, world.namespace, "demo", pause)
                assert (await user.evict("demo-1"))[0] == 201
                registry = waiting.process.metrics.registry  # type: ignore[union-attr]

                def count(ruling: str) -> float | None:
                    name = "barnabas_operator_evictions_total"
                    return registry.get_sample_value(name, {"ruling": ruling})

                assert (count("denied"), count("left-alone")) == (1, 1)
                expires = registry.get_sample_value(
                    "barnabas_operator_webhook_certificate_expires_seconds"
                )
                assert expires

    asyncio.run(run())


async def address_of(operator: OperatorThread) -> str:
    """Where its webhook listens."""

    async def is_there() -> bool:
        process = operator.process
        return process is not None and process.webhook is not None and process.webhook.is_open

    await until(is_there)
    assert operator.process is not None
    assert operator.process.webhook is not None
    return f"https://localhost:{operator.process.webhook.port}{PATH}"
