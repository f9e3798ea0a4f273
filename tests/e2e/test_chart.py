"""The chart as its users meet it: what it refuses, upgrades, and what stays when it goes."""

import copy
from typing import Any

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.client_pods import ClientPod
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.helm import CHART, Helm
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl, KubectlError, names
from tests.e2e.support.release import Release
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
