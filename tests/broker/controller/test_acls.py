"""Changes of ACLs: what is recorded, and what is refused in which words."""

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas_broker.controller import acls, features
from barnabas_broker.controller.acls import ACLS_MAX, ATOMIC_MAX, DELETED_MAX, plan_deletion
from barnabas_broker.controller.features import FeatureChange, UpgradeType
from barnabas_broker.metadata.acl_table import AclTable, id_of
from barnabas_broker.metadata.delta import InconsistentRecordError, MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import (
    AclRecord,
    FeatureRecord,
    MetadataRecord,
    RemoveAclRecord,
)
from barnabas_broker.security.acl.acl import Acl, AclFilter
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from barnabas_protocol.errors import ErrorCode, KafkaError

READ_A = Acl(2, "a", 3, "User:alice", "*", 3, 3)
DENY_A = READ_A._replace(permission=2)
PREFIX_B = READ_A._replace(resource_name="b", pattern_type=4)
EVERYTHING = READ_A._replace(resource_name="*", principal="User:*")
CLUSTER = READ_A._replace(resource_type=4, resource_name="kafka-cluster", operation=7)


def after(image: MetadataImage, records: Sequence[MetadataRecord]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.apply(record)
    return delta.build()


def with_acls(*held: Acl, level: int = 3) -> MetadataImage:
    image = after(MetadataImage.empty(), [FeatureRecord(features.BARNABAS_VERSION, level)])
    return after(image, [AclRecord(id_of(acl), acl) for acl in held])


def made(image: MetadataImage, *wanted: Acl) -> MetadataImage:
    records, errors = acls.create(image, wanted)
    assert errors == [None] * len(wanted)
    return after(image, records)


def test_what_is_there_is_not_written_again() -> None:
    """SEC-43: a success without a record, also for one that is twice in a request."""
    image = with_acls(READ_A)
    records, errors = acls.create(image, [READ_A, PREFIX_B, PREFIX_B])
    assert records == [AclRecord(id_of(PREFIX_B), PREFIX_B)]
    assert errors == [None, None, None]
    assert set(after(image, records).acls) == {READ_A, PREFIX_B}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": -1}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": 1}, "Invalid patternType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"pattern_type": 0}, "Invalid patternType UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 16}, "Invalid operation UNKNOWN"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"permission": 4}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        (
            {"resource_type": 4, "resource_name": "*"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            {"resource_type": 4, "resource_name": ""},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal "
            "type from the principal name)",
        ),
        ({"host": ""}, "Host pattern cannot be null or empty"),
        (
            {"host": "10.0.0.0/33"},
            "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]",
        ),
        ({"host": "fe80::1%eth0"}, "Addresses with a zone are not known here"),
        ({"host": "1" * 129}, "The host has 129 characters, 128 at most."),
        ({"resource_name": "n" * 1025}, "The resource name has 1025 characters, 1024 at most."),
        ({"principal": "p" * 1025}, "The principal has 1025 characters, 1024 at most."),
    ],
)
def test_what_cannot_be_is_refused_alone(changed: dict[str, Any], words: str) -> None:
    """SEC-43: 42 for this ACL, in Kafka's words where Kafka refuses it; the others are made."""
    records, errors = acls.create(with_acls(), [READ_A._replace(**changed), PREFIX_B])
    assert records == [AclRecord(id_of(PREFIX_B), PREFIX_B)]
    (error, none) = errors
    assert none is None
    assert error is not None
    assert error.code is ErrorCode.INVALID_REQUEST
    assert words in error.message


@pytest.mark.parametrize("operation", [one for one in AclOperation if one >= AclOperation.ALL])
def test_an_operation_is_not_checked_against_the_type(operation: AclOperation) -> None:
    """SEC-43: as Kafka does; such an ACL decides nothing."""
    made(with_acls(), CLUSTER._replace(operation=operation))


