"""The objects that a Broker consists of, as manifests for server-side apply. Pure.

Not here: PersistentVolumeClaims, which the StatefulSet makes, and the arbiter's Lease, which the
brokers make: both belong to the data and have no owner, so they stay when the Broker is deleted.

Invariants: what is rendered for the same input is the same, order included; nothing that cannot
change in a StatefulSet depends on what can change in a Broker, but the size of the volumes, and
that is given by the caller, who knows what the present StatefulSet says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from barnabas_operator.broker_spec import BrokerSpec, ExternalListener, Volume
from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.kinds import INGRESS, NETWORK_POLICY, TLS_ROUTE
from barnabas_operator.kubernetes.objects import BROKER_LABEL, broker_labels
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.listener_plan import (
    REPLICATION,
    SECURE_REPLICATION,
    ListenerPlan,
)
from barnabas_operator.reconcile.broker.network_policy import network_policy
from barnabas_operator.reconcile.broker.pod_template import pod_template
from barnabas_operator.reconcile.broker.properties import config_files
from barnabas_operator.spec import API_VERSION

# How the controllers of Ingresses that can pass TLS on are asked to: that of NGINX and the two of
# HAProxy. Without it they would decrypt.
_PASSTHROUGH = (
    "nginx.ingress.kubernetes.io/ssl-passthrough",
    "haproxy.org/ssl-passthrough",
    "haproxy-ingress.github.io/ssl-passthrough",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What the children depend on besides the spec.

    `volumes` are those of the StatefulSet's claim templates, which cannot change in place; none:
    the declared ones.
    `kept_files` are brokers whose files pods mount, also where there are fewer brokers by now.
    """

    image: str
    replicas: int
    max_unavailable: int = 1
    volumes: tuple[Volume, ...] = ()
    racks: Mapping[int, str | None] = field(default_factory=dict)
    kept_files: frozenset[int] = frozenset()
    cluster_domain: str = "cluster.local"


def render(spec: BrokerSpec, given: Rendering) -> list[Object]:
    """All children, in the order in which they have to be there."""
    spec = replace(spec, volumes=given.volumes or spec.volumes)
    return [
        _service_account(spec),
        _role(spec),
        _role_binding(spec),
        _headless_service(spec),
        _bootstrap_service(spec),
        *(_broker_service(spec, node_id) for node_id in range(given.replicas)),
        *_external_services(spec, given.replicas),
        *_routes(spec, given.replicas),
        *_network_policies(spec),
        _config_map(spec, given),
        _disruption_budget(spec, given.max_unavailable),
        _stateful_set(spec, given),
    ]


def selector(broker: str) -> dict[str, str]:
    """The labels by which the pods of a Broker are found."""
    return {BROKER_LABEL: broker}


def _child(broker: BrokerSpec, api_version: str, kind: str, name: str, /, **fields: Any) -> Object:
    owner = {
        "apiVersion": API_VERSION,
        "kind": "Broker",
        "name": broker.name,
        "uid": broker.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": broker.namespace,
            "labels": broker_labels(broker.name),
            "ownerReferences": [owner],
        },
        **fields,
    }


