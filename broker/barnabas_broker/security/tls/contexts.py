"""Contexts of OpenSSL from key material; made anew for each version of it and never changed.

A context in use cannot lose an anchor, and its session tickets live on (SEC-6): so a renewal makes
new ones. Keys come from memory: Python loads them from paths only, and a memory file has one that
is on no disk (SEC-2).
"""

from __future__ import annotations

import ssl
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.tls_settings import ListenerTlsSettings
from barnabas_broker.env.memory_file import memory_file
from barnabas_broker.env.tls_records import RecordwiseSSLObject
from barnabas_broker.security.tls.cipher_suites import openssl_ciphers
from barnabas_broker.security.tls.key_material import KeyMaterial

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(material: KeyMaterial, settings: ListenerTlsSettings) -> ssl.SSLContext:
    """What a listener's new connections are served with. Raises: ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _apply(context, material, settings)
    context.sslobject_class = RecordwiseSSLObject
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _VERIFY[settings.client_auth]
    if settings.client_auth != "none":
        # Who resumes a session is not verified again.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def client_context(material: KeyMaterial, settings: ListenerTlsSettings) -> ssl.SSLContext:
    """What this broker connects to others with. Raises: ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _apply(context, material, settings)
    context.hostname_checks_common_name = False
    context.check_hostname = settings.verifies_names
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _apply(context: ssl.SSLContext, material: KeyMaterial, settings: ListenerTlsSettings) -> None:
    context.minimum_version = _VERSIONS[settings.protocols[0]]
    context.maximum_version = _VERSIONS[settings.protocols[-1]]
    context.options |= ssl.OP_NO_COMPRESSION
    if settings.cipher_suites:
        ciphers = openssl_ciphers(settings.cipher_suites, settings.protocols)
        if ciphers is not None:
            context.set_ciphers(ciphers)
    # Any certificate of the trust store ends a chain, as in Java, also one that is no root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        _load_key(context, material)
        if material.anchors:
            context.load_verify_locations(cadata=material.anchors_pem)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise ConfigError(
            f"{settings.listener}: OpenSSL does not take the key and its chain: {reason}"
        ) from None


def _load_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    with memory_file(material.key_pem + material.chain_pem) as path:
        context.load_cert_chain(path, password="")


def handshakes_at_once(material: KeyMaterial) -> int:
    """How many handshakes may be under way, so that a turn of the loop stays below 10 ms.

    All of them may reach their most expensive step in the same turn. With a key of ECDSA P-256 or
    Ed25519 that step takes 0.2 ms, with RSA of 2048 bits 0.9, of 3072 2.5 and of 4096 5 ms
    (decision 0034).
    """
    key = material.key
    if isinstance(key, rsa.RSAPrivateKey):
        return 8 if key.key_size <= 2048 else 3 if key.key_size <= 3072 else 1
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size > 256:
        return 6
    return 32
