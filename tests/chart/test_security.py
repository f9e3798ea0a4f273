"""`security.enabled`: what one value turns on, and what rights the operator gets for it."""

import json
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendered_chart import CHART, KUBE_VERSION, Render

ON = {"security": {"enabled": True}}


def broker_of(manifests: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The Broker that the hook applies."""
    data = manifests["ConfigMap", "demo-barnabas-hooks"]["data"]
    (text,) = [one for name, one in data.items() if name.startswith("broker.")]
    loaded: dict[str, Any] = json.loads(text) if text.startswith("{") else yaml.safe_load(text)
    return loaded


def secret_rights(manifests: dict[tuple[str, str], dict[str, Any]]) -> dict[str, set[str]]:
    """The verbs on Secrets by the role that has them."""
    found: dict[str, set[str]] = {}
    for (kind, name), manifest in manifests.items():
        if kind not in ("Role", "ClusterRole") or "hooks" in name:
            continue
        for rule in manifest["rules"]:
            if "secrets" in rule["resources"]:
                found.setdefault(name, set()).update(rule["verbs"])
    return found


def test_one_value_is_enough(render: Render) -> None:
    """SEC-80: security.enabled=true alone."""
    assert "security" not in broker_of(render())["spec"]
    assert broker_of(render(ON))["spec"]["security"] == {"enabled": True}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"tls": {"enabled": True}}, {"tls": {"enabled": True}}),
        (
            {**ON, "authentication": {"enabled": False}},
            {"enabled": True, "authentication": {"enabled": False}},
        ),
        (
            {**ON, "broker": {"spec": {"security": {"plainListener": "Open"}}}},
            {"enabled": True, "plainListener": "Open"},
        ),
        ({**ON, "broker": {"spec": {"security": {"enabled": False}}}}, {"enabled": False}),
    ],
)
def test_each_part_can_be_overridden(
    render: Render, values: dict[str, Any], expected: dict[str, Any]
) -> None:
    """SEC-80: tls, authentication, and all that the Broker itself may say, which goes before."""
    assert broker_of(render(values))["spec"]["security"] == expected


def test_who_scrapes_gets_through_the_policy_of_a_secure_broker(render: Render) -> None:
    """SEC-80, SEC-63: with the monitor its Prometheus may reach the admin port."""
    values = {**ON, "serviceMonitor": {"enabled": True}}
    security = broker_of(render(values))["spec"]["security"]
    (peer,) = security["networkPolicy"]["monitoring"]
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}
    own = {"monitoring": [{"ipBlock": {"cidr": "192.0.2.1/32"}}]}
    broker = {"spec": {"security": {"networkPolicy": own}}}
    assert (
        broker_of(render({**values, "broker": broker}))["spec"]["security"]["networkPolicy"] == own
    )
    assert "security" not in broker_of(render({"serviceMonitor": {"enabled": True}}))["spec"]


def test_the_release_s_own_test_gets_through_the_policies(render: Render) -> None:
    """SEC-87: it goes to the brokers' own listener, by the operator's certificate."""
    manifests = render({**ON, "networkPolicy": {"enabled": True}})
    pod = manifests["Pod", "demo-barnabas-test"]
    # Its Secret is for one group; without it nobody in the pod could read it.
    assert pod["spec"]["securityContext"]["fsGroup"] == 10001
    rules = manifests["NetworkPolicy", "demo-barnabas-brokers"]["spec"]["ingress"]
    (rule,) = [one for one in rules if {"port": 9090} in one.get("ports", ())]
    wanted = rule["from"][0]["podSelector"]["matchLabels"]
    assert wanted.items() <= pod["metadata"]["labels"].items()


def test_secrets_are_the_operators_where_users_are_and_nowhere_else(render: Render) -> None:
    """SEC-88: no cluster-wide right on Secrets, and no list of them anywhere."""
    assert secret_rights(render()) == {}
    manifests = render({**ON, "rbac": {"userNamespaces": ["team-a", "shop"]}})
    name = "demo-barnabas-operator-shop-users"
    assert secret_rights(manifests) == {name: {"get", "create", "patch", "delete"}}
    assert ("ClusterRoleBinding", name) not in manifests
    # The release's own namespace, named again or not, once.
    text = yaml.safe_dump_all(manifests.values())
    assert text.count("kind: RoleBinding\nmetadata:\n  labels") >= 2
    assert ("RoleBinding", name) in manifests


def test_rights_can_be_there_for_secure_brokers_of_ones_own(render: Render) -> None:
    """SEC-88: the release's own Broker may be plain, or there may be none."""
    manifests = render({"rbac": {"security": True}})
    assert "security" not in broker_of(manifests)["spec"]
    assert secret_rights(manifests)


def test_only_a_broker_that_reviews_tokens_may(render: Render) -> None:
    """SEC-88, SEC-29: a right of the whole cluster, given to nobody without need."""
    name = "ClusterRoleBinding", "demo-barnabas-shop-token-review"
    assert name not in render(ON)
    security = {"authentication": {"tokenReview": True}}
    (subject,) = render({**ON, "broker": {"spec": {"security": security}}})[name]["subjects"]
    assert (subject["name"], subject["namespace"]) == ("demo-broker", "shop")


def test_prometheus_asks_a_secure_broker_by_tls_and_token(render: Render) -> None:
    """SEC-63: whom to trust and what to show are in a Secret that the operator writes."""
    values = {**ON, "serviceMonitor": {"enabled": True}}
    monitor = render(values)["ServiceMonitor", "demo-barnabas-brokers"]["spec"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "demo-metrics", "key": "ca.crt"}
    assert endpoint["tlsConfig"]["serverName"] == "demo-brokers.shop.svc"
    assert endpoint["authorization"]["credentials"] == {"name": "demo-metrics", "key": "token"}
    assert monitor["selector"]["matchLabels"]["barnabas.dev/broker"] == "demo"


def test_the_test_is_known_to_the_brokers(render: Render) -> None:
    """SEC-80: `helm test` works where only Users may do anything."""
    pod = render(ON)["Pod", "demo-barnabas-test"]["spec"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "certificates"]
    assert volume["secret"]["secretName"] == "demo-operator-certificate"
    (variable,) = pod["containers"][0]["env"]
    assert variable["value"] == "demo-brokers.shop.svc:9090"
    plain = render()["Pod", "demo-barnabas-test"]["spec"]
    assert [one["name"] for one in plain["volumes"]] == ["tmp"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("false", "WARNING: security is off."),
        ("true", "Security is on: clients need a User."),
    ],
)
def test_notes_say_whether_anybody_may_do_everything(
    helm: Path, tmp_path: Path, value: str, expected: str
) -> None:
    """SEC-80: off is said where it is seen."""
    chart = tmp_path / "barnabas"
    shutil.copytree(CHART, chart)
    shown = """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: notes}
    data:
      notes: {{ include (print $.Template.BasePath "/NOTES.txt") . | quote }}
    """
    (chart / "templates" / "notes.yaml").write_text(textwrap.dedent(shown))
    command = [str(helm), "template", "demo", str(chart), *KUBE_VERSION]
    command += ["--set", f"security.enabled={value}", "--show-only", "templates/notes.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert expected in yaml.safe_load(done.stdout)["data"]["notes"]
