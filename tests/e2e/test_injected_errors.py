"""An API server that refuses every second write, with 409, 422 and 500 in turn: with such a one the
operator is late, and stuck with nothing."""

import copy
import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.client_pods import ClientPod, Stopwatch
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.faulty_api import ADDRESS, FaultyApi
from tests.e2e.support.figures import Figures
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release
from tests.e2e.support.topics import make_topic, topic, until_topics_ready

TOPICS = 20
RECORDS = 50


@pytest.fixture
def faulty(lab: Cluster, release: Release, demo: BrokerCluster) -> Iterator[FaultyApi]:
    """The operator speaks to the API server through one that refuses."""
    assert lab.state is not None
    with FaultyApi(lab.state) as api:
        values = copy.deepcopy(release.values)
        values["operator"]["extraEnv"] = [
            {"name": "KUBERNETES_SERVICE_HOST", "value": ADDRESS},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(api.port)},
        ]
        try:
            release.helm.upgrade(release.name, values, "--wait")
            yield api
        finally:
            release.provide()


def test_nothing_is_stuck_when_writes_are_refused(
    faulty: FaultyApi,
    release: Release,
    namespace: Kubectl,
    demo: BrokerCluster,
    client: ClientPod,
    figures: Figures,
) -> None:
    """Topics come and go, a group is reset once, brokers are restarted, all behind that server."""
    names = [f"refused-{number}" for number in range(TOPICS)]
    watch = Stopwatch()
    namespace.apply(*(topic(name, demo, deletionPolicy="Delete") for name in names))
    until_topics_ready(namespace, TOPICS, 300)
    figures.note("every second write refused: 20 topics Ready", f"{watch.seconds():.1f} s")
    _reset_a_group(namespace, demo, client)
    _roll(release, demo, figures)
    watch = Stopwatch()
    namespace.run("delete", "topics", "--all", timeout_seconds=300)
    figures.note("every second write refused: 20 topics deleted", f"{watch.seconds():.1f} s")
    assert client.topics_like("refused-") == []
    for resource in ("topics/status", "topics", "brokers/status"):
        assert set(faulty.refusals_of(resource)) == {409, 422, 500}, faulty.refused
    assert faulty.refusals_of("consumergroups/status"), faulty.refused
    client.until_healthy()


def _reset_a_group(namespace: Kubectl, demo: BrokerCluster, client: ClientPod) -> None:
    make_topic(namespace, "read", demo, partitions=1, deletionPolicy="Delete")
    client.barnabas("produce", "read", text="record\n" * RECORDS)
    client.barnabas("consume", "read", "-g", "readers", "-n", str(RECORDS))
    reference = {"name": demo.name, "namespace": demo.kubectl.namespace}
    group = {
        "apiVersion": "barnabas.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "readers"},
        "spec": {"brokerRef": reference, "reset": {"id": "refused", "to": "earliest"}},
    }
    namespace.apply(group)

    def is_done() -> bool:
        status = namespace.get("consumergroup", "readers").get("status", {})
        phase = status.get("reset", {}).get("phase")
        return bool(phase == "Done" and status.get("lag") == RECORDS)

    namespace.until(is_done, 180, lambda: str(namespace.get("consumergroup", "readers")))


def _roll(release: Release, demo: BrokerCluster, figures: Figures) -> None:
    before = demo.uids()
    watch = Stopwatch()
    annotation = f"barnabas.dev/restart={uuid.uuid4().hex}"
    release.kubectl.run("annotate", "broker", demo.name, annotation, "--overwrite")

    def is_over() -> bool:
        now = demo.uids()
        replaced = [n for n, uid in before.items() if now.get(n, uid) != uid]
        return len(replaced) == len(before) and release.is_ready()

    release.kubectl.until(is_over, 600, release.describe)
    figures.note("every second write refused: rolling restart", f"{watch.seconds():.0f} s")
