"""Which rule decides, in the order of SEC-41."""

import re

import pytest

from barnabas_cli.acl_decision import AuthorizerSettings, Question, decide
from barnabas_client.admin.values.acls import AclBinding
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType

KNOWN = AuthorizerSettings.of("User:root; User:CN=a,O=b", "false")


def acl(
    operation: AclOperation = AclOperation.READ,
    *,
    principal: str = "User:alice",
    host: str = "*",
    deny: bool = False,
) -> AclBinding:
    return AclBinding(
        resource_type=AclResourceType.TOPIC,
        resource_name="orders",
        pattern_type=PatternType.LITERAL,
        principal=principal,
        host=host,
        operation=operation,
        permission=AclPermission.DENY if deny else AclPermission.ALLOW,
    )


def asked(
    operation: AclOperation = AclOperation.READ,
    *,
    principal: str = "User:alice",
    host: str | None = None,
) -> Question:
    return Question(principal=principal, operation=operation, host=host)


@pytest.mark.parametrize(
    ("question", "acls", "is_allowed", "words"),
    [
        (asked(principal="User:root"), [acl(deny=True)], True, "is a super user"),
        (asked(principal="User:CN=a,O=b"), [], True, "is a super user"),
        (asked(), [acl(), acl(AclOperation.ALL, deny=True)], False, "deny User:alice all"),
        (asked(), [acl(), acl(principal="User:*", deny=True)], False, "deny User:\\*"),
        (asked(), [acl()], True, "allow User:alice read on topic orders"),
        (asked(AclOperation.DESCRIBE), [acl()], True, "read implies describe"),
        (
            asked(AclOperation.DESCRIBE_CONFIGS),
            [acl(AclOperation.ALTER_CONFIGS)],
            True,
            "alter-configs implies describe-configs",
        ),
        (asked(AclOperation.DESCRIBE), [acl(deny=True)], False, "no rule allows"),
        (asked(AclOperation.WRITE), [acl()], False, "no rule allows"),
        (asked(host="10.1.2.3"), [acl(host="10.1.0.0/16")], True, "from 10.1.0.0/16"),
        (asked(host="10.2.2.3"), [acl(host="10.1.0.0/16")], False, "no rule allows"),
        (asked(host="::1"), [acl(host="::1")], True, "from ::1"),
        (asked(), [acl(principal="User:bob")], False, "no rule allows"),
        (asked(), [], False, "no rule is about this resource, and .* is false"),
    ],
)
def test_the_rule_that_ends_it_is_told(
    question: Question, acls: list[AclBinding], is_allowed: bool, words: str
) -> None:
    """SEC-41, SEC-102."""
    decision = decide(question, acls, KNOWN)
    assert decision.is_allowed is is_allowed
    assert re.search(words, decision.reason), decision.reason
    assert decision.uncertain == ()


def test_what_is_not_shown_is_uncertain() -> None:
    """Settings of brokers need a right of their own."""
    decision = decide(asked(), [], AuthorizerSettings())
    assert decision.is_allowed is None
    assert "not shown" in decision.reason
    assert "super users" in decision.uncertain[0]


def test_rules_for_single_hosts_are_named_where_no_host_is() -> None:
    """A denial for one address would else be missed."""
    decision = decide(asked(), [acl(), acl(host="10.0.0.1", deny=True)], KNOWN)
    assert decision.is_allowed is True
    assert decision.uncertain == ("from 10.0.0.1 other rules hold: ask with --host",)
