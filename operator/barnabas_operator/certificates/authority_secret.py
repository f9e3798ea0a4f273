"""An authority and its change as the data of a Secret, in both directions. Pure.

`ca.crt` and `ca.key` are the authority that signs, `bundle.crt` is what others have to trust;
`next.crt`, `next.key`, `previous.crt` and `since` are there while it is changed. Nothing else
of a change is kept anywhere (SEC-81).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from barnabas_operator.certificates.authority import Authority, read_authority
from barnabas_operator.certificates.authority_change import HeldAuthority
from barnabas_operator.certificates.pem import CertificateError, certificate_text, first_certificate
from barnabas_operator.conditions import timestamp

BUNDLE = "bundle.crt"
CERTIFICATE = "ca.crt"
KEY = "ca.key"


def secret_text(secret: Mapping[str, Any] | None, key: str) -> str:
    """A value of a Secret as text, empty where there is none. Raises: CertificateError."""
    encoded = ((secret or {}).get("data") or {}).get(key)
    if not encoded:
        return ""
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        raise CertificateError(f"{key} is no text") from None


def read_held(secret: Mapping[str, Any] | None) -> HeldAuthority | None:
    """What the Secret of an authority keeps, None where it keeps none yet.

    Raises: CertificateError.
    """
    signer = _authority(secret, CERTIFICATE, KEY)
    if signer is None:
        return None
    since, previous = secret_text(secret, "since"), secret_text(secret, "previous.crt")
    return HeldAuthority(
        signer=signer,
        next=_authority(secret, "next.crt", "next.key"),
        since=datetime.fromisoformat(since) if since else None,
        previous=first_certificate(previous) if previous else None,
    )


def held_data(held: HeldAuthority) -> dict[str, str]:
    """The data of the Secret."""
    texts = {
        CERTIFICATE: held.signer.pair.chain,
        KEY: held.signer.pair.key,
        BUNDLE: held.bundle,
    }
    if held.next is not None:
        texts |= {"next.crt": held.next.pair.chain, "next.key": held.next.pair.key}
    if held.since is not None:
        texts["since"] = timestamp(held.since)
    if held.previous is not None:
        texts["previous.crt"] = certificate_text(held.previous)
    return {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}


def given_authority(secret: Mapping[str, Any] | None) -> Authority | None:
    """An authority of somebody else's Secret: `ca.crt` and `ca.key`, or as cert-manager names them.

    None where there is none yet. Raises: CertificateError.
    """
    if secret_text(secret, KEY):
        return _authority(secret, CERTIFICATE, KEY)
    return _authority(secret, "tls.crt", "tls.key")


def _authority(secret: Mapping[str, Any] | None, certificate: str, key: str) -> Authority | None:
    chain, private = secret_text(secret, certificate), secret_text(secret, key)
    return read_authority(chain, private) if chain and private else None
