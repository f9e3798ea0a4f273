"""When a certificate is made anew. Pure: what is there, what is wanted, and the time.

A leaf is renewed at two thirds of its life (SEC-81): of 90 days a month is left, in which nothing
breaks while the operator is down. Invariant: what is wanted and valid is kept, to the byte, so an
idle operator writes nothing.
"""

from __future__ import annotations

import ipaddress
from datetime import datetime

from cryptography import x509

from barnabas_operator.certificates.authority import (
    Authority,
    KeyPair,
    LeafRequest,
    hosts_of,
    request_subject,
    subject_of,
)
from barnabas_operator.certificates.pem import CertificateError, ends, starts


def renewal_time(certificate: x509.Certificate) -> datetime:
    """When it is to be renewed: at two thirds of its life."""
    return starts(certificate) + (ends(certificate) - starts(certificate)) * 2 / 3


def is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it is time to renew it; also where it is not valid yet."""
    return now >= renewal_time(certificate) or now < starts(certificate)


def renewed(
    found: KeyPair | None, authority: Authority, request: LeafRequest, now: datetime
) -> KeyPair:
    """The leaf that is there while it will do, else a new one. Raises: CertificateError."""
    if found is not None and not why_renewed(found, authority, request, now):
        return found
    return authority.issue(request, now)


def why_renewed(found: KeyPair, authority: Authority, request: LeafRequest, now: datetime) -> str:
    """Why a leaf has to be made anew, empty while it will do."""
    try:
        found.check()
    except CertificateError as error:
        return str(error)
    leaf = found.certificate
    if not authority.has_signed(leaf):
        return "another authority signs"
    if is_due(leaf, now) and ends(leaf) < authority.ends:
        return "two thirds of its time are over"
    if now >= ends(leaf):
        return "it has expired"
    if subject_of(leaf) != request_subject(request):
        return "its subject changed"
    missing = {_spelling(host) for host in request.hosts} - hosts_of(leaf)
    return f"it lacks {', '.join(sorted(missing))}" if missing else ""


def _spelling(host: str) -> str:
    """An address as certificates tell it, any other name as it is."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host
