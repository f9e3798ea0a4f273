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
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from barnabas_protocol.connection.sasl import ScramCredential, ScramKeys, decoy_credential

CredentialKey = tuple[str, int]
"""A user's name, and the number of a mechanism on the wire."""
MECHANISM_NUMBERS: Final[Mapping[str, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_STRONGEST_FIRST: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_NUMBER_BITS: Final = 130
_NUMBER_LENGTHS: Final = range(20, 27)
"""Salts of Kafka's tools are numbers of 130 bits, in base 36; few are shorter than 24 digits."""
_KINDS_MAX: Final = 64
_NOBODY: Final[CredentialKey] = ("", 0)
_Choice = TypeVar("_Choice")
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
    def of(credential: _Credential) -> _Kind:
        """How a stored credential looks."""
        salt = credential.salt
        is_number = len(salt) in _NUMBER_LENGTHS and salt.isalnum() and salt == salt.lower()
        size = 0 if is_number else min(len(salt), _SALT_BYTES_MAX)
        return _Kind(size, credential.iterations)


class _Credential(NamedTuple):
    """What log-ins of a user are verified by, or a decoy."""

    salt: bytes
    iterations: int
    keys: ScramKeys
    former: ScramKeys | None = None
    former_until_ms: int = 0

    @staticmethod
    def of(stored: StoredCredential) -> _Credential:
        """A credential of the metadata."""
        salt, iterations, former = stored.salt, stored.iterations, stored.former
        if former is None:
            return _Credential(salt, iterations, _keys(stored))
        return _Credential(salt, iterations, _keys(stored), _keys(former), former.valid_until_ms)


_DEFAULT_KIND: Final = _Kind(24, 4096)
"""Of the credentials that our own tools make."""


class _Stored:
    """Credentials, and what decoys take after: counts of their kinds."""

    __slots__ = ("by_key", "kinds", "stand_ins", "users")

    def __init__(self) -> None:
        self.by_key: dict[CredentialKey, _Credential] = {}
        self.kinds: dict[int, Counter[_Kind]] = {}
        self.users: Counter[str] = Counter()  # by their strongest mechanism
        self.stand_ins: list[CredentialKey] = []  # those that there are, and some that were

    def copy(self) -> _Stored:
        """The same, to be changed while this one is looked at."""
        copied = _Stored()
        copied.by_key = dict(self.by_key)
        copied.kinds = {number: Counter(kinds) for number, kinds in self.kinds.items()}
        copied.users = Counter(self.users)
        copied.stand_ins = list(self.stand_ins)
        return copied

    def update(
        self,
        credentials: Mapping[CredentialKey, StoredCredential],
        changed: Iterable[CredentialKey] | None,
    ) -> list[CredentialKey]:
        """Take over the credentials that may have changed, None for all; returns the others."""
        if changed is None:
            changed = {**credentials, **self.by_key}
        others = []
        for key in changed:
            stored = credentials.get(key)
            now = None if stored is None else _Credential.of(stored)
            if self.by_key.get(key) != now:
                others.append(key)
                self._replace(key, now)
        return others

    def _replace(self, key: CredentialKey, now: _Credential | None) -> None:
        """Have another credential, or none, and count it among what decoys take after."""
        user, number = key
        _count(self.users, self.strongest(user), -1)
        kinds = self.kinds.setdefault(number, Counter())
        before = self.by_key.pop(key, None)
        if before is not None:
            _count(kinds, _Kind.of(before), -1)
        if now is not None:
            _count(kinds, _Kind.of(now), 1)
            self.by_key[key] = now
            self.stand_ins.append(key)
            if len(self.stand_ins) > 2 * len(self.by_key):
                self.stand_ins = list(self.by_key)
        _count(self.users, self.strongest(user), 1)

    def strongest(self, user: str) -> str | None:
        """The strongest mechanism that a user has a credential for."""
        for name in _STRONGEST_FIRST:
            if (user, MECHANISM_NUMBERS[name]) in self.by_key:
                return name
        return None


class PreparedCredentials(NamedTuple):
    """What `ScramCredentials.prepared` has made, for `take_over`."""

    stored: _Stored
    secret: bytes
    others: list[CredentialKey]
    """Whose credentials are others than before."""


class ScramCredentials:
    """All credentials of the newest metadata that this broker has applied."""

    def __init__(self, own_secret: bytes) -> None:
        """Know none yet; decoys come of `own_secret` until the cluster has a secret."""
        self._own_secret = own_secret
        self._secret = own_secret
        self._stored = _Stored()
        self.is_loaded = False

    def update(
        self,
        credentials: Mapping[CredentialKey, StoredCredential],
        secret: bytes,
        changed: Iterable[CredentialKey] | None = None,
    ) -> list[CredentialKey]:
        """Use the credentials and the cluster's secret from now on; returns which are others now.

        `changed` are the only keys whose credentials may be others than before; None: all.
        """
        others = self._stored.update(credentials, changed)
        self.take_over(PreparedCredentials(self._stored, secret, others))
        return others

    def prepared(
        self,
        credentials: Mapping[CredentialKey, StoredCredential],
        secret: bytes,
        changed: Iterable[CredentialKey] | None = None,
    ) -> PreparedCredentials:
        """What `update` would use, beside what is used: for a thread, where there are very many.

        Nothing may be updated meanwhile.
        """
        stored = self._stored.copy()
        return PreparedCredentials(stored, secret, stored.update(credentials, changed))

    def take_over(self, prepared: PreparedCredentials) -> None:
        """Use what was prepared from now on, as a whole."""
        self._stored = prepared.stored
        self._secret = prepared.secret or self._own_secret
        self.is_loaded = True

    def find(self, mechanism: str, user: str, now_ms: int) -> ScramCredential:
        """The credential of a user, or a decoy that no password fits.

        All of the decoy is made for everybody: what it costs must not tell who needs it.
        """
        (false_keys,) = decoy_credential(mechanism, user, self._secret).keys
        kind = self._kind_of_decoy(mechanism, user)
        decoy = _Credential(self._salt(kind, mechanism, user), kind.iterations, false_keys)
        found = self._stored.by_key.get((user, MECHANISM_NUMBERS[mechanism]))
        # One of the two is there, the other is not.
        name, number = (self._stand_in(decoy.salt), _NOBODY)[found is not None]
        other = self._stored.by_key.get((name, number))
        taken = found or other or decoy
        shown, former = (decoy, taken)[found is not None], taken.former
        if former is None or now_ms >= taken.former_until_ms or found is None:
            former = false_keys
        return ScramCredential(
            salt=shown.salt, iterations=shown.iterations, keys=(shown.keys, former)
        )

    def _stand_in(self, drawn: bytes) -> CredentialKey:
        stand_ins = self._stored.stand_ins
        count = len(stand_ins)
        return stand_ins[int.from_bytes(drawn[:4]) % count] if count else _NOBODY

    def mechanism_for_passwords(self, user: str) -> str:
        """The mechanism whose keys verify a user's password, the strongest there is.

        Of a user who has none it is that of some other, always the same for a name: how long
        hashing takes must not tell names.
        """
        decoy = _drawn(self._stored.users.items(), partial(self._fraction, f"strongest\0{user}"))
        return self._stored.strongest(user) or decoy or _STRONGEST_FIRST[0]

    def _kind_of_decoy(self, mechanism: str, user: str) -> _Kind:
        kinds = self._stored.kinds.get(MECHANISM_NUMBERS[mechanism], Counter())
        fraction = partial(self._fraction, f"{mechanism}\0{user}")
        return _drawn(kinds.most_common(_KINDS_MAX), fraction) or _DEFAULT_KIND

    def _fraction(self, purpose: str, choice: object) -> float:
        """A number in (0, 1) that only the secret and the texts determine."""
        text = f"{choice}\0{purpose}".encode()
        drawn = int.from_bytes(hmac.digest(self._secret, text, "sha256")[:7])
        return (drawn + 1) / ((1 << 56) + 2)

    def _salt(self, kind: _Kind, mechanism: str, user: str) -> bytes:
        drawn = hmac.digest(self._secret, f"{mechanism}\0kind\0{user}".encode(), "sha512")
        if kind.salt_bytes:
            return drawn[: kind.salt_bytes]
        return _in_base_36(int.from_bytes(drawn) >> (8 * len(drawn) - _NUMBER_BITS)).encode()


def _drawn(
    choices: Iterable[tuple[_Choice, int]], fraction: Callable[[_Choice], float]
) -> _Choice | None:
    """A choice, each by its share, that stays the same while the shares do; None of none.

    Rendezvous hashing: a choice that comes or goes moves its own share of the names only.
    """
    return min(
        ((-math.log(fraction(choice)) / count, choice) for choice, count in choices),
        default=(0.0, None),
        key=lambda weighed: weighed[0],
    )[1]


def _count(counter: Counter[_Choice], choice: _Choice | None, change: int) -> None:
    """Count one in or out; a counter has no zeros."""
    if choice is not None:
        counter[choice] += change
        if not counter[choice]:
            del counter[choice]


def _keys(stored: StoredKeys) -> ScramKeys:
    return ScramKeys(stored.stored_key, stored.server_key)


def _in_base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits or _ALPHABET[0]
