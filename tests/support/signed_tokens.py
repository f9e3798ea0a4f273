"""Tokens for OAUTHBEARER that a key of the test's own signs, and the file with its public half."""

import base64
import json
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KEY_ID = "test-key"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class SignedTokens:
    """An issuer of RS256 tokens."""

    issuer = "https://issuer.example"
    audience = "barnabas:test"

    def __init__(self, keys_path: Path) -> None:
        self.keys_path = keys_path
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def write_keys(self) -> Path:
        """Write the JWKS document."""
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": KEY_ID,
            "n": _text(numbers.n.to_bytes(256, "big")),
            "e": _text(numbers.e.to_bytes(3, "big")),
        }
        self.keys_path.parent.mkdir(parents=True, exist_ok=True)
        self.keys_path.write_text(json.dumps({"keys": [key]}))
        return self.keys_path

    def token(self, subject: str, lifetime_seconds: int = 600, **claims: object) -> str:
        """A token that begins now."""
        now = int(time.time())
        payload = {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": subject,
            "iat": now,
            "exp": now + lifetime_seconds,
            **claims,
        }
        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = ".".join(_text(json.dumps(part).encode()) for part in (header, payload))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"
