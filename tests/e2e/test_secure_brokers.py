"""Brokers with `security.enabled`, beside the plain ones of the release: Users, and renewal.

They are in the release's namespace, where the operator may read and write Secrets.
"""

from typing import Any

import pytest

from tests.e2e.support.client_pods import (
    CLIENTS,
    USER_HOME,
    client_pod,
    mount_user,
    mount_volume,
)
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.secure_brokers import SecureBrokers


def exchanged(
    kubectl: Kubectl,
    images: Images,
    user: str,
    text: str,
    *,
    volumes: dict[str, dict[str, Any]] | None = None,
    account: str = "",
) -> str:
    """What a pod prints that writes and reads with the files of a User; by its Secret, unless
    `volumes` say by their paths what to mount."""
    script = (CLIENTS / "secure_exchange.py").read_text()
    arguments = [f"{USER_HOME}/client.properties", "orders.secure", user, text]
    pod = client_pod(f"client-{user}", images.broker, ["python3", "-c", script, *arguments])
    if account:
        pod["spec"]["serviceAccountName"] = account
    if volumes is None:
        mount_user(pod, user)
    for path, volume in (volumes or {}).items():
        mount_volume(pod, volume, path)
    kubectl.apply(pod)
    kubectl.wait_for_phase(f"client-{user}", "Succeeded")
    told = kubectl.logs(f"client-{user}").strip()
    kubectl.delete("pod", f"client-{user}")
    return told


@pytest.mark.quick
@pytest.mark.parametrize(("name", "type_"), [("scram", "scram-sha-512"), ("certificate", "tls")])
def test_a_user_s_secret_is_all_that_a_client_needs(
    secure: SecureBrokers, images: Images, name: str, type_: str
) -> None:
    """SEC-80, SEC-84, SEC-85: mounted as it is, in a pod that knows nothing else."""
    secure.add_user(name, {"type": type_})
    told = exchanged(secure.kubectl, images, name, f"by {name}")
    assert told == f"by {name}"


def test_a_pod_logs_in_with_its_service_account(secure: SecureBrokers, images: Images) -> None:
    """SEC-29, SEC-85: no secret anywhere; the token is for these brokers only."""
    kubectl = secure.kubectl
    kubectl.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app"}})
    account = {"type": "serviceAccount", "serviceAccount": {"name": "app"}}
    secure.add_user("account", account)
    token = {
        "audience": f"barnabas:{kubectl.namespace}/{secure.name}",
        "expirationSeconds": 3600,
        "path": "token",
    }
    volumes = {
        USER_HOME: {"name": "user", "configMap": {"name": "account"}},
        "/var/run/secrets/barnabas": {
            "name": "barnabas-token",
            "projected": {"sources": [{"serviceAccountToken": token}]},
        },
    }
    told = exchanged(kubectl, images, "account", "by token", volumes=volumes, account="app")
    assert told == "by token"
