"""Which of many rights are lacking is asked in few requests (`held`)."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from barnabas_client.admin.outcome import Outcome, Outcomes
from barnabas_client.admin.values.topics import TopicDescription
from barnabas_client.errors import AuthorizationError, TimedOutError
from barnabas_console.rights.held import TOPICS_PER_CALL, first_lock
from barnabas_console.rights.needed import AnyOf, Need
from barnabas_protocol.acl import AclOperation

TOPICS = 10_000
ALL = frozenset(AclOperation)


class Topics:
    """Tells of topics what a test says; notes how many a call was for."""

    def __init__(self, **told: Outcome[TopicDescription]) -> None:
        self.told = told
        self.calls: list[int] = []

    async def describe(
        self, names: Sequence[str], *, include_authorized_operations: bool
    ) -> Outcomes[str, TopicDescription]:
        assert include_authorized_operations
        self.calls.append(len(names))
        return Outcomes({name: self.told.get(name, of_operations(ALL)) for name in names})


def of_operations(operations: frozenset[AclOperation] | None) -> Outcome[TopicDescription]:
    return Outcome.of(TopicDescription(name="t", partitions={}, authorized_operations=operations))


def lock(topics: Topics) -> dict[str, Any] | None:
    viewer: Any = SimpleNamespace(principal="User:al", admin=SimpleNamespace(topics=topics))
    needed: list[AnyOf] = [
        (Need.of_topic(AclOperation.READ, f"t{number}"),) for number in range(TOPICS)
    ]
    return asyncio.run(first_lock(viewer, needed))


def test_thousands_of_topics_are_asked_about_some_at_a_time() -> None:
    """CON-135, CON-141: a reset of a group needs READ of each of its topics."""
    topics = Topics()
    assert lock(topics) is None
    assert len(topics.calls) == TOPICS // TOPICS_PER_CALL
    assert max(topics.calls) == TOPICS_PER_CALL


def test_the_first_that_is_lacking_is_told() -> None:
    """CON-141: also where not even the topic is shown."""
    hidden: Outcome[TopicDescription] = Outcome.failed(AuthorizationError("no"))
    fewer = of_operations(frozenset({AclOperation.DESCRIBE}))
    topics = Topics(t250=fewer, t9000=hidden)
    found = lock(topics)
    assert found is not None
    assert found["missing"]["resource_name"] == "t250"
    assert len(topics.calls) == 250 // TOPICS_PER_CALL + 1
    found = lock(Topics(t9000=hidden))
    assert found is not None
    assert found["missing"]["resource_name"] == "t9000"


def test_what_brokers_do_not_tell_is_not_lacking() -> None:
    """CON-141."""
    silent: Outcome[TopicDescription] = Outcome.failed(TimedOutError("busy"))
    assert lock(Topics(t3=silent, t4=of_operations(None))) is None
