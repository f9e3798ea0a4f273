"""Topics: Metadata (3), CreateTopics (19), DeleteTopics (20), CreatePartitions (37), DescribeTopicPartitions (75)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    TopicDescription,
    TopicListing,
)
from barnabas_protocol.ids import Uuid


class Topics:
    """`admin.topics`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> tuple[TopicListing, ...]:
        """All topics that one may see, by name. Raises: what went wrong."""
        raise NotImplementedError

    async def describe(
        self,
        names: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        partitions_per_request: int = 2000,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, TopicDescription]:
        """Topics with their partitions; paged where the broker can."""
        raise NotImplementedError

    async def describe_by_id(
        self,
        topic_ids: Iterable[Uuid],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[Uuid, TopicDescription]:
        """Topics with their partitions, by id."""
        raise NotImplementedError

    async def create(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, CreatedTopic]:
        """Create topics, or only see whether they could be."""
        raise NotImplementedError

    async def delete(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Delete topics."""
        raise NotImplementedError

    async def delete_by_id(
        self, topic_ids: Iterable[Uuid], *, timeout_ms: int | None = None
    ) -> Outcomes[Uuid, None]:
        """Delete topics by id."""
        raise NotImplementedError

    async def add_partitions(
        self,
        wanted: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, None]:
        """Give topics more partitions; a plain number is the count in all."""
        raise NotImplementedError
