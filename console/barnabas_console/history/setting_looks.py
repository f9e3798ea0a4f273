"""Looks at the settings that brokers and topics do not have by default, for the timeline (CON-123).

Gentle (CON-135): a request for `_RESOURCES_PER_CALL` topics, of `TOPICS_MAX` topics at most; each
has some forty settings, and a response of 100 topics held this loop for 50 ms.
Invariant: what may not be seen, or cannot be read now, is left out: it has not changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from barnabas_client.errors import BarnabasError

TOPICS_MAX: Final = 1_000
_RESOURCES_PER_CALL: Final = 20
Settings = dict[str, dict[str, str | None]]


def call_count(topic_count: int) -> int:
    """How many requests a look takes, of so many topics and a few brokers."""
    return 1 + min(topic_count, TOPICS_MAX) // _RESOURCES_PER_CALL


async def look_at_settings(
    admin: Admin, node_ids: Iterable[int], topics: Iterable[str]
) -> Settings:
    """What is set, by resource (`topic orders`, `broker 1`); sensitive values are None."""
    named = {ConfigResource.broker(): "all brokers"}
    named.update({ConfigResource.broker(node_id): f"broker {node_id}" for node_id in node_ids})
    some = sorted(topics)[:TOPICS_MAX]
    named.update({ConfigResource.topic(topic): f"topic {topic}" for topic in some})
    resources = list(named)
    found: Settings = {}
    for start in range(0, len(resources), _RESOURCES_PER_CALL):
        try:
            described = await admin.configs.describe(resources[start : start + _RESOURCES_PER_CALL])
        except BarnabasError:
            continue
        for resource, entries in described.successes.items():
            found[named[resource]] = _set(resource, entries.values())
    return found


def _set(resource: ConfigResource, entries: Iterable[ConfigEntry]) -> dict[str, str | None]:
    """What was set of just this resource while brokers ran; a broker's file is read by restarts."""
    if resource.type is ResourceType.TOPIC:
        own = ConfigSource.DYNAMIC_TOPIC
    else:
        own = ConfigSource.DYNAMIC_BROKER if resource.name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    return {
        entry.name: None if entry.is_sensitive else entry.value
        for entry in entries
        if entry.source is own
    }
