"""Planned restarts of three brokers under the load of a Java client that has only defaults.

acks=all, idempotent, two minutes for each record: no send may fail and no acknowledged record may
be missing. How long a record takes is noted.
"""

import uuid

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.checked_load import checked
from tests.e2e.support.client_pods import ClientPod, JavaLoad, Stopwatch
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release
from tests.e2e.support.topics import make_topic

PARTITIONS = 6
# What a drain leaves where it is: clients, and DNS, of which there is one.
DRAINED = "!e2e.barnabas.dev/keep"


@pytest.fixture
def load(namespace: Kubectl, images: Images, demo: BrokerCluster) -> JavaLoad:
    """A load that is not running yet, on a topic of its own."""
    name = f"load-{uuid.uuid4().hex[:6]}"
    make_topic(namespace, name, demo, partitions=PARTITIONS)
    return JavaLoad(namespace, images.java_client, demo.bootstrap, name)


@pytest.mark.quick
def test_a_rolling_restart_goes_unnoticed(
    release: Release, demo: BrokerCluster, load: JavaLoad, client: ClientPod, figures: Figures
) -> None:
    """One broker after the other, the controller last, each only when the last one is in sync."""
    before = demo.uids()
    controller = demo.controller()
    restarted: list[int] = []

    def note_restarted() -> bool:
        now = demo.uids()
        for node_id, uid in before.items():
            if now.get(node_id) != uid and node_id not in restarted:
                restarted.append(node_id)
        away = [node_id for node_id in before if not demo.is_pod_ready(node_id)]
        assert len(away) <= 1, f"two brokers are away at once: {away}"
        return len(restarted) == len(before) and release.is_ready()

    with checked(load, client, figures, "rolling restart of 3 brokers"):
        watch = Stopwatch()
        annotation = f"barnabas.dev/restart={uuid.uuid4().hex}"
        release.kubectl.run("annotate", "broker", demo.name, annotation, "--overwrite")
        release.kubectl.until(note_restarted, 600, release.describe)
        figures.note("rolling restart, duration", f"{watch.seconds():.0f} s")
    assert restarted[-1] == controller, f"{restarted}, the controller was {controller}"
    client.until_healthy()


def test_draining_each_node_in_turn_goes_unnoticed(
    namespace: Kubectl,
    release: Release,
    demo: BrokerCluster,
    load: JavaLoad,
    client: ClientPod,
    figures: Figures,
) -> None:
    """`kubectl drain` asks for evictions, which the budget, or the operator, lets through one by
    one; the volume ties the broker to its node, so it is back when the node is."""
    with checked(load, client, figures, "kubectl drain of 3 nodes in turn"):
        for node_id in range(demo.size):
            uid = demo.uids()[node_id]
            node = demo.pod(node_id)["spec"]["nodeName"]
            options = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s"]
            try:
                namespace.run(
                    "drain", node, *options, f"--pod-selector={DRAINED}", timeout_seconds=330
                )
                load.goes_on()
            finally:
                namespace.run("uncordon", node)
            demo.until_replaced(node_id, uid)
            client.until_healthy()
            release.until_ready()
