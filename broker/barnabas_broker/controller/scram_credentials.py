"""SCRAM credentials of users: pure commands that store and remove them.

Each user of a request succeeds or fails alone. Codes and texts are Kafka's, whose tools print them.
Unlike Kafka this refuses what nobody could log in with (an empty salt), bounds names and salts, and
can keep a password good for a while after it was changed (SEC-27): where salt and iterations stay,
a client's message is right for either password, so the server can try both.

The first credential brings the secret along that decoys are derived from (SEC-26).

Source: KIP-554, SEC-25 to SEC-27. Invariant: at most `CREDENTIALS_MAX` credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from barnabas_broker.controller.eligible_replicas import BARNABAS_VERSION
from barnabas_broker.controller.features import (
    SECURITY_LEVEL,
    finalized,
    require_security_records,
)
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import MetadataRecord
from barnabas_broker.metadata.scram_records import (
    DecoySecretRecord,
    FormerKeys,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
)
from barnabas_protocol.connection.sasl import ScramKeys, salted_password, scram_keys
from barnabas_protocol.errors import ErrorCode, KafkaError

MECHANISM_NAMES: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""By their numbers on the wire (KIP-554)."""
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""A log-in by PLAIN counts so far in a thread of the broker."""
NAME_BYTES_MAX: Final = 1024
SALT_BYTES: Final = 24
SALT_BYTES_MAX: Final = 256
"""So a first message of SCRAM, which is at most 16 KiB, has room for both."""
SALTED_BYTES_MAX: Final = 256
CREDENTIALS_MAX: Final = 50_000
"""Each broker keeps them all, and copies the table when one changes."""
DECOY_SECRET_BYTES: Final = 32


class CredentialDeletion(NamedTuple):
    """A credential to be removed."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialUpsertion:
    """A credential to be stored."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)
    keys: ScramKeys | None = None
    """What is stored of the salted password, where that was derived before."""

    def with_keys(self) -> CredentialUpsertion:
        """The same with its keys: a thousand of them take the loop as long as it may be held."""
        mechanism = MECHANISM_NAMES.get(self.mechanism)
        if mechanism is None:
            return self
        return replace(self, keys=scram_keys(mechanism, self.salted_password))

    def record(self) -> ScramCredentialRecord:
        """The record of it, without what clients log in with."""
        keys = self.keys or scram_keys(MECHANISM_NAMES[self.mechanism], self.salted_password)
        return ScramCredentialRecord(
            user=self.user,
            mechanism=self.mechanism,
            iterations=self.iterations,
            salt=self.salt,
            stored_key=keys.stored_key,
            server_key=keys.server_key,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRules:
    """What a change of credentials depends on besides the metadata."""

    may_change: Callable[[str], bool]
    """Whether the credentials of a user may be changed by who wants it."""
    overlap_ms: int
    """For how long the keys before are good as well, where salt and iterations stay."""
    now_ms: int
    """The time of day."""
    new_secret: Callable[[int], bytes]


Outcomes = dict[str, KafkaError | None]
_Change = CredentialDeletion | CredentialUpsertion


def alter(
    image: MetadataImage,
    deletions: Sequence[CredentialDeletion],
    upsertions: Sequence[CredentialUpsertion],
    rules: CredentialRules,
) -> tuple[list[MetadataRecord], Outcomes]:
    """The records of the changes, and for each user why it was refused, or None."""
    changes: dict[str, _Change] = {}
    errors: dict[str, KafkaError] = {}
    room = CREDENTIALS_MAX - len(image.scram_credentials)
    every: list[_Change] = [*deletions, *upsertions]
    for change in every:
        if change.user in errors:
            continue
        try:
            if changes.pop(change.user, None) is not None:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            require_security_records(image)
            _check(image, change, rules)
            changes[change.user] = change
        except KafkaError as error:
            errors[change.user] = error
    records: list[MetadataRecord] = []
    outcomes: Outcomes = {}
    for user, change in changes.items():
        if isinstance(change, CredentialDeletion):
            records.append(RemoveScramCredentialRecord(*change))
        else:
            record = change.record()
            known = image.scram_credentials.get(record.key)
            if known is None and room <= 0:
                errors[user] = KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"There are {CREDENTIALS_MAX} SCRAM credentials already.",
                )
                continue
            room -= known is None
            changed = _with_former(known, record, rules)
            if changed is not None:
                records.append(changed)
        outcomes[user] = None
    return with_secret(image, records, rules.new_secret), {**outcomes, **errors}


def _with_former(
    known: ScramCredentialRecord | None, record: ScramCredentialRecord, rules: CredentialRules
) -> ScramCredentialRecord | None:
    """The record with the keys before, if they stay good; None if nothing changes."""
    if known is None or (known.salt, known.iterations) != (record.salt, record.iterations):
        return record
    if (known.stored_key, known.server_key) == (record.stored_key, record.server_key):
        return None
    if rules.overlap_ms <= 0:
        return record
    until_ms = rules.now_ms + rules.overlap_ms
    return replace(record, former=FormerKeys(until_ms, known.stored_key, known.server_key))


def first_credentials(
    users: Mapping[str, str], new_salt: Callable[[int], bytes]
) -> list[ScramCredentialRecord]:
    """Credentials of users for both mechanisms, by their passwords; takes long, for a thread."""
    records = []
    for user, password in users.items():
        for number, name in MECHANISM_NAMES.items():
            salt = new_salt(SALT_BYTES)
            change = CredentialUpsertion(
                user=user,
                mechanism=number,
                iterations=ITERATIONS_MIN,
                salt=salt,
                salted_password=salted_password(name, password, salt, ITERATIONS_MIN),
            )
            records.append(change.record())
    return records


def founding(
    image: MetadataImage,
    first: Sequence[ScramCredentialRecord],
    new_secret: Callable[[int], bytes],
) -> list[MetadataRecord]:
    """The records of the first users, none where the cluster has credentials, or may have none."""
    if not first or image.scram_credentials:
        return []
    if finalized(image)[BARNABAS_VERSION] < SECURITY_LEVEL:
        return []
    return with_secret(image, list(first), new_secret)


def with_secret(
    image: MetadataImage, records: list[MetadataRecord], new_secret: Callable[[int], bytes]
) -> list[MetadataRecord]:
    """The records behind the secret of decoys, where a first credential is among them."""
    is_first = not image.decoy_secret and any(
        isinstance(record, ScramCredentialRecord) for record in records
    )
    return [DecoySecretRecord(new_secret(DECOY_SECRET_BYTES)), *records] if is_first else records


def _check(image: MetadataImage, change: _Change, rules: CredentialRules) -> None:
    if not change.user:
        raise _unacceptable("Username must not be empty")
    if change.mechanism not in MECHANISM_NAMES:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, CredentialUpsertion):
        _check_upsertion(change)
    elif tuple(change) not in image.scram_credentials:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    if not rules.may_change(change.user):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "Only super users change the credentials of a super user.",
        )


def _check_upsertion(change: CredentialUpsertion) -> None:
    if change.iterations < ITERATIONS_MIN:
        raise _unacceptable("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise _unacceptable("Too many iterations")
    if len(change.user.encode()) > NAME_BYTES_MAX:
        raise _unacceptable(f"The name of the user has more than {NAME_BYTES_MAX} bytes")
    if not 0 < len(change.salt) <= SALT_BYTES_MAX:
        raise _unacceptable(f"The salt must have 1 to {SALT_BYTES_MAX} bytes")
    if not 0 < len(change.salted_password) <= SALTED_BYTES_MAX:
        raise _unacceptable(f"The salted password must have 1 to {SALTED_BYTES_MAX} bytes")


def _unacceptable(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, reason)
