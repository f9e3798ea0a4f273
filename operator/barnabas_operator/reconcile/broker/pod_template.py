"""The pod of a broker: container, probes, volumes, where it may run.

Pods are stopped as the design of the drain wants it: `preStop` begins the drain and waits for it up
to half the grace period, so that leaderships go while endpoints still propagate; SIGTERM then goes
on with the same drain. Nothing outside of the pod is needed for a restart.

Invariants: liveness asks only whether the process's loop turns, and nothing kills a broker that
recovers its logs. A parked pod is one that is held by a scheduling gate, so it keeps its name and
its volume and takes no part. The gate is in the template, so every pod that is made while one is
parked waits for the operator to take it away.
"""

from __future__ import annotations

from typing import Any

from barnabas_operator.broker_spec import DATA_VOLUME, BrokerSpec
from barnabas_operator.kubernetes.objects import broker_labels
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.listener_plan import (
    ADMIN_SOCKET,
    EXTERNAL_PATH,
    TLS_PATH,
    ListenerPlan,
)
from barnabas_operator.reconcile.broker.properties import SHARED_FILE, needs_own_files, own_file
from barnabas_operator.reconcile.broker.revision import revision_annotations
from barnabas_operator.reconcile.broker.strategic_merge import merged

PARKED_GATE = "barnabas.dev/parked"
_USER = 10001
_ZONE = "topology.kubernetes.io/zone"
# Recovering the logs of a full disk after a crash may take this long.
_RECOVERY_SECONDS_MAX = 3600
_STARTUP_PERIOD_SECONDS = 2


def pod_template(
    spec: BrokerSpec, *, image: str, replicas: int, cluster_domain: str
) -> dict[str, Any]:
    """The template of the StatefulSet; `replicas` names the files that pods wait for."""
    template = spec.pod_template
    pod: dict[str, Any] = {
        "serviceAccountName": names.service_account(spec.name),
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.termination_grace_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": template.affinity or _apart(spec),
        "topologySpreadConstraints": [_spread(spec)],
        "containers": [_container(spec, image, cluster_domain)],
        "volumes": [
            _config_volume(spec, replicas),
            {"name": "tmp", "emptyDir": {}},
            *_certificate_volumes(spec),
        ],
    }
    if template.node_selector:
        pod["nodeSelector"] = dict(template.node_selector)
    if template.tolerations:
        pod["tolerations"] = [dict(one) for one in template.tolerations]
    if template.priority_class_name:
        pod["priorityClassName"] = template.priority_class_name
    if template.image_pull_secrets:
        pod["imagePullSecrets"] = [dict(one) for one in template.image_pull_secrets]
    if spec.parked:
        # The operator takes the gate from every pod that is not parked.
        pod["schedulingGates"] = [{"name": PARKED_GATE}]
    return {
        "metadata": {
            "labels": {**template.labels, **broker_labels(spec.name)},
            "annotations": {**template.annotations, **revision_annotations(spec, image)},
        },
        "spec": merged(pod, template.pod),
    }


def _container(spec: BrokerSpec, image: str, cluster_domain: str) -> dict[str, Any]:
    listeners = ListenerPlan(spec=spec)
    inside = [(one.port_name, one.port) for one in listeners.inside()]
    ports = [
        {"name": name, "containerPort": port, "protocol": "TCP"}
        for name, port in (*inside, ("admin", names.ADMIN_PORT))
    ]
    if spec.external is not None:
        external = {"name": "external", "containerPort": spec.external.port, "protocol": "TCP"}
        ports.append(external)
    drain_seconds = spec.termination_grace_seconds // 2
    container: dict[str, Any] = {
        "name": names.CONTAINER,
        "image": image,
        "command": _command(spec, cluster_domain),
        "env": [
            _field("NODE_ID", "metadata.labels['apps.kubernetes.io/pod-index']"),
            _field("POD_NAME", "metadata.name"),
            _field("POD_NAMESPACE", "metadata.namespace"),
        ],
        "ports": ports,
        "startupProbe": {
            "httpGet": _admin(spec, "/live"),
            "periodSeconds": _STARTUP_PERIOD_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": _RECOVERY_SECONDS_MAX // _STARTUP_PERIOD_SECONDS,
        },
        "livenessProbe": {
            "httpGet": _admin(spec, "/live"),
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
        },
        "readinessProbe": {
            "httpGet": _admin(spec, "/ready"),
            "periodSeconds": 2,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        # What a broker says last is why it has ended: it is told in the status of the Broker.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "lifecycle": {"preStop": {"exec": {"command": _drain_command(spec, drain_seconds)}}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            *(
                {"name": volume.name, "mountPath": names.mount_path(volume.name)}
                for volume in spec.volumes
            ),
            {"name": "config", "mountPath": names.CONFIG_PATH, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            *_certificate_mounts(spec),
        ],
    }
    if spec.resources:
        container["resources"] = {key: dict(value) for key, value in spec.resources.items()}
    return container


