"""A client of TLS 1.3 that sends records of its own making: key updates, and as small as it likes.

Python's `ssl` makes the handshake and writes the secret of the client's traffic to a file; from
then on records are encrypted here (RFC 8446 sections 5.2, 5.3, 7.1 and 7.2).
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import struct
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HANDSHAKE, DATA = 22, 23
_TAG_BYTES = 16
_HASHES: dict[str, Any] = {
    "TLS_AES_128_GCM_SHA256": hashlib.sha256,
    "TLS_AES_256_GCM_SHA384": hashlib.sha384,
}


class Tls13Client:
    """A blocking connection; the handshake is made by `connect`."""

    def __init__(self, connected: socket.socket, cipher: str, secret: bytes) -> None:
        self.socket = connected
        self._hash = _HASHES[cipher]
        self._key_bytes = 16 if "128" in cipher else 32
        self._use(secret)

    @classmethod
    def connect(cls, port: int, key_log: Path) -> Tls13Client:
        """Connect to whoever listens on the loopback address, and trust it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        key_log.unlink(missing_ok=True)
        context.keylog_filename = str(key_log)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        made = context.wrap_bio(incoming, outgoing)
        connected = socket.create_connection(("127.0.0.1", port), timeout=20)
        while True:
            try:
                made.do_handshake()
                break
            except ssl.SSLWantReadError:
                connected.sendall(outgoing.read())
                incoming.write(connected.recv(65_536))
        connected.sendall(outgoing.read())
        cipher = made.cipher()
        assert cipher is not None
        (secret,) = (
            line.split()[2]
            for line in key_log.read_text().splitlines()
            if line.startswith("CLIENT_TRAFFIC_SECRET_0 ")
        )
        return cls(connected, cipher[0], bytes.fromhex(secret))

    def record(self, content: bytes, kind: int = DATA) -> bytes:
        """The next record, which must be sent in this order."""
        inner = content + bytes([kind])
        head = b"\x17\x03\x03" + struct.pack(">H", len(inner) + _TAG_BYTES)
        number = self._number.to_bytes(len(self._iv), "big")
        self._number += 1
        nonce = bytes(a ^ b for a, b in zip(self._iv, number, strict=True))
        return head + self._cipher.encrypt(nonce, inner, head)

    def key_update(self, *, is_requested: bool = True) -> bytes:
        """A record that renews the client's keys, and requests that the server renews its own."""
        update = self.record(bytes([24, 0, 0, 1, is_requested]), HANDSHAKE)
        self._use(self._expanded(b"traffic upd", self._hash().digest_size))
        return update

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._cipher = AESGCM(self._expanded(b"key", self._key_bytes))
        self._iv = self._expanded(b"iv", 12)

    def _expanded(self, label: bytes, size: int) -> bytes:
        name = b"tls13 " + label
        info = struct.pack(">HB", size, len(name)) + name + b"\0"
        return hmac.new(self._secret, info + b"\x01", self._hash).digest()[:size]
