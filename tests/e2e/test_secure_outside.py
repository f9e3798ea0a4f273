"""Clients outside of the cluster: they come by node ports, a load balancer, or a gateway."""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster
from tests.e2e.support.kubectl import Kubectl, condition_of
from tests.e2e.support.outside_clients import NODE, exchange, user_settings
from tests.e2e.support.release import Release
from tests.e2e.support.secure_brokers import SecureBrokers
from tests.e2e.support.sni_gateway import sni_gateway
from tests.e2e.support.topics import make_topic

TOPIC = "orders.outside"
EXTERNAL_PORT = 9094
USER = "outsider"
TLS_ROUTES = "tlsroutes.gateway.networking.k8s.io"
# Of the addresses that are kept for documentation.
BALANCED = "192.0.2.{}"


@pytest.fixture(scope="module")
def edge(lab: Cluster, release: Release) -> Iterator[SecureBrokers]:
    """Three secure brokers with a listener for clients outside, by node ports at first."""
    lab.build("gateway-api")
    brokers = SecureBrokers(release.kubectl, "edge")
    try:
        brokers.secure(external={"type": "NodePort", "advertisedHost": NODE, "nodePortBase": 31094})
        brokers.until_settled()
        make_topic(brokers.kubectl, TOPIC, brokers, deletionPolicy="Delete")
        brokers.add_user(USER, {"type": "scram-sha-512"})
        yield brokers
    except BaseException:
        print(brokers.describe())
        raise
    finally:
        brokers.kubectl.delete("topic", TOPIC)
        brokers.forget_all()


async def exchanged(kubectl: Kubectl, bootstrap: str, directory: Path) -> None:
    """A User of outside writes and reads, by what is in its Secret."""
    await exchange(user_settings(kubectl, USER, directory), bootstrap, TOPIC, USER)


