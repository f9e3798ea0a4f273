"""Jobs on Spark in this cluster, as the chart starts them: in one pod, and with executors in pods
of their own. What they have read shows in a ConsumerGroup."""

import copy
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.client_pods import CLIENTS, ClientPod, Stopwatch, client_pod
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import pipelines_image
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release
from tests.e2e.support.topics import make_topic

RECORDS = 20_000
MORE = 500
ROLE = "barnabas.dev/role"


class SparkJobs:
    """The jobs of the release, in the namespace of the test."""

    def __init__(self, release: Release, kubectl: Kubectl, image: str) -> None:
        self.release = release
        self.kubectl = kubectl
        self.image = image
        #: The pods in which executors ran.
        self.executors: set[str] = set()

    def run(self, job: dict[str, Any], timeout_seconds: float = 300) -> None:
        """Have the chart make a job, and wait until it has succeeded."""
        values = copy.deepcopy(self.release.values)
        repository, tag = self.image.rsplit(":", 1)
        values["pipelines"] = {
            "namespace": self.kubectl.namespace,
            "image": {"repository": repository, "tag": tag},
            "jobs": [job],
        }
        self.release.helm.upgrade(self.release.name, values)
        self.kubectl.until(
            lambda: self._has_succeeded(job["name"]), timeout_seconds, self.kubectl.describe_pods
        )
        said = self.kubectl.run("logs", "--selector", f"{ROLE}=driver", "--tail=-1")
        assert "forbidden" not in said.lower(), said

    def _has_succeeded(self, name: str) -> bool:
        pods = self.kubectl.list("pods", f"{ROLE}=executor")
        self.executors |= {pod["metadata"]["name"] for pod in pods}
        (job,) = self.kubectl.list("jobs", f"barnabas.dev/job={name}")
        status = job.get("status", {})
        assert not status.get("failed"), self.kubectl.describe_pods()
        return bool(status.get("succeeded"))

    def read_archive(self, claim: str, folder: str) -> list[int]:
        """Rows, different records and the sum of values of an archive in a volume."""
        script = (CLIENTS / "sum_archive.py").read_text()
        pod = client_pod("reader", self.image, ["python3", "-c", script, folder])
        pod["spec"]["volumes"].append(
            {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        )
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        mounts.append({"name": "data", "mountPath": "/data"})
        self.kubectl.apply(pod)
        self.kubectl.wait_for_phase("reader", "Succeeded")
        found = [int(word) for word in self.kubectl.logs("reader").split()]
        self.kubectl.delete("pod", "reader")
        return found


@pytest.fixture
def jobs(
    cluster: Cluster, release: Release, namespace: Kubectl, demo: BrokerCluster
) -> Iterator[SparkJobs]:
    if not cluster.is_lab and "E2E_PIPELINES_IMAGE" not in os.environ:
        pytest.skip("E2E_PIPELINES_IMAGE has to name an image that the nodes have")
    yield SparkJobs(release, namespace, pipelines_image(cluster))
    # The release is without jobs again.
    release.provide()


@pytest.fixture
def numbers(namespace: Kubectl, demo: BrokerCluster, client: ClientPod) -> str:
    """A topic with numbers in it, and a resource for the group that shows how far the job is."""
    make_topic(namespace, "numbers", demo, partitions=6, deletionPolicy="Delete")
    client.barnabas("produce", "numbers", text="".join(f"{n}\n" for n in range(RECORDS)))
    namespace.apply(
        {
            "apiVersion": "barnabas.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "archivers"},
            "spec": {"brokerRef": {"name": demo.name, "namespace": demo.kubectl.namespace}},
        }
    )
    return "numbers"


def archive(name: str, topic: str, **more: Any) -> dict[str, Any]:
    """A job that puts a topic into a table in a volume of its own."""
    return {
        "name": name,
        "job": "archive",
        "options": {"topics": topic, "path": "/data/archive", "group": "archivers"},
        "volume": {"size": "1Gi"},
        **more,
    }


def lag(namespace: Kubectl) -> int | None:
    """What the LAG column says."""
    found = namespace.run("get", "consumergroup", "archivers", "--output", "jsonpath={.status.lag}")
    return int(found) if found else None


def test_a_spark_job_in_one_pod_reads_a_topic_and_shows_its_lag(
    jobs: SparkJobs,
    numbers: str,
    release: Release,
    namespace: Kubectl,
    client: ClientPod,
    figures: Figures,
) -> None:
    """Each record once in Parquet; the group has no lag, and gets one with records after that."""
    watch = Stopwatch()
    jobs.run(archive("alone", numbers))
    figures.note("Spark job in one pod, 20,000 records", f"{watch.seconds():.1f} s")
    claim = f"{release.name}-barnabas-alone-data"
    read = jobs.read_archive(claim, "/data/archive")
    assert read == [RECORDS, RECORDS, sum(range(RECORDS))]
    namespace.until(lambda: lag(namespace) == 0, 60, lambda: str(lag(namespace)))
    client.barnabas("produce", numbers, text="1\n" * MORE)
    # A group without members is looked at when the operator looks at everything.
    namespace.until(lambda: lag(namespace) == MORE, 120, lambda: str(lag(namespace)))
    table = namespace.run("get", "bg")
    print(table)
    assert str(MORE) in table


def test_a_spark_driver_has_kubernetes_start_its_executors(
    jobs: SparkJobs, numbers: str, release: Release, namespace: Kubectl, figures: Figures
) -> None:
    """The master is Kubernetes: executors are pods, and end with the job."""
    watch = Stopwatch()
    executors = {"min": 1, "max": 2, "cores": 1, "memory": "512m"}
    jobs.run(archive("spread", numbers, executors=executors))
    figures.note("Spark job with executors in pods, 20,000 records", f"{watch.seconds():.1f} s")
    assert jobs.executors, "no executor was seen"
    read = jobs.read_archive(f"{release.name}-barnabas-spread-data", "/data/archive")
    assert read == [RECORDS, RECORDS, sum(range(RECORDS))]

    def phases() -> set[str]:
        pods = namespace.list("pods", f"{ROLE}=executor")
        return {pod["status"]["phase"] for pod in pods}

    # The pods themselves belong to the driver's, and are deleted with the Job.
    namespace.until(lambda: phases() <= {"Succeeded", "Failed"}, 60, namespace.describe_pods)