def test_below_their_level_acls_are_refused_and_above_it_it_stays() -> None:
    """SEC-44: no broker that would skip a DENY may be in the cluster."""
    for level in (1, 2):
        with pytest.raises(KafkaError) as raised:
            acls.create(with_acls(level=level), [READ_A])
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(KafkaError):
            acls.delete(with_acls(level=level), plan_deletion(AclTable(), [AclFilter()]))
    for kind in (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        change = FeatureChange(name=features.BARNABAS_VERSION, level=2, upgrade_type=kind)
        with pytest.raises(KafkaError) as raised:
            features.update(with_acls(DENY_A), [change])
        assert "There are 1 ACLs" in raised.value.message
        assert features.update(with_acls(), [change])[0]


def deleted(image: MetadataImage, *filters: AclFilter) -> tuple[MetadataImage, list[Any]]:
    deletion = plan_deletion(image.acls, filters)
    records, done = acls.delete(image, deletion)
    assert done is deletion
    assert len(records) <= 1, "one record, so that nobody sees half of a deletion"
    return after(image, records), deletion.selected


def test_filters_remove_what_they_select_and_name_it() -> None:
    """SEC-43: null is any; what two filters select is named by both and removed once."""
    image = with_acls(READ_A, DENY_A, PREFIX_B, EVERYTHING, CLUSTER)
    left, selected = deleted(
        image,
        AclFilter(resource_type=AclResourceType.TOPIC, principal="User:alice"),
        AclFilter(permission=AclPermission.DENY),
        AclFilter(resource_name="nothing"),
    )
    assert [set(found) for found in selected] == [{READ_A, DENY_A, PREFIX_B}, {DENY_A}, set()]
    assert set(left.acls) == {EVERYTHING, CLUSTER}
    assert set(image.acls) == {READ_A, DENY_A, PREFIX_B, EVERYTHING, CLUSTER}


@pytest.mark.parametrize(
    ("pattern_type", "name", "selected"),
    [
        (PatternType.ANY, None, {READ_A, PREFIX_B, EVERYTHING}),
        (PatternType.ANY, "b", {PREFIX_B}),
        (PatternType.ANY, "bb", set()),
        (PatternType.LITERAL, None, {READ_A, EVERYTHING}),
        (PatternType.LITERAL, "*", {EVERYTHING}),
        (PatternType.PREFIXED, "b", {PREFIX_B}),
        (PatternType.PREFIXED, "bb", set()),
        (PatternType.MATCH, "a", {READ_A, EVERYTHING}),
        (PatternType.MATCH, "bb", {PREFIX_B, EVERYTHING}),
        (PatternType.MATCH, "*", {EVERYTHING}),
        (PatternType.MATCH, None, {READ_A, PREFIX_B, EVERYTHING}),
    ],
)
def test_patterns_are_selected_by_kind_and_by_what_they_apply_to(
    pattern_type: PatternType, name: str | None, selected: set[Acl]
) -> None:
    """SEC-43: ANY takes a name as it is, MATCH takes the patterns that apply to it."""
    wanted = AclFilter(pattern_type=pattern_type, resource_name=name)
    assert set(wanted.selected([READ_A, PREFIX_B, EVERYTHING])) == selected


def test_a_filter_with_something_unknown_selects_nothing_and_is_told_so() -> None:
    """SEC-43: the other filters of the request are carried out."""
    image = with_acls(READ_A)
    left, selected = deleted(
        image,
        AclFilter(resource_type=99),
        AclFilter(pattern_type=99),
        AclFilter(operation=99),
        AclFilter(permission=99),
        AclFilter(resource_name="a"),
    )
    assert [error.message for error in selected[:4]] == [
        *["Unknown patternFilter."] * 2,
        *["Unknown entryFilter."] * 2,
    ]
    assert selected[4] == [READ_A]
    assert not left.acls


def many(count: int) -> AclTable:
    acls_ = [READ_A._replace(resource_name=f"t{number}") for number in range(count)]
    return AclTable().updated({id_of(acl): acl for acl in acls_})


def test_more_than_ten_thousand_at_once_are_refused_as_a_whole() -> None:
    """SEC-43: 42, and nothing is removed."""
    assert len(plan_deletion(many(DELETED_MAX), [AclFilter()]).acl_ids) == DELETED_MAX
    with pytest.raises(KafkaError) as raised:
        plan_deletion(many(DELETED_MAX + 1), [AclFilter(host="x"), AclFilter()])
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert raised.value.message == (
        f"Cannot remove more than {DELETED_MAX} acls in a single delete operation."
    )


def test_filters_that_would_look_at_too_much_are_refused() -> None:
    """SEC-43: thousands of filters keep no thread for minutes; exact ones cost nothing."""
    table = many(2_000)
    with pytest.raises(KafkaError):
        plan_deletion(table, [AclFilter(principal="nobody")] * 1_001)
    exact = AclFilter(
        resource_type=AclResourceType.TOPIC,
        resource_name="t7",
        pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=AclOperation.READ,
        permission=AclPermission.ALLOW,
    )
    assert len(plan_deletion(table, [exact] * 2_000).acl_ids) == 1


def test_a_deletion_that_was_planned_for_other_acls_is_planned_anew() -> None:
    """SEC-43: what it names is what it removes."""
    image = with_acls(READ_A)
    deletion = plan_deletion(image.acls, [AclFilter()])
    assert acls.delete(made(image, PREFIX_B), deletion) == ([], None)
    other = after(image, [FeatureRecord("other", 1)])
    assert acls.delete(other, deletion) == ([RemoveAclRecord((id_of(READ_A),))], deletion)


def test_there_are_no_more_than_a_broker_bears() -> None:
    """SEC-43: what is there already may be made again."""
    image = with_acls()
    held = many(ACLS_MAX - 1)
    full = MetadataDelta(image)
    full.changed_acls.update(dict(held.items()))
    records, errors = acls.create(full.build(), [READ_A, next(iter(held)), PREFIX_B])
    assert records == [AclRecord(id_of(READ_A), READ_A)]
    assert [error and error.code for error in errors] == [None, None, ErrorCode.POLICY_VIOLATION]


def test_a_large_request_denies_before_it_allows() -> None:
    """SEC-44: between its commands nobody may do more than before or than at the end."""
    wanted = [READ_A] * ATOMIC_MAX + [DENY_A] * 10
    first, second = acls.creation_order(wanted)
    assert first[:10] == list(range(ATOMIC_MAX, ATOMIC_MAX + 10))
    assert sorted(first + second) == list(range(len(wanted)))
    assert acls.creation_order([READ_A, DENY_A]) == [[1, 0]], "a small one is one command"


def test_the_removal_of_an_acl_that_is_not_there_is_damage() -> None:
    """SEC-44: an ALLOW that stays because nobody understood its removal would be a hole."""
    with pytest.raises(InconsistentRecordError):
        after(with_acls(READ_A), [RemoveAclRecord((id_of(DENY_A),))])
    twice = RemoveAclRecord((id_of(READ_A), id_of(READ_A)))
    with pytest.raises(InconsistentRecordError):
        after(with_acls(READ_A), [twice])
