"""Answers whether a pod may be evicted, from what is there at that moment.

Every replica of the operator answers, leader or not: each looks for itself, at the API server and
at the brokers, and keeps nothing. The one thing that is written is the note on the pod since when
it is asked to go (`drain_request`), and an event: whichever replica writes it, it says the same.
Everything else that follows, such as the status, is the leader's.

Not here: deciding (`eviction_gate`), HTTP (`webhook_server`). Invariants: a dry run writes nothing;
where the API server cannot be read the eviction goes on, as it does where no operator runs; two
evictions of one cluster are judged one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from barnabas_client.env import Clock
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.conditions import timestamp
from barnabas_operator.eviction.review import EvictionReview, let_through, refused
from barnabas_operator.gateway.kafka_cluster import KafkaCluster
from barnabas_operator.kubernetes.api import KubernetesApi, KubernetesError, Object
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import BROKER, POD
from barnabas_operator.kubernetes.objects import (
    BROKER_LABEL,
    annotations_of,
    is_going,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.broker_observe import BrokerObserver, Clusters, Processes
from barnabas_operator.reconcile.broker.drain_request import (
    DRAIN_REQUESTED_ANNOTATION,
    DrainRequest,
    asked,
    has_to_be_noted,
    read_request,
)
from barnabas_operator.reconcile.broker.eviction_gate import Ruling, Verdict, judge
from barnabas_operator.spec import SpecError

logger = logging.getLogger(__name__)

# The API server waits for 5 s, and then the eviction goes on: within these all has to be said.
CLUSTER_TIMEOUT_SECONDS = 2.5
ANSWER_TIMEOUT_SECONDS = 4.0
_JUDGING_TIMEOUT_SECONDS = 3.0
_NOTE_TIMEOUT_SECONDS = 0.7
_UNNOTED_MAX = 256


class EvictionClusters(Clusters, Protocol):
    """Clusters that are asked now and then, and not kept in between."""

    async def forget(self, namespace: str, name: str) -> None:
        """Close the connections to a cluster."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """An eviction with what it is about; `found` is what the pod's note says."""

    review: EvictionReview
    pod: Object
    broker: Object
    spec: BrokerSpec
    node_id: int
    found: DrainRequest | None
    request: DrainRequest
    now: datetime


