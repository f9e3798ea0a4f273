"""From nothing to the first record, and to many topics: what a user waits for."""

import time

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.client_pods import CLIENTS, ClientPod, Stopwatch, client_pod
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release
from tests.e2e.support.topics import topic, until_topics_ready

TOPICS = 200


@pytest.mark.quick
def test_a_client_pod_produces_its_first_record_soon_after_helm_install(
    images: Images, release: Release, namespace: Kubectl, figures: Figures
) -> None:
    """A cluster that has never heard of Barnabas, `helm install`, one Topic, and a client that is
    there from the first moment: it tries until a name, a Service, a broker and a topic are."""
    release.forget()
    script = (CLIENTS / "first_record.py").read_text()
    arguments = [release.brokers.bootstrap, "first"]
    pod = client_pod("first", images.broker, ["python3", "-c", script, *arguments])
    start = time.time()
    watch = Stopwatch()
    namespace.apply(pod)
    release.helm.install(release.name, release.first_values())
    installed = watch.seconds()
    namespace.apply(topic("first", release.brokers, deletionPolicy="Delete"))
    namespace.wait_for_phase("first", "Succeeded")
    # Before it, the client has told that nobody responds yet.
    moments = namespace.logs("first").splitlines()[-1].split()
    produced, consumed = (float(word) - start for word in moments)
    figures.note(
        "helm install to first record",
        f"produced after {produced:.1f} s, consumed after {consumed:.1f} s "
        f"(helm itself {installed:.1f} s), 3 brokers",
    )
    release.until_installed()
    figures.note("helm install to Broker Ready", f"{watch.seconds():.1f} s")
    release.provide()


def test_two_hundred_topics_applied_at_once_are_ready(
    namespace: Kubectl, demo: BrokerCluster, client: ClientPod, figures: Figures
) -> None:
    """One `kubectl apply` of 200 topics with three partitions and replicas each."""
    # Deleted with the namespace, also in the brokers.
    names = [f"many-{number:03}" for number in range(TOPICS)]
    manifests = [topic(name, demo, deletionPolicy="Delete") for name in names]
    watch = Stopwatch()
    namespace.apply(*manifests)
    applied = watch.seconds()
    until_topics_ready(namespace, TOPICS, 180)
    figures.note(
        "200 topics", f"all Ready after {watch.seconds():.1f} s, of which apply {applied:.1f} s"
    )
    assert client.topics_like("many-") == names
