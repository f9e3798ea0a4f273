"""What one connection has been allowed, kept as long as the authorizer decides by the same."""

from barnabas_broker.security.allowed_names import NAMES_MAX, AllowedNames
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_protocol.acl import AclOperation, AclResourceType
from tests.support.memory_authorizer import Given, MemoryAuthorizer

TOPIC, READ, WRITE = AclResourceType.TOPIC, AclOperation.READ, AclOperation.WRITE
ALICE = Principal("User", "alice")


def refused(
    known: AllowedNames,
    authorizer: MemoryAuthorizer,
    *names: str,
    operation: AclOperation = READ,
    principal: Principal = ALICE,
) -> set[str]:
    return set(known.refused(authorizer, principal, "127.0.0.1", operation, set(names)))


def test_what_is_allowed_is_asked_for_once() -> None:
    """SEC-44: answers may be kept while the generation is the same; of each operation."""
    authorizer, known = MemoryAuthorizer(Given(READ, TOPIC, "a")), AllowedNames(TOPIC)
    assert refused(known, authorizer, "a") == refused(known, authorizer, "a") == set()
    assert authorizer.asked == [Given(READ, TOPIC, "a")]
    assert refused(known, authorizer, "a", operation=WRITE) == {"a"}


def test_what_is_denied_is_asked_for_each_time() -> None:
    """SEC-71: a denial of what was named is an event each time."""
    authorizer, known = MemoryAuthorizer(Given(READ, TOPIC, "a")), AllowedNames(TOPIC)
    assert refused(known, authorizer, "a", "b") == refused(known, authorizer, "a", "b") == {"b"}
    assert authorizer.asked.count(Given(READ, TOPIC, "b")) == 2


def test_another_generation_is_asked_anew() -> None:
    """SEC-44: a right that was taken away holds from the next request on."""
    authorizer, known = MemoryAuthorizer(Given(READ, TOPIC, "a")), AllowedNames(TOPIC)
    assert refused(known, authorizer, "a") == set()
    authorizer.grant()
    assert refused(known, authorizer, "a") == {"a"}


def test_another_principal_is_asked_anew() -> None:
    """Nobody gets what somebody else was allowed before on the same connection."""
    authorizer, known = MemoryAuthorizer(Given(READ, TOPIC, "a")), AllowedNames(TOPIC)
    assert refused(known, authorizer, "a") == set()
    assert refused(known, authorizer, "a", principal=ANONYMOUS) == set()
    assert [principal for principal, _ in authorizer.seen] != [ALICE]
    assert len(authorizer.asked) == 2


def test_an_access_that_is_not_told_yet_is_asked_for_again() -> None:
    """SEC-71: there was no room for its line; it is told with the next request."""
    authorizer, known = MemoryAuthorizer(Given(READ, TOPIC, "a")), AllowedNames(TOPIC)
    answers = iter((False, True))
    for _ in range(3):
        known.refused(
            authorizer, ALICE, "127.0.0.1", READ, {"a"}, lambda _, is_allowed: next(answers)
        )
    assert len(authorizer.asked) == 2


def test_names_that_a_client_invents_are_not_kept_without_end() -> None:
    """Memory: what does not fit is asked for each time."""
    authorizer, known = MemoryAuthorizer(Given(READ, TOPIC)), AllowedNames(TOPIC)
    names = [f"t-{index}" for index in range(3 * NAMES_MAX)]
    assert refused(known, authorizer, *names) == refused(known, authorizer, *names) == set()
    assert len(authorizer.asked) == 3 * NAMES_MAX + 2 * NAMES_MAX
