"""What the operator leaves alone: an idle one writes nothing, one that is away holds up nobody."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.audit_log import AuditLog, Write
from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.client_pods import ClientPod, Stopwatch
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.figures import Figures
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release
from tests.e2e.support.topics import make_topic, topic, until_topics_ready
from tests.support.waiting import wait_until

IDLE_SECONDS = 60
# How often the operator looks at everything here; a third of its default, so that it looks thrice.
RESYNC_SECONDS = 20
QUIET_SECONDS = RESYNC_SECONDS + 10
GONE_SECONDS = 30
TOPICS = 10


def is_of_its_lease(write: Write, release: Release) -> bool:
    """The operator that works renews the Lease by which the others know it."""
    mine = (release.namespace, "leases.coordination.k8s.io")
    return (write.namespace, write.resource) == mine and write.verb in ("update", "patch")


@pytest.fixture
def watchful(release: Release) -> Iterator[Release]:
    """An operator that looks at everything more often than it has to."""
    values = copy.deepcopy(release.values)
    often = {"name": "BARNABAS_RESYNC_SECONDS", "value": str(RESYNC_SECONDS)}
    values["operator"]["extraEnv"] = [often]
    release.helm.upgrade(release.name, values, "--wait")
    yield release
    release.provide()


@pytest.mark.quick
def test_an_idle_operator_writes_nothing(
    lab: Cluster,
    watchful: Release,
    namespace: Kubectl,
    demo: BrokerCluster,
    client: ClientPod,
    figures: Figures,
) -> None:
    """60 s of the API server's audit log, with topics, a group and records that are there but do
    not change. The renewal of the operator's own Lease is the one write that high availability
    costs; it is counted by itself."""
    make_topic(namespace, "idle", demo)
    client.barnabas("produce", "idle", text="one\ntwo\n")
    client.barnabas("consume", "idle", "--group", "idle", "--max-records", "2")
    group = {
        "apiVersion": "barnabas.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "idle"},
        "spec": {"brokerRef": {"name": demo.name, "namespace": demo.kubectl.namespace}},
    }
    namespace.apply(group)
    namespace.wait_for("Ready", "consumergroup/idle")
    _until_quiet(lab, watchful)
    log = AuditLog(lab.audit_log)
    watch = Stopwatch()
    wait_until(
        lambda: watch.seconds() > IDLE_SECONDS,
        IDLE_SECONDS + 10,
        lambda: "time stands still",
        interval_seconds=1,
    )
    writes = log.writes_by(watchful.service_account)
    renewals = [write for write in writes if is_of_its_lease(write, watchful)]
    others = [write for write in writes if not is_of_its_lease(write, watchful)]
    figures.note("idle for 60 s", f"{len(others)} writes, {len(renewals)} renewals of its Lease")
    assert renewals, "the operator that is watched does not run, or has another account"
    assert others == [], "\n".join(map(str, others))


def _until_quiet(lab: Cluster, release: Release) -> None:
    """What the setting up has brought about is written, also what the operator finds when it looks
    at everything: rates that have gone up, and back to zero."""
    log, watch = AuditLog(lab.audit_log), Stopwatch()

    def is_quiet() -> bool:
        nonlocal log, watch
        if any(not is_of_its_lease(w, release) for w in log.writes_by(release.service_account)):
            log, watch = AuditLog(lab.audit_log), Stopwatch()
        return watch.seconds() > QUIET_SECONDS

    wait_until(is_quiet, 300, lambda: "it goes on writing", interval_seconds=1)


def test_a_namespace_with_topics_is_gone_in_thirty_seconds(
    namespace: Kubectl, demo: BrokerCluster, client: ClientPod, figures: Figures
) -> None:
    """Also with topics whose deletion the operator has to see to: those are gone from the brokers,
    the others are kept there."""
    _apply_topics(namespace, demo, "kept")
    _apply_topics(namespace, demo, "deleted", deletionPolicy="Delete")
    client.remove()
    watch = Stopwatch()
    namespace.remove_namespace(namespace.namespace, GONE_SECONDS)
    figures.note("namespace with topics gone", f"{watch.seconds():.1f} s")
    elsewhere = client.start_in(demo.kubectl)
    try:
        assert elsewhere.topics_like("kept-", "deleted-") == _names("kept")
    finally:
        elsewhere.remove()


def test_a_namespace_with_topics_is_gone_in_thirty_seconds_without_an_operator(
    release: Release, namespace: Kubectl, demo: BrokerCluster, figures: Figures
) -> None:
    """Topics that are kept in the brokers anyhow have no finalizer for anybody to take away."""
    _apply_topics(namespace, demo, "alone")
    release.stop_operator()
    try:
        watch = Stopwatch()
        namespace.remove_namespace(namespace.namespace, GONE_SECONDS)
        figures.note("namespace with topics gone, no operator", f"{watch.seconds():.1f} s")
    finally:
        release.start_operator()
        release.until_ready()


def test_topics_to_be_deleted_wait_for_the_operator_and_no_longer(
    release: Release, namespace: Kubectl, demo: BrokerCluster, client: ClientPod
) -> None:
    """Who asked for the deletion of records gets it, also when the operator was away meanwhile."""
    _apply_topics(namespace, demo, "late", deletionPolicy="Delete")
    release.stop_operator()
    try:
        namespace.delete("topic", "late-0", is_waiting=False)
    finally:
        release.start_operator()
    namespace.until(lambda: namespace.get("topic", "late-0") is None, 60, release.describe)
    assert client.topics_like("late-") == _names("late")[1:]


def _names(prefix: str) -> list[str]:
    return [f"{prefix}-{number}" for number in range(TOPICS)]


def _apply_topics(namespace: Kubectl, demo: BrokerCluster, prefix: str, **spec: Any) -> None:
    ready = len(namespace.list("topics"))
    namespace.apply(*(topic(name, demo, **spec) for name in _names(prefix)))
    until_topics_ready(namespace, ready + TOPICS)
