"""Authorities and their leaves, as `ssl` takes them in a handshake."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from barnabas_operator.certificates.authority import (
    CLOCK_SKEW,
    Authority,
    KeyPair,
    LeafRequest,
    hosts_of,
    new_authority,
    read_authority,
    request_subject,
    subject_of,
)
from barnabas_operator.certificates.pem import (
    CertificateError,
    certificate_text,
    certificates_of,
    ends,
    key_of,
    key_text,
    starts,
)

NOW = datetime.now(UTC).replace(microsecond=0)
BROKER = LeafRequest(
    common_name="broker-0",
    organization="kafka.demo",
    hosts=("demo-bootstrap.kafka.svc", "10.0.0.7", "localhost"),
    is_server=True,
)


def test_a_leaf_says_what_was_asked_for() -> None:
    """SEC-4, SEC-82: the subject as RFC 2253 writes it; names and addresses."""
    authority = new_authority("demo clients", NOW)
    leaf = authority.issue(BROKER, NOW).certificate
    assert subject_of(leaf) == "CN=broker-0,O=kafka.demo" == request_subject(BROKER)
    assert hosts_of(leaf) == {"demo-bootstrap.kafka.svc", "10.0.0.7", "localhost"}
    assert authority.has_signed(leaf)
    assert (starts(leaf), ends(leaf)) == (NOW - CLOCK_SKEW, NOW + timedelta(days=90))
    assert isinstance(key_of(authority.issue(BROKER, NOW).key), ec.EllipticCurvePrivateKey)


def test_a_leaf_does_not_outlive_its_authority() -> None:
    """RFC 5280: nobody would take it anyway."""
    authority = new_authority("short", NOW, timedelta(days=30))
    assert ends(authority.issue(BROKER, NOW).certificate) == authority.ends


def test_brokers_and_clients_verify_each_other(tmp_path: Path) -> None:
    """SEC-81: each side trusts the authority of the other, and no authority else."""
    cluster, clients, other = (new_authority(name, NOW) for name in ("cluster", "clients", "x"))
    broker, alice = cluster.issue(BROKER, NOW), clients.issue(LeafRequest(common_name="a"), NOW)
    name = "demo-bootstrap.kafka.svc"
    assert shakes_hands(tmp_path, broker, clients, alice, cluster, name)
    assert shakes_hands(tmp_path, broker, clients, alice, cluster, "10.0.0.7")
    assert not shakes_hands(tmp_path, broker, clients, alice, cluster, "elsewhere.kafka.svc")
    assert not shakes_hands(tmp_path, broker, clients, alice, other, name)
    # A client's certificate is worth nothing where only the cluster's authority is trusted.
    assert not shakes_hands(tmp_path, broker, cluster, alice, cluster, name)
    # A client's certificate is none of a server.
    assert not shakes_hands(tmp_path, alice, clients, alice, clients, name)


def test_an_intermediate_is_an_anchor_and_its_issuers_are_sent_but_the_root(tmp_path: Path) -> None:
    """CVE-2026-27133, strimzi#12364: chains are sent, and nothing above the anchor is trusted."""
    root = Authority(pair=authority_of(None, "corporate"))
    given = authority_of(root, "kafka")
    other = authority_of(root, "web")
    authority = read_authority(given.chain + root.pair.chain, given.key)
    assert certificates_of(authority.pair.chain)[0] == authority.certificate
    broker = authority.issue(BROKER, NOW)
    assert len(certificates_of(broker.chain)) == 2
    clients = new_authority("clients", NOW)
    alice = clients.issue(LeafRequest(common_name="alice"), NOW)
    assert shakes_hands(tmp_path, broker, clients, alice, root, "localhost")
    # A certificate of a sister is no client's, although the same root stands above it.
    stranger = Authority(pair=other).issue(LeafRequest(common_name="alice"), NOW)
    assert not shakes_hands(tmp_path, broker, authority, stranger, root, "localhost")


def test_what_cannot_sign_is_no_authority() -> None:
    """SEC-82: a given Secret is looked at before anything is signed with it."""
    authority = new_authority("one", NOW)
    leaf = authority.issue(BROKER, NOW)
    with pytest.raises(CertificateError, match="not that of an authority"):
        read_authority(leaf.chain, leaf.key)
    with pytest.raises(CertificateError, match="not that of the certificate"):
        read_authority(authority.pair.chain, leaf.key)


@pytest.mark.parametrize("common_name", ["", "x" * 65])
def test_a_name_that_no_certificate_can_have_is_refused(common_name: str) -> None:
    """RFC 5280: a common name has 64 characters at most."""
    with pytest.raises(CertificateError, match="common name"):
        new_authority("one", NOW).issue(LeafRequest(common_name=common_name), NOW)


def test_a_key_is_not_shown() -> None:
    """SEC-114: what is logged or raised has no secrets in it."""
    authority = new_authority("one", NOW)
    assert "PRIVATE" not in repr(authority)
    assert "PRIVATE" in authority.pair.key


def authority_of(issuer: Authority | None, name: str) -> KeyPair:
    """An authority of somebody else: a root, or one below a root."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - CLOCK_SKEW)
        .not_valid_after(NOW + timedelta(days=100))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key if issuer is None else key_of(issuer.pair.key), hashes.SHA256())
    )
    return KeyPair(chain=certificate_text(certificate), key=key_text(key))


def shakes_hands(
    folder: Path,
    server: KeyPair,
    server_trusts: Authority,
    client: KeyPair,
    client_trusts: Authority,
    name: str,
) -> bool:
    """Whether a handshake in memory succeeds on both sides."""
    server_side = _context(folder, ssl.PROTOCOL_TLS_SERVER, server, server_trusts)
    client_side = _context(folder, ssl.PROTOCOL_TLS_CLIENT, client, client_trusts)
    server_side.verify_mode = ssl.CERT_REQUIRED
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client_side.wrap_bio(to_client, to_server, server_hostname=name)
    other = server_side.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(6):
            for side in (one, other):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
    except ssl.SSLError:
        return False
    return other.getpeercert() is not None


def _context(folder: Path, protocol: int, own: KeyPair, trusted: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    files = folder / "chain.pem", folder / "key.pem"
    for path, text in zip(files, (own.chain, own.key), strict=True):
        path.write_text(text)
    context.load_cert_chain(*files)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate_text(trusted.certificate))
    return context
