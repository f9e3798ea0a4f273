"""Sends OffsetCommit and OffsetFetch to the group's coordinator, and handles their errors.

Not here: the requests' contents (`commit_requests.py`); the order of commits, retries and when
to commit (`commits.py`).

Source: CON-9, CG-6, GRP-19; KIP-447, KIP-848.
Invariants: a commit carries member and generation, read when it is sent; the membership is told of
an error only while member and generation are still those of the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commit_requests import (
    COORDINATOR_GONE,
    MEMBERSHIP_OVER,
    NAMES_UNTIL,
    TOPICS_UNKNOWN,
    FetchedOffsets,
    commit_errors,
    commit_request,
    fetch_request,
    fetched_offsets,
    topic_ids,
)
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import (
    BarnabasError,
    BrokerUnreachableError,
    CommitFailedError,
    CoordinatorMovedError,
    DisconnectedError,
    MembershipLostError,
    StaleMetadataError,
    UsageError,
    error_for,
)
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition, Uuid
from barnabas_protocol.schema import Message

_REBALANCING: Final = "the group is rebalancing: poll() first, then commit what is still assigned"


class CommittingMember(Protocol):
    """The part of a membership that commits need."""

    def metadata(self) -> ConsumerGroupMetadata:
        """Group, member and generation; -1 while there is no membership."""
        ...

    def accepts_commits(self) -> bool:
        """Whether the coordinator would take a commit now; it does not in a rebalance."""
        ...

    def on_commit_error(self, code: ErrorCode, sent_as: ConsumerGroupMetadata) -> None:
        """The coordinator refused a commit that the member sent as `sent_as`."""
        ...


class GroupOffsetRequests:
    """Single attempts at committing and fetching the offsets of one consumer's group."""

    def __init__(
        self, client: Client, settings: ConsumerSettings, subscription: SubscriptionState
    ) -> None:
        self._client = client
        self._settings = settings
        self._subscription = subscription
        #: The member that commits; None until there is a membership.
        self.member: CommittingMember | None = None

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit, once.

        Raises: RetriableError; CommitFailedError or MembershipLostError if the partitions may be
        another member's; what `error_for` gives for other codes.
        """
        sent_as = self._identity()
        is_managed = self._subscription.is_group_managed
        if is_managed and self.member is not None and not self.member.accepts_commits():
            raise MembershipLostError(_REBALANCING, ErrorCode.REBALANCE_IN_PROGRESS)
        if is_managed and sent_as.generation_id < 0:
            raise CommitFailedError(
                "this consumer is not a member of the group: poll() joins again; what was read"
                " since the last commit is read again by the next owner of the partitions"
            )
        node_id = await self._coordinator()
        ids, version = await self._version(
            node_id, ApiKey.OFFSET_COMMIT, (topic for topic, _ in offsets)
        )
        request = commit_request(sent_as, offsets, ids)
        response = await self._request(node_id, request, version)
        errors = commit_errors(response, offsets, _by_id(ids))
        self._raise_for_commit(errors, sent_as)

    async def fetch(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Fetch committed offsets, once; None where nothing was committed.

        Raises: RetriableError; what `error_for` gives for other codes.
        """
        node_id = await self._coordinator()
        ids, version = await self._version(
            node_id, ApiKey.OFFSET_FETCH, (topic for topic, _ in partitions)
        )
        identity = self._identity()
        request = fetch_request(identity, partitions, ids, version)
        response = await self._request(node_id, request, version)
        found = fetched_offsets(response, identity.group_id, partitions, _by_id(ids))
        self._raise_for_fetch(found)
        return {partition: found.offsets[partition] for partition in partitions}

    def _raise_for_commit(
        self, errors: Mapping[TopicPartition, ErrorCode], sent_as: ConsumerGroupMetadata
    ) -> None:
        for partition, code in errors.items():
            if code is ErrorCode.NONE:
                continue
            if code in COORDINATOR_GONE:
                self._forget_coordinator()
            if code in TOPICS_UNKNOWN:
                self._client.request_refresh()
            if code in MEMBERSHIP_OVER:
                raise self._membership_error(code, sent_as)
            if code is ErrorCode.REQUEST_TIMED_OUT:
                raise CoordinatorMovedError(f"the commit of {partition} timed out", code)
            raise error_for(code, f"the offset of {partition} was not committed: {code.name}")

    def _membership_error(self, code: ErrorCode, sent_as: ConsumerGroupMetadata) -> BarnabasError:
        """Tell the membership, unless its generation has changed; return the error to raise."""
        is_current = self._identity() == sent_as
        if is_current and self.member is not None:
            self.member.on_commit_error(code, sent_as)
        if code is ErrorCode.FENCED_INSTANCE_ID:
            return error_for(code, "another consumer has this group_instance_id: close this one")
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            # The epoch rises with heartbeats that take nothing away: the commit is still good.
            return CoordinatorMovedError("the member epoch has changed meanwhile", code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS or not is_current:
            return MembershipLostError(_REBALANCING, code)
        return CommitFailedError(
            "the group has removed this member, and its partitions are assigned to others:"
            " call poll() more often or raise max_poll_interval_ms",
            code,
        )

    def _raise_for_fetch(self, found: FetchedOffsets) -> None:
        code = found.group_error
        where = f"group {self._settings.group_id!r}"
        if code is ErrorCode.NONE and found.errors:
            partition, code = next(iter(found.errors.items()))
            where = str(partition)
        if code is ErrorCode.NONE:
            return
        if code in COORDINATOR_GONE:
            self._forget_coordinator()
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            raise CoordinatorMovedError("the member epoch has changed meanwhile", code)
        if code in TOPICS_UNKNOWN:
            self._client.request_refresh()
            raise StaleMetadataError(f"the coordinator does not know {where} yet", code)
        raise error_for(code, f"no committed offset of {where}: {code.name}")

    def _identity(self) -> ConsumerGroupMetadata:
        """The member, or the group alone where partitions are assigned manually."""
        if self.member is not None and self._subscription.is_group_managed:
            return self.member.metadata()
        return ConsumerGroupMetadata(self._group_id())

    def _group_id(self) -> str:
        group_id = self._settings.group_id
        if group_id is None:
            raise UsageError("offsets are committed per group: set group_id")
        return group_id

    async def _coordinator(self) -> int:
        return await self._client.coordinator(CoordinatorType.GROUP, self._group_id())

    def _forget_coordinator(self) -> None:
        self._client.forget_coordinator(CoordinatorType.GROUP, self._group_id())

    async def _version(
        self, node_id: int, api: ApiKey, topics: Iterable[str]
    ) -> tuple[dict[str, Uuid], int]:
        """The ids of the topics, and the version to use: with names unless all ids are known."""
        ids = topic_ids(self._client.cluster, set(topics))
        maximum = NAMES_UNTIL if ids is None else None
        return ids or {}, await self._client.version(node_id, api, maximum=maximum)

    async def _request(self, node_id: int, request: Message, version: int) -> Any:
        try:
            return await self._client.request(node_id, request, version=version)
        except (DisconnectedError, BrokerUnreachableError):
            self._forget_coordinator()
            raise


def _by_id(ids: Mapping[str, Uuid]) -> dict[Uuid, str]:
    return {topic_id: name for name, topic_id in ids.items()}
