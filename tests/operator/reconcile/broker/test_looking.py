"""What pods, claims, volumes and nodes look like to the plans."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from barnabas_operator.broker_spec import BrokerSpec, Volume
from barnabas_operator.kubernetes.kinds import (
    EVENT,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STATEFUL_SET,
    STORAGE_CLASS,
    Kind,
    kind_of,
)
from barnabas_operator.reconcile.broker.broker_observe import BrokerObserver
from barnabas_operator.reconcile.broker.broker_plan import lost_or_waiting
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.observed import (
    Observed,
    ProcessView,
)
from barnabas_operator.reconcile.broker.pod_reading import Tie, read_pod, tied_to
from tests.operator.reconcile.broker.store_api import StoreApi
from tests.support.fake_kubernetes_store import FakeStore

LABELS = {"barnabas.dev/broker": "demo"}
READY = {"type": "Ready", "status": "True"}
HOST = "kubernetes.io/hostname"


def pod(name: str = "demo-1", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": LABELS}, "spec": {}, **fields}


def waiting(reason: str, **state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"state": {"waiting": {"reason": reason}}, **state}]}


ENDED = {"exitCode": 1, "reason": "Error"}
LOG = """2026-11-24 12:00:00,123 INFO barnabas_broker.server: starting
2026-11-24 12:00:01,456 CRITICAL barnabas_broker.__main__: the broker cannot run: no such disk
"""
WAITS_FOR_INIT = {"state": {"waiting": {"reason": "PodInitializing"}}}


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
            waiting("CrashLoopBackOff", lastState={"terminated": {**ENDED, "message": LOG}}),
            "CrashLoopBackOff: exit code 1: the broker cannot run: no such disk",
        ),
        (
            waiting(
                "CrashLoopBackOff",
                lastState={"terminated": {**ENDED, "reason": "OOMKilled", "message": LOG}},
            ),
            "CrashLoopBackOff: exit code 1 (OOMKilled)",
        ),
        (
            waiting("CrashLoopBackOff", name="proxy", lastState={"terminated": ENDED}),
            "container proxy: CrashLoopBackOff: exit code 1 (Error)",
        ),
        (
            {
                "containerStatuses": [{"name": "broker", **WAITS_FOR_INIT}],
                "initContainerStatuses": waiting("CrashLoopBackOff", name="prepare")[
                    "containerStatuses"
                ],
            },
            "container prepare: CrashLoopBackOff",
        ),
        (
            {"phase": "Failed", "reason": "SysctlForbidden", "message": "not kernel.msgmax"},
            "SysctlForbidden: not kernel.msgmax",
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


def test_a_container_that_crashed_is_believed_when_it_has_run_for_a_minute() -> None:
    """A pod is ready as soon as all of its containers run, also the one that crashes each time."""
    running = {"running": {"startedAt": "2026-11-24T12:00:00Z"}}
    broker = {"name": "broker", "ready": True, "state": running, "lastState": {}}
    proxy = {"name": "proxy", "state": running, "lastState": {"terminated": ENDED}}
    view = read_pod(pod(status={"containerStatuses": [broker, proxy]}), 1, None, None)
    assert view.unsettled == "container proxy ended with exit code 1 (Error)"
    assert view.settles == datetime(2026, 11, 24, 12, 1, tzinfo=UTC)
    assert view.is_broker_ready
    waits = {**proxy, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    view = read_pod(pod(status={"containerStatuses": [broker, waits]}), 1, None, None)
    assert (view.settles, view.is_broker_ready) == (None, True)
    stopped = {**broker, "ready": False}
    assert not read_pod(pod(status={"containerStatuses": [stopped]}), 1, None, None).is_broker_ready


def test_a_volume_is_tied_to_the_nodes_that_alone_can_reach_it() -> None:
    """Local volumes name their node; those of a zone or of a network do not."""
    assert tied_to({"spec": {}}) == ()
    assert tied_to(volume_on("n1")) == (Tie(host_names=(frozenset({"n1"}),)),)
    zone = volume_on("a")
    term = zone["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
    term["matchExpressions"][0]["key"] = "topology.kubernetes.io/zone"
    assert tied_to(zone) == ()


def node(name: str, host_name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {HOST: host_name}}}


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

    async def statuses(
        self, addresses: Mapping[int, str], access: Any = None
    ) -> dict[int, ProcessView]:
        return {}


def look(
    *objects: tuple[Kind, dict[str, Any]],
    events: Sequence[dict[str, Any]] = (),
    clusters: Any = None,
    **spec: Any,
) -> Observed:
    """What is seen of these; events name what they are about by its kind and name."""
    store = FakeStore()
    store.create(NAMESPACE, "", {"metadata": {"name": "kafka"}})
    for kind, manifest in objects:
        made = store.create(kind, "kafka" if kind.is_namespaced else "", manifest)
        if "status" in manifest:
            made["status"] = manifest["status"]
    for number, event in enumerate(events):
        about = event["involvedObject"]
        kind = kind_of("apps/v1" if about["kind"] == "StatefulSet" else "v1", about["kind"])
        uid = store.get(kind, "kafka", about["name"])["metadata"]["uid"]
        named = {"metadata": {"name": f"event-{number}"}, "type": "Warning"}
        store.create(EVENT, "kafka", {**named, **event, "involvedObject": {**about, "uid": uid}})
    answering = clusters or Silent()
    observer = BrokerObserver(StoreApi(store), answering, answering)
    wanted = BrokerSpec(name="demo", namespace="kafka", **spec)
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
    assert seen.volumes[0].lost_node == "n1"
    assert lost_or_waiting(seen) == {1: "its disk was on node n1, which is gone"}
    there = look(*things, (NODE, node("n1", "n1")))
    assert there.volumes[0].lost_node == ""
    running = pod(spec={"nodeName": "n1"})
    assert look((POD, running), *things[1:]).volumes[0].lost_node == ""


def test_the_host_name_of_a_node_is_its_label_and_not_its_name() -> None:
    """Found by reading, 4: healthy disks were called lost where the two differ."""
    pending, bound = (POD, pod()), (PERSISTENT_VOLUME_CLAIM, claim())
    on_host = (PERSISTENT_VOLUME, volume_on("n1"))
    there = look(pending, bound, on_host, (NODE, node("ip-10-0-0-7", "n1")))
    assert there.volumes[0].lost_node == ""
    gone = look(pending, bound, on_host, (NODE, node("n1", "another")))
    assert gone.volumes[0].lost_node == "n1"


@pytest.mark.parametrize(
    ("terms", "is_lost"),
    [
        ([{"names": ["n1"]}], True),
        ([{"names": ["n2"]}], False),
        ([{"hosts": ["h1"]}, {"hosts": ["h2"]}], False),
        ([{"hosts": ["h1"]}, {"names": ["n9"]}], True),
        ([{"hosts": ["h2"], "names": ["n9"]}], True),
        ([{"hosts": ["h2"], "names": ["n2"]}], False),
        ([{"hosts": ["h1"]}, {}], False),
        ([{"hosts": ["h1"], "zone": ["a"]}], True),
        ([{"hosts": ["h2"], "zone": ["gone"]}], False),
        ([{"zone": ["gone"]}], False),
    ],
)
def test_terms_are_judged_as_the_scheduler_judges_them(
    terms: list[dict[str, list[str]]], is_lost: bool
) -> None:
    """Any term is enough, each with all that it names; the one node is `n2` with host name `h2`."""
    keys = {"hosts": HOST, "names": "metadata.name", "zone": "topology.kubernetes.io/zone"}

    def expressions(term: dict[str, list[str]], *kinds: str) -> list[dict[str, Any]]:
        return [
            {"key": keys[kind], "operator": "In", "values": term[kind]}
            for kind in kinds
            if kind in term
        ]

    volume = volume_on("n1")
    volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = [
        {
            "matchExpressions": expressions(one, "hosts", "zone"),
            "matchFields": expressions(one, "names"),
        }
        for one in terms
    ]
    seen = look(
        (POD, pod()),
        (PERSISTENT_VOLUME_CLAIM, claim()),
        (PERSISTENT_VOLUME, volume),
        (NODE, node("n2", "h2")),
    )
    assert bool(seen.volumes[0].lost_node) is is_lost


def test_brokers_that_serve_in_pods_that_are_not_ready_are_asked() -> None:
    """A container beside each broker may be what keeps all pods from being ready."""

    class Serving(Silent):
        async def cluster(self, namespace: str, name: str) -> Any:
            return self

        async def observe(self) -> ClusterView:
            return ClusterView(cluster_id="c1")

        async def statuses(
            self, addresses: Mapping[int, str], access: Any = None
        ) -> dict[int, ProcessView]:
            return {
                one: ProcessView(
                    node_id=one, state="RUNNING", is_fenced=False, drain="running", size_bytes=0
                )
                for one in addresses
            }

    unready = pod(status={"podIP": "10.1.1.1"}, spec={"nodeName": "n1"})
    assert look((POD, unready), clusters=Serving()).cluster == ClusterView(cluster_id="c1")


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
    assert look(*things).volumes[0].can_expand is None
    assert look(*things, volumes=(Volume(size="20Gi"),)).volumes[0].can_expand is True


def test_what_only_looks_like_one_of_ours_is_left_alone() -> None:
    """A pod with our label and another name is somebody's debugging pod."""
    seen = look((POD, pod("demo-debug")), (POD, pod("demo-x-1")), (POD, pod("demo-0")))
    assert set(seen.pods) == {0}
    assert seen.cluster is None


