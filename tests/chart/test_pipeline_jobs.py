"""The jobs of `pipelines.jobs`: what Helm makes of each kind, and what it refuses."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from barnabas_pipelines.jobs import JOB_NAMES
from charts.job_schema import JOBS
from tests.chart.rendered_chart import CHART, KUBE_VERSION, Render

ARCHIVE = {
    "name": "orders",
    "job": "archive",
    "schedule": "0 * * * *",
    "options": {"topic": "orders", "checkpoint": "/data/checkpoint", "max-offsets-per-trigger": 5},
    "volume": {"size": "20Gi"},
}
TOTALS = {
    "name": "totals",
    "job": "aggregate",
    "continuous": True,
    "options": {"conf": {"spark.executor.memory": "2g", "spark.sql.shuffle.partitions": 12}},
    "executors": {"max": 4, "cores": 2},
    "volume": {},
}
ONCE = {"name": "again", "job": "replay"}
Manifests = dict[tuple[str, str], dict[str, Any]]


def rendered(render: Render, *jobs: dict[str, Any], **more: Any) -> Manifests:
    """The manifests that jobs add to a release."""
    without = render()
    manifests = render({"pipelines": {"jobs": list(jobs), **more}})
    return {key: one for key, one in manifests.items() if key not in without}


def settings(manifests: Manifests, name: str) -> dict[str, Any]:
    text = manifests["ConfigMap", f"demo-barnabas-{name}"]["data"]["job.yaml"]
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"]
    template: dict[str, Any] = spec.get("jobTemplate", {}).get("spec", spec)["template"]
    return template


def test_a_job_with_a_schedule_is_a_cron_job_that_never_runs_twice_at_a_time(
    render: Render,
) -> None:
    """Two queries on one checkpoint fail both."""
    manifests = rendered(render, ARCHIVE)
    assert sorted(manifests) == [
        ("ConfigMap", "demo-barnabas-orders"),
        ("CronJob", "demo-barnabas-orders"),
        ("PersistentVolumeClaim", "demo-barnabas-orders-data"),
    ]
    spec = manifests["CronJob", "demo-barnabas-orders"]["spec"]
    assert spec["schedule"] == "0 * * * *"
    assert spec["concurrencyPolicy"] == "Forbid"


def test_a_continuous_job_is_a_deployment_whose_pods_never_overlap(render: Render) -> None:
    """The checkpoint again: a rolling update would run the old query beside the new one."""
    spec = rendered(render, TOTALS)["Deployment", "demo-barnabas-totals"]["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    # Executors have the driver's labels but for the role, and must not be taken for it.
    assert spec["selector"]["matchLabels"]["barnabas.dev/role"] == "driver"


def test_a_job_that_runs_once_has_another_name_with_other_settings(render: Render) -> None:
    """A Job cannot be changed: Helm could not upgrade the release."""
    names = []
    for options in ({}, {}, {"rate": 5}):
        (name,) = (
            name for kind, name in rendered(render, {**ONCE, "options": options}) if kind == "Job"
        )
        assert name.startswith("demo-barnabas-again-")
        names.append(name)
    assert names[0] == names[1] != names[2]


def test_a_job_asks_the_brokers_of_its_release_unless_told_otherwise(render: Render) -> None:
    manifests = rendered(render, ARCHIVE)
    assert settings(manifests, "orders") == {
        "bootstrap-servers": "demo-bootstrap.shop.svc:9092",
        "checkpoint": "/data/checkpoint",
        "conf": {"spark.driver.memory": "1g"},
        "master": "local[2]",
        "max-offsets-per-trigger": 5,
        "topic": "orders",
    }
    other = {**ONCE, "cores": 3, "options": {"bootstrap-servers": "kafka:9092"}}
    manifests = rendered(render, other)
    assert settings(manifests, "again")["bootstrap-servers"] == "kafka:9092"
    assert settings(manifests, "again")["master"] == "local[3]"


def test_other_settings_are_another_pod(render: Render) -> None:
    """Kubernetes does not restart a pod because its ConfigMap has changed."""
    before = pod_of(rendered(render, TOTALS)["Deployment", "demo-barnabas-totals"])
    changed = {**TOTALS, "options": {"window": "5m"}}
    after = pod_of(rendered(render, changed)["Deployment", "demo-barnabas-totals"])
    assert before["metadata"]["annotations"] != after["metadata"]["annotations"]


@pytest.mark.parametrize("job", [ARCHIVE, ONCE], ids=lambda job: str(job["name"]))
def test_a_job_in_one_pod_needs_no_rights(render: Render, job: dict[str, Any]) -> None:
    manifests = rendered(render, job)
    assert not {kind for kind, _ in manifests} & {"Role", "RoleBinding", "ServiceAccount"}
    (pod,) = (pod_of(one) for (kind, _), one in manifests.items() if kind in ("CronJob", "Job"))
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_executors_find_their_driver_by_a_name_and_fixed_ports(render: Render) -> None:
    """A pod's own name does not resolve, and a Service names ports that are known."""
    manifests = rendered(render, TOTALS)
    conf = settings(manifests, "totals")["conf"]
    service = manifests["Service", "demo-barnabas-totals"]
    assert conf["spark.driver.host"] == "demo-barnabas-totals.shop.svc"
    assert service["spec"]["clusterIP"] == "None"
    ports = {port["name"]: str(port["port"]) for port in service["spec"]["ports"]}
    assert ports == {
        "driver": conf["spark.driver.port"],
        "blocks": conf["spark.driver.blockManager.port"],
    }
    driver = pod_of(manifests["Deployment", "demo-barnabas-totals"])
    selector = service["spec"]["selector"].items()
    assert selector <= driver["metadata"]["labels"].items()
    executor = yaml.safe_load(
        manifests["ConfigMap", "demo-barnabas-totals"]["data"]["executor.yaml"]
    )
    assert not selector <= executor["metadata"]["labels"].items()


