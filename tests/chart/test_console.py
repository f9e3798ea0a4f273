"""The console of a release: who reaches it, and what it may (CON-132)."""

from typing import Any

import pytest

from barnabas_operator.user_spec import DEFAULT_MOUNT_PATH
from tests.chart.rendered_chart import Render

NAME = "demo-barnabas-console"


def arguments(manifests: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    pod = manifests["Deployment", NAME]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    return list(container["args"])


def test_only_a_forwarded_port_reaches_it(render: Render) -> None:
    """It listens on its pod's loopback, there is no Service, and it changes nothing."""
    manifests = render()
    found = arguments(manifests)
    assert not [word for word in found if word.startswith("--host")]
    assert "--read-only" in found
    assert ("Service", NAME) not in manifests
    ports = manifests["Deployment", NAME]["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert [port["name"] for port in ports] == ["probes"]


def test_it_reads_and_no_more(render: Render) -> None:
    rules = render()["Role", NAME]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
    resources = {name for rule in rules for name in rule["resources"]}
    assert resources == {"brokers", "topics", "consumergroups", "users", "pods", "events"}


def test_others_reach_it_only_by_a_login(render: Render) -> None:
    exposed = {"console": {"expose": True}}
    with pytest.raises(RuntimeError, match=r"console\.login=sasl"):
        render(exposed)
    values = {"expose": True, "login": "sasl", "allowedHosts": ["k.shop"]}
    with pytest.raises(RuntimeError, match=r"console\.clientSecret"):
        render({"console": values})  # it would end at its start
    manifests = render({"console": {**values, "clientSecret": "console"}})
    found = arguments(manifests)
    assert {"--host=0.0.0.0", "--login=sasl", "--allowed-host=k.shop"} <= set(found)
    assert ("Service", NAME) in manifests


def test_a_provider_lets_people_in(render: Render) -> None:
    """CON-140: its secret comes as a file, and what would let nobody in is not installed."""
    oidc = {"issuer": "https://login.example", "clientId": "console"}
    with pytest.raises(RuntimeError, match=r"console\.oidc\.issuer"):
        render({"console": {"login": "oidc"}})
    with pytest.raises(RuntimeError, match=r"console\.oidc\.address"):
        render({"console": {"login": "oidc", "oidc": oidc, "expose": True}})
    oidc |= {"address": "https://k.shop", "clientSecret": "of-console", "caConfigMap": "ca"}
    values = {"login": "oidc", "expose": True, "oidc": {**oidc, "scopes": ["offline_access"]}}
    manifests = render({"console": {**values, "clientSecret": "console"}})
    assert {
        "--login=oidc",
        "--oidc-issuer=https://login.example",
        "--oidc-client-id=console",
        "--oidc-address=https://k.shop",
        "--oidc-scope=offline_access",
        "--oidc-token=access",
        "--oidc-client-secret-file=/etc/barnabas/oidc/client-secret",
        "--oidc-ca-file=/etc/barnabas/oidc-ca/ca.crt",
    } <= set(arguments(manifests))
    volumes = manifests["Deployment", NAME]["spec"]["template"]["spec"]["volumes"]
    assert {volume["name"] for volume in volumes} == {"tmp", "client", "oidc", "oidc-ca"}


def test_a_secure_cluster_wants_a_user_for_it(render: Render) -> None:
    """Without one there is no console, for it could not connect."""
    secure = {"security": {"enabled": True}}
    assert ("Deployment", NAME) not in render(secure)
    manifests = render({**secure, "console": {"clientSecret": "console"}})
    found = arguments(manifests)
    # Where the files of a User say that they are.
    assert f"--command-config={DEFAULT_MOUNT_PATH}/client.properties" in found
    [container] = manifests["Deployment", NAME]["spec"]["template"]["spec"]["containers"]
    assert DEFAULT_MOUNT_PATH in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert not [word for word in found if word.startswith("--bootstrap-server")]


@pytest.mark.parametrize("values", [{"console": {"enabled": False}}, {"broker": {"create": False}}])
def test_there_is_none_where_there_is_nothing_to_show(render: Render, values: Any) -> None:
    assert ("Deployment", NAME) not in render(values)
