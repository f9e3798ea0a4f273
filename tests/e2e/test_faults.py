"""What breaks without being asked: a broker, the operator in the middle of its work, Kubernetes."""

import uuid

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.checked_load import checked
from tests.e2e.support.client_pods import ClientPod, JavaLoad, Stopwatch
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release
from tests.e2e.support.topics import make_topic
from tests.support.waiting import wait_until

PARTITIONS = 6
AWAY_SECONDS = 90


@pytest.fixture
def load(namespace: Kubectl, images: Images, demo: BrokerCluster) -> JavaLoad:
    """A load that is not running yet, on a topic of its own."""
    name = f"load-{uuid.uuid4().hex[:6]}"
    make_topic(namespace, name, demo, partitions=PARTITIONS)
    return JavaLoad(namespace, images.java_client, demo.bootstrap, name)


def restarts(demo: BrokerCluster, node_id: int) -> int:
    """How often the broker's container was started again."""
    statuses = demo.pod(node_id)["status"]["containerStatuses"]
    return int(statuses[0]["restartCount"])


def test_kill_9_of_a_broker_costs_no_acknowledged_record(
    lab: Cluster, demo: BrokerCluster, load: JavaLoad, client: ClientPod, figures: Figures
) -> None:
    """The controller, at that. The kubelet starts its container again in the same pod."""
    with checked(load, client, figures, "kill -9 of the controller's broker"):
        victim = demo.controller()
        before = restarts(demo, victim)
        lab.kill_container(demo.pod(victim))
        load.goes_on()
        demo.kubectl.until(
            lambda: restarts(demo, victim) > before and demo.is_pod_ready(victim),
            180,
            demo.kubectl.describe_pods,
        )
        client.until_healthy()


def test_kill_9_of_the_operator_in_the_middle_of_a_roll_is_made_up_for(
    lab: Cluster,
    release: Release,
    demo: BrokerCluster,
    load: JavaLoad,
    client: ClientPod,
    figures: Figures,
) -> None:
    """What is under way stands in the Broker's status: the next operator goes on from there."""
    before = demo.uids()

    def replaced() -> int:
        now = demo.uids()
        return sum(now.get(node_id) != uid for node_id, uid in before.items())

    with checked(load, client, figures, "kill -9 of the operator in mid-roll"):
        watch = Stopwatch()
        annotation = f"barnabas.dev/restart={uuid.uuid4().hex}"
        release.kubectl.run("annotate", "broker", demo.name, annotation, "--overwrite")
        release.kubectl.until(lambda: replaced() >= 1, 120, release.describe)
        (operator,) = release.operator_pods()
        lab.kill_container(operator)
        release.kubectl.until(
            lambda: replaced() == len(before) and release.is_ready(), 600, release.describe
        )
        figures.note("roll with the operator killed, duration", f"{watch.seconds():.0f} s")
    after = demo.uids()
    client.until_healthy()
    assert demo.uids() == after


def test_clients_do_not_notice_that_the_api_server_is_away(
    lab: Cluster, demo: BrokerCluster, load: JavaLoad, client: ClientPod, figures: Figures
) -> None:
    """90 s without Kubernetes: everything serves on what it knows; then all is as before."""
    with checked(load, client, figures, "API server away for 90 s"):
        watch = Stopwatch()
        lab.daemon("stop", "kube-apiserver")
        try:
            wait_until(
                lambda: watch.seconds() > AWAY_SECONDS,
                AWAY_SECONDS + 10,
                lambda: "time stands still",
                interval_seconds=1,
            )
        finally:
            lab.up()
        demo.until_ready()
        client.until_healthy()
    _until_services_are_made(demo, client)


def _until_services_are_made(demo: BrokerCluster, client: ClientPod) -> None:
    """Names and addresses of new Services work: DNS and kube-proxy, too, have found the API server
    again, which takes them up to a minute and would spoil what is measured next."""
    name = f"new-{uuid.uuid4().hex[:6]}"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"barnabas.dev/broker": demo.name}, "ports": [{"port": 9092}]},
    }
    demo.kubectl.apply(service)
    try:
        demo.kubectl.until(
            lambda: client.reaches(f"{name}.{demo.kubectl.namespace}.svc.cluster.local"),
            180,
            lambda: f"{name} does not answer",
        )
    finally:
        demo.kubectl.delete("service", name)