def test_the_number_of_executors_is_bounded(render: Render) -> None:
    """Spark asks for no more than there are tasks, of which a partition is one; and for `max`."""
    conf = settings(rendered(render, TOTALS), "totals")["conf"]
    assert conf["spark.dynamicAllocation.enabled"] == "true"
    assert conf["spark.dynamicAllocation.maxExecutors"] == "4"
    assert conf["spark.dynamicAllocation.minExecutors"] == "1"
    # Spark warns where this one is left at its own default.
    assert conf["spark.executor.instances"] == "1"
    assert conf["spark.executor.cores"] == "2"
    assert settings(rendered(render, TOTALS), "totals")["master"].startswith("k8s://")


def test_the_job_s_own_settings_of_spark_win(render: Render) -> None:
    """As texts: Spark knows no numbers."""
    conf = settings(rendered(render, TOTALS), "totals")["conf"]
    assert conf["spark.executor.memory"] == "2g"
    assert conf["spark.sql.shuffle.partitions"] == "12"
    assert all(isinstance(value, str) for value in conf.values())


def test_executors_belong_to_their_driver(render: Render) -> None:
    """Without its name they would be left behind when it is killed."""
    driver = pod_of(rendered(render, TOTALS)["Deployment", "demo-barnabas-totals"])["spec"]
    (container,) = driver["containers"]
    assert container["args"][-2:] == ["--conf", "spark.kubernetes.driver.pod.name=$(POD_NAME)"]
    assert "POD_NAME" in {one["name"] for one in container["env"]}


