"""Looks at everything that a plan for a Broker needs. I/O only.

The API server says what there is, each broker says how it is, the cluster's metadata says the rest.
What does not answer is absent: plans know what that means.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Protocol

from barnabas_client.errors import BarnabasError
from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.gateway.client_access import ClientAccess, read_access
from barnabas_operator.kubernetes.api import KubernetesApi, KubernetesError, Object
from barnabas_operator.kubernetes.kinds import (
    CONFIG_MAP,
    EVENT,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STATEFUL_SET,
    STORAGE_CLASS,
)
from barnabas_operator.kubernetes.objects import BROKER_LABEL, name_of
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.broker_status import remembered
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.observed import (
    Observed,
    PodView,
    ProcessView,
    SetView,
    VolumeView,
)
from barnabas_operator.reconcile.broker.ownership import is_ours
from barnabas_operator.reconcile.broker.pod_reading import (
    HOST_NAME_LABEL,
    Tie,
    read_claim,
    read_pod,
    read_set,
    tied_to,
)
from barnabas_operator.reconcile.broker.pod_warnings import (
    has_warnings,
    pod_warning,
    podless_warning,
    with_warning,
)
from barnabas_operator.reconcile.broker.properties import own_file
from barnabas_operator.reconcile.broker.security_report import phase_of_brokers
from barnabas_operator.security_spec import SecurityPhase
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)


class Cluster(Protocol):
    """The brokers of one cluster together; each method raises BarnabasError."""

    async def observe(self) -> ClusterView:
        """Look at all of it."""
        ...

    async def move(self, moves: Mapping[TopicPartition, Sequence[int]]) -> Mapping[str, Exception]:
        """Begin to move partitions to these brokers; the errors by partition."""
        ...

    async def change_settings(self, assigned: Mapping[str, str], removed: Sequence[str]) -> None:
        """Set and remove settings of all brokers, all or none."""
        ...

    async def set_leaving(self, node_id: int, *, is_leaving: bool) -> None:
        """Have a broker leave the members of the metadata log, or let it be one again."""
        ...

    async def unregister(self, node_id: int) -> None:
        """Forget a broker that is gone for good."""
        ...


class Clusters(Protocol):
    """Where clusters are found, by the Broker that they belong to."""

    async def cluster(self, namespace: str, name: str) -> Cluster:
        """The cluster. Raises: BarnabasError; KubernetesError."""
        ...


class Processes(Protocol):
    """Where brokers are asked how they are."""

    async def statuses(
        self, addresses: Mapping[int, str], access: ClientAccess | None = None
    ) -> dict[int, ProcessView]:
        """What the brokers at these addresses say; those that do not answer are absent.

        With `access` they are asked by TLS, and in plain text only where that allows it.
        """
        ...


class BrokerObserver:
    """Looks at Brokers."""

    def __init__(
        self,
        api: KubernetesApi,
        clusters: Clusters,
        processes: Processes,
        *,
        cluster_timeout_seconds: float | None = None,
    ) -> None:
        """A cluster that does not answer in the time, if one is given, counts as silent."""
        self._cluster_timeout_seconds = cluster_timeout_seconds
        self._api = api
        self._clusters = clusters
        self._processes = processes

    async def observe(self, spec: BrokerSpec, status: Mapping[str, object]) -> Observed:
        """What is there. Raises: KubernetesError."""
        if spec.is_elsewhere:
            return Observed(cluster=await self._cluster(spec))
        selector = f"{BROKER_LABEL}={spec.name}"
        found_set, pods, claims, config = await asyncio.gather(
            self._api.get(STATEFUL_SET, spec.namespace, spec.name),
            self._api.list(POD, namespace=spec.namespace, label_selector=selector),
            self._api.list(
                PERSISTENT_VOLUME_CLAIM, namespace=spec.namespace, label_selector=selector
            ),
            self._api.get(CONFIG_MAP, spec.namespace, names.config_map(spec.name)),
        )
        # What somebody else has made under our names tells nothing about our brokers.
        if found_set is not None and not is_ours(found_set, spec):
            found_set = None
        if config is not None and not is_ours(config, spec):
            config = None
        views = await self._with_warnings(spec, await self._pods(spec, pods))
        stateful_set = None if found_set is None else read_set(found_set)
        spec = replace(spec, phase=phase_of_brokers(status, stateful_set, views) or spec.phase)
        (processes, cluster), volumes, podless = await asyncio.gather(
            self._brokers(spec, views),
            self._volumes(spec, claims, views),
            self._podless(spec, stateful_set, views),
        )
        return Observed(
            pods=views,
            podless=podless,
            volumes=volumes,
            processes=processes,
            stateful_set=stateful_set,
            cluster=cluster,
            racks=_racks(spec, config),
            remembered=remembered(status),
        )

    async def observe_brokers(self, spec: BrokerSpec, known: Observed) -> Observed:
        """What is there, but for what the brokers say taken from a look before."""
        processes, cluster = await self._brokers(spec, known.pods)
        return replace(known, processes=processes, cluster=cluster)

    async def _pods(self, spec: BrokerSpec, pods: list[Object]) -> dict[int, PodView]:
        ours = {}
        for pod in pods:
            node_id = names.node_id_of(name_of(pod))
            if node_id is not None and name_of(pod) == names.pod(spec.name, node_id):
                ours[node_id] = pod
        node_names = {str((pod.get("spec") or {}).get("nodeName") or "") for pod in ours.values()}
        nodes = await self._nodes(node_names - {""})
        return {
            node_id: read_pod(
                pod,
                node_id,
                nodes.get(str((pod.get("spec") or {}).get("nodeName") or "")),
                spec.topology_key,
            )
            for node_id, pod in sorted(ours.items())
        }

    async def _with_warnings(
        self, spec: BrokerSpec, pods: Mapping[int, PodView]
    ) -> dict[int, PodView]:
        """The pods, with what Kubernetes warned of for those that do not start."""
        asked = [pod for pod in pods.values() if has_warnings(pod)]
        found = await asyncio.gather(*(self._warnings(spec, pod.uid) for pod in asked))
        told = {
            pod.node_id: with_warning(pod, pod_warning(events))
            for pod, events in zip(asked, found, strict=True)
        }
        return {**pods, **told}

    async def _podless(
        self, spec: BrokerSpec, stateful_set: SetView | None, pods: Mapping[int, PodView]
    ) -> dict[int, str]:
        """Why there is no pod, of the brokers that should have one."""
        if stateful_set is None or all(one in pods for one in range(stateful_set.replicas)):
            return {}
        events = await self._warnings(spec, stateful_set.uid)
        return {
            node_id: podless_warning(events, names.pod(spec.name, node_id))
            for node_id in range(stateful_set.replicas)
            if node_id not in pods
        }

    async def _warnings(self, spec: BrokerSpec, uid: str) -> list[Object]:
        """The Warning events of an object; none where they may not be read."""
        try:
            return await self._api.list(
                EVENT,
                namespace=spec.namespace,
                field_selector=f"involvedObject.uid={uid},type=Warning",
            )
        except KubernetesError as error:
            if not error.code:
                raise
            logger.info("Events not read: Broker %s/%s: %s", spec.namespace, spec.name, error)
            return []

    async def _nodes(self, node_names: set[str]) -> dict[str, Object | None]:
        wanted = sorted(node_names)
        found = await asyncio.gather(*(self._api.get(NODE, None, name) for name in wanted))
        return dict(zip(wanted, found, strict=True))

    async def _brokers(
        self, spec: BrokerSpec, pods: Mapping[int, PodView]
    ) -> tuple[dict[int, ProcessView], ClusterView | None]:
        """What each broker says, and what all say together."""
        if spec.is_elsewhere:
            return {}, await self._cluster(spec)
        asked = self._processes.statuses(_addresses(pods), await self._access(spec))
        if any(pod.is_ready or pod.is_broker_ready for pod in pods.values()):
            processes, cluster = await asyncio.gather(asked, self._cluster(spec))
            return processes, cluster
        # Mostly nobody would answer, and asking takes its time. But a pod is also not ready for
        # what runs beside its broker.
        processes = await asked
        is_served = any(not process.is_fenced for process in processes.values())
        return processes, await self._cluster(spec) if is_served else None

    async def _access(self, spec: BrokerSpec) -> ClientAccess | None:
        """The operator's certificate, None where there is none yet or none is needed."""
        if not spec.phase.has_certificates:
            return None
        try:
            access = await read_access(self._api, spec.namespace, spec.name)
        except BarnabasError:
            return None
        # Brokers of the phase before, or after it on the way back, have a plain admin port.
        return replace(access, allows_plain=spec.phase <= SecurityPhase.BROKERS)

    async def _cluster(self, spec: BrokerSpec) -> ClusterView | None:
        try:
            async with asyncio.timeout(self._cluster_timeout_seconds):
                cluster = await self._clusters.cluster(spec.namespace, spec.name)
                return await cluster.observe()
        except (BarnabasError, TimeoutError) as error:
            reason = str(error) or "not in time"
            logger.info("brokers of %s/%s do not answer: %s", spec.namespace, spec.name, reason)
            return None

    async def _volumes(
        self, spec: BrokerSpec, claims: list[Object], pods: Mapping[int, PodView]
    ) -> tuple[VolumeView, ...]:
        ours: dict[tuple[int, str], Object] = {}
        for claim in claims:
            if (known := names.claimed(spec.name, name_of(claim))) is not None:
                volume, node_id = known
                ours[node_id, volume] = claim
        classes = await self._storage_classes(spec, ours)
        volumes = []
        for (node_id, volume), claim in sorted(ours.items(), key=itemgetter(0)):
            class_name = str((claim.get("spec") or {}).get("storageClassName") or "")
            pod = pods.get(node_id)
            lost = "" if pod is None or pod.node or pod.is_ready else await self._lost(claim)
            volumes.append(read_claim(claim, volume, node_id, classes.get(class_name), lost))
        return tuple(volumes)

    async def _storage_classes(
        self, spec: BrokerSpec, claims: Mapping[tuple[int, str], Object]
    ) -> dict[str, Object | None]:
        """The classes of the claims that have to grow, by name."""
        sizes = {volume.name: volume.size_bytes for volume in spec.volumes}
        wanted = {
            str(claim["spec"].get("storageClassName") or "")
            for (node_id, volume), claim in claims.items()
            if read_claim(claim, volume, node_id, None, "").requested_bytes < sizes.get(volume, 0)
        } - {""}
        return {name: await self._api.get(STORAGE_CLASS, None, name) for name in sorted(wanted)}

    async def _lost(self, claim: Object) -> str:
        """The node that had the volume and is gone, for a pod that finds no place."""
        volume_name = str((claim.get("spec") or {}).get("volumeName") or "")
        if not volume_name:
            return ""
        volume = await self._api.get(PERSISTENT_VOLUME, None, volume_name)
        if volume is None:
            return "of an unknown name"
        ties = tied_to(volume)
        nodes = await self._nodes_of(ties)
        if not ties or any(tie.holds(node) for tie in ties for node in nodes):
            return ""
        named = {name for tie in ties for one in (*tie.host_names, *tie.node_names) for name in one}
        return ", ".join(sorted(named)) or "of an unknown name"

    async def _nodes_of(self, ties: Sequence[Tie]) -> list[Object]:
        """The nodes that there are of those that are named."""
        names_of_nodes = {name for tie in ties for one in tie.node_names for name in one}
        host_names = {name for tie in ties for one in tie.host_names for name in one}
        named = await self._nodes(names_of_nodes)
        labelled = await asyncio.gather(
            *(
                self._api.list(NODE, label_selector=f"{HOST_NAME_LABEL}={host_name}")
                for host_name in sorted(host_names)
            )
        )
        return [
            *(node for node in named.values() if node is not None),
            *(node for nodes in labelled for node in nodes),
        ]


def _addresses(pods: Mapping[int, PodView]) -> dict[int, str]:
    return {node_id: pod.address for node_id, pod in pods.items() if pod.address}


def _racks(spec: BrokerSpec, config: Object | None) -> dict[int, str | None]:
    """The racks that are written into files already, by ordinal."""
    racks: dict[int, str | None] = {}
    files = (config or {}).get("data") or {}
    if spec.topology_key is None:
        return racks
    for file, text in files.items():
        node_id = names.node_id_of(file.removesuffix(".properties"))
        if node_id is None or file != own_file(node_id):
            continue
        lines = [line for line in text.splitlines() if line.startswith("broker.rack=")]
        racks[node_id] = lines[0].partition("=")[2] if lines else None
    return racks
