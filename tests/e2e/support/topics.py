"""Topics as resources: manifests, and waiting for them."""

from typing import Any

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.kubectl import Kubectl, is_ready
from tests.e2e.support.kubectl import names as names_of

API_VERSION = "barnabas.dev/v1alpha1"


def topic(name: str, brokers: BrokerCluster, *, partitions: int = 3, **spec: Any) -> dict[str, Any]:
    """A Topic that names its brokers in whatever namespace they are."""
    reference = {"name": brokers.name, "namespace": brokers.kubectl.namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": {"name": name},
        "spec": {"brokerRef": reference, "partitions": partitions, "replicas": 3, **spec},
    }


def until_topics_ready(kubectl: Kubectl, count: int, timeout_seconds: float = 120) -> None:
    """So many topics of the namespace are Ready."""

    def ready() -> list[Any]:
        return [resource for resource in kubectl.list("topics") if is_ready(resource)]

    def describe() -> str:
        left = [one for one in kubectl.list("topics") if not is_ready(one)]
        shown = [one.get("status", {}).get("conditions") for one in left[:3]]
        return f"{len(left)} are not Ready: {names_of(left)[:5]} {shown}"

    kubectl.until(lambda: len(ready()) >= count, timeout_seconds, describe)


def make_topic(kubectl: Kubectl, name: str, brokers: BrokerCluster, **spec: Any) -> None:
    """A Topic that is Ready."""
    before = len([one for one in kubectl.list("topics") if is_ready(one)])
    kubectl.apply(topic(name, brokers, **spec))
    until_topics_ready(kubectl, before + 1)
