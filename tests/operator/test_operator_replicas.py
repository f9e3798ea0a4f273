"""The whole operator with several brokers: replicas that move, and brokers that go."""

import asyncio
from pathlib import Path

from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.operator_world import operator_world, until


def test_replicas_are_added_and_a_lost_broker_is_seen(tmp_path: Path) -> None:
    """operator.md 2: the factor can change, with progress; and the columns tell the truth."""

    async def run() -> None:
        with BarnabasCluster(tmp_path / "cluster") as cluster:
            async with operator_world(tmp_path, None) as world, world.operator() as operator:
                await world.put_broker(cluster.bootstrap)
                await world.put_topic("orders", partitions=4, replicas=1)
                await world.until_ready("orders")
                await world.change_topic("orders", {"spec": {"replicas": 3}})
                await world.until_ready("orders")
                status = await world.status("orders")
                assert (status["replicas"], status["leaders"]) == (3, "4/4")
                assert "reassignment" not in status
                await asyncio.to_thread(cluster.brokers[1].kill)

                async def shows(under_replicated: int) -> bool:
                    nonlocal status
                    status = await world.status("orders")
                    return (status["leaders"], status["underReplicatedPartitions"]) == (
                        "4/4",
                        under_replicated,
                    )

                await until(lambda: shows(4), lambda: str(status))
                assert (await world.condition("orders"))["status"] == "True"
                await asyncio.to_thread(cluster.brokers[1].start)
                await until(lambda: shows(0), lambda: str(status))
                assert operator.is_running

    asyncio.run(run())
