"""The kinds of objects that the operator reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of object and where the API server serves it.

    `older` are versions with the same fields, the newest first, in which some clusters serve it.
    """

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool = True
    older: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The API group, empty for the core one."""
        group, slash, _ = self.api_version.rpartition("/")
        return group if slash else ""

    @property
    def version(self) -> str:
        """The version within the group."""
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The path of one object, of all of a namespace, or of all of the cluster."""
        prefix = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        middle = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        return f"{prefix}{middle}/{self.plural}{f'/{name}' if name else ''}"

    def versions(self) -> Iterator[Kind]:
        """The kind in each of its versions, the newest first."""
        yield self
        for version in self.older:
            yield replace(self, api_version=f"{self.group}/{version}", older=())


def _kind(api_version: str, kind: str, plural: str, *, is_namespaced: bool = True) -> Kind:
    return Kind(api_version=api_version, kind=kind, plural=plural, is_namespaced=is_namespaced)


BARNABAS_API_VERSION = "barnabas.dev/v1alpha1"

TOPIC = _kind(BARNABAS_API_VERSION, "Topic", "topics")
BROKER = _kind(BARNABAS_API_VERSION, "Broker", "brokers")
CONSUMER_GROUP = _kind(BARNABAS_API_VERSION, "ConsumerGroup", "consumergroups")
USER = _kind(BARNABAS_API_VERSION, "User", "users")
STATEFUL_SET = _kind("apps/v1", "StatefulSet", "statefulsets")
SERVICE = _kind("v1", "Service", "services")
CONFIG_MAP = _kind("v1", "ConfigMap", "configmaps")
SECRET = _kind("v1", "Secret", "secrets")
POD = _kind("v1", "Pod", "pods")
PERSISTENT_VOLUME_CLAIM = _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PERSISTENT_VOLUME = _kind("v1", "PersistentVolume", "persistentvolumes", is_namespaced=False)
STORAGE_CLASS = _kind("storage.k8s.io/v1", "StorageClass", "storageclasses", is_namespaced=False)
POD_DISRUPTION_BUDGET = _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
SERVICE_ACCOUNT = _kind("v1", "ServiceAccount", "serviceaccounts")
ROLE = _kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING = _kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
LEASE = _kind("coordination.k8s.io/v1", "Lease", "leases")
EVENT = _kind("v1", "Event", "events")
NODE = _kind("v1", "Node", "nodes", is_namespaced=False)
NETWORK_POLICY = _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
INGRESS = _kind("networking.k8s.io/v1", "Ingress", "ingresses")
# Gateway API has v1 of it since 1.5, and serves nothing else in its standard channel.
TLS_ROUTE = replace(
    _kind("gateway.networking.k8s.io/v1", "TLSRoute", "tlsroutes"),
    older=("v1alpha3", "v1alpha2"),
)
CERTIFICATE = _kind("cert-manager.io/v1", "Certificate", "certificates")
NAMESPACE = _kind("v1", "Namespace", "namespaces", is_namespaced=False)

ALL_KINDS = (
    TOPIC,
    BROKER,
    CONSUMER_GROUP,
    USER,
    STATEFUL_SET,
    SERVICE,
    CONFIG_MAP,
    SECRET,
    POD,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    STORAGE_CLASS,
    POD_DISRUPTION_BUDGET,
    SERVICE_ACCOUNT,
    ROLE,
    ROLE_BINDING,
    LEASE,
    EVENT,
    NODE,
    NETWORK_POLICY,
    INGRESS,
    TLS_ROUTE,
    CERTIFICATE,
    NAMESPACE,
)
_BY_NAME = {(kind.api_version, kind.kind): kind for kind in ALL_KINDS}


def kind_of(api_version: str, kind: str) -> Kind:
    """The kind with this apiVersion and name.

    Raises: KeyError if the operator does not use it.
    """
    return _BY_NAME[api_version, kind]
