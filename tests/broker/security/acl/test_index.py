"""The index of ACLs against a naive evaluator, and the cases that are easily got wrong."""

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.security.acl.acl import Acl
from barnabas_broker.security.acl.index import AclIndex
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from tests.broker.security.acl import naive_evaluator as naive
from tests.broker.security.acl.random_acls import (
    acl_sets,
    acls,
    askers,
    names,
    operations,
    types,
)

TOPIC = AclResourceType.TOPIC


def acl(name: str, **other: object) -> Acl:
    """An ALLOW of READ on a literal name for alice, but for what is said otherwise."""
    fields = {
        "resource_type": TOPIC,
        "resource_name": name,
        "pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission": AclPermission.ALLOW,
    }
    return Acl(**{**fields, **other})  # type: ignore[arg-type]


def verdict(index: AclIndex, principal: str, host: str, operation: int, kind: int, name: str):  # type: ignore[no-untyped-def]
    found = index.deciding(principal, host, operation, kind, name)
    return None if found is None else found.permission == AclPermission.ALLOW


@settings(max_examples=1500)
@given(acl_sets, askers, operations, types, names)
def test_an_index_decides_as_looking_at_every_acl_does(
    rules: list[Acl],
    asker: tuple[str, str],
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
) -> None:
    """SEC-41, SEC-111: deny first, then allow, whatever the order in which they were made."""
    index = AclIndex.of(rules)
    expected = naive.decide(rules, *asker, operation, kind, name)
    assert verdict(index, *asker, operation, kind, name) == expected
    assert verdict(AclIndex.of(reversed(rules)), *asker, operation, kind, name) == expected
    assert index.has_any(kind, name) == naive.has_any(rules, kind, name)


@settings(max_examples=1500)
@given(acl_sets, askers, operations, types)
def test_the_any_resource_question_is_answered_as_by_looking_at_every_acl(
    rules: list[Acl], asker: tuple[str, str], operation: AclOperation, kind: AclResourceType
) -> None:
    """SEC-42, SEC-111."""
    expected = naive.somewhere(rules, *asker, operation, kind)
    assert AclIndex.of(rules).is_allowed_somewhere(*asker, operation, kind) == expected


@settings(max_examples=500)
@given(
    acl_sets,
    st.lists(st.lists(st.tuples(acls, st.booleans()), max_size=6), max_size=4),
    askers,
    operations,
    types,
    names,
)
def test_an_index_that_was_changed_is_one_made_anew(
    rules: list[Acl],
    batches: list[list[tuple[Acl, bool]]],
    asker: tuple[str, str],
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
) -> None:
    """SEC-44: no decision is left of what is gone; the index before a change stays as it was."""
    index, left = AclIndex.of(rules), dict.fromkeys(rules)
    for batch in batches:
        before = list(left)
        changes = dict(batch)
        changes |= dict.fromkeys(rules[:2], False)
        for one, is_there in changes.items():
            left.update({one: None}) if is_there else left.pop(one, None)
        old, index = index, index.updated(changes)
        for of, known in ((old, before), (index, list(left))):
            question = (*asker, operation, kind, name)
            assert verdict(of, *question) == naive.decide(known, *question)
            assert of.has_any(kind, name) == naive.has_any(known, kind, name)
            assert of.is_allowed_somewhere(*asker, operation, kind) == naive.somewhere(
                known, *asker, operation, kind
            )


def test_a_deny_implies_nothing() -> None:
    """SEC-41: who may not read a topic may still describe it, if another ACL says so."""
    index = AclIndex.of(
        [acl("a", permission=AclPermission.DENY), acl("a", operation=AclOperation.WRITE)]
    )
    assert verdict(index, "User:alice", "h", AclOperation.READ, TOPIC, "a") is False
    assert verdict(index, "User:alice", "h", AclOperation.DESCRIBE, TOPIC, "a") is True
    assert verdict(index, "User:alice", "h", AclOperation.DESCRIBE_CONFIGS, TOPIC, "a") is None


def test_a_prefix_of_another_case_or_another_composition_is_another_name() -> None:
    """SEC-40: names are compared by code points: nothing is folded, composed or trimmed."""
    prefix = acl("Ä", pattern_type=PatternType.PREFIXED)
    index = AclIndex.of([prefix])
    for name in ("äa", "A\u0308a", " Äa", "", "*"):
        assert verdict(index, "User:alice", "h", AclOperation.READ, TOPIC, name) is None, name
    assert verdict(index, "User:alice", "h", AclOperation.READ, TOPIC, "Äa") is True
    for principal in ("user:alice", "User:Alice", "User:alice ", "User:", "Group:alice"):
        assert verdict(index, principal, "h", AclOperation.READ, TOPIC, "Äa") is None, principal