class Evictions:
    """Judges evictions."""

    def __init__(
        self,
        api: KubernetesApi,
        clusters: EvictionClusters,
        processes: Processes,
        clock: Clock,
        *,
        patience_seconds: float,
        counted: Callable[[Ruling], None] = lambda ruling: None,
    ) -> None:
        """Take an API that may write without being leader; `counted` hears of each ruling."""
        self._api = api
        self._clusters = clusters
        self._observer = BrokerObserver(
            api, clusters, processes, cluster_timeout_seconds=CLUSTER_TIMEOUT_SECONDS
        )
        self._events = Events(api)
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._counted = counted
        self._locks: dict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        # Notes that the API server did not take, so that patience ends all the same.
        self._unnoted: OrderedDict[str, DrainRequest] = OrderedDict()

    async def answer(self, review: EvictionReview) -> dict[str, Any]:
        """The AdmissionReview that answers it; comes before the API server stops waiting."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                return await self._answer(review)
        except TimeoutError:
            self._count(review, Ruling.DENIED)
            return refused(review.uid, "whether the broker can be spared is not known in time")

    async def _answer(self, review: EvictionReview) -> dict[str, Any]:
        try:
            case = await self._case(review)
            if case is None:
                self._count(review, Ruling.NOT_OURS)
                return let_through(review.uid)
            verdict = await self._judge_in_time(case)
        except KubernetesError as error:
            # As if no operator ran: the disruption budget is there for that.
            logger.warning(
                "eviction not judged: pod %s/%s: %s", review.namespace, review.pod, error
            )
            self._count(review, Ruling.NOT_JUDGED)
            return let_through(review.uid, f"the operator of Barnabas cannot judge: {error}")
        self._count(review, verdict.ruling)
        if not review.is_dry_run:
            await self._note(case, verdict)
        if verdict.ruling.lets_go:
            return let_through(review.uid, *_warnings(case, verdict))
        return refused(review.uid, self._refusal(case, verdict))

    async def _case(self, review: EvictionReview) -> _Case | None:
        """What there is to judge, None where it is nothing of ours. Raises: KubernetesError."""
        pod = await self._api.get(POD, review.namespace, review.pod)
        name = labels_of(pod or {}).get(BROKER_LABEL, "")
        node_id = names.node_id_of(review.pod)
        if pod is None or node_id is None or review.pod != names.pod(name, node_id):
            return None
        broker = await self._api.get(BROKER, review.namespace, name)
        if broker is None or is_going(broker):
            return None
        try:
            spec = BrokerSpec.from_manifest(broker)
        except SpecError as error:
            logger.warning(
                "eviction not judged: pod %s/%s: %s", review.namespace, review.pod, error
            )
            return None
        noted = read_request(annotations_of(pod).get(DRAIN_REQUESTED_ANNOTATION, ""))
        found = noted or self._unnoted.get(uid_of(pod))
        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        return _Case(
            review=review,
            pod=pod,
            broker=broker,
            spec=spec,
            node_id=node_id,
            found=found,
            request=asked(found, now),
            now=now,
        )

    async def _judge_in_time(self, case: _Case) -> Verdict:
        """Judge, or say that it takes too long: that is noted too, so that patience ends."""
        try:
            async with asyncio.timeout(_JUDGING_TIMEOUT_SECONDS):
                return await self._judge(case)
        except TimeoutError:
            unknown = "whether the broker can be spared is not known in time"
            is_over = case.now - case.request.since >= timedelta(seconds=self._patience_seconds)
            ruling = Ruling.OUT_OF_PATIENCE if is_over else Ruling.DENIED
            return Verdict(ruling=ruling, waiting_on=unknown)

    async def _judge(self, case: _Case) -> Verdict:
        if case.spec.is_paused or case.spec.is_elsewhere:
            return Verdict(ruling=Ruling.LEFT_ALONE)
        broker_name = case.spec.namespace, case.spec.name
        async with self._locks[broker_name]:
            try:
                observed = await self._observer.observe(case.spec, case.broker.get("status") or {})
            finally:
                # Evictions are rare; a client that is kept would follow the cluster for ever.
                await self._clusters.forget(*broker_name)
        return judge(
            case.spec,
            observed,
            case.node_id,
            request=case.request,
            now=case.now,
            patience_seconds=self._patience_seconds,
        )

    async def _note(self, case: _Case, verdict: Verdict) -> None:
        """Write down what others have to know; what cannot be written changes no answer."""
        broker = f"broker {case.node_id}"
        try:
            async with asyncio.timeout(_NOTE_TIMEOUT_SECONDS):
                if verdict.ruling is Ruling.DENIED and has_to_be_noted(case.found, case.now):
                    await self._note_request(case)
                    if case.found is None or case.found.since != case.request.since:
                        await self._events.emit(
                            case.broker,
                            "EvictionDeferred",
                            f"{broker} is to leave its node and waits: {verdict.waiting_on}",
                            occasion=uid_of(case.pod) + case.request.text,
                        )
                elif verdict.ruling is Ruling.OUT_OF_PATIENCE:
                    await self._events.emit(
                        case.broker,
                        "EvictionLetThrough",
                        f"{broker} is evicted after {self._patience_seconds:.0f} s of waiting,"
                        f" although: {verdict.waiting_on}",
                        type_="Warning",
                        occasion=uid_of(case.pod),
                    )
        except TimeoutError:
            logger.info("eviction not noted in time: pod %s", name_of(case.pod))

    async def _note_request(self, case: _Case) -> None:
        note = {"metadata": {"annotations": {DRAIN_REQUESTED_ANNOTATION: case.request.text}}}
        broker_name = namespace_of(case.pod), name_of(case.pod)
        uid = uid_of(case.pod)
        self._unnoted[uid] = case.request
        if len(self._unnoted) > _UNNOTED_MAX:
            self._unnoted.popitem(last=False)
        try:
            await self._api.patch(POD, *broker_name, note, uid=uid)
        except KubernetesError as error:
            logger.warning("eviction not noted: pod %s/%s: %s", *broker_name, error)
        else:
            del self._unnoted[uid]

    def _refusal(self, case: _Case, verdict: Verdict) -> str:
        end = case.request.since + timedelta(seconds=self._patience_seconds)
        return (
            f"broker {case.node_id} of Broker {case.spec.namespace}/{case.spec.name} cannot be"
            f" spared yet: {verdict.waiting_on}; it is let go in any case at {timestamp(end)}"
        )

    def _count(self, review: EvictionReview, ruling: Ruling) -> None:
        if not review.is_dry_run:
            self._counted(ruling)


def _warnings(case: _Case, verdict: Verdict) -> list[str]:
    """What who evicts should know of an eviction that goes on."""
    warnings = []
    if verdict.ruling is Ruling.OUT_OF_PATIENCE:
        warnings.append(f"the wait is over, although: {verdict.waiting_on}")
    grace, wanted = case.review.grace_period_seconds, case.spec.termination_grace_seconds
    if grace is not None and grace < wanted:
        warnings.append(
            f"a grace period of {grace} s may be too short for a broker to give its leaderships"
            f" away and to close; its own one is {wanted} s"
        )
    return warnings


class MomentaryClusters:
    """Clusters whose clients live for one question: connected when asked for, until forgotten."""

    def __init__(self, admins: AdminPool) -> None:
        """Take a pool that nobody else uses."""
        self._admins = admins

    async def cluster(self, namespace: str, name: str) -> KafkaCluster:
        """The cluster of a Broker. Raises: BarnabasError; KubernetesError."""
        return KafkaCluster(await self._admins.admin(namespace, name))

    async def forget(self, namespace: str, name: str) -> None:
        """Close the connections to it."""
        await self._admins.forget(namespace, name)
