"""The SCRAM credentials that log-ins are verified by, and decoys for users who have none.

A decoy has the salt and iterations that some credential of this cluster could have, always the same
for a name, so that nobody learns from a log-in which names exist (SEC-26): how long a salt is, and
of which characters, tells which tool made it, so decoys take after what is stored, each kind as
often as it occurs. Each credential comes with two pairs of keys, and a false one stands in where
there are no former keys (SEC-27): a log-in takes the same time.

Pure. Not here: the records (`metadata.scram_records`), and what may be stored.
"""

from __future__ import annotations

import hmac
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from barnabas_protocol.connection.sasl import ScramCredential, ScramKeys, decoy_credential

CredentialKey = tuple[str, int]
"""A user's name, and the number of a mechanism on the wire."""
MECHANISM_NUMBERS: Final[Mapping[str, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_NUMBER_BITS: Final = 130
_NUMBER_LENGTHS: Final = range(20, 27)
"""Salts of Kafka's tools are numbers of 130 bits, in base 36; few are shorter than 24 digits."""
_KINDS_MAX: Final = 64
_SALT_BYTES_MAX: Final = 48


class StoredKeys(Protocol):
    """What a server keeps of a password."""

    @property
    def stored_key(self) -> bytes:
        """What a client's proof is verified by."""
        ...

    @property
    def server_key(self) -> bytes:
        """What the server proves itself by."""
        ...


class FormerStoredKeys(StoredKeys, Protocol):
    """The keys of the password before."""

    @property
    def valid_until_ms(self) -> int:
        """Until when they are good, by the wall clock."""
        ...


class StoredCredential(StoredKeys, Protocol):
    """A credential as the metadata has it."""

    @property
    def iterations(self) -> int:
        """How often the password was hashed."""
        ...

    @property
    def salt(self) -> bytes:
        """What it was hashed with."""
        ...

    @property
    def former(self) -> FormerStoredKeys | None:
        """The keys before, if they are good for a while."""
        ...


class _Kind(NamedTuple):
    """What can be seen of a credential in a server's first message."""

    salt_bytes: int  # 0: a number as Kafka's tools make it
    iterations: int

    @staticmethod
    def of(credential: StoredCredential) -> _Kind:
        """How a stored credential looks."""
        salt = credential.salt
        is_number = len(salt) in _NUMBER_LENGTHS and salt.isalnum() and salt == salt.lower()
        size = 0 if is_number else min(len(salt), _SALT_BYTES_MAX)
        return _Kind(size, credential.iterations)


class _Absent(NamedTuple):
    """Stands in for a credential, or for former keys."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    former: None = None


_DEFAULT_KIND: Final = _Kind(24, 4096)
"""Of the credentials that our own tools make."""


class ScramCredentials:
    """All credentials of the newest metadata that this broker has applied."""

    def __init__(self, own_secret: bytes) -> None:
        """Know none yet; decoys come of `own_secret` until the cluster has a secret."""
        self._own_secret = own_secret
        self._secret = own_secret
        self._credentials: Mapping[CredentialKey, StoredCredential] = {}
        self._kinds: dict[int, Counter[_Kind]] = {}
        self.is_loaded = False

    def update(
        self,
        credentials: Mapping[CredentialKey, StoredCredential],
        secret: bytes,
        changed: Iterable[CredentialKey] | None = None,
    ) -> None:
        """Use the credentials and the cluster's secret from now on.

        `changed` are the only keys whose credentials may be others than before; None: all.
        """
        if changed is None:
            self._kinds.clear()
            self._credentials = {}
            changed = credentials
        for key in changed:
            kinds = self._kinds.setdefault(key[1], Counter())
            before, now = self._credentials.get(key), credentials.get(key)
            if before is not None:
                kind = _Kind.of(before)
                kinds[kind] -= 1
                if not kinds[kind]:
                    del kinds[kind]
            if now is not None:
                kinds[_Kind.of(now)] += 1
        self._credentials = credentials
        self._secret = secret or self._own_secret
        self.is_loaded = True

    def find(self, mechanism: str, user: str, now_ms: int) -> ScramCredential:
        """The credential of a user, or a decoy that no password fits.

        All of the decoy is made for everybody: what it costs must not tell who needs it.
        """
        decoy = decoy_credential(mechanism, user, self._secret)
        kind = self._kind_of_decoy(mechanism, user)
        salt = self._salt(kind, mechanism, user)
        (false_keys,) = decoy.keys
        stored = self._credentials.get((user, MECHANISM_NUMBERS[mechanism]))
        absent = _Absent(kind.iterations, salt, *false_keys)
        one = absent if stored is None else stored
        former = one.former
        is_good = former is not None and now_ms < former.valid_until_ms
        other = former if is_good and former is not None else absent
        return ScramCredential(
            salt=one.salt, iterations=one.iterations, keys=(_keys(one), _keys(other))
        )

    def stored(self, mechanism: str, user: str) -> StoredCredential | None:
        """The credential of a user, None for one who has none."""
        return self._credentials.get((user, MECHANISM_NUMBERS[mechanism]))

    def mechanism_for_passwords(self, user: str) -> str:
        """The mechanism whose keys verify a user's password, the strongest there is."""
        strongest, *others = sorted(MECHANISM_NUMBERS, key=MECHANISM_NUMBERS.__getitem__)[::-1]
        for mechanism in others:
            number = MECHANISM_NUMBERS[mechanism]
            if self.stored(strongest, user) is None and (
                self.stored(mechanism, user) is not None
                or (self._kinds.get(number) and not self._kinds.get(MECHANISM_NUMBERS[strongest]))
            ):
                return mechanism
        return strongest

    def _kind_of_decoy(self, mechanism: str, user: str) -> _Kind:
        """A kind, by a draw that is the same for a name while the kinds keep their shares.

        Rendezvous hashing: a kind that comes or goes moves its own share of the names only.
        """
        kinds = self._kinds.get(MECHANISM_NUMBERS[mechanism])
        if not kinds:
            return _DEFAULT_KIND
        return min(
            kinds.most_common(_KINDS_MAX),
            key=lambda item: -math.log(self._fraction(f"{item[0]}\0{mechanism}\0{user}")) / item[1],
        )[0]

    def _fraction(self, text: str) -> float:
        """A number in (0, 1) that only the secret and the text determine."""
        drawn = int.from_bytes(hmac.digest(self._secret, text.encode(), "sha256")[:7])
        return (drawn + 1) / ((1 << 56) + 2)

    def _salt(self, kind: _Kind, mechanism: str, user: str) -> bytes:
        drawn = hmac.digest(self._secret, f"{mechanism}\0kind\0{user}".encode(), "sha512")
        if kind.salt_bytes:
            return drawn[: kind.salt_bytes]
        return _in_base_36(int.from_bytes(drawn) >> (8 * len(drawn) - _NUMBER_BITS)).encode()


def _keys(stored: StoredKeys) -> ScramKeys:
    return ScramKeys(stored.stored_key, stored.server_key)


def _in_base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits or _ALPHABET[0]
