"""Changes of SCRAM credentials: what is recorded, and what is refused with which codes."""

import hashlib
from typing import Any

import pytest

from barnabas_broker.controller import features
from barnabas_broker.controller.eligible_replicas import BARNABAS_VERSION
from barnabas_broker.controller.features import FeatureChange, UpgradeType
from barnabas_broker.controller.scram_credentials import (
    CREDENTIALS_MAX,
    CredentialDeletion,
    CredentialRules,
    CredentialUpsertion,
    alter,
)
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import FeatureRecord, MetadataRecord
from barnabas_broker.metadata.scram_records import (
    DecoySecretRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
)
from barnabas_protocol.connection.sasl import scram_keys
from barnabas_protocol.errors import ErrorCode, KafkaError

SHA_256, SHA_512, UNKNOWN = 1, 2, 0
DAY_MS = 86_400_000


def rules(**more: Any) -> CredentialRules:
    values: dict[str, Any] = {
        "may_change": lambda user: True,
        "overlap_ms": 0,
        "now_ms": 1_000,
        "new_secret": lambda size: b"s" * size,
    }
    return CredentialRules(**{**values, **more})


def after(image: MetadataImage, *records: MetadataRecord) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.apply(record)
    return delta.build()


EMPTY = after(MetadataImage.empty(), FeatureRecord(BARNABAS_VERSION, 3))


def upsertion(user: str = "alice", mechanism: int = SHA_512, **more: Any) -> CredentialUpsertion:
    values: dict[str, Any] = {
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": hashlib.sha512(b"password").digest(),
    }
    return CredentialUpsertion(user=user, mechanism=mechanism, **{**values, **more})


def with_alice() -> MetadataImage:
    return after(EMPTY, *alter(EMPTY, [], [upsertion()], rules())[0])


def code_of(outcomes: dict[str, KafkaError | None], user: str = "alice") -> int:
    error = outcomes[user]
    return ErrorCode.NONE if error is None else error.code


