"""What Helm makes of the chart: the manifests with default values and with each switch."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from releases.images import image_name, repository
from tests.chart.rendered_chart import CHART, KUBE_VERSION, Render
from tests.support.cache import run

ROOT = Path(__file__).resolve().parents[2]
CRDS = (
    "brokers.barnabas.dev",
    "consumergroups.barnabas.dev",
    "topics.barnabas.dev",
    "users.barnabas.dev",
)
CLUSTER_WIDE = (
    "CustomResourceDefinition",
    "ClusterRole",
    "ValidatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
)
EVERYTHING = {
    "operator": {
        "replicas": 2,
        "watchNamespaces": ["shop", "bank"],
        "podLabels": {"team": "data"},
        "podAnnotations": {"a": "b"},
        "extraEnv": [{"name": "BARNABAS_WORKERS", "value": "8"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    },
    "imagePullSecrets": [{"name": "mine"}],
    "serviceAccount": {"annotations": {"a": "b"}},
    "broker": {"name": "main", "labels": {"l": "x"}, "annotations": {"n": "y"}},
    "networkPolicy": {"enabled": True, "clients": [{"podSelector": {}}]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True, "annotations": {"folder": "Barnabas"}},
}


def kinds(manifests: dict[tuple[str, str], dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [manifest for (found, _), manifest in manifests.items() if found == kind]


def pod_specs(manifests: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    made = [one["spec"]["template"]["spec"] for one in kinds(manifests, "Deployment")]
    made += [one["spec"]["template"]["spec"] for one in kinds(manifests, "Job")]
    return made + [one["spec"] for one in kinds(manifests, "Pod")]


def test_lint_finds_nothing(helm: Path) -> None:
    told = run([helm, "lint", "--strict", CHART])
    assert "1 chart(s) linted, 0 chart(s) failed" in told


def test_a_default_release_has_what_it_needs_and_no_more(render: Render) -> None:
    manifests = render()
    assert sorted(manifests) == sorted(
        [
            *(("CustomResourceDefinition", name) for name in CRDS),
            ("ServiceAccount", "demo-barnabas-operator"),
            ("ServiceAccount", "demo-barnabas-hooks"),
            ("ServiceAccount", "demo-barnabas-console"),
            ("ClusterRole", "demo-barnabas-operator-shop"),
            ("ClusterRole", "demo-barnabas-operator-shop-cluster"),
            ("ClusterRole", "demo-barnabas-hooks-shop"),
            ("ClusterRoleBinding", "demo-barnabas-operator-shop"),
            ("ClusterRoleBinding", "demo-barnabas-operator-shop-cluster"),
            ("ClusterRoleBinding", "demo-barnabas-hooks-shop"),
            ("Role", "demo-barnabas-operator"),
            ("Role", "demo-barnabas-hooks"),
            ("Role", "demo-barnabas-console"),
            ("RoleBinding", "demo-barnabas-console"),
            ("RoleBinding", "demo-barnabas-operator"),
            ("RoleBinding", "demo-barnabas-hooks"),
            ("ConfigMap", "demo-barnabas-hooks"),
            ("Service", "demo-barnabas-operator"),
            ("Secret", "demo-barnabas-operator-webhook"),
            ("ValidatingAdmissionPolicy", "demo-barnabas-operator-shop-arbiter"),
            ("ValidatingAdmissionPolicyBinding", "demo-barnabas-operator-shop-arbiter"),
            ("ValidatingWebhookConfiguration", "demo-barnabas-operator-shop"),
            ("Deployment", "demo-barnabas-operator"),
            ("Deployment", "demo-barnabas-console"),
            ("Job", "demo-barnabas-apply-broker"),
            ("Job", "demo-barnabas-clean-up"),
            ("Pod", "demo-barnabas-test"),
        ]
    )


def test_names_are_short_where_the_release_is_called_barnabas(render: Render) -> None:
    manifests = render(release="barnabas")
    assert ("Deployment", "barnabas-operator") in manifests
    hooks = manifests["ConfigMap", "barnabas-hooks"]["data"]
    broker = yaml.safe_load(hooks["broker.json"])
    assert broker["metadata"]["name"] == "barnabas"


def test_every_switch_gives_manifests_that_are_whole(render: Render) -> None:
    """Each document parses, is named, and has the namespace of the release or of its binding."""
    manifests = render(EVERYTHING)
    for (kind, name), manifest in manifests.items():
        assert manifest["apiVersion"] and kind and name
        if kind.startswith(CLUSTER_WIDE):
            assert "namespace" not in manifest["metadata"], name
        else:
            assert manifest["metadata"]["namespace"] in ("shop", "bank"), (kind, name)
    assert len(kinds(manifests, "ServiceMonitor")) == 2
    assert len(kinds(manifests, "PrometheusRule")) == 1
    assert len(kinds(manifests, "NetworkPolicy")) == 2
    assert ("PodDisruptionBudget", "demo-barnabas-operator") in manifests
    hooks = manifests["ConfigMap", "demo-barnabas-hooks"]["data"]
    broker = yaml.safe_load(hooks["broker.json"])
    assert broker["metadata"]["name"] == "main"
    assert broker["metadata"]["labels"]["l"] == "x"


def test_everything_can_be_left_out(render: Render) -> None:
    manifests = render(
        {
            "crds": {"install": False},
            "rbac": {"create": False},
            "serviceAccount": {"create": False, "name": "theirs"},
            "broker": {"create": False},
            "uninstall": {"cleanUp": False},
            "operator": {"evictionWebhook": {"enabled": False}, "protectArbiterLease": False},
        }
    )
    assert sorted(manifests) == [
        ("Deployment", "demo-barnabas-operator"),
        ("Service", "demo-barnabas-operator"),
    ]
    (pod,) = pod_specs(manifests)
    assert pod["serviceAccountName"] == "theirs"


def test_resource_definitions_are_ours_and_outlive_the_release(render: Render) -> None:
    """operator.md 3, pain 18: templates, so that upgrades reach them; kept, so that data stays."""
    manifests = render()
    for path in (ROOT / "crds").glob("*.yaml"):
        expected = yaml.safe_load(path.read_text())
        rendered = manifests["CustomResourceDefinition", expected["metadata"]["name"]]
        annotations = rendered["metadata"].pop("annotations")
        assert annotations == {"helm.sh/resource-policy": "keep"}
        assert rendered == expected


def test_pods_run_with_nothing_that_they_do_not_need(render: Render) -> None:
    """The restricted pod security standard, and nothing writable but /tmp."""
    specs = pod_specs(render(EVERYTHING))
    assert len(specs) == 5
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["requests"]


def test_rights_end_at_the_watched_namespaces(render: Render) -> None:
    """Least rights: a list of namespaces leaves only reading of what has no namespace."""
    manifests = render({"operator": {"watchNamespaces": ["shop", "bank"]}})
    bound = [one["roleRef"]["name"] for one in kinds(manifests, "ClusterRoleBinding")]
    assert bound == ["demo-barnabas-operator-shop-cluster"]
    role = manifests["ClusterRole", "demo-barnabas-operator-shop-cluster"]
    for rule in role["rules"]:
        assert set(rule["verbs"]) <= {"get", "list", "watch"}


def test_no_role_holds_everything(render: Render) -> None:
    for kind in ("Role", "ClusterRole"):
        for role in kinds(render(EVERYTHING), kind):
            for rule in role["rules"]:
                assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]


def test_an_upgrade_keeps_what_cannot_be_changed(render: Render) -> None:
    """Selectors are immutable: neither values nor versions may reach them."""
    before = render()["Deployment", "demo-barnabas-operator"]["spec"]["selector"]
    after = render(EVERYTHING)["Deployment", "demo-barnabas-operator"]["spec"]
    assert before == after["selector"]
    assert before == {
        "matchLabels": {
            "app.kubernetes.io/name": "barnabas-operator",
            "app.kubernetes.io/instance": "demo",
        }
    }
    assert set(before["matchLabels"].items()) <= set(
        after["template"]["metadata"]["labels"].items()
    )


def test_dashboards_and_rules_arrive_as_they_are(render: Render) -> None:
    """Their braces are not Helm's."""
    manifests = render(EVERYTHING)
    for path in (ROOT / "dashboards").glob("*.json"):
        manifest = manifests["ConfigMap", f"demo-barnabas-dashboard-{path.stem}"]
        assert manifest["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert manifest["data"][f"barnabas-{path.name}"].strip() == path.read_text().strip()
    rules = manifests["PrometheusRule", "demo-barnabas"]["spec"]
    assert rules == yaml.safe_load((ROOT / "dashboards" / "alerts.yaml").read_text())


def test_network_policies_let_in_whom_they_name(render: Render) -> None:
    """The admin port answers /drain to anybody who reaches it."""
    manifests = render({"networkPolicy": {"enabled": True}})
    brokers = manifests["NetworkPolicy", "demo-barnabas-brokers"]["spec"]
    assert brokers["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "broker"
    open_ports = [
        port["port"] for rule in brokers["ingress"] if "from" not in rule for port in rule["ports"]
    ]
    assert open_ports == [9092]
    operator = manifests["NetworkPolicy", "demo-barnabas-operator"]["spec"]
    # Where the API server comes from no policy can tell.
    (everybody,) = [rule for rule in operator["ingress"] if "from" not in rule]
    assert [port["port"] for port in everybody["ports"]] == [8443]
    closed = {"operator": {"evictionWebhook": {"enabled": False}}}
    manifests = render({"networkPolicy": {"enabled": True, "prometheus": []}, **closed})
    assert manifests["NetworkPolicy", "demo-barnabas-operator"]["spec"]["ingress"] == []


def test_a_network_policy_lets_clients_from_outside_in(render: Render) -> None:
    """They come through another listener, which would be closed to everybody."""
    external = {"type": "NodePort", "advertisedHost": "b{id}.example.org", "port": 9095}
    manifests = render(
        {
            "networkPolicy": {"enabled": True},
            "broker": {"spec": {"listeners": {"external": external}}},
        }
    )
    (clients,) = [
        rule
        for rule in manifests["NetworkPolicy", "demo-barnabas-brokers"]["spec"]["ingress"]
        if "from" not in rule
    ]
    assert [port["port"] for port in clients["ports"]] == [9092, 9095]


def test_the_broker_is_applied_with_every_change_of_the_release(render: Render) -> None:
    """A rollback brings the former Broker back, too; only a test and an uninstall do not."""
    job = render()["Job", "demo-barnabas-apply-broker"]
    hooks = job["metadata"]["annotations"]["helm.sh/hook"].split(",")
    assert sorted(hooks) == ["post-install", "post-rollback", "post-upgrade"]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("operator.replica=2", "replica"),
        ("broker.spec.replica=5", "replica"),
        ("tls.enabled=yes", "got string"),
    ],
)
def test_a_mistake_in_the_values_is_refused_with_its_name(
    helm: Path, setting: str, told: str
) -> None:
    result = subprocess.run(
        [helm, "template", "demo", CHART, *KUBE_VERSION, "--set", setting],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert told in result.stderr


def test_the_notes_name_the_bootstrap_address(helm: Path, tmp_path: Path) -> None:
    """Helm shows them only where there is a cluster; here they are made a manifest."""
    chart = tmp_path / "barnabas"
    shutil.copytree(CHART, chart)
    lines = (chart / "templates" / "NOTES.txt").read_text().splitlines()
    text = "kind: Notes\nmetadata:\n  name: notes\ntext: |\n  notes:\n  " + "\n  ".join(lines)
    (chart / "templates" / "notes.yaml").write_text(text)
    shown = ("--show-only", "templates/notes.yaml", *KUBE_VERSION)
    told = run([helm, "template", "demo", chart, "--namespace", "shop", *shown])
    notes = yaml.safe_load(told)["text"]
    assert "demo-bootstrap.shop.svc:9092" in notes
    assert not re.search(r"[{}]{2}|<no value>|%!", notes)


def test_an_image_is_named_by_its_digest_before_its_tag(render: Render) -> None:
    """What a registry holds under a tag may change; a digest is what was looked at."""
    digest = f"sha256:{'0' * 64}"
    values = {
        "operator": {"image": {"repository": "registry.example/operator", "digest": digest}},
        "brokerImage": {"repository": "registry.example/broker", "tag": "1", "digest": digest},
    }
    deployment = render(values)["Deployment", "demo-barnabas-operator"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example/operator@{digest}"
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["BARNABAS_BROKER_IMAGE"] == f"registry.example/broker@{digest}"


def test_images_have_the_names_that_make_images_gives_them(render: Render) -> None:
    """A chart that is installed as it is finds the images that were made of the same tree."""
    deployment = render()["Deployment", "demo-barnabas-operator"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image_name("operator")
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["BARNABAS_BROKER_IMAGE"] == image_name("broker")
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["pipelines"]["image"]["repository"] == repository("pipelines")


def test_alerts_lead_to_the_pages_that_the_values_name(render: Render) -> None:
    """Each to its own."""
    url = "https://docs.example.org/alerts/{alert}/"
    manifests = render({"prometheusRule": {"enabled": True, "runbookUrl": url}})
    groups = manifests["PrometheusRule", "demo-barnabas"]["spec"]["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        assert rule["annotations"]["runbook_url"] == url.replace("{alert}", rule["alert"])
