"""The chart as its users meet it: what it refuses, upgrades, and what stays when it goes."""

import copy
from typing import Any

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.checked_load import checked
from tests.e2e.support.client_pods import ClientPod, JavaLoad, Stopwatch
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.figures import Figures
from tests.e2e.support.helm import CHART, Helm
from tests.e2e.support.images import Images, previous_images
from tests.e2e.support.kubectl import Kubectl, KubectlError, is_ready, names
from tests.e2e.support.release import Release, plain_values
from tests.e2e.support.revisions import Revision, previous_revision
from tests.e2e.support.security_mode import CHANGE_SECONDS
from tests.e2e.support.topics import make_topic


def test_lint_finds_nothing(cluster: Cluster) -> None:
    """`helm lint --strict` takes warnings for errors."""
    output = Helm(cluster, "default").run("lint", "--strict", str(CHART))
    assert "0 chart(s) failed" in output


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"brokr": {"create": False}}, "brokr"),
        ({"operator": {"imagePullPolicy": "Always"}}, "imagePullPolicy"),
        ({"operator": {"replicas": "one"}}, "replicas"),
    ],
)
def test_a_value_that_is_misspelled_or_of_another_type_is_refused_by_name(
    release: Release, wrong: dict[str, Any], named: str
) -> None:
    """Before anything reaches the cluster."""
    with pytest.raises(KubectlError) as refusal:
        release.helm.upgrade(release.name, wrong, "--dry-run=client")
    assert named in str(refusal.value)


def test_the_release_tests_itself(release: Release, demo: BrokerCluster) -> None:
    """`helm test` produces and consumes."""
    assert "Phase:          Succeeded" in release.helm.run("test", release.name)


def test_an_upgrade_that_changes_a_live_setting_restarts_no_broker(
    release: Release, demo: BrokerCluster, client: ClientPod
) -> None:
    """From one revision to the next, and back."""
    before = demo.uids()
    changed = copy.deepcopy(release.values)
    changed["broker"]["spec"]["config"]["log.retention.ms"] = 7_200_000
    for values, retention in ((changed, "7200000"), (release.values, "604800000")):
        release.helm.upgrade(release.name, values, "--wait")
        release.until_ready()

        def holds(retention: str = retention) -> bool:
            return retention in client.barnabas(
                "config", "describe", "broker", "0", "--all", "-o", "json"
            )

        release.kubectl.until(holds, 60, release.describe)
    assert demo.uids() == before


@pytest.fixture
def previous(lab: Cluster, images: Images) -> tuple[Revision, Images]:
    """The chart and the images of the revision before this one."""
    assert lab.cache is not None
    revision = previous_revision(lab.cache)
    if revision is None:
        pytest.skip("the revision to upgrade from is not in this clone")
    return revision, previous_images(lab, revision, images)


def test_an_upgrade_from_the_previous_revision_goes_unnoticed(
    previous: tuple[Revision, Images],
    release: Release,
    namespace: Kubectl,
    images: Images,
    figures: Figures,
) -> None:
    """`helm upgrade` brings other definitions, another operator, and by it other brokers, one at a
    time under load; records, topics, groups and their offsets are those of before."""
    revision, older = previous
    release.forget()
    release.helm.install(release.name, plain_values(older), chart=revision.chart)
    release.until_installed()
    brokers = release.brokers
    client = ClientPod(namespace, older.broker, brokers.bootstrap).start()
    make_topic(namespace, "inherited", brokers, partitions=1)
    make_topic(namespace, "upgraded-under", brokers, partitions=6)
    client.barnabas("produce", "inherited", text="one\ntwo\nthree\n")
    client.barnabas("consume", "inherited", "-g", "heirs", "-n", "1")
    before = brokers.uids()
    load = JavaLoad(namespace, images.java_client, brokers.bootstrap, "upgraded-under")
    with checked(load, client, figures, "helm upgrade from the previous revision"):
        watch = Stopwatch()
        release.helm.upgrade(release.name, release.values, "--wait")
        release.kubectl.until(
            lambda: (
                all(brokers.uids().get(n, uid) != uid for n, uid in before.items())
                and release.is_ready()
            ),
            CHANGE_SECONDS,
            release.describe,
        )
        figures.note("helm upgrade until all brokers are new and Ready", f"{watch.seconds():.0f} s")
    for node_id in range(brokers.size):
        assert brokers.pod(node_id)["spec"]["containers"][0]["image"] == images.broker
    assert is_ready(namespace.get("topic", "inherited"))
    read = client.barnabas("consume", "inherited", "-g", "heirs", "-n", "2")
    assert read == "two\nthree\n"


@pytest.mark.quick
def test_uninstall_keeps_definitions_resources_and_records(
    cluster: Cluster,
    release: Release,
    namespace: Kubectl,
    demo: BrokerCluster,
    images: Images,
    client: ClientPod,
) -> None:
    """Nothing is left running, and nothing is lost: the next installation finds it all."""
    make_topic(namespace, "kept-over-uninstall", demo)
    client.barnabas("produce", "kept-over-uninstall", text="precious\n")
    volumes = names(release.kubectl.list("persistentvolumeclaims"))
    release.helm.uninstall(release.name)
    release.kubectl.until(
        lambda: release.kubectl.list("pods") == [], 180, release.kubectl.describe_pods
    )
    definitions = names(cluster.kubectl.list("customresourcedefinitions"))
    assert {"brokers.barnabas.dev", "consumergroups.barnabas.dev", "topics.barnabas.dev"} <= set(
        definitions
    )
    assert namespace.get("topic", "kept-over-uninstall") is not None
    assert names(release.kubectl.list("persistentvolumeclaims")) == volumes
    release.provide()
    read = client.barnabas("consume", "kept-over-uninstall", "--max-records", "1")
    assert read == "precious\n"
