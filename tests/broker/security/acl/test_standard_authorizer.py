"""The authorizer: super users, defaults, modes, and decisions that are kept."""

from typing import Any

import pytest

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.security.acl.acl import Acl
from barnabas_broker.security.acl.index import WEIGHED_AT_ONCE
from barnabas_broker.security.acl.standard_authorizer import (
    DECISIONS_KEPT,
    KEPT_LENGTH_MAX,
    Mode,
    StandardAuthorizer,
    standard_authorizer,
)
from barnabas_broker.security.authorizer import AccessQuestion
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
READ, WRITE, ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER
ALICE, ROOT = Principal.user("alice"), Principal.user("root")
HOST = "10.0.0.1"
ALLOW_A = Acl(TOPIC, "a", 3, "User:alice", "*", READ, AclPermission.ALLOW)
DENY_ALL = Acl(TOPIC, "*", 3, "User:*", "*", AclOperation.ALL, AclPermission.DENY)


def authorizer(*acls: Acl, **settings: Any) -> StandardAuthorizer:
    made = StandardAuthorizer(["User:root"], **settings)
    made.decide_by(made.indexed(acls), len(acls))
    return made


def test_super_users_are_above_every_deny() -> None:
    """SEC-41: by their whole text, type and case included."""
    of = authorizer(DENY_ALL)
    assert of.is_allowed(AccessQuestion(ROOT, HOST, READ, TOPIC, "a"))
    assert of.is_allowed(AccessQuestion(ROOT, HOST, WRITE, TOPIC, None))
    assert of.is_super_user(ROOT)
    for other in (Principal("Group", "root"), Principal.user("Root"), Principal.user("root ")):
        assert not of.is_super_user(other)
        assert not of.is_allowed(AccessQuestion(other, HOST, READ, TOPIC, "a"))


def test_a_type_with_a_colon_is_nobody() -> None:
    """SEC-41: the type `User:a` with the name `b` reads as the user `a:b`, and is not."""
    both = Principal("User:a", "b"), Principal.user("a:b")
    assert str(both[0]) == str(both[1])
    of = StandardAuthorizer(["User:a:b"], allows_without_acls=True)
    of.decide_by(of.indexed([]), 0)
    assert of.is_super_user(both[1])
    assert not of.is_super_user(both[0])
    assert not of.is_allowed(AccessQuestion(both[0], HOST, READ, TOPIC, "a"))
    assert not of.is_allowed(AccessQuestion(both[0], HOST, WRITE, TOPIC, None))


def test_before_there_is_metadata_nobody_but_super_users_may_do_anything() -> None:
    """SEC-44: also where a resource without ACLs is everybody's."""
    of = StandardAuthorizer(["User:root"], allows_without_acls=True)
    assert not of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "a"))
    assert not of.is_allowed(AccessQuestion(ALICE, HOST, WRITE, TOPIC, None))
    assert of.is_allowed(AccessQuestion(ROOT, HOST, READ, TOPIC, "a"))
    of.decide_by(of.indexed([]), 0)
    assert of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "a")), (
        "what was denied then is not kept"
    )


def test_a_resource_is_everybody_s_only_where_no_acl_is_about_it() -> None:
    """SEC-41: an ACL of anybody, from anywhere, for anything is one about it."""
    about = Acl(TOPIC, "t", 4, "User:bob", "1.2.3.4", ALTER, AclPermission.ALLOW)
    of = authorizer(about, allows_without_acls=True)
    assert not of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "t"))
    assert not of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "tt"))
    assert of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "s"))
    assert of.is_allowed(AccessQuestion(ALICE, HOST, READ, GROUP, "t"))
    assert not authorizer(about).is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "s"))


def test_a_decision_is_kept_no_longer_than_what_it_rests_on() -> None:
    """SEC-44: who keeps answers sees by the generation that they are old."""
    of = authorizer(ALLOW_A)
    assert of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "a"))
    assert of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "a"))
    before = of.generation
    of.decide_by(of.indexed([], lambda: {ALLOW_A: False}), 0)
    assert of.generation > before
    assert not of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "a"))
    of.decide_by(of.indexed([], lambda: {ALLOW_A: True, DENY_ALL: True}), 2)
    assert not of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "a")), (
        "one request's ACLs hold together"
    )
    assert of.acl_count == 2


@pytest.mark.parametrize(
    "other",
    [
        (Principal.user("bob"), HOST, READ, TOPIC, "a"),
        (ALICE, "10.0.0.2", READ, TOPIC, "a"),
        (ALICE, HOST, WRITE, TOPIC, "a"),
        (ALICE, HOST, READ, GROUP, "a"),
        (ALICE, HOST, READ, TOPIC, "b"),
    ],
)
def test_a_kept_decision_is_nobody_else_s(other: tuple[Any, ...]) -> None:
    """SEC-44: each part of a question counts."""
    of = authorizer(ALLOW_A._replace(host=HOST))
    assert of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "a"))
    assert not of.is_allowed(AccessQuestion(*other))