def _drain_command(spec: BrokerSpec, seconds: int) -> list[str]:
    """The broker takes a drain from its own pod only, not from the kubelet's address.

    Where it wants certificates the pod's socket needs none, so no token is in a pod (SEC-63).
    """
    where = ["--admin-port", str(names.ADMIN_PORT)]
    if ListenerPlan(spec=spec).has_admin_tls:
        where = ["--admin-socket", ADMIN_SOCKET]
    return ["barnabas", "drain", *where, "--timeout", str(seconds)]


def _command(spec: BrokerSpec, cluster_domain: str) -> list[str]:
    """The broker is told who it is: Kubernetes puts the variables in, there is no shell."""
    command = ["barnabas", "broker", "--config"]
    listeners = ListenerPlan(spec=spec)
    if needs_own_files(spec):
        # What clients are told is in the file.
        return [
            *command,
            f"{names.CONFIG_PATH}/{own_file('$(NODE_ID)', spec.phase)}",
            "--set",
            "node.id=$(NODE_ID)",
            *listeners.command_settings(),
            *_log_directories(spec),
        ]
    host = names.broker_host(spec.name, "$(POD_NAMESPACE)", "$(NODE_ID)", cluster_domain)
    return [
        *command,
        f"{names.CONFIG_PATH}/{SHARED_FILE}",
        "--set",
        "node.id=$(NODE_ID)",
        "--set",
        f"advertised.listeners={listeners.advertised(host)}",
        *listeners.command_settings(),
        *_log_directories(spec),
    ]


def _log_directories(spec: BrokerSpec) -> list[str]:
    """What the file does not say of them: what a pod mounts and what its broker uses go together.

    A file would change under pods that have other volumes yet.
    """
    found = sorted(volume.name for volume in spec.volumes)
    if found == [DATA_VOLUME]:
        return []
    directories = [names.log_directory(spec.metadata_volume)]
    directories += [names.log_directory(one) for one in found if one != spec.metadata_volume]
    return [
        "--set",
        f"log.dirs={','.join(directories)}",
        "--set",
        f"metadata.log.dir={directories[0]}",
    ]


def _config_volume(spec: BrokerSpec, replicas: int) -> dict[str, Any]:
    volume: dict[str, Any] = {"name": names.config_map(spec.name), "defaultMode": 0o444}
    if needs_own_files(spec):
        files = [own_file(node_id, spec.phase) for node_id in range(replicas)]
        volume["items"] = [{"key": file, "path": file} for file in files]
    return {"name": "config", "configMap": volume}


def _certificate_volumes(spec: BrokerSpec) -> list[dict[str, Any]]:
    """Certificates and bundles, all of which the kubelet changes at one stroke (SEC-5, SEC-83)."""
    volumes = []
    if spec.phase.has_certificates:
        source = {"secret": {"name": names.broker_certificates(spec.name)}}
        projected = {"sources": [source], "defaultMode": 0o440}
        volumes.append({"name": "tls", "projected": projected})
    if _external_certificate(spec):
        assert spec.external is not None
        source = {"secret": {"name": spec.external.certificate_secret}}
        projected = {"sources": [source], "defaultMode": 0o440}
        volumes.append({"name": "externaltls", "projected": projected})
    return volumes


def _certificate_mounts(spec: BrokerSpec) -> list[dict[str, Any]]:
    mounts = []
    if spec.phase.has_certificates:
        mounts.append({"name": "tls", "mountPath": TLS_PATH, "readOnly": True})
    if _external_certificate(spec):
        mounts.append({"name": "externaltls", "mountPath": EXTERNAL_PATH, "readOnly": True})
    return mounts


def _external_certificate(spec: BrokerSpec) -> bool:
    external = spec.external
    return (
        spec.phase.has_certificates and external is not None and bool(external.certificate_secret)
    )


def _apart(spec: BrokerSpec) -> dict[str, Any]:
    """Brokers avoid one another's nodes where there are enough."""
    term = {
        "labelSelector": {"matchLabels": {"barnabas.dev/broker": spec.name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rule = {"weight": 100, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [rule]}}


def _spread(spec: BrokerSpec) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": spec.topology_key or _ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"barnabas.dev/broker": spec.name}},
    }


def _admin(spec: BrokerSpec, path: str) -> dict[str, Any]:
    """The kubelet asks without a certificate, and checks none."""
    scheme = "HTTPS" if ListenerPlan(spec=spec).has_admin_tls else "HTTP"
    return {"path": path, "port": "admin", "scheme": scheme}


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
