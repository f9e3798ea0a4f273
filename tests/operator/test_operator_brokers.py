"""The whole operator and a Broker resource, where no pod ever runs."""

import asyncio
from pathlib import Path

from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONFIG_MAP,
    POD_DISRUPTION_BUDGET,
    ROLE_BINDING,
    SERVICE,
    STATEFUL_SET,
)
from barnabas_operator.work.key import KeyKind
from tests.support.operator_world import operator_world, until
from tests.support.real_api_server import RealApiServer

World = RealApiServer | None


def test_what_a_broker_needs_is_made_once_and_then_left_alone(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 8, item 14: what the API server fills in is not taken for a difference."""

    async def run() -> None:
        async with (
            operator_world(tmp_path, real_or_fake) as world,
            world.operator(tuple(KeyKind), admin_timeout_seconds=1.0) as operator,
        ):
            await world.api.create(world.manifest(BROKER, "demo", {"replicas": 3}))
            wanted = [
                (STATEFUL_SET, "demo"),
                (SERVICE, "demo-brokers"),
                (SERVICE, "demo-bootstrap"),
                (CONFIG_MAP, "demo-config"),
                (POD_DISRUPTION_BUDGET, "demo"),
                (ROLE_BINDING, "demo-broker"),
            ]

            async def are_there() -> bool:
                for kind, name in wanted:
                    if await world.api.get(kind, world.namespace, name) is None:
                        return False
                broker = await world.api.get(BROKER, world.namespace, "demo")
                return broker is not None and bool((broker.get("status") or {}).get("conditions"))

            await until(are_there)

            def done() -> float:
                labels = {"kind": "broker", "result": "done"}
                registry = operator.process.metrics.registry
                name = "barnabas_operator_reconciles_total"
                return float(registry.get_sample_value(name, labels) or 0)

            passes = 0.0

            async def has_looked_again() -> bool:
                return done() >= passes + 2

            # The first passes may still answer the events of what they have made.
            await until(has_looked_again)
            assert world.writes() != []
            passes = done()
            await until(has_looked_again)
            assert world.writes() == []

    asyncio.run(run())
