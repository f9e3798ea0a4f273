"""What pods, claims, volumes and nodes look like to the plans."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.kubernetes.kinds import (
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
    Kind,
)
from barnabas_operator.reconcile.broker.broker_observe import BrokerObserver
from barnabas_operator.reconcile.broker.broker_plan import lost_or_waiting
from barnabas_operator.reconcile.broker.observed import Observed, ProcessView
from barnabas_operator.reconcile.broker.pod_reading import read_pod, tied_to
from tests.operator.reconcile.broker.store_api import StoreApi
from tests.support.fake_kubernetes_store import FakeStore

LABELS = {"barnabas.dev/broker": "demo"}
READY = {"type": "Ready", "status": "True"}
HOST = "kubernetes.io/hostname"


def pod(name: str = "demo-1", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": LABELS}, "spec": {}, **fields}


def waiting(reason: str, **state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"state": {"waiting": {"reason": reason}}, **state}]}


@pytest.mark.parametrize(
    ("status", "stuck"),
    [
        ({}, ""),
        (waiting("ContainerCreating"), ""),
        (waiting("ImagePullBackOff"), "ImagePullBackOff"),
        (
            waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": 1}}),
            "CrashLoopBackOff: exit code 1 (Error)",
        ),
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                ]
            },
            "Unschedulable",
        ),
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
                ]
            },
            "",
        ),
    ],
)
def test_a_pod_is_stuck_when_only_a_change_of_it_would_help(
    status: dict[str, Any], stuck: str
) -> None:
    """operator.md 5: crash loop, image pull, unschedulable; not: starting, or held on purpose."""
    assert read_pod(pod(status=status), 1, None, None).stuck == stuck


def test_a_pod_tells_what_it_was_made_from_and_where_it_is() -> None:
    """The annotations are the operator's memory of what runs."""
    node = {"metadata": {"name": "n", "labels": {"zone": "a"}}, "status": {"conditions": [READY]}}
    made = pod(status={"conditions": [READY], "podIP": "10.1.1.1"}, spec={"nodeName": "n"})
    made["metadata"]["annotations"] = {
        "barnabas.dev/revision": '{"image":"x"}',
        "barnabas.dev/config": "not json",
    }
    view = read_pod(made, 1, node, "zone")
    assert (view.is_ready, view.node, view.address, view.rack) == (True, "n", "10.1.1.1", "a")
    assert (view.revision, view.config) == ({"image": "x"}, {})
    assert not view.is_node_lost
    assert read_pod(made, 1, None, "zone").is_node_lost
    silent = {**node, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    assert read_pod(made, 1, silent, "zone").is_node_lost


def test_a_volume_is_tied_to_the_nodes_that_alone_can_reach_it() -> None:
    """Local volumes name their node; those of a zone or of a network do not."""
    assert tied_to({"spec": {}}) == []
    assert tied_to(volume_on("n1")) == ["n1"]
    zone = volume_on("a")
    term = zone["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
    term["matchExpressions"][0]["key"] = "topology.kubernetes.io/zone"
    assert tied_to(zone) == []


def volume_on(node: str) -> dict[str, Any]:
    expression = {"key": HOST, "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {
        "metadata": {"name": f"pv-{node}"},
        "spec": {"nodeAffinity": {"required": terms}},
    }


class Silent:
    """No broker answers."""

    async def cluster(self, namespace: str, name: str) -> Any:
        raise AssertionError("nobody is ready, so nobody is asked")

    async def statuses(self, addresses: Mapping[int, str]) -> dict[int, ProcessView]:
        return {}


def look(*objects: tuple[Kind, dict[str, Any]], **spec: Any) -> Observed:
    store = FakeStore()
    store.create(NAMESPACE, "", {"metadata": {"name": "kafka"}})
    for kind, manifest in objects:
        made = store.create(kind, "kafka" if kind.is_namespaced else "", manifest)
        if "status" in manifest:
            made["status"] = manifest["status"]
    observer = BrokerObserver(StoreApi(store), Silent(), Silent())
    wanted = BrokerSpec(name="demo", namespace="kafka", **{"storage_size": "10Gi", **spec})
    return asyncio.run(observer.observe(wanted, {}))


def claim(name: str = "data-demo-1", volume: str = "pv-n1") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": LABELS},
        "spec": {
            "volumeName": volume,
            "storageClassName": "local",
            "resources": {"requests": {"storage": "10Gi"}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}},
    }


def test_a_disk_is_lost_when_its_node_is_gone_and_its_pod_finds_no_place() -> None:
    """operator.md 3.15: phase DiskLost."""
    things = [
        (POD, pod()),
        (PERSISTENT_VOLUME_CLAIM, claim()),
        (PERSISTENT_VOLUME, volume_on("n1")),
    ]
    seen = look(*things)
    assert seen.volumes[1].lost_node == "n1"
    assert lost_or_waiting(seen) == {1: "its disk was on node n1, which is gone"}
    there = look(*things, (NODE, {"metadata": {"name": "n1"}}))
    assert there.volumes[1].lost_node == ""
    running = pod(spec={"nodeName": "n1"})
    assert look((POD, running), *things[1:]).volumes[1].lost_node == ""


def test_a_pod_that_stops_on_a_node_that_does_not_answer_is_told_with_the_way_out() -> None:
    """operator.md 3.15: pods Terminating on a dead node; nothing is forced."""
    going = pod(spec={"nodeName": "n1"})
    going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
    text = lost_or_waiting(look((POD, going)))[1]
    assert "node.kubernetes.io/out-of-service" in text


def test_storage_classes_are_looked_up_only_for_claims_that_have_to_grow() -> None:
    """Reads are cheap and still not free; and a claim knows whether it can grow."""
    storage_class = {"metadata": {"name": "local"}, "allowVolumeExpansion": True}
    things = [(PERSISTENT_VOLUME_CLAIM, claim()), (STORAGE_CLASS, storage_class)]
    assert look(*things).volumes[1].can_expand is None
    assert look(*things, storage_size="20Gi").volumes[1].can_expand is True


def test_what_only_looks_like_one_of_ours_is_left_alone() -> None:
    """A pod with our label and another name is somebody's debugging pod."""
    seen = look((POD, pod("demo-debug")), (POD, pod("demo-x-1")), (POD, pod("demo-0")))
    assert set(seen.pods) == {0}
    assert seen.cluster is None
