"""Every write of the operator for a Broker is refused a few times, and all comes about."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas_operator.kubernetes.api import KubernetesError
from barnabas_operator.kubernetes.connection import load_configuration, new_client
from barnabas_operator.kubernetes.dynamic_api import DynamicApi
from tests.operator.reconcile.broker.broker_world import BrokerWorld
from tests.operator.reconcile.broker.world_parts import STORAGE_CLASS
from tests.support.fake_kubernetes import FakeKubernetes
from tests.support.refusing_api import RefusingApi

CODES = (409, 422, 500, 429, 403, 0)
WRITES = {
    "PATCH brokers/status",
    # Server-side apply of the children.
    "PATCH serviceaccounts",
    "PATCH roles",
    "PATCH rolebindings",
    "PATCH services",
    "PATCH configmaps",
    "PATCH poddisruptionbudgets",
    "PATCH statefulsets",
    # The volumes that grow, the gates of parked pods.
    "PATCH persistentvolumeclaims",
    "PATCH pods",
    # Restarts, Services of brokers that are gone, the StatefulSet whose template cannot change.
    "DELETE pods",
    "DELETE services",
    "DELETE statefulsets",
    "POST events",
}


async def settle(world: BrokerWorld) -> int:
    """Reconcile, whatever that raises, until nothing changes; returns how often it was refused."""
    refusals = quiet = 0
    while quiet < 12:
        version, before = world.store.version, refusals
        try:
            await world.reconcile()
        except KubernetesError:
            refusals += 1
        world.tick()
        quiet = quiet + 1 if (world.store.version, refusals) == (version, before) else 0
    return refusals


def test_whatever_is_refused_is_tried_again_and_nothing_is_stuck(tmp_path: Path) -> None:
    """Issue 6: 409, 422 and 500 injected; no kind of write is left out."""

    async def run() -> None:
        async with (
            FakeKubernetes() as server,
            RefusingApi(server.address, CODES) as refusing,
        ):
            kubeconfig = refusing.write_kubeconfig(tmp_path / "kubeconfig")
            async with new_client(await load_configuration(str(kubeconfig))) as client:
                world = BrokerWorld(store=server.store, way=DynamicApi(client))
                world.put(STORAGE_CLASS)
                assert await settle(world) >= len(CODES)
                world.add_topic("orders", [0, 1, 2], [1, 2, 0])
                changes: tuple[dict[str, Any], ...] = (
                    {"image": "good:2", "replicas": 4},
                    {"storage": {"size": "20Gi"}},
                    {"maintenance": {"park": [3]}},
                    {"maintenance": None},
                    {"replicas": 3},
                )
                for change in changes:
                    world.change({"spec": change})
                    await settle(world)
                assert world.ready_ids() == {0, 1, 2}
                assert world.condition("Ready")["status"] == "True"
                assert set(refusing.refused) == WRITES
                for write in WRITES - {"POST events"}:
                    assert refusing.refused[write] == set(CODES), write

    asyncio.run(run())


@pytest.mark.parametrize(
    ("codes", "reason"), [((403,) * 3, "NeedsAttention"), ((500,) * 3, "Progressing")]
)
def test_one_refused_child_keeps_no_other_waiting_and_is_told(
    tmp_path: Path, codes: tuple[int, ...], reason: str
) -> None:
    """operator.md 3.25: a quota, or a right that is missing, must not be silent."""

    async def run() -> None:
        async with (
            FakeKubernetes() as server,
            RefusingApi(server.address, codes) as refusing,
        ):
            refusing.only = "/poddisruptionbudgets/"
            kubeconfig = refusing.write_kubeconfig(tmp_path / "kubeconfig")
            async with new_client(await load_configuration(str(kubeconfig))) as client:
                world = BrokerWorld(store=server.store, way=DynamicApi(client))
                with pytest.raises(KubernetesError):
                    await world.reconcile()
                # The StatefulSet comes after it and is there.
                world.tick()
                assert set(world.pods()) == {0, 1, 2}
                with pytest.raises(KubernetesError):
                    await world.reconcile()
                assert world.condition("Ready")["reason"] == reason
                if reason == "Progressing":
                    # Row 10 of the findings: what cannot be parsed is answered so, for ever.
                    with pytest.raises(KubernetesError):
                        await world.reconcile()
                    assert world.condition("Ready")["reason"] == "NeedsAttention"
                    assert "PodDisruptionBudget" in world.condition("Stalled")["message"]
                if reason == "NeedsAttention":
                    message = "apply PodDisruptionBudget: refused by the test"
                    assert world.condition("Stalled")["message"] == message
                await settle(world)
                assert world.condition("Ready")["status"] == "True"

    asyncio.run(run())
