"""The pages' commands, word for word: an installation, the first record, and what the alerts' pages
have their readers look at."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from releases.images import USUAL_TARGETS, image_name
from tests.e2e.support.cluster import Cluster, run_script
from tests.e2e.support.documented import REPOSITORY, blocks, run_line
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release

ALERTS = sorted(path.name for path in (REPOSITORY / "docs" / "alerts").glob("Barnabas*.md"))
NAMESPACE = "messaging"
NAME = "barnabas"
#: What needs a metrics server, which the lab has not.
NOT_IN_THE_LAB = " top "


def test_a_release_is_installed_and_used_by_the_page(lab: Cluster, by_the_page: Release) -> None:
    """`docs/kubernetes.md`, *Install*, but for building and loading images of that name."""
    _, use, *_ = blocks("kubernetes.md", "## Install")
    for line in use[:-1]:
        run_line(lab, line)
    assert run_line(lab, use[-1]) == "hello, world\n"


@pytest.mark.parametrize("page", ALERTS)
def test_what_a_page_of_an_alert_has_one_look_at_is_there(
    lab: Cluster, by_the_page: Release, ended_once: None, page: str
) -> None:
    """Each command by `kubectl` and `curl` of *What to look at* prints something."""
    (lines,) = blocks(f"alerts/{page}", "## What to look at")
    forwarded = Kubectl(lab.kubeconfig, lab.kubectl.program, NAMESPACE)
    for line in lines:
        if line.startswith("curl "):
            with forwarding(forwarded):
                assert run_line(lab, line)
        elif line.startswith("kubectl ") and NOT_IN_THE_LAB not in line:
            run_line(lab, line)


@pytest.fixture(scope="module")
def by_the_page(lab: Cluster, images: Images, release: Release) -> Iterator[Release]:
    """The release of the pages instead of the tests' own, with this tree's images by the names that
    the chart has; the tests' own is there again afterwards."""
    release.forget()
    for target, image in zip(USUAL_TARGETS, (images.broker, images.operator), strict=True):
        run_script("image.sh", "--tag", image, image_name(target), timeout_seconds=60)
    installed = Release(lab, images, namespace=NAMESPACE, name=NAME)
    install, *_ = blocks("kubernetes.md", "## Install")
    try:
        for line in install:
            if not line.startswith("make "):
                run_line(lab, line)
        yield installed
    except BaseException:
        print(installed.describe())
        raise
    finally:
        installed.forget()
        lab.kubectl.remove_namespace(NAMESPACE)
        release.provide()


@pytest.fixture(scope="module")
def ended_once(lab: Cluster, by_the_page: Release) -> None:
    """A broker whose container has ended once has logs of before."""
    brokers = by_the_page.brokers
    lab.kill_container(brokers.pod(0))
    brokers.kubectl.until(
        lambda: brokers.pod(0)["status"]["containerStatuses"][0]["restartCount"] == 1,
        60,
        brokers.kubectl.describe_pods,
    )
    brokers.until_ready()


@contextmanager
def forwarding(kubectl: Kubectl) -> Iterator[None]:
    """`kubectl port-forward barnabas-0 9644`, as the alerts' first page says."""
    command = kubectl.command("port-forward", f"{NAME}-0", "9644")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("Forwarding from 127.0.0.1:9644")
            yield
        finally:
            process.kill()
