"""Brokers with `security.enabled`, beside the plain ones of the release: Users, and renewal.

They are in the release's namespace, where the operator may read and write Secrets.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.client_pods import CLIENTS, client_pod
from tests.e2e.support.declared_brokers import SPARE_CONFIG, DeclaredBrokers
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl, is_ready
from tests.e2e.support.release import Release
from tests.e2e.support.topics import API_VERSION, make_topic

HOME = "/etc/barnabas/user"
NAME = "secure"


@pytest.fixture(scope="module")
def secure(release: Release) -> Iterator[DeclaredBrokers]:
    """Three brokers that were never plain."""
    values = copy.deepcopy(release.values)
    values["rbac"] = {"security": True}
    release.helm.upgrade(release.name, values, "--wait")
    release.until_ready()
    brokers = DeclaredBrokers(release.kubectl, NAME)
    brokers.declare(
        replicas=3, storage={"size": "1Gi"}, config=SPARE_CONFIG, security={"enabled": True}
    )
    try:
        brokers.until_settled()
    except BaseException:
        print(brokers.describe())
        raise
    make_topic(release.kubectl, "orders.secure", brokers, deletionPolicy="Delete")
    yield brokers
    for user in ("scram", "certificate", "account"):
        release.kubectl.delete("user", user)
    release.kubectl.delete("topic", "orders.secure")
    brokers.forget()
    for secret in (f"{NAME}-cluster-ca", f"{NAME}-clients-ca"):
        release.kubectl.delete("secret", secret)
    release.helm.upgrade(release.name, release.values, "--wait")
    release.until_ready()


def declare_user(kubectl: Kubectl, name: str, authentication: dict[str, Any]) -> None:
    """A User that may use topics `orders.` and its own group, and that is Ready."""
    topic = {"type": "topic", "name": "orders.", "patternType": "prefix"}
    rights = [
        {"resource": topic, "operations": ["Read", "Write", "Describe"]},
        {"resource": {"type": "group", "name": name}, "operations": ["Read", "Describe"]},
    ]
    kubectl.apply(
        {
            "apiVersion": API_VERSION,
            "kind": "User",
            "metadata": {"name": name},
            "spec": {
                "brokerRef": {"name": NAME},
                "authentication": authentication,
                "authorization": {"acls": rights},
            },
        }
    )
    kubectl.until(
        lambda: is_ready(kubectl.get("user", name)),
        120,
        lambda: json.dumps(kubectl.get("user", name), indent=1),
    )


def exchanged(
    kubectl: Kubectl,
    images: Images,
    user: str,
    text: str,
    *,
    volumes: list[dict[str, Any]],
    account: str = "",
) -> str:
    """What a pod prints that writes and reads with the files of a User."""
    script = (CLIENTS / "secure_exchange.py").read_text()
    arguments = [f"{HOME}/client.properties", "orders.secure", user, text]
    pod = client_pod(f"client-{user}", images.broker, ["python3", "-c", script, *arguments])
    spec = pod["spec"]
    spec["securityContext"]["fsGroup"] = 10001
    if account:
        spec["serviceAccountName"] = account
    for volume in volumes:
        mount = {"name": volume["name"], "mountPath": volume.pop("path"), "readOnly": True}
        spec["containers"][0]["volumeMounts"].append(mount)
        spec["volumes"].append(volume)
    kubectl.apply(pod)
    kubectl.wait_for_phase(f"client-{user}", "Succeeded")
    told = kubectl.logs(f"client-{user}").strip()
    kubectl.delete("pod", f"client-{user}")
    return told


def of_secret(name: str) -> list[dict[str, Any]]:
    return [{"name": "user", "path": HOME, "secret": {"secretName": name}}]


@pytest.mark.quick
@pytest.mark.parametrize(("name", "type_"), [("scram", "scram-sha-512"), ("certificate", "tls")])
def test_a_user_s_secret_is_all_that_a_client_needs(
    secure: DeclaredBrokers, images: Images, name: str, type_: str
) -> None:
    """SEC-80, SEC-84, SEC-85: mounted as it is, in a pod that knows nothing else."""
    declare_user(secure.kubectl, name, {"type": type_})
    told = exchanged(secure.kubectl, images, name, f"by {name}", volumes=of_secret(name))
    assert told == f"by {name}"


def test_a_pod_logs_in_with_its_service_account(secure: DeclaredBrokers, images: Images) -> None:
    """SEC-29, SEC-85: no secret anywhere; the token is for these brokers only."""
    kubectl = secure.kubectl
    kubectl.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app"}})
    account = {"type": "serviceAccount", "serviceAccount": {"name": "app"}}
    declare_user(kubectl, "account", account)
    token = {
        "audience": f"barnabas:{kubectl.namespace}/{NAME}",
        "expirationSeconds": 3600,
        "path": "token",
    }
    volumes: list[dict[str, Any]] = [
        {"name": "user", "path": HOME, "configMap": {"name": "account"}},
        {
            "name": "barnabas-token",
            "path": "/var/run/secrets/barnabas",
            "projected": {"sources": [{"serviceAccountToken": token}]},
        },
    ]
    told = exchanged(kubectl, images, "account", "by token", volumes=volumes, account="app")
    assert told == "by token"


def test_renewed_certificates_are_taken_and_no_pod_is_restarted(
    secure: DeclaredBrokers, images: Images
) -> None:
    """SEC-83: the Secret of the brokers is lost, so that all of them are signed anew at once."""
    kubectl = secure.kubectl
    before, certificates = secure.uids(), served(kubectl)
    kubectl.delete("secret", f"{NAME}-broker-certificates")
    kubectl.until(
        lambda: not certificates & served(kubectl), 240, lambda: f"{served(kubectl)} are served"
    )
    assert secure.uids() == before
    declare_user(kubectl, "scram", {"type": "scram-sha-512"})
    told = exchanged(kubectl, images, "scram", "after", volumes=of_secret("scram"))
    assert told == "after"
    secure.until_settled()


def served(kubectl: Kubectl) -> set[str]:
    """The fingerprints of the certificates that the brokers serve clients with."""
    script = (
        "import hashlib, ssl;"
        " found = ssl.get_server_certificate(('127.0.0.1', 9093), timeout=5);"
        " print(hashlib.sha256(ssl.PEM_cert_to_DER_cert(found)).hexdigest())"
    )
    pods = (f"{NAME}-{node_id}" for node_id in range(3))
    return {kubectl.execute(pod, "python3", "-c", script).strip() for pod in pods}
