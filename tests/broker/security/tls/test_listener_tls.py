"""One listener's key, chain and anchors: read, checked, renewed."""

import datetime
import os
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.tls_settings import ListenerTlsSettings
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_broker.security.principal_mapping import MappingError
from barnabas_broker.security.tls.contexts import handshakes_at_once
from barnabas_broker.security.tls.listener_tls import ListenerTls, read_files
from tests.support.certificates import CLIENT, SERVER, Authority, Issued, key_pem

AUTHORITY, OTHER = Authority(), Authority("Other Authority")
NOW_MS = int(time.time() * 1000)
HOUR = datetime.timedelta(hours=1)


class Files:
    """The files of one listener, as a Secret has them."""

    def __init__(self, directory: Path, issued: Issued | None = None) -> None:
        self.directory = directory
        self.write(issued or AUTHORITY.issue())
        (directory / "ca.crt").write_bytes(AUTHORITY.pem)

    @classmethod
    def over(cls, directory: Path) -> "Files":
        """Those that are there."""
        files = cls.__new__(cls)
        files.directory = directory
        return files

    def write(self, issued: Issued) -> None:
        issued.write(self.directory)

    def settings(self, **changes: object) -> ListenerTlsSettings:
        values = {
            "listener": "SSL",
            "certificate_file": str(self.directory / "tls.crt"),
            "key_file": str(self.directory / "tls.key"),
            "truststore_file": str(self.directory / "ca.crt"),
            **changes,
        }
        return ListenerTlsSettings(**values)  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def loaded(settings: ListenerTlsSettings, **options: object) -> ListenerTls:
    values = {"now_ms": NOW_MS, "is_of_brokers": False, "advertised_host": "localhost", **options}
    return ListenerTls(settings, **values)  # type: ignore[arg-type]


