"""Certificates, authorities and passwords that change while clients are at work."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509

from tests.e2e.support.client_pods import USER_HOME, JavaLoad, SteadyExchange, Stopwatch
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.secure_brokers import SecureBrokers
from tests.e2e.support.topics import make_topic

TOPIC = "orders.renewal"
PARTITIONS = 6
# The kubelet takes up to a minute and a half to bring a Secret into a pod.
BROUGHT_SECONDS = 240
CREDENTIAL = "barnabas.dev/credential"


@pytest.fixture
def topic(secure: SecureBrokers) -> Iterator[str]:
    make_topic(secure.kubectl, TOPIC, secure, partitions=PARTITIONS, deletionPolicy="Delete")
    yield TOPIC
    secure.kubectl.delete("topic", TOPIC)


def served(secure: SecureBrokers) -> set[str]:
    """The certificates that the brokers show to clients, as PEM."""
    script = "import ssl; print(ssl.get_server_certificate(('127.0.0.1', 9093), timeout=5))"
    return {
        secure.kubectl.execute(secure.pod_name(node_id), "python3", "-c", script).strip()
        for node_id in range(secure.size)
    }


def issuers(certificates: set[str]) -> set[bytes]:
    """The keys that have signed them, by their identifiers."""
    found = set()
    for text in certificates:
        read = x509.load_pem_x509_certificate(text.encode())
        name = read.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        assert name.key_identifier is not None
        found.add(name.key_identifier)
    return found


def restarts(secure: SecureBrokers) -> int:
    """How often a container of the brokers has started again."""
    return sum(
        one["restartCount"]
        for node_id in range(secure.size)
        for one in secure.pod(node_id)["status"]["containerStatuses"]
    )


def authority(secure: SecureBrokers, name: str) -> Any:
    """What the status tells of an authority."""
    (found,) = [one for one in secure.security()["authorities"] if one["name"] == name]
    return found


def test_leaves_and_authorities_change_under_load(
    secure: SecureBrokers, images: Images, topic: str, figures: Figures
) -> None:
    """SEC-81, SEC-83, SEC-113: all leaves anew twice, then another authority twice, under acks=all
    by password and by certificate; a new log-in five times a second. Nobody restarts, no request
    fails."""
    kubectl = secure.kubectl
    before, started = secure.uids(), restarts(secure)
    secure.add_user("keeper", {"type": "scram-sha-512"})
    secure.add_user("holder", {"type": "tls"})
    exchanges = [
        SteadyExchange(kubectl, images.broker, topic, user, user) for user in ("keeper", "holder")
    ]
    load = JavaLoad(kubectl, images.java_client, secure.secure_bootstrap, topic, user="keeper")
    try:
        load.start(PARTITIONS, records_per_second=100)
        for exchange in exchanges:
            exchange.start()
        for number in range(2):
            renew_leaves(secure, figures, number)
        # Java reads ca.crt once: it has the anchor that it began with.
        fared = load.end()
        figures.note("Java while all leaves were renewed twice", fared)
        assert fared.errors == 0 and fared.acknowledged == fared.sent, fared
        for number in range(2):
            change_authority(secure, figures, number)
        for exchange in exchanges:
            exchange.goes_on()
            done = exchange.end()
            figures.note(f"{exchange.name} during renewals and changes", json.dumps(done))
        assert (secure.uids(), restarts(secure)) == (before, started)
    finally:
        secure.secure()
        load.remove()
        for exchange in exchanges:
            exchange.remove()
    secure.until_settled()


def renew_leaves(secure: SecureBrokers, figures: Figures, number: int) -> None:
    """The Secret of the brokers' certificates is lost: all are signed anew at once."""
    shown, watch = served(secure), Stopwatch()
    secure.kubectl.delete("secret", f"{secure.name}-broker-certificates")
    secure.kubectl.until(
        lambda: not shown & served(secure), BROUGHT_SECONDS, lambda: "former leaves are served"
    )
    figures.note(f"renewal {number} until all brokers show new leaves", f"{watch.seconds():.0f} s")


def change_authority(secure: SecureBrokers, figures: Figures, number: int) -> None:
    """Another authority for the cluster, until the former one is gone."""
    former, watch = issuers(served(secure)), Stopwatch()
    secure.secure(certificates={"renew": f"number {number}", "clientsSettle": "2m"})
    steps = []
    for step in ("Distributing", "Replacing", "Stable"):
        secure.kubectl.until(
            lambda step=step: authority(secure, "cluster")["step"] == step,  # type: ignore[misc]
            2 * BROUGHT_SECONDS,
            secure.describe,
        )
        steps.append(f"{step} after {watch.seconds():.0f} s")
    assert not former & issuers(served(secure))
    figures.note(f"change {number} of the cluster's authority", ", ".join(steps))


def test_a_password_changes_under_load(
    secure: SecureBrokers, images: Images, topic: str, figures: Figures
) -> None:
    """SEC-27, SEC-84, SEC-113: for as long as both are valid, clients that still have the former
    one and those that have the new one log in; a mounted Secret brings it by itself."""
    kubectl = secure.kubectl
    rotation = {"every": "30h", "overlap": "24h"}
    secure.add_user("changer", {"type": "scram-sha-512", "rotation": rotation})
    exchange = SteadyExchange(kubectl, images.broker, topic, "changer", "changer")
    # What a pod has that read the password when it began.
    password = secret_text(kubectl, "changer", "client.properties")
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "former"},
            "stringData": {
                "client.properties": password,
                "ca.crt": secret_text(kubectl, "changer", "ca.crt"),
            },
        }
    )
    late = SteadyExchange(kubectl, images.broker, topic, "late", "former", group="changer-late")
    try:
        exchange.start()
        watch = Stopwatch()
        grow_old(kubectl, "changer")
        kubectl.until(
            lambda: secret_text(kubectl, "changer", "client.properties") != password,
            120,
            lambda: json.dumps(kubectl.get("user", "changer"), indent=1),
        )
        assert kubectl.get("user", "changer")["status"]["credential"]["overlapEnds"]
        late.start()
        kubectl.until(lambda: mounted(exchange) != password, BROUGHT_SECONDS, lambda: "not brought")
        figures.note("another password until it is in the pod", f"{watch.seconds():.0f} s")
        for one in (exchange, late):
            one.goes_on()
            figures.note(f"{one.name} while the password changed", json.dumps(one.end()))
    finally:
        exchange.remove()
        late.remove()
        kubectl.delete("secret", "former")


def grow_old(kubectl: Kubectl, user: str) -> None:
    """As if the password had been changed two days ago."""
    found = json.loads(kubectl.get("secret", user)["metadata"]["annotations"][CREDENTIAL])
    year = int(found["changed"][:4]) - 1
    found["changed"] = f"{year}{found['changed'][4:]}"
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    kubectl.run("annotate", "secret", user, f"{CREDENTIAL}={text}", "--overwrite")
    # Whoever changes the User has it looked at.
    kubectl.run("annotate", "user", user, "e2e.barnabas.dev/looked-at=now", "--overwrite")


def secret_text(kubectl: Kubectl, name: str, key: str) -> str:
    """A value of a Secret."""
    return kubectl.secret(name)[key]


def mounted(exchange: SteadyExchange) -> str:
    """The properties that the pod has by now."""
    return exchange.read(f"{USER_HOME}/client.properties")
