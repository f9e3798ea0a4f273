"""What a check of the authorizer costs: `python -m benchmarks.authorizer_checks` (SEC-115).

Nanoseconds a check without ACLs, with 100 and with 10,000: of a decision that is kept, of one that
is made anew, and of one that a connection keeps itself, as Produce and Fetch do. Nine ACLs of ten
are other principals', as in a cluster of many teams; half of them are prefixes. Besides, what one
more ACL costs.

One loop over thousands of checks, the best of five; no broker and no network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from barnabas_broker.security.acl.acl import Acl
from barnabas_broker.security.acl.standard_authorizer import StandardAuthorizer
from barnabas_broker.security.allowed_names import AllowedNames
from barnabas_broker.security.authorizer import AccessQuestion
from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType

SIZES: Final = (0, 100, 10_000)
CHECKS: Final = 5_000
ROUNDS: Final = 5
HOST: Final = "10.0.0.1"
TEAMS: Final = 10
READ, TOPIC = AclOperation.READ, AclResourceType.TOPIC


def acls(count: int) -> list[Acl]:
    """ACLs of ten principals, a few hosts, literal names and prefixes."""
    return [
        Acl(
            TOPIC,
            f"team-{number % TEAMS}-topic-{number}",
            PatternType.PREFIXED if number % 2 else PatternType.LITERAL,
            f"User:team-{number % TEAMS}",
            "*" if number % 3 else "10.0.0.0/8",
            READ,
            AclPermission.ALLOW,
        )
        for number in range(count)
    ]


def authorizer(held: Sequence[Acl]) -> StandardAuthorizer:
    """An authorizer of these ACLs."""
    made = StandardAuthorizer()
    made.decide_by(made.indexed(held), len(held))
    return made


def best_ns(action: Callable[[], object], count: int) -> float:
    """Nanoseconds of each of `count`, in the best round."""
    found = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        action()
        found.append((time.perf_counter_ns() - start) / count)
    return min(found)


def measure(size: int) -> dict[str, float]:
    """Nanoseconds by what is measured."""
    held = acls(size)
    of = authorizer(held)
    who = Principal.user("team-1")
    names = [f"team-1-topic-{10 * number + 1}" for number in range(CHECKS)]

    def anew() -> None:
        for name in names:
            of.explain(AccessQuestion(who, HOST, READ, TOPIC, name))

    def kept() -> None:
        for _ in names:
            of.is_allowed(AccessQuestion(who, HOST, READ, TOPIC, "team-1-topic-1"))

    connection = AllowedNames(TOPIC)
    wanted = frozenset(("team-1-topic-1",))

    def by_connection() -> None:
        for _ in names:
            connection.refused(of, who, HOST, READ, wanted)

    more = held[0]._replace(resource_name="one-more") if held else acls(1)[0]
    return {
        "anew": best_ns(anew, CHECKS),
        "kept": best_ns(kept, CHECKS),
        "by the connection": best_ns(by_connection, CHECKS),
        "one more ACL": best_ns(lambda: of.indexed((), lambda: {more: True}), 1),
    }


def main() -> None:
    """Print a table."""
    results = {size: measure(size) for size in SIZES}
    print("| ns | " + " | ".join(f"{size:,} ACLs" for size in SIZES) + " |")
    print("|---" * (len(SIZES) + 1) + "|")
    for what in results[0]:
        cells = " | ".join(f"{results[size][what]:,.0f}" for size in SIZES)
        print(f"| {what} | {cells} |")


if __name__ == "__main__":
    main()