def handshake(
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    name: str = "localhost",
    session: ssl.SSLSession | None = None,
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection in memory. Raises: ssl.SSLError, as the end that fails does."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepted = server.wrap_bio(to_server, to_client, server_side=True)
    connected = client.wrap_bio(to_client, to_server, server_hostname=name, session=session)
    pending = [connected, accepted]
    for _ in range(20):
        for end in list(pending):
            try:
                end.do_handshake()
                pending.remove(end)
            except ssl.SSLWantReadError:
                continue
        if not pending:
            return accepted, connected
    raise AssertionError("the handshake does not end")


def identity(tls: ListenerTls, accepted: ssl.SSLObject, now_ms: int = NOW_MS) -> Principal:
    found = tls.identity_of(accepted, now_ms)
    return ANONYMOUS if found is None else found.principal


def client_context(issued: Issued | None, tmp_path: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    if issued is not None:
        chain, key = issued.write(tmp_path / "client")
        context.load_cert_chain(chain, key)
    return context


# What is read.


def test_every_way_to_give_a_key_serves_the_same_certificate(tmp_path: Path) -> None:
    """SEC-2: a PEM store in one file, inline PEM, two files; an encrypted key with its password."""
    issued = AUTHORITY.issue()
    files = Files(tmp_path, issued)
    (tmp_path / "store.pem").write_bytes(issued.key_pem + issued.chain_pem)
    (tmp_path / "locked.pem").write_bytes(key_pem(issued.key, "secret") + issued.chain_pem)
    inline_anchors = AUTHORITY.pem.decode()
    only = {"certificate_file": None, "key_file": None}
    for settings in (
        files.settings(),
        files.settings(keystore_file=str(tmp_path / "store.pem"), **only),
        files.settings(keystore_file=str(tmp_path / "locked.pem"), key_password="secret", **only),
        files.settings(
            inline_key=issued.key_pem.decode(),
            inline_chain=issued.chain_pem.decode(),
            truststore_file=None,
            inline_anchors=inline_anchors,
            **only,
        ),
        # A properties file may have taken the line breaks.
        files.settings(
            inline_key=issued.key_pem.decode().replace("\n", " "),
            inline_chain=issued.chain_pem.decode().replace("\n", ""),
            **only,
        ),
    ):
        tls = loaded(settings)
        assert tls.loaded.material.own == issued.certificate
        accepted, connected = handshake(tls.server, client_context(None, tmp_path))
        assert connected.getpeercert(binary_form=True) == issued.der
        assert accepted.version() == "TLSv1.3"


def test_a_chain_is_sent_with_its_intermediates(tmp_path: Path) -> None:
    """SEC-2, CVE-2026-27133: clients trust the root alone, and the chain has the rest."""
    between = Authority("Between", parent=AUTHORITY)
    tls = loaded(Files(tmp_path, between.issue()).settings())
    handshake(tls.server, client_context(None, tmp_path))


def test_every_certificate_of_a_trust_store_is_an_anchor(tmp_path: Path) -> None:
    """SEC-2: as in Java, an intermediate authority or a client's own certificate as well."""
    between = Authority("Between", parent=AUTHORITY)
    client = between.issue("client")
    for anchor in (between.pem, Issued(client.key, client.certificate).chain_pem):
        files = Files(tmp_path)
        (tmp_path / "ca.crt").write_bytes(anchor)
        tls = loaded(files.settings(client_auth="required"))
        leaf = Issued(client.key, client.certificate)
        accepted, _ = handshake(tls.server, client_context(leaf, tmp_path))
        assert identity(tls, accepted) == Principal.user("CN=client")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda files: (files.directory / "tls.key").unlink(), r"tls\.key cannot be read: No such"),
        (lambda files: (files.directory / "tls.key").write_bytes(b""), "no private key"),
        (lambda files: (files.directory / "tls.crt").write_bytes(b""), "no certificate"),
        (lambda files: (files.directory / "tls.crt").write_bytes(b"\xfe\xed\xfe\xed"), "Java"),
        (lambda files: (files.directory / "ca.crt").write_bytes(b"x"), "no certificate"),
        (
            lambda files: (files.directory / "tls.key").write_bytes(AUTHORITY.issue().key_pem),
            "the key is not that of the certificate CN=localhost",
        ),
        (lambda files: files.write(AUTHORITY.issue(ends=-HOUR)), "has expired on"),
        (lambda files: files.write(AUTHORITY.issue(begins=HOUR)), "is not valid before"),
        (lambda files: files.write(AUTHORITY.issue(uses=[CLIENT])), "is not for servers"),
        (
            lambda files: files.write(Issued(ISSUED.key, ISSUED.certificate, (OTHER.certificate,))),
            "the chain does not verify",
        ),
        (
            lambda files: files.write(AUTHORITY.issue(key=rsa.generate_private_key(65537, 1024))),
            "an RSA key of 1024 bits",
        ),
        (
            lambda files: (files.directory / "tls.key").write_bytes(key_pem(ISSUED.key, "x")),
            "give ssl.key.password",
        ),
    ],
)
def test_what_cannot_serve_is_refused_in_one_line(
    files: Files, spoil: Callable[[Files], object], reason: str
) -> None:
    """SEC-2, SEC-5: at the start; a running listener keeps what it has, counts and tells."""
    tls = loaded(files.settings())
    before = tls.server
    spoil(files)
    with pytest.raises(ConfigError, match=reason) as refused:
        loaded(files.settings())
    assert "\n" not in str(refused.value)
    assert "PRIVATE KEY-----" not in str(refused.value)
    assert not tls.poll(NOW_MS)
    assert tls.server is before
    assert (tls.reloads, tls.failed_reloads) == (0, 1)
    assert tls.last_error == str(refused.value)


ISSUED = AUTHORITY.issue()


def test_brokers_verify_one_another_by_what_they_serve(tmp_path: Path) -> None:
    """SEC-5, SEC-7: a certificate by which the others would not know this broker is refused."""
    files = Files(tmp_path, OTHER.issue())
    with pytest.raises(ConfigError, match="would not accept one another"):
        loaded(files.settings(), is_of_brokers=True)
    files.write(AUTHORITY.issue(uses=[SERVER]))
    with pytest.raises(ConfigError, match="is not for clients"):
        loaded(files.settings(), is_of_brokers=True)
    files.write(AUTHORITY.issue())
    tls = loaded(files.settings(client_auth="required"), is_of_brokers=True)
    accepted, connected = handshake(tls.server, tls.client)
    assert identity(tls, accepted) == Principal.user("CN=localhost")
    assert connected.getpeercert(binary_form=True) is not None


