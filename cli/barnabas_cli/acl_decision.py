"""Which ACL decides: the order of Kafka's authorizer, told with the rule that ends it. Pure.

    super user -> any DENY -> any ALLOW -> no ACL for the resource: the default -> denied

It goes by what a cluster shows of its rules, so it works with every broker; what is not shown is
told as uncertain. Not here: deciding for a broker (`barnabas_broker.security`).

Source: SEC-40, SEC-41; KIP-1276 (hosts as networks).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas_client.admin.values.acls import AclBinding
from barnabas_protocol.acl import AclOperation, AclPermission, PatternType

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
EVERYBODY: Final = "User:*"

_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Who wants to do what, and from where; without a host only rules for all hosts count."""

    principal: str
    operation: AclOperation
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerSettings:
    """The brokers' settings; None where they are not shown."""

    super_users: frozenset[str] | None = None
    allows_everyone: bool | None = None

    @classmethod
    def of(cls, super_users: str | None, allow_everyone: str | None) -> AuthorizerSettings:
        """Take the texts of the settings."""
        return cls(
            super_users=None
            if super_users is None
            else frozenset(one.strip() for one in super_users.split(";") if one.strip()),
            allows_everyone=None if allow_everyone is None else allow_everyone.lower() == "true",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict, None where it hangs on what is not shown; the rule; what may change it."""

    is_allowed: bool | None
    reason: str
    rule: AclBinding | None = None
    uncertain: tuple[str, ...] = ()


def decide(
    question: Question, acls: Sequence[AclBinding], settings: AuthorizerSettings
) -> Decision:
    """Decide by the ACLs whose pattern matches the resource, of all principals."""
    if settings.super_users is not None and question.principal in settings.super_users:
        return Decision(is_allowed=True, reason=f"{question.principal} is a super user")
    uncertain: list[str] = []
    if settings.super_users is None:
        uncertain.append("the super users are not shown: one may do everything")
    about = [one for one in acls if one.principal in (question.principal, EVERYBODY)]
    if question.host is None:
        uncertain += _of_single_hosts(question, about)
    for permission in (AclPermission.DENY, AclPermission.ALLOW):
        for rule in sorted(about, key=partial(_rank, question.operation)):
            if rule.permission is permission and _applies(rule, question):
                return Decision(
                    is_allowed=permission is AclPermission.ALLOW,
                    reason=_words(rule, question.operation),
                    rule=rule,
                    uncertain=tuple(uncertain),
                )
    if acls:
        reason = f"no rule allows it to {question.principal}"
        return Decision(is_allowed=False, reason=reason, uncertain=tuple(uncertain))
    return Decision(
        is_allowed=settings.allows_everyone,
        reason=f"no rule is about this resource, and {ALLOW_EVERYONE} is "
        + {True: "true", False: "false", None: "not shown"}[settings.allows_everyone],
        uncertain=tuple(uncertain),
    )


def _rank(operation: AclOperation, rule: AclBinding) -> tuple[object, ...]:
    """The plainest rule first: any of them decides, and the same one is to be told each time."""
    return (
        rule.operation is not operation,
        rule.pattern_type is not PatternType.LITERAL,
        rule.operation,
        rule.principal,
        rule.resource_name,
        rule.host,
    )


def _applies(rule: AclBinding, question: Question) -> bool:
    return _covers(rule, question.operation) and _is_host(rule.host, question.host)


def _covers(rule: AclBinding, operation: AclOperation) -> bool:
    if rule.operation in (operation, AclOperation.ALL):
        return True
    is_allowing = rule.permission is AclPermission.ALLOW
    return is_allowing and rule.operation in _IMPLIED_BY.get(operation, ())


def _is_host(rule_host: str, host: str | None) -> bool:
    if rule_host == "*" or rule_host == host:
        return True
    if host is None or "/" not in rule_host:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule_host, strict=False)
    except ValueError:
        return False


def _of_single_hosts(question: Question, acls: Iterable[AclBinding]) -> list[str]:
    found = sorted(
        {one.host for one in acls if one.host != "*" and _covers(one, question.operation)}
    )
    return [f"from {', '.join(found)} other rules hold: ask with --host"] if found else []


def _words(rule: AclBinding, operation: AclOperation) -> str:
    permission = rule.permission.name.lower()
    covered = _word(rule.operation)
    text = (
        f"the rule '{permission} {rule.principal} {covered} on {_word(rule.resource_type)} "
        f"{rule.resource_name} ({_word(rule.pattern_type)}) from {rule.host}' decides"
    )
    if rule.operation not in (operation, AclOperation.ALL):
        text += f"; {covered} implies {_word(operation)}"
    return text


def _word(member: object) -> str:
    return getattr(member, "name", str(member)).lower().replace("_", "-")
