"""What pods and accounts around secure brokers may do, and what of their secrets is seen."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.client_pods import CLIENTS
from tests.e2e.support.helm import CHART
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release
from tests.e2e.support.secure_brokers import SecureBrokers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security-operations.md"
VIEWER = "e2e-viewer"
_ROW = re.compile(r"^\| `(?P<who>operator|broker)` \| (?P<what>[^|]+) \| (?P<verbs>[^|]+) \|", re.M)
# What every account of every cluster may do.
_EVERYBODY = re.compile(r"^selfsubject\w+\.\w+\.k8s\.io$")


def told_rights(who: str, names: dict[str, str]) -> set[tuple[str, frozenset[str]]]:
    """What the page says that an account may do: resources and verbs."""
    found = set()
    for row in _ROW.finditer(PAGE.read_text()):
        if row["who"] != who:
            continue
        for what in re.findall(r"`([^`]+)`", row["what"]):
            for name, real in names.items():
                what = what.replace(name, real)
            found.add((what, frozenset(row["verbs"].replace(",", " ").split())))
    return found


def real_rights(kubectl: Kubectl, account: str) -> set[tuple[str, frozenset[str]]]:
    """What the API server says, with the name of the object where a right is on one alone."""
    user = f"system:serviceaccount:{kubectl.namespace}:{account}"
    listed = kubectl.run("auth", "can-i", "--list", "--as", user)
    found = set()
    for line in listed.splitlines()[1:]:
        resource = line.split()[0]
        lists = [part.split() for part in re.findall(r"\[([^\]]*)\]", line)]
        if resource.startswith("[") or _EVERYBODY.match(resource):
            continue
        _, names, verbs = lists
        what = f"{resource}/{names[0]}" if names else resource
        found.add((what, frozenset(verbs)))
    return found


@pytest.mark.quick
@pytest.mark.parametrize("who", ["operator", "broker"])
def test_accounts_may_do_what_the_page_says_and_nothing_else(
    release: Release, secure: SecureBrokers, who: str
) -> None:
    """SEC-88: the table of `docs/security-operations.md` is what the API server lists."""
    account = release.operator if who == "operator" else f"{secure.name}-broker"
    told = told_rights(who, {"<broker>": secure.name})
    assert real_rights(secure.kubectl, account) == told


def test_pods_keep_to_the_restricted_profile_and_a_secure_release_tests_itself(
    release: Release, secure: SecureBrokers
) -> None:
    """SEC-88, SEC-80: the namespace refuses any other pod. The pod of `helm test` gets through the
    NetworkPolicy and logs in; it is the one of a release whose Broker has this name."""
    kubectl = release.kubectl
    labels = kubectl.get("namespace", kubectl.namespace)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    image = release.values["brokerImage"]
    settings = {
        "broker.name": secure.name,
        "security.enabled": "true",
        "brokerImage.repository": image["repository"],
        "brokerImage.tag": image["tag"],
    }
    chosen = [f"--set={key}={value}" for key, value in settings.items()]
    template = ["--show-only", "templates/tests/produce-and-consume.yaml"]
    text = release.helm.run(
        "template", "self", str(CHART), "--kube-version=1.33.0", *template, *chosen
    )
    kubectl.run("apply", "-f", "-", text=text)
    try:
        kubectl.wait_for_phase("self-barnabas-test", "Succeeded")
        assert "consumed: sent by helm test" in kubectl.logs("self-barnabas-test")
    finally:
        kubectl.delete("pod", "self-barnabas-test")


@pytest.fixture
def viewer(secure: SecureBrokers) -> Iterator[str]:
    """A person with the role `view` in the brokers' namespace."""
    name = f"{VIEWER}-view"
    secure.kubectl.run("create", "rolebinding", name, "--clusterrole=view", f"--user={VIEWER}")
    yield VIEWER
    secure.kubectl.delete("rolebinding", name)


