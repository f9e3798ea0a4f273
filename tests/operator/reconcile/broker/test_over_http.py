"""The reconciler through the operator's own Kubernetes client, against a fake API server."""

import asyncio
from pathlib import Path

from barnabas_operator.kubernetes.connection import load_configuration, new_client
from barnabas_operator.kubernetes.dynamic_api import DynamicApi
from tests.operator.reconcile.broker.broker_world import BrokerWorld
from tests.support.fake_kubernetes import FakeKubernetes


def test_brokers_come_up_roll_scale_and_rest_over_http(tmp_path: Path) -> None:
    """Server-side apply, merge patches, statuses and deletes as they travel; idle is no write."""

    async def run() -> None:
        async with FakeKubernetes() as server:
            kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
            async with new_client(await load_configuration(str(kubeconfig))) as client:
                world = BrokerWorld(store=server.store, way=DynamicApi(client))
                await world.settle()
                world.add_topic("orders", [0, 1, 2], [1, 2, 0])
                assert world.ready_ids() == {0, 1, 2}
                world.change({"spec": {"image": "good:2", "replicas": 4}})
                await world.settle()
                assert world.ready_ids() == {0, 1, 2, 3}
                assert sorted(world.restarted) == [0, 1, 2]
                world.change({"spec": {"maintenance": {"park": [3]}}})
                await world.settle()
                world.change({"spec": {"maintenance": None}})
                await world.settle()
                assert world.ready_ids() == {0, 1, 2, 3}
                count = len(server.writes)
                for _ in range(5):
                    await world.reconcile()
                    world.tick()
                assert server.writes[count:] == []

    asyncio.run(run())
