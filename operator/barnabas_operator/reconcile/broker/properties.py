"""The properties files of the brokers, in a ConfigMap.

`broker.properties` holds what all brokers share; who a broker is comes on its command line. Where
brokers differ in more than that (rack, external address), each has a whole file of its own.

Racks. A broker has to know its rack when it starts, and only the scheduler decides on its node. So
that pods need no rights to read nodes, the operator, which has them, writes the rack of each
ordinal into that broker's file as soon as its pod has a node. The pod mounts the files by name, and
the kubelet starts no container before all named files are there: nobody starts without a rack, and
a restarted pod finds its file without the operator. A pod that finds no node must not hold up the
others: it gets a file without a rack, and is restarted for it should it come up with that.

Security. What a phase of it needs is on the command line, where it goes with the certificates that
the pod mounts: a container that starts again in an older pod must not find settings of a later
phase. For the same reason each phase has own files, where brokers have any.

A file stays while any pod mounts it, also when its broker is gone: without it none of the older
pods would start again after a reboot of their node.

Invariant: defaults that depend on the number of brokers are not part of the revision of a pod, so
scaling restarts nobody who has the right ones already: from three brokers on they are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.listener_plan import ListenerPlan
from barnabas_operator.security_spec import SecurityPhase

# How many replicas topics get; brokers read these when they start.
SIZE_FACTORS = ("default.replication.factor", "offsets.topic.replication.factor")
SHARED_FILE = "broker.properties"
# Left for flushing and closing after leaderships were given away.
_FLUSH_SECONDS = 20


def own_file(node_id: int | str, phase: SecurityPhase = SecurityPhase.PLAIN) -> str:
    """The name of the file of one broker in a phase."""
    return f"broker-{node_id}.{f'{phase.text.lower()}.' * phase.has_certificates}properties"


def needs_own_files(spec: BrokerSpec) -> bool:
    """Whether brokers differ in more than what their command line says."""
    return spec.topology_key is not None or spec.external is not None


def config_files(
    spec: BrokerSpec,
    racks: Mapping[int, str | None],
    node_ids: Collection[int],
    cluster_domain: str,
    *,
    has_phases: bool = False,
) -> dict[str, str]:
    """The files by name, with those of all phases of security where there are any.

    `racks` has the ordinals whose rack is known; None: there is none.
    """
    shared = shared_properties(spec)
    files = {SHARED_FILE: properties_text(shared)}
    if not needs_own_files(spec):
        return files
    for node_id in sorted(node_ids):
        if spec.topology_key is not None and node_id not in racks:
            continue
        phases = SecurityPhase if has_phases else (SecurityPhase.PLAIN,)
        for phase in phases:
            listeners = ListenerPlan(spec=replace(spec, phase=phase))
            own = {
                **shared,
                "advertised.listeners": _advertised(spec, node_id, cluster_domain, listeners),
            }
            rack = racks.get(node_id)
            if rack:
                own["broker.rack"] = rack
            files[own_file(node_id, phase)] = properties_text(own)
    return files


def shared_properties(spec: BrokerSpec) -> dict[str, str]:
    """The settings that are the same for every broker."""
    drain_seconds = max(spec.termination_grace_seconds - _FLUSH_SECONDS, 1)
    return {
        **size_defaults(spec.replicas),
        **spec.config,
        **ListenerPlan(spec=replace(spec, phase=SecurityPhase.PLAIN)).properties(),
        # No inter.broker.listener.name: a broker uses REPLICATION by itself, and one of an earlier
        # release, restarted with this file while an upgrade goes on, what it used before.
        "log.dirs": f"{names.DATA_PATH}/data",
        "admin.http.host": "",
        "admin.http.port": str(names.ADMIN_PORT),
        "arbiter.backend": "kubernetes",
        "arbiter.kubernetes.lease.name": names.arbiter_lease(spec.name),
        "barnabas.drain.budget.ms": str(drain_seconds * 1000),
    }


def properties_text(properties: Mapping[str, str]) -> str:
    """The text of a Java properties file, keys in order."""
    return "".join(f"{key}={_escaped(properties[key])}\n" for key in sorted(properties))


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\")
    return f"\\{text}" if text.startswith((" ", "\t")) else text


def size_defaults(replicas: int) -> dict[str, str]:
    """What one wants of so many brokers: three copies, of which one may be away."""
    factor = str(min(3, max(replicas, 1)))
    in_sync = "2" if replicas >= 3 else "1"
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _advertised(
    spec: BrokerSpec, node_id: int, cluster_domain: str, listeners: ListenerPlan
) -> str:
    host = names.broker_host(spec.name, spec.namespace, node_id, cluster_domain)
    addresses = [listeners.advertised(host)]
    if spec.external is not None:
        addresses.append(f"EXTERNAL://{spec.external.address(node_id)}")
    return ",".join(addresses)