def test_derived_keys_are_stored_behind_the_secret_of_decoys() -> None:
    """SEC-25, SEC-26: what was sent, which lets one log in, is in no record."""
    change = upsertion()
    (secret, record), outcomes = alter(EMPTY, [], [change], rules())
    assert outcomes == {"alice": None}
    assert secret == DecoySecretRecord(b"s" * 32)
    keys = scram_keys("SCRAM-SHA-512", change.salted_password)
    assert record == ScramCredentialRecord("alice", SHA_512, 4096, b"salt", *keys)
    image = after(EMPTY, secret, record)
    (second,), _ = alter(image, [], [upsertion("bob")], rules())
    assert isinstance(second, ScramCredentialRecord)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=4096), ErrorCode.NONE),
        (upsertion(iterations=16384), ErrorCode.NONE),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a" * 1025), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=bytes(257)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=UNKNOWN), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=-1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (CredentialDeletion("alice", SHA_512), ErrorCode.NONE),
        (CredentialDeletion("alice", SHA_256), ErrorCode.RESOURCE_NOT_FOUND),
        (CredentialDeletion("nobody", SHA_512), ErrorCode.RESOURCE_NOT_FOUND),
        (CredentialDeletion("", SHA_512), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (CredentialDeletion("alice", UNKNOWN), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_a_change_is_refused_with_kafkas_code(
    change: CredentialUpsertion | CredentialDeletion, code: ErrorCode
) -> None:
    """SEC-25: and the other users of the request are not kept from theirs."""
    deletions = [change] if isinstance(change, CredentialDeletion) else []
    upsertions = [change] if isinstance(change, CredentialUpsertion) else []
    _, outcomes = alter(with_alice(), deletions, [*upsertions, upsertion("bob")], rules())
    assert code_of(outcomes, change.user) == code
    assert code_of(outcomes, "bob") == ErrorCode.NONE


@pytest.mark.parametrize(
    ("deletions", "upsertions"),
    [
        ([], [upsertion(), upsertion()]),
        ([], [upsertion(mechanism=SHA_256), upsertion(mechanism=SHA_512)]),
        ([CredentialDeletion("alice", SHA_512)], [upsertion()]),
        ([CredentialDeletion("alice", SHA_512)] * 2, []),
        ([], [upsertion()] * 3),
    ],
)
def test_a_user_twice_in_a_request_is_refused(
    deletions: list[CredentialDeletion], upsertions: list[CredentialUpsertion]
) -> None:
    """SEC-25: for two mechanisms as well; nothing is written."""
    records, outcomes = alter(with_alice(), deletions, upsertions, rules())
    assert records == []
    assert code_of(outcomes) == ErrorCode.DUPLICATE_RESOURCE


def test_only_super_users_change_a_super_users_credentials() -> None:
    """SEC-25: else Alter on the cluster would be every right there is."""
    records, outcomes = alter(
        with_alice(),
        [CredentialDeletion("alice", SHA_512)],
        [upsertion("root")],
        rules(may_change=lambda user: user != "root"),
    )
    assert records == [RemoveScramCredentialRecord("alice", SHA_512)]
    assert code_of(outcomes, "root") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_below_level_3_nothing_is_written() -> None:
    """SEC-44: an older broker would skip the records."""
    image = after(MetadataImage.empty(), FeatureRecord(BARNABAS_VERSION, 2))
    records, outcomes = alter(image, [], [upsertion()], rules())
    assert records == []
    assert code_of(outcomes) == ErrorCode.UNSUPPORTED_VERSION


def test_the_level_does_not_fall_while_there_are_credentials() -> None:
    """SEC-44: nobody could log in any more, and who was removed could after an upgrade."""
    change = FeatureChange(name=BARNABAS_VERSION, level=2, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
    image = with_alice()
    with pytest.raises(KafkaError, match="SCRAM credentials"):
        features.update(image, [change])
    image = after(image, RemoveScramCredentialRecord("alice", SHA_512))
    image = after(image, *features.update(image, [change])[0])
    assert image.features[BARNABAS_VERSION] == 2
    assert image.decoy_secret == b""


def test_the_keys_before_stay_good_where_salt_and_iterations_stay() -> None:
    """SEC-27: until a time; the same keys again change nothing."""
    image = with_alice()
    before = image.scram_credentials["alice", SHA_512]
    changed = upsertion(salted_password=hashlib.sha512(b"new").digest())
    ((record,), _) = alter(image, [], [changed], rules(overlap_ms=DAY_MS))
    assert isinstance(record, ScramCredentialRecord)
    assert record.former is not None
    assert record.former.valid_until_ms == 1_000 + DAY_MS
    assert record.former.stored_key == before.stored_key
    assert record.former.server_key == before.server_key
    assert alter(image, [], [upsertion()], rules(overlap_ms=DAY_MS))[0] == []
    assert alter(after(image, record), [], [changed], rules(overlap_ms=DAY_MS))[0] == []


@pytest.mark.parametrize(
    ("more", "overlap_ms"),
    [({"salt": b"other"}, DAY_MS), ({"iterations": 8192}, DAY_MS), ({}, 0)],
)
def test_the_keys_before_are_gone_otherwise(more: dict[str, Any], overlap_ms: int) -> None:
    """SEC-27: a client's message fits one salt and count only; 0 is Kafka's behaviour."""
    changed = upsertion(salted_password=hashlib.sha512(b"new").digest(), **more)
    ((record,), _) = alter(with_alice(), [], [changed], rules(overlap_ms=overlap_ms))
    assert isinstance(record, ScramCredentialRecord)
    assert record.former is None


def test_credentials_are_bounded() -> None:
    """Each broker keeps them all; who has one may still change it."""
    many = {(f"u{index}", SHA_512): None for index in range(CREDENTIALS_MAX - 1)}
    alice = with_alice()
    image = MetadataDelta(alice).build()
    object.__setattr__(image, "scram_credentials", {**many, **alice.scram_credentials})
    _, outcomes = alter(image, [], [upsertion(salt=b"new"), upsertion("bob")], rules())
    assert code_of(outcomes) == ErrorCode.NONE
    assert code_of(outcomes, "bob") == ErrorCode.POLICY_VIOLATION
