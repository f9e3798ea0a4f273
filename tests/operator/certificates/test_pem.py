"""PEM: reading, digests of bundles, and what fits together."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from barnabas_operator.certificates.authority import LeafRequest, new_authority
from barnabas_operator.certificates.pem import (
    CertificateError,
    bundle_digest,
    bundle_of,
    certificates_of,
    digest_of,
    first_certificate,
    fits,
    is_self_signed,
    is_signed_by,
    key_of,
)

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def anchors(count: int) -> list[x509.Certificate]:
    return [new_authority("one", NOW + timedelta(days=day)).certificate for day in range(count)]


def test_the_digest_of_a_bundle_depends_on_its_certificates_only() -> None:
    """SEC-81: a broker that has the same anchors in another order has the same bundle."""
    one, two, three = anchors(3)
    assert digest_of([one, two, three]) == digest_of([three, one, two, one])
    assert digest_of([one, two]) != digest_of([one, three])
    text = bundle_of([two, one, two])
    assert text.count("BEGIN CERTIFICATE") == 2
    assert bundle_digest(f"# a comment\n{text}\n\n") == digest_of([one, two])


def test_a_root_signs_itself_and_a_leaf_does_not() -> None:
    """SEC-81: what is no root belongs into chains, not into bundles."""
    authority, other = new_authority("one", NOW), new_authority("two", NOW)
    leaf = authority.issue(LeafRequest(common_name="alice"), NOW)
    assert is_self_signed(authority.certificate)
    assert not is_self_signed(leaf.certificate)
    assert is_signed_by(leaf.certificate, authority.certificate)
    assert not is_signed_by(leaf.certificate, other.certificate)
    assert fits(leaf.certificate, key_of(leaf.key))
    assert not fits(leaf.certificate, key_of(other.pair.key))


@pytest.mark.parametrize("text", ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_is_no_certificate_or_key_is_an_error(text: str) -> None:
    """A Secret of somebody else may hold anything."""
    with pytest.raises(CertificateError):
        certificates_of(text)
    with pytest.raises(CertificateError):
        first_certificate(text)
    with pytest.raises(CertificateError):
        key_of(text)


def test_a_bundle_has_a_size() -> None:
    """Everything is bounded: nobody has a hundred authorities."""
    (one,) = anchors(1)
    with pytest.raises(CertificateError, match="101 certificates"):
        certificates_of(bundle_of([one]) * 101)
