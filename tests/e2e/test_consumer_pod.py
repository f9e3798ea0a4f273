"""A program of a user, in a pod of its own, that knows nothing but the bootstrap address."""

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.client_pods import CLIENTS, ClientPod, client_pod
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.topics import make_topic

RECORDS = 1000


def test_a_python_consumer_in_a_pod_reads_a_topic(
    namespace: Kubectl, images: Images, demo: BrokerCluster, client: ClientPod
) -> None:
    """All records of all partitions, and what it has committed shows as no lag in its resource."""
    make_topic(namespace, "numbers", demo, deletionPolicy="Delete")
    client.barnabas("produce", "numbers", text="".join(f"{n}\n" for n in range(RECORDS)))
    script = (CLIENTS / "count_records.py").read_text()
    arguments = [demo.bootstrap, "numbers", "adders", str(RECORDS)]
    namespace.apply(client_pod("adder", images.broker, ["python3", "-c", script, *arguments]))
    namespace.wait_for_phase("adder", "Succeeded")
    assert int(namespace.logs("adder").splitlines()[-1]) == sum(range(RECORDS))
    reference = {"name": demo.name, "namespace": demo.kubectl.namespace}
    namespace.apply(
        {
            "apiVersion": "barnabas.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "adders"},
            "spec": {"brokerRef": reference},
        }
    )
    namespace.until(
        lambda: namespace.get("consumergroup", "adders").get("status", {}).get("lag") == 0,
        60,
        lambda: str(namespace.get("consumergroup", "adders")),
    )
