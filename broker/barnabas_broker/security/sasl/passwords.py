"""Whether a password is a user's: by the users of a configuration, or by stored SCRAM keys.

Pure. Hashing takes milliseconds on purpose: `fitting_keys` belongs in a thread.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from barnabas_protocol.connection.sasl import (
    ScramCredential,
    ScramKeys,
    salted_password,
    scram_keys,
)


class ConfiguredUsers:
    """Users and their passwords, of `sasl.jaas.config` (SEC-23)."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._digests = {name: _digest(password) for name, password in users.items()}

    def is_password_of(self, user: str, password: str) -> bool:
        """Whether it is; in the same time for users who are not known."""
        known = self._digests.get(user)
        given = _digest(password)
        return hmac.compare_digest(given, known or bytes(len(given))) and known is not None


def fitting_keys(mechanism: str, credential: ScramCredential, password: str) -> ScramKeys | None:
    """The keys of a credential, or of a decoy, that a password fits; None where it fits none."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    stored_key = scram_keys(mechanism, salted).stored_key
    # All of them, whichever fits: in the same time.
    fits = [hmac.compare_digest(stored_key, keys.stored_key) for keys in credential.keys]
    return credential.keys[fits.index(True)] if any(fits) else None


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
