"""Who gets through to the ports of secure brokers, where the network enforces NetworkPolicies.

In the lab kube-router's controller does (`tests/e2e/lab/go/policies`).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.client_pods import ClientPod
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.secure_brokers import SecureBrokers

CLIENTS, CERTIFICATES, REPLICATION, ADMIN = 9093, 9097, 9090, 9644
ALL = (CLIENTS, CERTIFICATES, REPLICATION, ADMIN)


@pytest.fixture
def elsewhere(namespace: Kubectl, images: Images) -> Iterator[ClientPod]:
    """A pod of another namespace."""
    pod = ClientPod(namespace, images.broker, "", name="stranger")
    yield pod.start()
    pod.remove()


@pytest.fixture
def beside(secure: SecureBrokers, images: Images) -> Iterator[ClientPod]:
    """A pod next to the brokers."""
    pod = ClientPod(secure.kubectl, images.broker, "", name="neighbour")
    yield pod.start()
    pod.remove()


def reached(pod: ClientPod, secure: SecureBrokers) -> list[set[int]]:
    """The ports of each broker's pod that a pod gets through to."""
    return [
        {port for port in ALL if pod.reaches(address(secure, node_id), port)}
        for node_id in range(secure.size)
    ]


def until_reached(pod: ClientPod, secure: SecureBrokers, wanted: set[int]) -> None:
    """These ports of every broker, and no others."""
    secure.kubectl.until(
        lambda: reached(pod, secure) == [wanted] * secure.size,
        90,
        lambda: f"{pod.name} reaches {reached(pod, secure)}",
    )


def address(secure: SecureBrokers, node_id: int) -> str:
    return str(secure.pod(node_id)["status"]["podIP"])


@pytest.mark.quick
def test_strangers_reach_the_clients_ports_and_no_other(
    lab: Cluster, secure: SecureBrokers, elsewhere: ClientPod, beside: ClientPod
) -> None:
    """SEC-80, SEC-87: neither the brokers' own listener nor the admin port, from wherever."""
    secure.until_settled()
    until_reached(beside, secure, {CLIENTS, CERTIFICATES})
    until_reached(elsewhere, secure, {CLIENTS, CERTIFICATES})


def test_who_is_named_gets_through(
    lab: Cluster, secure: SecureBrokers, elsewhere: ClientPod, beside: ClientPod
) -> None:
    """SEC-87: peers of clients and of monitoring; everybody else stays out."""
    client: dict[str, Any] = {"podSelector": {"matchLabels": {"may": "read"}}}
    namespace = elsewhere.kubectl.namespace
    monitor = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {},
    }
    secure.secure(networkPolicy={"clients": [client], "monitoring": [monitor]})
    try:
        until_reached(elsewhere, secure, {ADMIN})
        until_reached(beside, secure, set())
        secure.kubectl.run("label", "pod", beside.name, "may=read")
        until_reached(beside, secure, {CLIENTS, CERTIFICATES})
    finally:
        secure.secure()
        secure.until_settled()
