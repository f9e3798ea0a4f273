"""Names of what belongs to a Broker: a contract with the chart, the images and the users.

Source: docs/architecture.md, Kubernetes. Invariant: the ordinal of a pod is its broker's node id.
"""

from __future__ import annotations

import re

KAFKA_PORT = 9092
REPLICATION_PORT = 9091  # for brokers only
ADMIN_PORT = 9644
DATA_VOLUME = "data"
DATA_PATH = "/var/lib/barnabas"
CONFIG_PATH = "/etc/barnabas"
CONTAINER = "broker"

_ORDINAL = re.compile(r"-([0-9]+)$")


def headless_service(broker: str) -> str:
    """The Service that gives each pod its name."""
    return f"{broker}-brokers"


def bootstrap_service(broker: str) -> str:
    """The Service that clients begin with: ready brokers only."""
    return f"{broker}-bootstrap"


def broker_service(broker: str, node_id: int) -> str:
    """The Service of one broker, whose address stays when its pod gets another."""
    return f"{broker}-broker-{node_id}"


def external_service(broker: str, node_id: int) -> str:
    """The Service of one broker for clients outside."""
    return f"{broker}-external-{node_id}"


def is_of_one_broker(broker: str, service: str) -> bool:
    """Whether a Service of a Broker is one of those that each broker has."""
    kind, _, node_id = service.removeprefix(f"{broker}-").partition("-")
    return kind in ("broker", "external") and node_id.isdigit()


def config_map(broker: str) -> str:
    """The ConfigMap with the properties files."""
    return f"{broker}-config"


def service_account(broker: str) -> str:
    """The ServiceAccount, Role and RoleBinding of the brokers."""
    return f"{broker}-broker"


def arbiter_lease(broker: str) -> str:
    """The Lease that says who leads the control plane; it belongs to the data."""
    return f"{broker}-arbiter"


def pod(broker: str, node_id: int) -> str:
    """The pod of a broker."""
    return f"{broker}-{node_id}"


def claim(broker: str, node_id: int) -> str:
    """The PersistentVolumeClaim of a broker."""
    return f"{DATA_VOLUME}-{broker}-{node_id}"


def node_id_of(name: str) -> int | None:
    """The broker's id at the end of a pod's or a claim's name."""
    found = _ORDINAL.search(name)
    return int(found[1]) if found else None


def broker_host(broker: str, namespace: str, node_id: int | str, cluster_domain: str) -> str:
    """What one broker is advertised as; `node_id` may be a variable of the pod."""
    return f"{broker}-broker-{node_id}.{namespace}.svc.{cluster_domain}"


def advertised_inside(host: str) -> str:
    """Where clients within the Kubernetes cluster and the other brokers find a broker."""
    return f"PLAINTEXT://{host}:{KAFKA_PORT},REPLICATION://{host}:{REPLICATION_PORT}"
