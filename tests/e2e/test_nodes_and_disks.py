"""Where brokers are and what they keep: racks, volumes that grow or cannot, a disk that is lost."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.client_pods import ClientPod, Stopwatch
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.declared_brokers import SPARE_CONFIG, ZONE, DeclaredBrokers, SpareBrokers
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl, KubectlError, condition_of
from tests.e2e.support.release import Release
from tests.e2e.support.topics import make_topic

GIBIBYTE = 2**30
RECORDS = 2000


def test_the_rack_of_a_broker_is_that_of_its_node(
    cluster: Cluster, spare: SpareBrokers, spare_client: ClientPod
) -> None:
    """By the label of the node where the scheduler put it; clients are told the same."""
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE)
        for node in cluster.kubectl.list("nodes")
    }
    expected = {n: zones[spare.pod(n)["spec"]["nodeName"]] for n in range(spare.size)}
    told = {one["id"]: one.get("rack") for one in spare.told()["brokers"]}
    assert told == expected
    brokers = json.loads(spare_client.barnabas("cluster", "brokers", "-o", "json"))
    assert {one["broker"]: one["rack"] for one in brokers} == expected


def test_volumes_grow_while_their_brokers_run(
    lab: Cluster, spare: SpareBrokers, figures: Figures
) -> None:
    """A larger size reaches each claim and the template of the next ones, and restarts nobody."""
    before = spare.uids()
    size = _capacity(spare, 0) // GIBIBYTE + 1
    watch = Stopwatch()
    spare.declare(**spare.spec(storage={"size": f"{size}Gi"}))

    def has_grown() -> bool:
        return all(_capacity(spare, n) == size * GIBIBYTE for n in range(spare.size))

    spare.kubectl.until(has_grown, 120, spare.describe)
    spare.until_settled()
    figures.note("three volumes grown", f"{watch.seconds():.1f} s")
    (template,) = spare.kubectl.get("statefulset", spare.name)["spec"]["volumeClaimTemplates"]
    assert template["spec"]["resources"]["requests"]["storage"] == f"{size}Gi"
    assert spare.uids() == before
    with pytest.raises(KubectlError, match="a volume cannot shrink"):
        spare.declare(**spare.spec(storage={"size": "1Gi"}))


@pytest.fixture
def fixed(lab: Cluster, release: Release, namespace: Kubectl) -> Iterator[DeclaredBrokers]:
    """One broker on a volume that cannot grow."""
    brokers = DeclaredBrokers(namespace, "fixed", size=1)
    brokers.declare(**_fixed_spec("1Gi"))
    brokers.until_settled()
    yield brokers
    brokers.forget()


def test_a_volume_that_cannot_grow_is_named_and_its_broker_serves_on(
    fixed: DeclaredBrokers, images: Images, namespace: Kubectl
) -> None:
    """It is nothing that waiting would help; somebody has to know."""
    before = fixed.uids()
    fixed.declare(**_fixed_spec("2Gi"))

    def is_named() -> bool:
        stalled = condition_of(fixed.resource(), "Stalled") or {}
        message = stalled.get("message", "")
        return "storage class fixed-size does not expand volumes" in message

    namespace.until(is_named, 60, fixed.describe)
    assert fixed.uids() == before
    client = ClientPod(namespace, images.broker, fixed.bootstrap).start()
    client.barnabas("topic", "create", "served")
    client.barnabas("produce", "served", text="served\n")
    assert client.barnabas("consume", "served", "--max-records", "1") == "served\n"


def test_a_lost_disk_is_replaced_when_somebody_permits_it(
    lab: Cluster,
    images: Images,
    namespace: Kubectl,
    release: Release,
    spare: SpareBrokers,
    figures: Figures,
) -> None:
    """A node is gone with its disk. The Broker says so, and what to write for an empty one; then
    the broker starts elsewhere and gets its records from the others. A broker of another cluster,
    for which nobody gave up the disk, comes back with it when the node does."""
    victim = _expendable(lab, spare)
    node = spare.pod(victim)["spec"]["nodeName"]
    elsewhere = next(name for name in _nodes(lab) if name != node)
    client = ClientPod(namespace, images.broker, spare.bootstrap, "away", elsewhere).start()
    make_topic(namespace, "filled", spare, partitions=6)
    client.barnabas("produce", "filled", text="".join(f"{n}\n" for n in range(RECORDS)))
    old_claim = spare.claim(victim)["metadata"]["uid"]
    watch = Stopwatch()
    try:
        lab.lose_node(node)
        permission = _permission(spare, victim)
        figures.note("a lost disk is named", f"{watch.seconds():.0f} s after its node was deleted")
        client.barnabas("produce", "filled", text="written with two brokers\n")
        assert spare.claim(victim)["metadata"]["uid"] == old_claim, "it was not permitted yet"
        watch = Stopwatch()
        spare.annotate("barnabas.dev/replace-disk", permission)
        spare.until_settled()
        client.until_healthy()
        figures.note("a lost disk is replaced", f"in sync again after {watch.seconds():.1f} s")
        assert spare.claim(victim)["metadata"]["uid"] != old_claim
        assert spare.pod(victim)["spec"]["nodeName"] != node
        read = client.barnabas("consume", "filled", "--max-records", str(RECORDS + 1)).splitlines()
        assert sorted(read) == sorted([*map(str, range(RECORDS)), "written with two brokers"])
    finally:
        lab.up()
    release.until_ready()


def _fixed_spec(size: str) -> dict[str, Any]:
    single = dict.fromkeys(("default.replication.factor", "offsets.topic.replication.factor"), 1)
    return {
        "replicas": 1,
        "storage": {"size": size, "storageClassName": "fixed-size"},
        "config": {**SPARE_CONFIG, **single, "min.insync.replicas": 1},
    }


def _capacity(brokers: DeclaredBrokers, node_id: int) -> int:
    """Bytes of a broker's volume, as its claim says."""
    text = brokers.claim(node_id)["status"]["capacity"]["storage"]
    assert text.endswith("Gi"), text
    return int(text.removesuffix("Gi")) * GIBIBYTE


def _nodes(lab: Cluster) -> list[str]:
    return [node["metadata"]["name"] for node in lab.kubectl.list("nodes")]


def _expendable(lab: Cluster, spare: SpareBrokers) -> int:
    """A broker that is not beside DNS, of which there is one."""
    (dns,) = lab.kubectl.within("kube-system").list("pods", "k8s-app=kube-dns")
    nodes = {node_id: spare.pod(node_id)["spec"]["nodeName"] for node_id in range(spare.size)}
    return max(node_id for node_id, node in nodes.items() if node != dns["spec"]["nodeName"])


def _permission(spare: SpareBrokers, victim: int) -> str:
    """What the Broker's condition says that the annotation has to be."""
    pattern = re.compile(r"barnabas\.dev/replace-disk: '([^']+)'")
    found: list[str] = []

    def is_named() -> bool:
        stalled = condition_of(spare.resource(), "Stalled") or {}
        match = pattern.search(stalled.get("message", ""))
        found[:] = match.groups() if match else ()
        return bool(match) and spare.phase(victim) == "DiskLost"

    # Kubernetes gives a pod up a minute after its node was deleted.
    spare.kubectl.until(is_named, 300, spare.describe)
    return found[0]