def test_names_are_verified_by_alternative_names_alone(tmp_path: Path) -> None:
    """SEC-7: not by the common name; an empty algorithm turns it off."""
    issued = AUTHORITY.issue("elsewhere", hosts=["localhost", "127.0.0.1", "*.example.com"])
    files = Files(tmp_path, issued)
    tls = loaded(files.settings(), is_of_brokers=True)
    for name in ("localhost", "127.0.0.1", "a.example.com"):
        handshake(tls.server, tls.client, name)
        assert tls.loaded.material.covers(name)
    for name in ("elsewhere", "127.0.0.2", "a.b.example.com", "example.com"):
        assert not tls.loaded.material.covers(name)
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(tls.server, tls.client, name)
    loose = loaded(files.settings(verifies_names=False), is_of_brokers=True)
    handshake(loose.server, loose.client, "elsewhere")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_who_resumes_a_session_is_verified_again_where_certificates_are_asked_for(
    files: Files, tmp_path: Path, version: str, client_auth: str
) -> None:
    """SEC-6: there are no tickets; what TLS 1.2 resumes without is known to be of this context.

    So the anchors are the same, and the dates are looked at here.
    """
    tls = loaded(files.settings(client_auth=client_auth, protocols=(version,)))
    client = client_context(AUTHORITY.issue("client"), tmp_path)
    accepted, connected = handshake(tls.server, client)
    assert accepted.version() == version
    accepted.write(b"x")
    assert connected.read(1) == b"x"  # tickets of TLS 1.3 come before it
    assert connected.session.has_ticket == (client_auth == "none")
    again, _ = handshake(tls.server, client, session=connected.session)
    if client_auth == "none":
        assert again.session_reused
        return
    assert not (again.session_reused and version == "TLSv1.3")
    assert identity(tls, again) == Principal.user("CN=client")
    with pytest.raises(ValueError, match="has ended"):
        identity(tls, again, NOW_MS + 91 * 86_400_000)
    files.write(AUTHORITY.issue())
    assert tls.poll(NOW_MS)
    renewed, _ = handshake(tls.server, client, session=None)
    assert not renewed.session_reused


def test_certificates_that_are_asked_for_name_the_principal(tmp_path: Path) -> None:
    """SEC-3, SEC-4: none is ANONYMOUS where they are only requested, and no handshake else."""
    files = Files(tmp_path)
    rules = "RULE:^CN=(.*)$/$1/L"
    requested = loaded(files.settings(client_auth="requested", mapping_rules=rules))
    accepted, _ = handshake(requested.server, client_context(None, tmp_path))
    assert identity(requested, accepted) == ANONYMOUS
    alice = client_context(AUTHORITY.issue("Alice"), tmp_path)
    accepted, _ = handshake(requested.server, alice)
    assert identity(requested, accepted) == Principal.user("alice")
    required = loaded(files.settings(client_auth="required", mapping_rules="RULE:^CN=b$/b/"))
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN"):
        handshake(required.server, client_context(None, tmp_path))
    with pytest.raises(ssl.SSLError):
        handshake(required.server, client_context(OTHER.issue("b"), tmp_path))
    accepted, _ = handshake(required.server, alice)
    with pytest.raises(MappingError, match="no rule"):
        identity(required, accepted)
    unasked = loaded(files.settings())
    accepted, _ = handshake(unasked.server, alice)
    assert identity(unasked, accepted) == ANONYMOUS


def test_handshakes_at_once_follow_from_what_the_key_costs(tmp_path: Path) -> None:
    """SEC-8: an RSA signature takes many times that of ECDSA P-256."""
    costs = [
        handshakes_at_once(
            loaded(Files(tmp_path, AUTHORITY.issue(key=key)).settings()).loaded.material
        )
        for key in (
            ec.generate_private_key(ec.SECP256R1()),
            ec.generate_private_key(ec.SECP384R1()),
            rsa.generate_private_key(65537, 2048),
            rsa.generate_private_key(65537, 3072),
        )
    ]
    assert costs == [32, 6, 8, 3]


# Renewal.


def test_a_renewed_pair_is_taken_over_and_the_old_context_stays_as_it_was(files: Files) -> None:
    """SEC-5, SEC-6, CFG-9: one reference is swapped; connections that are open keep theirs."""
    tls = loaded(files.settings(client_auth="required"), is_of_brokers=True)
    server, client = tls.server, tls.client
    assert not tls.poll(NOW_MS)
    renewed = AUTHORITY.issue()
    files.write(renewed)
    assert tls.poll(NOW_MS)
    assert tls.server is not server
    assert tls.client is not client
    _, connected = handshake(tls.server, tls.client)
    assert connected.getpeercert(binary_form=True) == renewed.der
    _, old_connected = handshake(server, client)
    assert old_connected.getpeercert(binary_form=True) != renewed.der
    assert not tls.poll(NOW_MS)
    assert (tls.reloads, tls.failed_reloads, tls.last_error) == (1, 0, "")