def test_a_driver_may_do_what_spark_does_and_no_more(render: Render) -> None:
    """It may not delete claims: the brokers' volumes can be in the same namespace."""
    manifests = rendered(render, TOTALS)
    rights = {
        (resource, verb)
        for rule in manifests["Role", "demo-barnabas-pipelines"]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    pods = ("get", "list", "watch", "create", "patch", "delete", "deletecollection")
    assert {("pods", verb) for verb in pods} <= rights
    assert {right for right in rights if right[0] == "persistentvolumeclaims"} == {
        ("persistentvolumeclaims", "list")
    }
    assert not {right for right in rights if right[0] in ("secrets", "services")}
    bound = manifests["RoleBinding", "demo-barnabas-pipelines"]
    account = pod_of(manifests["Deployment", "demo-barnabas-totals"])["spec"]["serviceAccountName"]
    assert [one["name"] for one in bound["subjects"]] == [account]


def test_executors_have_the_driver_s_volume_and_no_rights(render: Render) -> None:
    """A state store is written by executors into the checkpoint that the driver writes, too."""
    manifests = rendered(render, TOTALS)
    data = manifests["ConfigMap", "demo-barnabas-totals"]["data"]["executor.yaml"]
    executor = yaml.safe_load(data)["spec"]
    driver = pod_of(manifests["Deployment", "demo-barnabas-totals"])["spec"]
    claims = [
        [one for one in pod["volumes"] if "persistentVolumeClaim" in one]
        for pod in (executor, driver)
    ]
    assert claims[0] == claims[1] != []
    assert executor["automountServiceAccountToken"] is False
    assert executor["securityContext"] == driver["securityContext"]


def test_driver_and_executors_mount_the_secret_of_a_user(render: Render) -> None:
    """SEC-103: the file says where the brokers are, too; nothing of it is in the ConfigMap."""
    manifests = rendered(render, {**TOTALS, "clientSecret": {"name": "totals-kafka"}})
    given = settings(manifests, "totals")
    assert given["client-properties"] == "/etc/barnabas/user/client.properties"
    assert "bootstrap-servers" not in given
    data = manifests["ConfigMap", "demo-barnabas-totals"]["data"]["executor.yaml"]
    driver = pod_of(manifests["Deployment", "demo-barnabas-totals"])["spec"]
    for pod in (yaml.safe_load(data)["spec"], driver):
        (volume,) = [one for one in pod["volumes"] if one["name"] == "client"]
        assert volume["secret"]["secretName"] == "totals-kafka"
        (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "client"]
        assert mount == {"name": "client", "mountPath": "/etc/barnabas/user", "readOnly": True}


def test_executors_share_the_driver_s_node_where_only_that_has_the_volume(
    render: Render,
) -> None:
    many = {**TOTALS, "volume": {"accessModes": ["ReadWriteMany"]}}
    for job, is_bound in ((TOTALS, True), (many, False)):
        manifests = rendered(render, job)
        data = manifests["ConfigMap", "demo-barnabas-totals"]["data"]["executor.yaml"]
        assert ("podAffinity" in yaml.safe_load(data)["spec"].get("affinity", {})) is is_bound


def test_pods_of_jobs_run_with_nothing_that_they_do_not_need(render: Render) -> None:
    """The restricted pod security standard, and nothing writable but /tmp and the volume.

    Executors write what their driver sends them into the folder where they are started.
    """
    manifests = rendered(render, ARCHIVE, TOTALS, ONCE)
    templates = [
        pod_of(one)["spec"]
        for (kind, _), one in manifests.items()
        if kind in ("CronJob", "Deployment", "Job")
    ]
    data = manifests["ConfigMap", "demo-barnabas-totals"]["data"]["executor.yaml"]
    for spec in [*templates, yaml.safe_load(data)["spec"]]:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert container["workingDir"] == "/tmp"
        writable = {
            mount["mountPath"]
            for mount in container["volumeMounts"]
            if not mount.get("readOnly", False)
        }
        assert writable <= {"/tmp", "/data"}
    for spec in templates:
        assert spec["containers"][0]["resources"]["requests"]


def test_a_volume_outlives_the_release_or_is_somebody_else_s(render: Render) -> None:
    """Where a job goes on is not to be lost by a helm uninstall."""
    claim = rendered(render, ARCHIVE)["PersistentVolumeClaim", "demo-barnabas-orders-data"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    theirs = rendered(render, {**ARCHIVE, "volume": {"claim": "lake", "mountPath": "/lake"}})
    assert not [kind for kind, _ in theirs if kind == "PersistentVolumeClaim"]
    pod = pod_of(theirs["CronJob", "demo-barnabas-orders"])["spec"]
    assert {"name": "data", "mountPath": "/lake"} in pod["containers"][0]["volumeMounts"]


def test_jobs_can_live_in_a_namespace_of_their_own(render: Render) -> None:
    """A driver may delete pods: better not beside brokers."""
    manifests = rendered(render, TOTALS, ARCHIVE, namespace="jobs")
    assert {one["metadata"]["namespace"] for one in manifests.values()} == {"jobs"}
    conf = settings(manifests, "totals")["conf"]
    assert conf["spark.kubernetes.namespace"] == "jobs"
    assert conf["spark.driver.host"] == "demo-barnabas-totals.jobs.svc"
    # The brokers stay where the release is.
    assert settings(manifests, "orders")["bootstrap-servers"] == "demo-bootstrap.shop.svc:9092"


def test_a_network_policy_lets_the_jobs_of_its_release_in(render: Render) -> None:
    policy = {"enabled": True, "clients": [{"podSelector": {"matchLabels": {"a": "b"}}}]}
    manifests = render({"networkPolicy": policy, "pipelines": {"jobs": [ONCE]}})
    text = json.dumps(manifests["NetworkPolicy", "demo-barnabas-brokers"])
    assert '"app.kubernetes.io/name": "barnabas-pipelines"' in text


def test_the_jobs_of_the_chart_are_those_of_the_package() -> None:
    assert {name.replace("-", "_") for name in JOBS} == set(JOB_NAMES)


@pytest.mark.parametrize(
    "change",
    [
        {"job": "archives"},
        {"name": "Orders"},
        {"name": "a-name-that-is-too-long-for-pods"},
        {"option": {}},
        {"volume": {"sise": "1Gi"}},
        {"volume": {"size": "lots"}},
        {"clientSecret": {"mountPath": "/kafka"}},
        {"executors": {"min": 1}},
        {"executors": {"max": 2, "memory": "1Gi"}},
        {"cores": 0},
        {"schedule": ""},
    ],
    ids=str,
)
def test_a_mistake_in_a_job_is_refused(change: dict[str, Any]) -> None:
    validator = Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))
    good = yaml.safe_load((CHART / "values.yaml").read_text())
    good["pipelines"]["jobs"] = [ARCHIVE, TOTALS, ONCE]
    assert not list(validator.iter_errors(good))
    good["pipelines"]["jobs"] = [{**ARCHIVE, **change}]
    assert list(validator.iter_errors(good))


def test_a_job_cannot_be_both_continuous_and_scheduled(helm: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.json"
    values.write_text(json.dumps({"pipelines": {"jobs": [{**ARCHIVE, "continuous": True}]}}))
    line = [helm, "template", "demo", CHART, *KUBE_VERSION, "--values", values]
    result = subprocess.run(line, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "orders is continuous and has a schedule" in result.stderr
