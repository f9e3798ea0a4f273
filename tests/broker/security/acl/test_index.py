"""The index of ACLs against a naive evaluator, and the cases that are easily got wrong."""

import sys
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.security.acl.acl import Acl
from barnabas_broker.security.acl.index import WEIGHED_AT_ONCE, AclIndex, verdict_of
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
    weighing = AclIndex.of(rules).weighed_somewhere(*asker, operation, kind)
    assert verdict_of(weighing) == expected


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
            weighing = of.weighed_somewhere(*asker, operation, kind)
            assert verdict_of(weighing) == naive.somewhere(known, *asker, operation, kind)


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


def calls_in(action: Callable[[], object]) -> int:
    """How many functions of Python an action calls."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def test_a_check_looks_at_few_acls_of_thousands_of_hosts() -> None:
    """SEC-44: 50,000 of them held the loop up for 18 ms, for each name that a client invents."""
    hosts = [f"10.0.{number // 250}.{number % 250}" for number in range(5_000)]
    acls = [Acl(2, "*", 3, "User:*", host, 3, 3) for host in hosts]
    index = AclIndex.of([*acls, Acl(2, "*", 3, "User:*", "10.0.0.0/24", 3, 2)])
    decided: list[Acl | None] = []
    for host, permission in (("192.168.1.1", None), (hosts[-1], 3), (hosts[0], 2)):
        decided.clear()

        def decide(at: str = host) -> None:
            decided.append(index.deciding("User:a", at, 3, 2, "x"))

        assert calls_in(decide) < 40
        (found,) = decided
        assert (None if found is None else found.permission) == permission


def test_the_any_resource_question_is_weighed_in_steps() -> None:
    """SEC-42: 50,000 patterns held the loop up for 11 ms at each InitProducerId after a change."""
    names = [f"topic-{number}" for number in range(2_000)]
    allowed = [Acl(2, name, 3, "User:a", "*", 4, 3) for name in names]
    denied = [Acl(2, name, 4, "User:a", "*", 4, 2) for name in names]
    weighing = AclIndex.of([*allowed, *denied]).weighed_somewhere("User:a", "h", 4, 2)
    steps: list[int] = []
    verdict: list[bool] = []

    def step() -> None:
        try:
            next(weighing)
        except StopIteration as end:
            verdict.append(end.value)

    while not verdict:
        steps.append(calls_in(step))
    assert verdict == [False]
    assert len(steps) == 1 + 4_000 // WEIGHED_AT_ONCE
    assert max(steps) < 40 * WEIGHED_AT_ONCE
    index = AclIndex.of(allowed)
    assert calls_in(lambda: verdict_of(index.weighed_somewhere("User:a", "h", 4, 2))) < 40


def test_acls_that_spell_one_address_in_two_ways_go_one_by_one() -> None:
    """SEC-41: who takes one of them away has not taken the other."""
    plain, cidr = (Acl(2, "t", 3, "User:a", host, 3, 2) for host in ("10.0.0.1", "10.0.0.1/32"))
    index = AclIndex.of([plain, cidr])
    index = index.updated({plain: False})
    assert index.deciding("User:a", "10.0.0.1", 3, 2, "t") == cidr
    index = index.updated({cidr: False})
    assert index.deciding("User:a", "10.0.0.1", 3, 2, "t") is None
    assert not index.has_any(2, "t")