def test_half_a_renewal_keeps_the_old_until_the_other_half_is_there(files: Files) -> None:
    """SEC-5, SEC-113: counted once for each new state of the files, and forgotten when it fits."""
    tls = loaded(files.settings())
    before = tls.server
    renewed = AUTHORITY.issue()
    (files.directory / "tls.crt").write_bytes(renewed.chain_pem)
    for _ in range(3):
        assert not tls.poll(NOW_MS)
    assert tls.server is before
    assert tls.failed_reloads == 1
    assert "the key is not that of the certificate" in tls.last_error
    (files.directory / "tls.key").write_bytes(renewed.key_pem[:100])
    assert not tls.poll(NOW_MS)
    assert tls.failed_reloads == 2
    (files.directory / "tls.key").write_bytes(renewed.key_pem)
    assert tls.poll(NOW_MS)
    assert (tls.failed_reloads, tls.last_error) == (2, "")


def test_a_certificate_of_tomorrow_is_taken_when_its_time_has_come(files: Files) -> None:
    """SEC-5: what only time can mend is looked at again although no file has changed."""
    tls = loaded(files.settings())
    files.write(AUTHORITY.issue(begins=HOUR))
    assert not tls.poll(NOW_MS)
    assert tls.poll(NOW_MS + 2 * 3_600_000)


def test_a_renewal_may_not_lose_the_advertised_name(files: Files) -> None:
    """SEC-5: clients that verify names would be locked out by it."""
    tls = loaded(files.settings())
    files.write(AUTHORITY.issue(hosts=["other.example"]))
    assert not tls.poll(NOW_MS)
    assert "lacks the advertised name localhost; it has other.example" in tls.last_error
    # One that never had it may be renewed: whoever comes does not verify names.
    never = loaded(files.settings())
    files.write(AUTHORITY.issue(hosts=[]))
    assert never.poll(NOW_MS)


def test_the_files_of_a_volume_are_of_one_version(tmp_path: Path) -> None:
    """SEC-5: Kubernetes replaces the link `..data`; it is followed once for all files."""

    def version(name: str, issued: Issued) -> None:
        issued.write(tmp_path / name)
        (tmp_path / name / "ca.crt").write_bytes(AUTHORITY.pem)
        (tmp_path / "..new").symlink_to(name)
        (tmp_path / "..new").rename(tmp_path / "..data")

    first, second = AUTHORITY.issue(), AUTHORITY.issue()
    version("..1", first)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).symlink_to(Path("..data") / name)
    tls = loaded(Files.over(tmp_path).settings())
    version("..2", second)
    assert tls.poll(NOW_MS)
    assert tls.loaded.material.own == second.certificate
    # The link moves on between two reads: what was begun is finished in the version begun.
    paths = [str(tmp_path / name) for name in ("tls.crt", "tls.key")]

    def swapping() -> Iterator[str]:
        for path in paths:
            yield path
            version("..1", first)

    content = read_files(swapping())
    assert content == {paths[0]: second.chain_pem, paths[1]: second.key_pem}
    assert os.readlink(tmp_path / "..data") == "..1"


# Changes by AlterConfigs.


def test_another_name_needs_leave(files: Files) -> None:
    """SEC-5: as Kafka since 2.x; a store is neither added nor removed while the broker runs."""
    tls = loaded(files.settings())
    files.write(AUTHORITY.issue("other"))
    with pytest.raises(ConfigError, match=r"ssl\.allow\.dn\.changes is false"):
        tls.prepare(files.settings(), NOW_MS)
    tls.prepare(files.settings(allows_dn_changes=True), NOW_MS)
    files.write(AUTHORITY.issue(hosts=["localhost"]))
    with pytest.raises(ConfigError, match=r"lacks the name 127\.0\.0\.1.*san\.changes is false"):
        tls.prepare(files.settings(), NOW_MS)
    renewed = tls.prepare(files.settings(allows_san_changes=True), NOW_MS)
    assert tls.reloads == 0
    tls.replace(renewed)
    assert tls.reloads == 1
    assert tls.server is renewed.server
    with pytest.raises(ConfigError, match="cannot be added or removed"):
        tls.prepare(files.settings(truststore_file=None), NOW_MS)


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    """SEC-5: settings come from requests, too; a pipe would hold its thread up for good."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = {"pipe": str(pipe), "device": os.devnull, "directory": str(tmp_path)}[kind]
    with pytest.raises(ConfigError, match=r"cannot be read: (it is no file|Is a directory)"):
        read_files([path])
