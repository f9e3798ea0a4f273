"""Brokers in pods without any operator: what the image and the broker owe Kubernetes themselves.

The manifest is written by hand. What the operator makes has the same shape, so a failure here is
the broker's or the image's; and an operator that is away leaves just this behind.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.checked_load import checked
from tests.e2e.support.client_pods import ClientPod, JavaLoad
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl

MANIFEST = Path(__file__).parent / "manifests" / "plain-brokers.yaml"
PARTITIONS = 6


@pytest.fixture
def plain(namespace: Kubectl, images: Images) -> BrokerCluster:
    """Three brokers that know one another."""
    text = MANIFEST.read_text().replace("IMAGE", images.broker)
    namespace.run("apply", "-f", "-", text=text)
    brokers = BrokerCluster(namespace, "plain")
    brokers.until_ready()
    return brokers


@pytest.fixture
def reader(namespace: Kubectl, images: Images, plain: BrokerCluster) -> Iterator[ClientPod]:
    pod = ClientPod(namespace, images.broker, plain.bootstrap)
    yield pod.start()
    pod.remove()


def test_brokers_drain_when_their_pods_are_deleted_and_clients_do_not_notice(
    namespace: Kubectl,
    images: Images,
    plain: BrokerCluster,
    reader: ClientPod,
    figures: Figures,
) -> None:
    """A wiring test (operator.md section 4): under acks=all load each pod is deleted once. The
    preStop hook and SIGTERM drain the broker: no failed send, nothing lost, a clean end each time.
    """
    lease = namespace.get("lease", "plain-arbiter")
    assert lease["spec"]["holderIdentity"]
    reader.barnabas("topic", "create", "load", "--partitions", str(PARTITIONS))
    load = JavaLoad(namespace, images.java_client, plain.bootstrap, "load")
    with checked(load, reader, figures, "plain brokers, each pod deleted once"):
        for node_id in range(plain.size):
            uid = plain.uids()[node_id]
            namespace.delete("pod", plain.pod_name(node_id))
            plain.until_replaced(node_id, uid)
            load.goes_on()
            assert (
                namespace.get("lease", "plain-arbiter")["metadata"]["uid"]
                == (lease["metadata"]["uid"])
            )
            reader.until_healthy()


def test_a_pod_that_is_deleted_drains_by_its_hook_and_comes_back_as_the_same_node(
    namespace: Kubectl, plain: BrokerCluster, reader: ClientPod
) -> None:
    """What it says at its end: the hook began the drain, and it left leading nothing."""
    reader.barnabas("topic", "create", "kept", "--partitions", str(PARTITIONS))
    reader.barnabas("produce", "kept", text="one\ntwo\nthree\n")
    before = plain.status(0)
    uid = plain.uids()[0]
    follow = namespace.command("logs", "--follow", plain.pod_name(0))
    with subprocess.Popen(follow, stdout=subprocess.PIPE, text=True) as following:
        namespace.delete("pod", plain.pod_name(0))
        said, _ = following.communicate(timeout=60)
    assert "a drain was asked for: giving away" in said
    assert ", leading 0: " in said
    plain.until_replaced(0, uid)
    after = plain.status(0)
    assert after["cluster_id"] == before["cluster_id"]
    assert after["partitions"] == before["partitions"]
    lines = reader.barnabas("consume", "kept", "--max-records", "3").split()
    assert sorted(lines) == ["one", "three", "two"]


def test_brokers_run_with_no_rights_but_those_on_their_lease(
    namespace: Kubectl, plain: BrokerCluster
) -> None:
    """Not root, on a root file system that nobody can write, with an account of few rights."""
    account = f"{namespace.namespace}:plain-broker"
    assert namespace.may(account, "update", "leases/plain-arbiter")
    for verb, what in (("get", "secrets"), ("list", "pods"), ("delete", "leases")):
        assert not namespace.may(account, verb, what), f"{verb} {what}"
    script = (
        "import os, json\n"
        "try: open('/opt/x', 'w'); writable = True\n"
        "except OSError: writable = False\n"
        "print(json.dumps([os.getuid(), writable]))"
    )
    assert json.loads(namespace.execute(plain.pod_name(0), "python3", "-c", script)) == [
        10001,
        False,
    ]