def warned(kind: str, name: str, reason: str, message: str, at: str = "12:00") -> dict[str, Any]:
    return {
        "involvedObject": {"kind": kind, "name": name},
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-24T{at}:00Z",
    }


def test_what_a_pod_waits_for_is_read_from_its_events() -> None:
    """A pod that waits for a volume says in its status that containers are created, and no more."""
    creating = pod(spec={"nodeName": "n1"}, status=waiting("ContainerCreating"))
    other = pod("demo-0", spec={"nodeName": "n1"}, status=waiting("ContainerCreating"))
    events = [
        warned("Pod", "demo-1", "FailedMount", 'configmap "a" not found', "12:01"),
        warned("Pod", "demo-1", "FailedMount", 'configmap\n"b" not found', "12:02"),
        warned("Pod", "demo-1", "Unhealthy", "a probe failed", "12:03"),
    ]
    seen = look((POD, creating), (POD, other), events=events)
    assert seen.pods[1].warning == 'FailedMount: configmap "b" not found'
    assert seen.pods[0].warning == ""
    running = pod(status={"containerStatuses": [{"state": {"running": {}}}]}, spec=creating["spec"])
    assert look((POD, running), events=events).pods[1].warning == ""


def test_a_pull_secret_that_is_not_there_is_told_with_the_image_that_is_not_pulled() -> None:
    """What the registry says is only that nobody may pull it."""
    back_off = pod(spec={"nodeName": "n1"}, status=waiting("ImagePullBackOff"))
    lacking = "FailedToRetrieveImagePullSecret"
    seen = look((POD, back_off), events=[warned("Pod", "demo-1", lacking, "no secret (a)")])
    assert seen.pods[1].stuck == f"ImagePullBackOff ({lacking}: no secret (a))"


def test_why_a_pod_is_not_made_is_read_from_the_events_of_the_stateful_set() -> None:
    """A priority class that does not exist: the pod is refused, and nothing else says so."""
    stateful_set = {"metadata": {"name": "demo", "labels": LABELS}, "spec": {"replicas": 2}}
    text = "create Pod demo-{} in StatefulSet demo failed error: no PriorityClass was found"
    events = [warned("StatefulSet", "demo", "FailedCreate", text.format(1))]
    seen = look((STATEFUL_SET, stateful_set), (POD, pod("demo-0")), events=events)
    assert seen.podless == {1: f"FailedCreate: {text.format(1)}"}
