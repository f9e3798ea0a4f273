"""The certificate that the webhook is served with: files that may be replaced at any time.

The files are those of a Secret, `tls.crt` and `tls.key`, which the kubelet replaces while the
operator runs. New connections get the new certificate; nothing is started anew for it.

Invariant: a pair that does not fit together, or cannot be read, leaves the former one in place.
"""

from __future__ import annotations

import hashlib
import logging
import ssl
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"


class ServingCertificate:
    """Keeps an SSL context up to date."""

    def __init__(self, directory: Path) -> None:
        """Take where the files are, or will be."""
        self._certificate = directory / CERTIFICATE_FILE
        self._key = directory / KEY_FILE
        self._digest = ""
        self.context = _server_context()
        self.expires_seconds = 0.0
        """When it expires, in seconds since 1970; 0 while there is none that is valid."""

    def refresh(self) -> bool:
        """Load the files if they are new; whether they were."""
        digest = self._read()
        if not digest or digest == self._digest:
            return False
        try:
            # Tried on another context first: one that fails half-way would serve a wrong pair.
            trial = _server_context()
            trial.load_cert_chain(self._certificate, self._key)
            self.context.load_cert_chain(self._certificate, self._key)
        except (ssl.SSLError, OSError) as error:
            logger.warning("the webhook's certificate is not usable: %s", error)
            return False
        self._digest = digest
        self.expires_seconds = _expires_seconds(trial, self._certificate)
        logger.info("the webhook's certificate is loaded")
        return True

    def _read(self) -> str:
        """A digest of both files, empty while one is missing."""
        digest = hashlib.sha256()
        try:
            for path in (self._certificate, self._key):
                digest.update(path.read_bytes())
        except OSError:
            return ""
        return digest.hexdigest()


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _expires_seconds(server: ssl.SSLContext, certificate: Path) -> float:
    """When a client has to stop taking it; 0 for one that is taken by none, such as an expired one.

    Only a handshake tells what is in a certificate, so one is made in memory.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    # Trusted for itself: who has signed it is for the API server to check.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(cafile=certificate)
        found = _handshake(client, server)
    except ssl.SSLError as error:
        logger.warning("the webhook's certificate is not valid: %s", error)
        return 0.0
    return float(ssl.cert_time_to_seconds(found)) if found else 0.0


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """Until when the server's certificate is valid, as the client sees it. Raises: SSLError."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    # A handshake is over after two turns of each side.
    for _ in range(4):
        for side in (one, other):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    found = one.getpeercert() or {}
    return str(found.get("notAfter", ""))
