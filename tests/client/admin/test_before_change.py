"""Who may lose the right to change something is asked right before each request that would."""

import asyncio
from typing import Any

import pytest

from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.topics import Topics
from barnabas_client.admin.values.topics import NewTopic
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tests.client.admin.scripted_client import Answer, ScriptedClient


class DeposedError(Exception):
    """The right is lost."""


def created(code: int) -> Answer:
    def answer(_: int, request: Any) -> Any:
        results = [CreatableTopicResult(name=one.name, error_code=code) for one in request.topics]
        return CreateTopicsResponse(topics=results)

    return answer


def topics_of(client: ScriptedClient, *, lets: int, asked: list[str]) -> Topics:
    """The topics for somebody who loses the right after so many requests."""

    def before_change() -> None:
        asked.append("asked")
        if len(asked) > lets:
            raise DeposedError

    return Topics(AdminRouting(client, before_change))  # type: ignore[arg-type]


def test_each_repetition_of_a_change_asks_again() -> None:
    """A call repeats itself for as long as it has time, which is longer than a right lasts."""
    client, asked = ScriptedClient(), list[str]()
    client.script(ApiKey.CREATE_TOPICS, created(ErrorCode.NOT_CONTROLLER), created(0))
    topics = topics_of(client, lets=1, asked=asked)
    with pytest.raises(DeposedError):
        asyncio.run(topics.create([NewTopic(name="orders")]))
    assert len(client.asked[ApiKey.CREATE_TOPICS]) == 1
    assert len(asked) == 2


def test_a_change_that_is_only_tried_asks_nobody() -> None:
    """Nor do reads: they do no harm."""
    client, asked = ScriptedClient(), list[str]()
    client.script(ApiKey.CREATE_TOPICS, created(0))
    topics = topics_of(client, lets=0, asked=asked)
    outcomes = asyncio.run(topics.create([NewTopic(name="orders")], validate_only=True))
    outcomes.unwrap()
    assert asked == []