@contextmanager
def resolving(monkeypatch: pytest.MonkeyPatch, addresses: Mapping[str, str]) -> Iterator[None]:
    """As if a DNS server knew these hosts."""
    known = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return known(addresses.get(name, name), *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        yield


def run(kubectl: Kubectl, bootstrap: str, directory: Path) -> None:
    asyncio.run(exchanged(kubectl, bootstrap, directory))


def test_clients_come_by_node_ports(edge: SecureBrokers, tmp_path: Path) -> None:
    """SEC-87, SEC-82: the node's address is in the brokers' certificates."""
    run(edge.kubectl, f"{NODE}:31094", tmp_path)


def test_clients_come_by_a_load_balancer_for_each_broker(
    edge: SecureBrokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-87: the lab has no cloud, so the addresses are given as one would; kube-proxy does the
    rest."""
    host = "b{id}.kafka.test"
    edge.secure(external={"type": "LoadBalancer", "advertisedHost": host})
    edge.until_settled()
    for node_id in range(edge.size):
        ingress = [{"ip": BALANCED.format(10 + node_id)}]
        edge.kubectl.patch_status(
            "service", f"edge-external-{node_id}", {"loadBalancer": {"ingress": ingress}}
        )
    hosts = {
        host.replace("{id}", str(node_id)): BALANCED.format(10 + node_id)
        for node_id in range(edge.size)
    }
    bootstrap = f"b1.kafka.test:{EXTERNAL_PORT}"
    with resolving(monkeypatch, hosts):
        run(edge.kubectl, bootstrap, tmp_path)


@pytest.mark.parametrize(
    ("definitions", "version"), [("gateway-api-before", "v1alpha2"), ("gateway-api", "v1")]
)
def test_clients_come_by_a_gateway(
    lab: Cluster,
    edge: SecureBrokers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    definitions: str,
    version: str,
) -> None:
    """SEC-87: TLSRoutes as the API server takes them, of the present Gateway API and of one before;
    a gateway leads by SNI and decrypts nothing."""
    file = lab.definitions(definitions) / "gateway.networking.k8s.io_tlsroutes.yaml"
    lab.kubectl.run("apply", "--server-side", "--force-conflicts", "--filename", str(file))
    lab.kubectl.until(
        lambda: is_established(lab.kubectl.get("customresourcedefinition", TLS_ROUTES)),
        30,
        lambda: "the definition is not served",
    )
    external = {
        "type": "TLSRoute",
        "advertisedHost": "b{id}.gate.test",
        "bootstrapHost": "kafka.gate.test",
        "gateway": {"name": "edge"},
    }

    async def through_the_gateway() -> None:
        backends = routes(edge.kubectl, version)
        assert set(backends) == {"kafka.gate.test", *(f"b{n}.gate.test" for n in range(edge.size))}
        async with sni_gateway(backends) as port:
            # Clients are told the port of the gateway: only now it is known.
            edge.secure(external={**external, "advertisedPort": port})
            await asyncio.to_thread(edge.until_settled)
            with resolving(monkeypatch, dict.fromkeys(backends, "127.0.0.1")):
                bootstrap = f"kafka.gate.test:{port}"
                await exchanged(edge.kubectl, bootstrap, tmp_path)

    try:
        edge.secure(external={**external, "advertisedPort": 443})
        edge.until_settled()
        asyncio.run(through_the_gateway())
    finally:
        lab.kubectl.delete("customresourcedefinition", TLS_ROUTES)


def test_clients_come_by_an_ingress(
    edge: SecureBrokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-87: Ingresses as the API server takes them, and one controller that passes TLS on; what
    led to the brokers before is gone."""
    external = {
        "type": "Ingress",
        "advertisedHost": "b{id}.ingress.test",
        "bootstrapHost": "kafka.ingress.test",
        "ingressClassName": "haproxy",
    }

    async def through_the_controller() -> None:
        backends = ingresses(edge.kubectl)
        hosts = {"kafka.ingress.test", *(f"b{n}.ingress.test" for n in range(edge.size))}
        assert set(backends) == hosts
        async with sni_gateway(backends) as port:
            edge.secure(external={**external, "advertisedPort": port})
            await asyncio.to_thread(edge.until_settled)
            with resolving(monkeypatch, dict.fromkeys(backends, "127.0.0.1")):
                bootstrap = f"kafka.ingress.test:{port}"
                await exchanged(edge.kubectl, bootstrap, tmp_path)

    edge.secure(external={**external, "advertisedPort": 443})
    edge.until_settled()
    asyncio.run(through_the_controller())
    edge.secure(external={"type": "NodePort", "advertisedHost": NODE, "nodePortBase": 31094})
    edge.until_settled()
    assert not edge.kubectl.list("ingress", "barnabas.dev/broker=edge")


def is_established(definition: Any) -> bool:
    """Whether the API server serves a definition."""
    condition = condition_of(definition, "Established")
    return condition is not None and condition["status"] == "True"


def ingresses(kubectl: Kubectl) -> dict[str, tuple[str, int]]:
    """Where the Ingresses of the brokers lead to, by their hosts."""
    found = {}
    for ingress in kubectl.list("ingress", "barnabas.dev/broker=edge"):
        assert ingress["metadata"]["annotations"]["haproxy.org/ssl-passthrough"] == "true"
        (rule,) = ingress["spec"]["rules"]
        (path,) = rule["http"]["paths"]
        backend = path["backend"]["service"]
        service = kubectl.get("service", backend["name"])["spec"]
        found[rule["host"]] = (service["clusterIP"], backend["port"]["number"])
    return found


def routes(kubectl: Kubectl, version: str) -> dict[str, tuple[str, int]]:
    """Where the routes of the brokers lead to, by their hosts."""
    found = {}
    kind = f"tlsroutes.{version}.gateway.networking.k8s.io"
    for route in kubectl.list(kind, "barnabas.dev/broker=edge"):
        (rule,) = route["spec"]["rules"]
        (backend,) = rule["backendRefs"]
        service = kubectl.get("service", backend["name"])["spec"]
        for host in route["spec"]["hostnames"]:
            found[host] = (service["clusterIP"], backend["port"])
    return found
