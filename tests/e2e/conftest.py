"""What the end-to-end tests share: a cluster of Kubernetes, the images, the chart's release and a
cluster of three brokers. All are made when the first test asks for them.

    python -m pytest -m e2e tests/e2e
    python -m pytest -m "e2e and quick" tests/e2e    # some five minutes on a lab that is warm
    SECURE=1 python -m pytest -m e2e tests/e2e       # with security: `support/security_mode.py`

The tests of a session share `demo`, the cluster of brokers that the chart makes; each uses topics
of its own, and leaves three brokers that are well. What takes a cluster apart makes one of its own.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.client_pods import ClientPod
from tests.e2e.support.cluster import Cluster, bring_up
from tests.e2e.support.declared_brokers import SpareBrokers
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images, provide_images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release
from tests.e2e.support.secure_brokers import SecureBrokers
from tests.e2e.support.topics import make_topic

_FIGURES = pytest.StashKey[Figures]()
HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("E2E_FIGURES")
    config.stash[_FIGURES] = Figures(Path(path) if path else None)
    config.addinivalue_line("markers", "quick: of the end-to-end tests, those for every change")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            # The first test of a session may have to build Kubernetes.
            item.add_marker(pytest.mark.timeout(7200))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash[_FIGURES].lines()
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> Figures:
    """Where a test notes what it has measured; `E2E_FIGURES` names a file for it."""
    return request.config.stash[_FIGURES]


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return bring_up()


@pytest.fixture(scope="session")
def lab(cluster: Cluster) -> Cluster:
    """The cluster, where parts of Kubernetes itself may be taken away."""
    if not cluster.is_lab:
        pytest.skip("takes parts of Kubernetes away: only in the lab")
    return cluster


@pytest.fixture(scope="session")
def images(cluster: Cluster) -> Images:
    return provide_images(cluster)


@pytest.fixture(scope="session")
def release(cluster: Cluster, images: Images) -> Release:
    """The chart, installed or upgraded to what this tree holds, with the brokers `demo`."""
    release = Release(cluster, images, namespace="barnabas-e2e", name="demo")
    # Secure Brokers are declared beside it.
    release.values["rbac"] = {**release.values.get("rbac", {}), "security": True}
    release.provide()
    return release


@pytest.fixture(scope="module")
def secure(request: pytest.FixtureRequest, release: Release) -> Iterator[SecureBrokers]:
    """Three brokers that were never plain, and the topic `orders.secure`.

    For a module: some tests take everything of the release away, these brokers with it.
    """
    brokers = SecureBrokers(release.kubectl, "secure")
    brokers.secure()
    try:
        brokers.until_settled()
        make_topic(brokers.kubectl, "orders.secure", brokers, deletionPolicy="Delete")
        yield brokers
    finally:
        if request.session.testsfailed:
            print(brokers.describe())
        brokers.kubectl.delete("topic", "orders.secure")
        brokers.forget_all()


@pytest.fixture
def demo(release: Release) -> BrokerCluster:
    """Three brokers that are well."""
    release.brokers.until_ready()
    return release.brokers


@pytest.fixture
def namespace(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Kubectl]:
    """A namespace for one test; what it holds is shown when the test fails."""
    test = request.node.name.removeprefix("test_").replace("_", "-")
    name = f"e2e-{test[:40].strip('-')}"
    cluster.kubectl.remove_namespace(name)
    there = cluster.kubectl.make_namespace(name)
    yield there
    if request.session.testsfailed:
        print(there.describe_pods())
    cluster.kubectl.remove_namespace(name)


@pytest.fixture
def spare(
    request: pytest.FixtureRequest, release: Release, namespace: Kubectl
) -> Iterator[SpareBrokers]:
    """Three brokers of another cluster, made for this test, which may leave them as it likes.

    They are new each time: volumes are bound to nodes, so what one test does to brokers or nodes
    would decide where those of the next one can run.

    They go before the test's namespace does: Kubernetes looks at one that is being deleted again
    after half the grace period of its pods, which is a minute for brokers that stop in seconds.
    """
    brokers = SpareBrokers(namespace, "spare")
    brokers.provide()
    yield brokers
    if request.session.testsfailed:
        print(brokers.describe())
    brokers.forget()


@pytest.fixture
def client(namespace: Kubectl, images: Images, demo: BrokerCluster) -> Iterator[ClientPod]:
    """A pod with our clients, which finds `demo`."""
    pod = ClientPod(namespace, images.broker, demo.bootstrap)
    yield pod.start()
    pod.remove()


@pytest.fixture
def spare_client(namespace: Kubectl, images: Images, spare: SpareBrokers) -> Iterator[ClientPod]:
    """The same, which finds `spare`."""
    pod = ClientPod(namespace, images.broker, spare.bootstrap, name="spare-client")
    yield pod.start()
    pod.remove()
