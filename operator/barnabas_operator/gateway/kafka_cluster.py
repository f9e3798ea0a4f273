"""The cluster behind a Broker, over `barnabas_client`'s admin client: look, move, set, forget.

Not here: deciding what to do. Looking costs a few requests, however many partitions there are.

Invariant: what is asked for is the whole cluster, internal topics too, because they hold back a
restart like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource, ConfigSource
from barnabas_client.admin.values.partitions import Reassignment
from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription
from barnabas_client.errors import NotFoundError
from barnabas_operator.reconcile.broker.observed import (
    BrokerSettings,
    ClusterView,
    PartitionView,
    RegisteredBroker,
)
from barnabas_protocol.ids import TopicPartition

_MIN_IN_SYNC = "min.insync.replicas"


class Admins(Protocol):
    """Where admin clients come from: one for each cluster."""

    async def admin(self, namespace: str, name: str) -> Admin:
        """The started client of a Broker's cluster. Raises: BarnabasError; KubernetesError."""
        ...


class KafkaClusters:
    """The clusters of all Brokers, each over its one admin client."""

    def __init__(self, admins: Admins) -> None:
        self._admins = admins

    async def cluster(self, namespace: str, name: str) -> KafkaCluster:
        """The cluster of a Broker. Raises: BarnabasError; KubernetesError."""
        return KafkaCluster(await self._admins.admin(namespace, name))


class KafkaCluster:
    """One cluster."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def observe(self) -> ClusterView:
        """Look at all of it. Raises: BarnabasError."""
        described, listings, moves = await asyncio.gather(
            self._admin.cluster.describe(include_fenced_brokers=True),
            self._admin.topics.list(include_internal=True),
            self._admin.partitions.list_reassignments(),
        )
        names = [listing.name for listing in listings]
        brokers = {
            broker.node_id: RegisteredBroker(
                node_id=broker.node_id, is_fenced=broker.is_fenced, rack=broker.rack
            )
            for broker in described.brokers
        }
        live = [node_id for node_id, broker in brokers.items() if not broker.is_fenced]
        return ClusterView(
            cluster_id=described.cluster_id or "",
            controller_id=described.controller_id,
            brokers=brokers,
            partitions=await self._partitions(names, moves),
            settings=await self._settings(live) if live else None,
        )

    async def move(self, moves: Mapping[TopicPartition, Sequence[int]]) -> Mapping[str, Exception]:
        """Begin to move partitions to these brokers; the errors by partition."""
        errors = (await self._admin.partitions.reassign(dict(moves))).errors
        return {f"{place.topic}-{place.partition}": error for place, error in errors.items()}

    async def change_settings(self, assigned: Mapping[str, str], removed: Sequence[str]) -> None:
        """Set and remove settings of all brokers, all or none. Raises: BarnabasError."""
        changes = [
            *(ConfigChange.set(key, value) for key, value in assigned.items()),
            *(ConfigChange.delete(key) for key in removed),
        ]
        (await self._admin.configs.alter({ConfigResource.broker(): changes})).unwrap()

    async def unregister(self, node_id: int) -> None:
        """Forget a broker that is gone for good; nothing to do if that was done."""
        try:
            await self._admin.cluster.unregister_broker(node_id)
        except NotFoundError:
            return

    async def _partitions(
        self, names: Sequence[str], moves: Mapping[TopicPartition, Reassignment]
    ) -> tuple[PartitionView, ...]:
        described, configs = await asyncio.gather(
            self._admin.topics.describe(names),
            self._admin.configs.describe(
                {ConfigResource.topic(name): [_MIN_IN_SYNC] for name in names}
            ),
        )
        partitions = []
        for name, outcome in described.items():
            found = configs[ConfigResource.topic(name)]
            if isinstance(outcome.error, NotFoundError) or isinstance(found.error, NotFoundError):
                # Deleted since it was listed.
                continue
            entry = found.unwrap().get(_MIN_IN_SYNC)
            in_sync_min = int(entry.value) if entry is not None and entry.value else 1
            partitions += _views(outcome.unwrap(), in_sync_min, moves)
        return tuple(partitions)

    async def _settings(self, live: Sequence[int]) -> BrokerSettings:
        """As one of the brokers knows them, and what is changed for all."""
        asked, everybody = ConfigResource.broker(min(live)), ConfigResource.broker()
        outcomes = await self._admin.configs.describe([asked, everybody], include_synonyms=True)
        entries = outcomes[asked].unwrap()
        defaults = {
            synonym.name: synonym.value
            for entry in entries.values()
            for synonym in entry.synonyms
            if synonym.source is ConfigSource.DEFAULT
            and synonym.name == entry.name
            and synonym.value is not None
        }
        return BrokerSettings(
            known=frozenset(entries),
            live=frozenset(name for name, entry in entries.items() if not entry.is_read_only),
            defaults=defaults,
            overrides={
                entry.name: entry.value or "" for entry in outcomes[everybody].unwrap().values()
            },
        )


def _views(
    topic: TopicDescription, in_sync_min: int, moves: Mapping[TopicPartition, Reassignment]
) -> list[PartitionView]:
    return [
        _view(TopicPartition(topic.name, number), partition, in_sync_min, moves)
        for number, partition in sorted(topic.partitions.items())
    ]


def _view(
    place: TopicPartition,
    partition: PartitionDescription,
    in_sync_min: int,
    moves: Mapping[TopicPartition, Reassignment],
) -> PartitionView:
    move = moves.get(place)
    return PartitionView(
        place=place,
        leader=partition.leader_id,
        replicas=partition.replica_ids,
        in_sync=frozenset(partition.in_sync_replica_ids),
        in_sync_min=in_sync_min,
        leaving=frozenset() if move is None else frozenset(move.removing_replica_ids),
        is_moving=move is not None,
    )