def test_kept_decisions_are_bounded_in_number_and_in_size() -> None:
    """SEC-44: clients invent names; a long one is decided anew each time."""
    of = authorizer(ALLOW_A)
    for number in range(DECISIONS_KEPT + 10):
        assert not of.is_allowed(AccessQuestion(ALICE, HOST, READ, GROUP, f"g{number}"))
    of.is_allowed(AccessQuestion(ALICE, HOST, READ, GROUP, "g" * (KEPT_LENGTH_MAX + 1)))
    assert of.kept_count <= DECISIONS_KEPT
    assert of.check_count == DECISIONS_KEPT + 11
    assert of.denial_count == of.check_count


@pytest.mark.parametrize("is_allowed", [True, False])
def test_what_was_weighed_in_steps_is_known_unless_acls_have_changed(is_allowed: bool) -> None:
    """SEC-42, SEC-44: the question that is asked afterwards is not weighed again."""
    names = [f"t{number}" for number in range(3 * WEIGHED_AT_ONCE)]
    allowed = [Acl(TOPIC, name, 3, "User:alice", "*", WRITE, AclPermission.ALLOW) for name in names]
    denied = [acl._replace(permission=AclPermission.DENY) for acl in allowed]
    of = authorizer(*allowed, *denied[: -1 if is_allowed else None])
    question = AccessQuestion(ALICE, HOST, WRITE, TOPIC, None)
    assert len(list(of.weighing(question))) == 3
    assert of.kept_count == 1
    assert list(of.weighing(question)) == []
    assert of.is_allowed(question) == is_allowed
    of.decide_by(of.indexed(allowed), len(allowed))
    assert list(of.weighing(question)) == [], "nothing dominates the first pattern"
    of.decide_by(of.indexed([*allowed, *denied]), 2 * len(allowed))
    for step, _ in enumerate(of.weighing(question)):
        if step == 1:
            of.decide_by(of.indexed(allowed), len(allowed))
    assert of.kept_count == 0
    assert of.is_allowed(question)


def test_audit_only_allows_all_but_the_change_of_rights() -> None:
    """SEC-89: what ACLs say is told by `denies`; an alternative right is not passed over."""
    of = authorizer(DENY_ALL, mode=Mode.AUDIT_ONLY)
    assert of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "a"))
    assert of.is_allowed(AccessQuestion(ALICE, HOST, READ, TOPIC, "a"), is_filter=True)
    assert of.is_allowed(AccessQuestion(ALICE, HOST, WRITE, TOPIC, None))
    assert of.denies(AccessQuestion(ALICE, HOST, READ, TOPIC, "a"))
    assert of.denies(AccessQuestion(ALICE, HOST, WRITE, TOPIC, None))
    assert of.is_allowed(AccessQuestion(ALICE, HOST, ALTER, CLUSTER, "kafka-cluster"))
    assert not of.is_allowed(
        AccessQuestion(ALICE, HOST, ALTER, CLUSTER, "kafka-cluster"), is_filter=True
    )
    action = AclOperation.CLUSTER_ACTION
    assert not of.is_allowed(AccessQuestion(ALICE, HOST, action, CLUSTER, "kafka-cluster")), (
        "nobody is a broker"
    )
    assert not of.may_change_rights(ALICE, HOST)
    assert of.may_change_rights(ROOT, HOST)
    assert of.denial_count == 5


def test_the_rule_that_decides_is_told() -> None:
    """SEC-70: for the audit log and `acl explain`."""
    of = authorizer(ALLOW_A, allows_without_acls=True)
    rules = [
        of.rule_text(AccessQuestion(who, HOST, READ, TOPIC, name))
        for who, name in ((ROOT, "a"), (ALICE, "a"), (ANONYMOUS, "a"), (ALICE, "b"), (ALICE, None))
    ]
    allow = "ALLOW READ on TOPIC:LITERAL:a for User:alice from *"
    assert rules == ["SuperUser", allow, "DefaultDeny", "DefaultAllow", ""]


def test_the_settings_make_it() -> None:
    """SEC-41, SEC-89: no class, no authorizer."""
    assert standard_authorizer(BrokerConfig.parse({"super.users": "User:root"})) is None
    made = standard_authorizer(
        BrokerConfig.parse(
            {
                "authorizer.class.name": "StandardAuthorizer",
                "super.users": "User:root;User:other",
                "barnabas.authorizer.mode": "audit-only",
            }
        )
    )
    assert made is not None
    assert made.is_super_user(ROOT)
    assert made.is_audit_only
