"""`Admin`: looks after a cluster, one noun of it at a time.

    async with Admin("broker:9092") as admin:
        await admin.topics.create([NewTopic(name="orders", partition_count=6)])
        for listing in await admin.groups.list():
            print(listing.group_id, listing.state)

Each noun is a class with one coroutine per administrative request of Kafka's protocol; calls about
several items are batched per destination, asked in parallel and repeated item by item until
`default_api_timeout_ms` or the call's own `timeout_ms`, and return `Outcomes`.

Left out are records (keys 0, 1), logging in (17, 36), metrics
that clients push (71, 72), what members ask for themselves (11, 12, 14, 68, 76, 78, 79, 88, 93) and
transactional producers (24-26, 28), and what brokers, controllers and share coordinators ask of
each other (52-54, 56, 58, 59, 62, 63, 67, 70, 73, 82-87).

Not here: how requests find their node (`routing.py`), what the values mean (`values/`).

Invariants: not thread-safe, one event loop; the client is closed by whoever made it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from barnabas_client.admin.routing import AdminRouting
from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.network.client import Client

if TYPE_CHECKING:
    from barnabas_client.admin.acls import Acls
    from barnabas_client.admin.cluster import Cluster
    from barnabas_client.admin.configs import Configs
    from barnabas_client.admin.features import Features
    from barnabas_client.admin.group_offsets import GroupOffsets
    from barnabas_client.admin.groups import Groups
    from barnabas_client.admin.log_dirs import LogDirs
    from barnabas_client.admin.partitions import Partitions
    from barnabas_client.admin.quorum import Quorum
    from barnabas_client.admin.quotas import Quotas
    from barnabas_client.admin.scram import Scram
    from barnabas_client.admin.share_groups import ShareGroups
    from barnabas_client.admin.streams_groups import StreamsGroups
    from barnabas_client.admin.tokens import Tokens
    from barnabas_client.admin.topics import Topics
    from barnabas_client.admin.transactions import Transactions
    from barnabas_client.config.options import AdminOptions


class Admin:
    """The administrative client; connects on `start`, or as an `async with` block."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client: Client | None = None,
        before_change: Callable[[], None] = lambda: None,
        **settings: Unpack[AdminOptions],
    ) -> None:
        """Take the settings, those of docs/reference; nothing is connected yet.

        A `client` that is given stays open at the end. `before_change` is called right before each
        request that changes something, repetitions included; what it raises ends the call.
        Raises: ConfigurationError.
        """
        chosen = AdminSettings.create({"bootstrap_servers": bootstrap_servers, **settings})
        self.settings = chosen
        self._owns_client = client is None
        self._client = client or Client(chosen)
        self._routing = AdminRouting(self._client, before_change)

    async def start(self) -> None:
        """Find the cluster; to be awaited before anything else, does nothing if that was done.

        Raises: BrokerUnreachableError, AuthenticationError, UnsupportedError.
        """
        await self._client.start()

    async def close(self) -> None:
        """Close all connections; calls under way fail with ClosedError. May be repeated."""
        if self._owns_client:
            await self._client.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    # Nouns are imported when they are first used: all of them together would cost a command line
    # program more time than its request takes.

    @cached_property
    def topics(self) -> Topics:
        """Topics: list, describe, create, delete, add partitions."""
        from barnabas_client.admin.topics import Topics

        return Topics(self._routing)

    @cached_property
    def partitions(self) -> Partitions:
        """Partitions: offsets, deleting records, leader elections, reassignments."""
        from barnabas_client.admin.partitions import Partitions

        return Partitions(self._routing)

    @cached_property
    def configs(self) -> Configs:
        """Settings of topics, brokers, groups, loggers and client metrics."""
        from barnabas_client.admin.configs import Configs

        return Configs(self._routing)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster and its brokers."""
        from barnabas_client.admin.cluster import Cluster

        return Cluster(self._routing)

    @cached_property
    def features(self) -> Features:
        """Features that the cluster has agreed on."""
        from barnabas_client.admin.features import Features

        return Features(self._routing)

    @cached_property
    def quorum(self) -> Quorum:
        """The controllers' quorum: describe, add and remove voters."""
        from barnabas_client.admin.quorum import Quorum

        return Quorum(self._routing)

    @cached_property
    def log_dirs(self) -> LogDirs:
        """Log directories: sizes, moving replicas between them."""
        from barnabas_client.admin.log_dirs import LogDirs

        return LogDirs(self._routing)

    @cached_property
    def groups(self) -> Groups:
        """Groups: list, describe, delete, remove members."""
        from barnabas_client.admin.groups import Groups

        return Groups(self._routing)

    @cached_property
    def group_offsets(self) -> GroupOffsets:
        """What groups have committed: list, alter, delete."""
        from barnabas_client.admin.group_offsets import GroupOffsets

        return GroupOffsets(self._routing)

    @cached_property
    def share_groups(self) -> ShareGroups:
        """Share groups: describe, and their offsets."""
        from barnabas_client.admin.share_groups import ShareGroups

        return ShareGroups(self._routing)

    @cached_property
    def streams_groups(self) -> StreamsGroups:
        """Streams groups: describe."""
        from barnabas_client.admin.streams_groups import StreamsGroups

        return StreamsGroups(self._routing)

    @cached_property
    def transactions(self) -> Transactions:
        """Transactions: list, describe, producers, abort hanging ones, fence producers."""
        from barnabas_client.admin.transactions import Transactions

        return Transactions(self._routing)

    @cached_property
    def acls(self) -> Acls:
        """Rights: list, create, delete."""
        from barnabas_client.admin.acls import Acls

        return Acls(self._routing)

    @cached_property
    def quotas(self) -> Quotas:
        """Quotas of users, client ids and addresses."""
        from barnabas_client.admin.quotas import Quotas

        return Quotas(self._routing)

    @cached_property
    def scram(self) -> Scram:
        """Users' credentials for SASL/SCRAM."""
        from barnabas_client.admin.scram import Scram

        return Scram(self._routing)

    @cached_property
    def tokens(self) -> Tokens:
        """Delegation tokens: create, renew, expire, describe."""
        from barnabas_client.admin.tokens import Tokens

        return Tokens(self._routing)