def _service(
    broker: BrokerSpec,
    name: str,
    spec: dict[str, Any],
    labels: Mapping[str, str] = MappingProxyType({}),
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> Object:
    """A Service with what the Broker adds to all of them, and to this one."""
    service = _child(broker, "v1", "Service", name, spec=spec)
    template, metadata = broker.service_template, service["metadata"]
    metadata["labels"] = {**template.labels, **labels, **metadata["labels"]}
    if template.annotations or annotations:
        metadata["annotations"] = {**template.annotations, **annotations}
    return service


def _service_account(spec: BrokerSpec) -> Object:
    return _child(spec, "v1", "ServiceAccount", names.service_account(spec.name))


def _role(spec: BrokerSpec) -> Object:
    """Rights on the one Lease; a create cannot be limited to a name."""
    group = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return _child(
        spec,
        "rbac.authorization.k8s.io/v1",
        "Role",
        names.service_account(spec.name),
        rules=[
            {**group, "verbs": ["create"]},
            {
                **group,
                "resourceNames": [names.arbiter_lease(spec.name)],
                "verbs": ["get", "update", "patch"],
            },
        ],
    )


def _role_binding(spec: BrokerSpec) -> Object:
    name = names.service_account(spec.name)
    return _child(
        spec,
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        name,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": spec.namespace}],
    )


def _headless_service(spec: BrokerSpec) -> Object:
    """The names of the pods, as the StatefulSet wants it; found also while not ready."""
    return _service(
        spec,
        names.headless_service(spec.name),
        {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(spec.name),
            "ports": [*_inside_ports(spec), _port("admin", names.ADMIN_PORT)],
        },
    )


def _bootstrap_service(spec: BrokerSpec) -> Object:
    return _service(
        spec,
        names.bootstrap_service(spec.name),
        {
            "type": "ClusterIP",
            "selector": selector(spec.name),
            "ports": [
                _port(one.port_name, one.port)
                for one in ListenerPlan(spec=spec).inside()
                if one.name not in (REPLICATION, SECURE_REPLICATION)
            ],
        },
    )


def _broker_service(spec: BrokerSpec, node_id: int) -> Object:
    """What brokers and clients know one broker by, also while it starts or stops.

    Its address outlives the pod's: a JVM keeps an address for half a minute, in which a rolling
    restart would give all brokers new ones.
    """
    return _service(
        spec,
        names.broker_service(spec.name, node_id),
        {
            "type": "ClusterIP",
            "publishNotReadyAddresses": True,
            "selector": _one_pod(spec, node_id),
            "ports": _inside_ports(spec),
        },
    )


def _one_pod(spec: BrokerSpec, node_id: int) -> dict[str, str]:
    pod = names.pod(spec.name, node_id)
    return {**selector(spec.name), "statefulset.kubernetes.io/pod-name": pod}


def _external_services(spec: BrokerSpec, replicas: int) -> list[Object]:
    external = spec.external
    if external is None:
        return []
    services = []
    for node_id in range(replicas):
        port = _port("external", external.port)
        if external.node_port_base is not None:
            port["nodePort"] = external.node_port_base + node_id
        services.append(
            _service(
                spec,
                names.external_service(spec.name, node_id),
                {
                    "type": "ClusterIP" if external.is_routed else external.type,
                    "selector": _one_pod(spec, node_id),
                    "ports": [port],
                },
                external.labels,
                {} if external.type == "Ingress" else external.annotations_of(node_id),
            )
        )
    if external.is_routed:
        ports = [_port("external", external.port)]
        bootstrap = {"type": "ClusterIP", "selector": selector(spec.name), "ports": ports}
        services.append(_service(spec, names.external_bootstrap(spec.name), bootstrap))
    return services


def _routes(spec: BrokerSpec, replicas: int) -> list[Object]:
    """A host for each broker and one to begin with, told apart by SNI; nobody else decrypts."""
    external = spec.external
    if external is None or not external.is_routed:
        return []
    make = _tls_route if external.type == "TLSRoute" else _ingress
    routes = [
        make(spec, external, names.external_service(spec.name, node_id), node_id)
        for node_id in range(replicas)
    ]
    if external.bootstrap_host:
        routes.append(make(spec, external, names.external_bootstrap(spec.name), None))
    return routes


def _tls_route(
    spec: BrokerSpec, external: ExternalListener, name: str, node_id: int | None
) -> Object:
    return _child(
        spec,
        TLS_ROUTE.api_version,
        TLS_ROUTE.kind,
        name,
        spec={
            "parentRefs": [dict(external.gateway)],
            "hostnames": [external.route_host(node_id)],
            "rules": [{"backendRefs": [{"name": name, "port": external.port}]}],
        },
    )


def _ingress(
    spec: BrokerSpec, external: ExternalListener, name: str, node_id: int | None
) -> Object:
    """What is not HTTP has no path: all of a host leads to the Service of the same name."""
    host = external.route_host(node_id)
    backend = {"service": {"name": name, "port": {"number": external.port}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rules: dict[str, Any] = {
        "tls": [{"hosts": [host]}],
        "rules": [{"host": host, "http": {"paths": [path]}}],
    }
    if external.ingress_class:
        rules["ingressClassName"] = external.ingress_class
    ingress = _child(spec, INGRESS.api_version, INGRESS.kind, name, spec=rules)
    given = {} if node_id is None else external.annotations_of(node_id)
    metadata = ingress["metadata"]
    metadata["annotations"] = {**dict.fromkeys(_PASSTHROUGH, "true"), **given}
    metadata["labels"] = {**external.labels, **metadata["labels"]}
    return ingress


def _network_policies(spec: BrokerSpec) -> list[Object]:
    rules = network_policy(spec)
    if rules is None:
        return []
    return [_child(spec, NETWORK_POLICY.api_version, NETWORK_POLICY.kind, spec.name, spec=rules)]


def _config_map(spec: BrokerSpec, given: Rendering) -> Object:
    node_ids = given.kept_files | set(range(given.replicas))
    has_phases = spec.security.has_tls or spec.phase.has_certificates
    files = config_files(spec, given.racks, node_ids, given.cluster_domain, has_phases=has_phases)
    return _child(spec, "v1", "ConfigMap", names.config_map(spec.name), data=files)


def _disruption_budget(spec: BrokerSpec, max_unavailable: int) -> Object:
    return _child(
        spec,
        "policy/v1",
        "PodDisruptionBudget",
        spec.name,
        spec={
            "maxUnavailable": max_unavailable,
            # A broker that recovers its logs is not ready and must not be thrown out for that.
            "unhealthyPodEvictionPolicy": "IfHealthyBudget",
            "selector": {"matchLabels": selector(spec.name)},
        },
    )


def _stateful_set(spec: BrokerSpec, given: Rendering) -> Object:
    return _child(
        spec,
        "apps/v1",
        "StatefulSet",
        spec.name,
        spec={
            "replicas": given.replicas,
            "serviceName": names.headless_service(spec.name),
            "selector": {"matchLabels": selector(spec.name)},
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain",
                "whenScaled": "Retain",
            },
            "template": pod_template(
                spec,
                image=given.image,
                replicas=given.replicas,
                cluster_domain=given.cluster_domain,
            ),
            "volumeClaimTemplates": [_claim(spec, volume) for volume in spec.volumes],
        },
    )


def _claim(spec: BrokerSpec, volume: Volume) -> dict[str, Any]:
    claim_spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": volume.size}},
    }
    if volume.storage_class is not None:
        claim_spec["storageClassName"] = volume.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": volume.name, "labels": broker_labels(spec.name)},
        "spec": claim_spec,
    }


def _inside_ports(spec: BrokerSpec) -> list[dict[str, Any]]:
    return [_port(one.port_name, one.port) for one in ListenerPlan(spec=spec).inside()]


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}
