"""Names of what belongs to a Broker: a contract with the chart, the images and the users.

Source: docs/architecture.md, Kubernetes. Invariants: the ordinal of a pod is its broker's node id;
the name of a volume has no hyphen, so a claim's name says of which Broker it is.
"""

from __future__ import annotations

import re

from barnabas_operator.broker_spec import DATA_VOLUME

KAFKA_PORT = 9092
REPLICATION_PORT = 9091  # for brokers only
ADMIN_PORT = 9644
DATA_PATH = "/var/lib/barnabas"
# Where the volumes beside `data` are mounted, by their names.
VOLUMES_PATH = "/var/lib/barnabas-volumes"
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


def external_bootstrap(broker: str) -> str:
    """The Service of all brokers that clients outside begin with, where a gateway has a host."""
    return f"{broker}-external-bootstrap"


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


def group_operations(broker: str) -> str:
    """The ConfigMap that says what was begun for the cluster's groups; it belongs to the data."""
    return f"{broker}-group-operations"


def cluster_authority(broker: str) -> str:
    """The Secret of the authority of brokers and operator, which only the operator reads."""
    return f"{broker}-cluster-ca"


def clients_authority(broker: str) -> str:
    """The Secret of the authority of Users, which only the operator reads."""
    return f"{broker}-clients-ca"


def broker_certificates(broker: str) -> str:
    """The Secret with the certificates of the brokers and the bundles, which their pods mount."""
    return f"{broker}-broker-certificates"


def metrics_token(broker: str) -> str:
    """The Secret by which Prometheus asks the brokers' admin port."""
    return f"{broker}-metrics"


def operator_certificate(broker: str) -> str:
    """The Secret with the certificate by which the operator is known to the brokers."""
    return f"{broker}-operator-certificate"


def pod(broker: str, node_id: int) -> str:
    """The pod of a broker."""
    return f"{broker}-{node_id}"


def claim(broker: str, node_id: int, volume: str = DATA_VOLUME) -> str:
    """The PersistentVolumeClaim of a volume of a broker, as its StatefulSet makes it."""
    return f"{volume}-{broker}-{node_id}"


def claimed(broker: str, claim_name: str) -> tuple[str, int] | None:
    """The volume and the broker's id that a claim is for, None for what is no claim of ours."""
    volume, _, rest = claim_name.partition("-")
    node_id = node_id_of(rest)
    if node_id is None or not volume or rest != pod(broker, node_id):
        return None
    return volume, node_id


def mount_path(volume: str) -> str:
    """Where a volume of a broker is mounted in its pod."""
    return DATA_PATH if volume == DATA_VOLUME else f"{VOLUMES_PATH}/{volume}"


def log_directory(volume: str) -> str:
    """The log directory on a volume; the root of a file system may have files of its own."""
    return f"{mount_path(volume)}/data"


def node_id_of(name: str) -> int | None:
    """The broker's id at the end of a pod's or a claim's name."""
    found = _ORDINAL.search(name)
    return int(found[1]) if found else None


def broker_host(broker: str, namespace: str, node_id: int | str, cluster_domain: str) -> str:
    """What one broker is advertised as; `node_id` may be a variable of the pod."""
    return f"{broker}-broker-{node_id}.{namespace}.svc.{cluster_domain}"