def secrets_of(kubectl: Kubectl) -> dict[str, str]:
    """Every password, token and private key of the brokers and their Users, by where it is."""
    found = {}
    for secret in kubectl.list("secrets"):
        name = secret["metadata"]["name"]
        if secret.get("type") != "Opaque":
            continue
        for key, text in kubectl.secret(name).items():
            if key in ("password", "token", "admin-token") or key.endswith(".key"):
                # Of a key one line of its own: the first one is the same in all of them.
                lines = [line for line in text.splitlines() if not line.startswith("-----")]
                found[f"{name}/{key}"] = max(lines, key=len)
    return found


def shown(kubectl: Kubectl, secure: SecureBrokers, operator: str) -> Iterator[tuple[str, str]]:
    """All that is written somewhere else: objects, events, logs, and what brokers tell."""
    kinds = "configmaps,events,pods,statefulsets,services,serviceaccounts,leases,roles"
    yield "objects", kubectl.run("get", kinds, "--output", "yaml")
    yield "resources", kubectl.run("get", "brokers,users,topics", "--output", "yaml")
    yield "log of the operator", kubectl.logs(f"deployment/{operator}", "--tail=-1")
    for node_id in range(secure.size):
        pod = secure.pod_name(node_id)
        yield f"log of {pod}", kubectl.logs(pod, "--tail=-1")
        yield (
            f"environment of {pod}",
            kubectl.execute(
                pod,
                "python3",
                "-c",
                "print(open('/proc/1/environ').read(), open('/proc/1/cmdline').read())",
            ),
        )


def test_secrets_are_in_secrets_and_nowhere_else(
    release: Release, secure: SecureBrokers, viewer: str
) -> None:
    """SEC-114, SEC-83: not in ConfigMaps, events, statuses, logs, environments or command lines."""
    secure.add_user("canary", {"type": "scram-sha-512"})
    secure.add_user("canary-tls", {"type": "tls"})
    kubectl = secure.kubectl
    secrets = secrets_of(kubectl)
    assert {"canary/password", "canary-tls/user.key", "secure-cluster-ca/ca.key"} <= set(secrets)
    for where, text in shown(kubectl, secure, release.operator):
        assert text
        leaked = [name for name, secret in secrets.items() if secret in text]
        assert leaked == [], where
    assert refused(kubectl, "get", "secrets", "--as", viewer)
    assert not refused(kubectl, "get", "configmaps", "--as", viewer)


def test_pods_reach_no_secret_but_those_that_they_mount(
    secure: SecureBrokers, namespace: Kubectl
) -> None:
    """SEC-88, SEC-82: a stranger's account reads none, a broker's neither, and a broker's pod has
    no key of an authority and no password."""
    for account in (
        f"system:serviceaccount:{namespace.namespace}:default",
        f"system:serviceaccount:{secure.kubectl.namespace}:default",
        f"system:serviceaccount:{secure.kubectl.namespace}:{secure.name}-broker",
    ):
        for what in ("secrets", "secret/secure-cluster-ca", "secret/secure-broker-certificates"):
            assert refused(secure.kubectl, "get", what, "--as", account), account
    script = (CLIENTS / "mounted_files.py").read_text()
    held = secure.kubectl.execute(secure.pod_name(0), "python3", "-c", script)
    assert "/etc/barnabas-tls" in held
    secrets = secrets_of(secure.kubectl)
    of_authorities = [name for name in secrets if re.search(r"-ca(-issued)?/", name)]
    assert of_authorities
    passwords = [name for name in secrets if name.endswith("/password")]
    assert not [name for name in (*of_authorities, *passwords) if secrets[name] in held]


def refused(kubectl: Kubectl, *arguments: str) -> bool:
    """Whether the API server forbids a call."""
    done: Any = subprocess.run(
        kubectl.command(*arguments), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 or "Forbidden" in done.stderr, done.stderr
    return bool(done.returncode)
