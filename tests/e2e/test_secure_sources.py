"""Authorities that somebody else gives: in a Secret, or by cert-manager."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509

from tests.e2e.support.client_pods import SteadyExchange
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl, is_ready
from tests.e2e.support.release import Release
from tests.e2e.support.secure_brokers import SecureBrokers
from tests.e2e.support.topics import make_topic
from tests.support.certificates import Authority, key_pem

TOPIC = "orders.sources"


@contextmanager
def brokers_of(
    release: Release, name: str, certificates: dict[str, Any]
) -> Iterator[SecureBrokers]:
    """Three secure brokers with authorities from elsewhere, a topic, and the User `guest`."""
    brokers = SecureBrokers(release.kubectl, name)
    try:
        # As long as the kubelet may take to bring a bundle into the clients' pods.
        brokers.secure(certificates={"clientsSettle": "2m", **certificates})
        brokers.until_settled()
        make_topic(brokers.kubectl, TOPIC, brokers, deletionPolicy="Delete")
        brokers.add_user("guest", {"type": "tls"})
        yield brokers
    except BaseException:
        print(brokers.describe())
        raise
    finally:
        brokers.kubectl.delete("topic", TOPIC)
        brokers.forget_all()


def anchors(kubectl: Kubectl, secret: str) -> list[str]:
    """The common names in a bundle."""
    found = x509.load_pem_x509_certificates(kubectl.secret(secret)["ca.crt"].encode())
    return sorted(
        str(name.value)
        for one in found
        for name in one.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    )


def until_anchors(brokers: SecureBrokers, wanted: list[str], timeout_seconds: float) -> None:
    """Clients are told to trust just these."""
    kubectl = brokers.kubectl
    kubectl.until(
        lambda: anchors(kubectl, "guest") == wanted,
        timeout_seconds,
        lambda: f"{anchors(kubectl, 'guest')} {brokers.security()}",
    )


def given(name: str, key: str, authority: Authority) -> dict[str, Any]:
    texts = {f"{key}.crt": authority.pem.decode(), f"{key}.key": key_pem(authority.key).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": texts,
    }


def test_given_authorities_sign_and_are_changed_under_load(
    release: Release, images: Images, figures: Figures
) -> None:
    """SEC-82, SEC-81: secretRef, in both spellings; another authority in the Secret is taken in
    steps, and no client notices."""
    kubectl = release.kubectl
    kubectl.apply(given("own-cluster", "tls", Authority("own cluster")))
    kubectl.apply(given("own-clients", "ca", Authority("own clients")))
    sources = {
        "cluster": {"secretRef": {"name": "own-cluster"}},
        "clients": {"secretRef": {"name": "own-clients"}},
    }
    exchange = SteadyExchange(kubectl, images.broker, TOPIC, "guest", "guest")
    with brokers_of(release, "given", sources) as brokers:
        before = brokers.uids()
        assert anchors(kubectl, "guest") == ["own cluster"]
        exchange.start()
        try:
            kubectl.apply(given("own-cluster", "tls", Authority("another cluster")))
            until_anchors(brokers, ["another cluster"], 500)
            exchange.goes_on()
            figures.note("a given authority changed under load", exchange.end())
        finally:
            exchange.remove()
        assert brokers.uids() == before
        # The operator has only read it.
        assert "bundle.crt" not in kubectl.secret("own-cluster")
    for secret in ("own-cluster", "own-clients"):
        kubectl.delete("secret", secret)


@pytest.fixture
def cert_manager(lab: Cluster) -> Iterator[None]:
    """cert-manager's own controller and definitions."""
    lab.build("certmanager")
    for file in sorted(lab.definitions("cert-manager").glob("*.yaml")):
        lab.kubectl.run("apply", "--server-side", "--force-conflicts", "--filename", str(file))
    lab.daemon("start", "certmanager")
    yield
    lab.daemon("stop", "certmanager")


def test_cert_manager_gives_authorities_and_renews_them(
    cert_manager: None, release: Release, images: Images
) -> None:
    """SEC-82: the operator asks for two authorities, signs everything else with them, and follows
    when cert-manager issues another one."""
    kubectl = release.kubectl
    api = "cert-manager.io/v1"
    kubectl.apply(
        {
            "apiVersion": api,
            "kind": "Issuer",
            "metadata": {"name": "own-roots"},
            "spec": {"selfSigned": {}},
        }
    )
    source = {"certManager": {"issuerRef": {"name": "own-roots", "kind": "Issuer"}}}
    certificates = {"cluster": source, "clients": source}
    exchange = SteadyExchange(kubectl, images.broker, TOPIC, "guest", "guest")
    with brokers_of(release, "managed", certificates) as brokers:
        try:
            for name in ("cluster", "clients"):
                found = kubectl.get("certificate.cert-manager.io", f"managed-{name}-ca")
                assert is_ready(found) and found["spec"]["isCA"]
            issued = kubectl.secret("managed-cluster-ca-issued")["tls.crt"]
            assert issued in kubectl.secret("guest")["ca.crt"]
            exchange.start()
            # What `cmctl renew` does.
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            asked = {
                "type": "Issuing",
                "status": "True",
                "reason": "ManuallyTriggered",
                "message": "",
                "lastTransitionTime": now,
            }
            found = kubectl.get("certificate.cert-manager.io", "managed-cluster-ca")
            conditions = [*found["status"]["conditions"], asked]
            kubectl.patch_status(
                "certificate.cert-manager.io", "managed-cluster-ca", {"conditions": conditions}
            )
            kubectl.until(
                lambda: issued not in kubectl.secret("guest")["ca.crt"],
                600,
                lambda: str(brokers.security()),
            )
            exchange.goes_on()
            exchange.end()
        finally:
            exchange.remove()
            kubectl.delete("issuer.cert-manager.io", "own-roots")


def test_without_cert_manager_the_status_says_so(release: Release) -> None:
    """SEC-82: no broker starts with an authority that nobody has asked for."""
    kubectl = release.kubectl
    definitions = subprocess.run(
        kubectl.command("get", "customresourcedefinition", "certificates.cert-manager.io"),
        capture_output=True,
        check=False,
    )
    if definitions.returncode == 0:
        pytest.skip("cert-manager is here")
    brokers = SecureBrokers(kubectl, "unmanaged")
    source = {"certManager": {"issuerRef": {"name": "nobody"}}}
    try:
        brokers.secure(certificates={"cluster": source})
        brokers.until_told(lambda told: "certificates" in str(told.get("conditions")), 60)
        assert kubectl.list("pods", "barnabas.dev/broker=unmanaged") == []
    finally:
        brokers.forget_all()
