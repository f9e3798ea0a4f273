"""What ACLs decide, asked of Apache Kafka's own authorizer and of ours: random sets of ACLs."""

import random
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas_broker.security.acl.acl import Acl
from barnabas_broker.security.acl.hosts import parse_cidr
from barnabas_broker.security.acl.standard_authorizer import StandardAuthorizer
from barnabas_broker.security.authorizer import AccessQuestion
from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from tests.support.apache_kafka import kafka_jars
from tests.support.java_tools import compile_java, java_command

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

VERSION = "4.4.0"
SETS = 1500
QUESTIONS = 12
NAMES = ("*", "a", "ab", "abc", "abd", "b", "*a", "ä", "äb", "🦆", "🦆x", "h", "hardcode")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "User:a:b", "Group:alice", "User:ANONYMOUS")
# There `*` is not about other names that begin with `*`: a DENY does not reach a group `*a`.
ASKED = tuple(name for name in NAMES if name != "*a")
# A user named `*` ends in an exception there.
ASKERS = tuple(one for one in PRINCIPALS if one != "User:*")
HOSTS = ("10.0.0.1", "10.0.0.2", "10.1.0.1", "11.0.0.1", "::1", "2001:db8::1", "::ffff:10.0.0.1")
ACL_HOSTS = (
    *("*", "*", "*", "10.0.0.1", "10.0.0.0/24", "10.0.0.0/8", "0.0.0.0/0", "::/0"),
    *("2001:db8::/32", "0:0:0:0:0:0:0:1", "10.0.0.2/32", "unknown", "localhost"),
)
OPERATIONS = tuple(one for one in AclOperation if one >= AclOperation.ALL)
CIDRS = (
    *("10.0.0.0/8", "10.0.0.5/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "256.0.0.0/8", "x/8"),
    *("10.0.0.0/-1", "10.0.0.0/8/9", "/8", "/", "0.0.0.0/0", "::/0", "fe80::/10", "::1/128"),
    *("::1/129", "::1/", "::1/x", "::1/-1", "::ffff:0:0/96", "2001:DB8::/32", "1:2/64", "::g/1"),
    *("10.0.0.0/08", "10.0.0.0/+8", " 10.0.0.0/8", "10.0.0.0/8 ", "::1/64/3", "localhost:/8"),
)
# What is taken there and not here, as other programs read it in another way.
TAKEN_BY_KAFKA = ("010.0.0.1/8", "[::1]/128", "::1/+8")


class Case(NamedTuple):
    """Some ACLs, how the authorizer is set, and questions to it."""

    acls: list[Acl]
    super_users: tuple[str, ...]
    allows_without_acls: bool
    questions: list[tuple[Principal, str, AclOperation, AclResourceType, str | None]]


def cases() -> Iterable[Case]:
    pick = random.Random(20)
    for _ in range(SETS):
        acls = [
            Acl(
                pick.choice((2, 3)),
                pick.choice(NAMES),
                pick.choice((PatternType.LITERAL, PatternType.PREFIXED)),
                pick.choice(PRINCIPALS),
                pick.choice(ACL_HOSTS),
                pick.choice(OPERATIONS),
                pick.choice((AclPermission.DENY, AclPermission.ALLOW, AclPermission.ALLOW)),
            )
            for _ in range(pick.randint(0, 10))
        ]
        questions = [
            (
                Principal.parse(pick.choice(ASKERS)),
                pick.choice(HOSTS),
                pick.choice(OPERATIONS[1:]),
                AclResourceType(pick.choice((2, 3))),
                pick.choice((*ASKED, "abcd", "c", None, None)),
            )
            for _ in range(QUESTIONS)
        ]
        super_users = ("User:bob",) if pick.random() < 0.2 else ()
        yield Case(list(dict.fromkeys(acls)), super_users, pick.random() < 0.3, questions)


def run(lines: list[str]) -> list[str]:
    """What Kafka's authorizer answers."""
    source = Path(__file__).parent / "java" / "AuthorizerRunner.java"
    jars = kafka_jars(VERSION)
    classes = compile_java("authorizer-runner", [source], jars)
    done = subprocess.run(
        java_command([classes, jars], "AuthorizerRunner", []),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return [line for line in done.stdout.splitlines() if not line.startswith("SLF4J")]


def test_both_decide_alike_on_random_acls() -> None:
    """SEC-41, SEC-42, SEC-110, SEC-111: hosts, ranges, prefixes, `*`, super users, defaults."""
    told, lines, ours = list(cases()), [], []
    for case in told:
        lines.append(
            f"config\t{';'.join(case.super_users)}\t{str(case.allows_without_acls).lower()}"
        )
        lines += ["\t".join(["acl", *map(_field, acl)]) for acl in case.acls]
        authorizer = StandardAuthorizer(
            case.super_users, allows_without_acls=case.allows_without_acls
        )
        authorizer.decide_by(authorizer.indexed(case.acls), len(case.acls))
        for principal, host, operation, kind, name in case.questions:
            asked = [*principal, host, str(int(operation)), str(int(kind))]
            # A session calls an IPv4 address so, whichever socket it came by.
            at = host.removeprefix("::ffff:")
            if name is None:
                lines.append("\t".join(["any", *asked]))
            else:
                lines.append("\t".join(["ask", *asked, name]))
            is_allowed = authorizer.is_allowed(AccessQuestion(principal, at, operation, kind, name))
            ours.append("allowed" if is_allowed else "denied")
    kafka = run(lines)
    assert len(kafka) == len(ours) == SETS * QUESTIONS
    assert kafka.count("allowed") > SETS, "else nothing is compared"
    questions = [(case, question) for case in told for question in case.questions]
    differing = [
        (*asked, theirs)
        for asked, mine, theirs in zip(questions, ours, kafka, strict=True)
        if mine != theirs
    ]
    assert not differing[:3]


def _field(value: object) -> str:
    return str(int(value)) if isinstance(value, int) else str(value)


def test_ranges_are_valid_for_both_or_refused_in_the_same_words() -> None:
    """SEC-41, KIP-1276."""
    answers = run([f"cidr\t{text}" for text in (*CIDRS, *TAKEN_BY_KAFKA)])
    for text, answer in zip(CIDRS, answers, strict=False):
        try:
            parse_cidr(text)
            mine = "valid"
        except ValueError as error:
            mine = str(error)
        assert mine == answer, text
    for text, answer in zip(TAKEN_BY_KAFKA, answers[len(CIDRS) :], strict=True):
        assert answer == "valid", text
        with pytest.raises(ValueError):
            parse_cidr(text)
