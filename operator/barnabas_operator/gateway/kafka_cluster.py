"""The cluster behind a Broker, over `barnabas_client`'s admin client: look, move, set, forget.

Not here: deciding what to do. Looking costs a few requests, however many partitions there are.

Invariant: what is asked for is the whole cluster, internal topics too, because they hold back a
restart like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource, ConfigSource
from barnabas_client.admin.values.partitions import Reassignment
from barnabas_client.errors import BarnabasError, NotFoundError, UnsupportedError
from barnabas_operator.reconcile.broker.cluster_state import (
    BrokerSettings,
    ClusterView,
    MetadataMembers,
    PartitionView,
    RegisteredBroker,
)
from barnabas_operator.reconcile.broker.cluster_view import metadata_members, partition_views
from barnabas_operator.reconcile.broker.properties import SIZE_FACTORS
from barnabas_protocol.ids import TopicPartition

_MIN_IN_SYNC = "min.insync.replicas"
_MEMBERS = "metadata.members"
_LEAVING = "metadata.member.leaving"
# Where nobody leads the metadata log nobody answers, and the rest is worth knowing without.
_MEMBERS_TIMEOUT_MS = 2000


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
        described, listings, members = await asyncio.gather(
            self._admin.cluster.describe(include_fenced_brokers=True),
            self._admin.topics.list(include_internal=True),
            self._members(),
        )
        # The metadata has for ever who led last, and only a leader knows what is on the move.
        is_led = members is None or bool(members.ids)
        moves = await self._admin.partitions.list_reassignments() if is_led else {}
        names = [listing.name for listing in listings]
        brokers = {
            broker.node_id: RegisteredBroker(
                node_id=broker.node_id, is_fenced=broker.is_fenced, rack=broker.rack
            )
            for broker in described.brokers
        }
        live = [node_id for node_id, broker in brokers.items() if not broker.is_fenced]
        partitions, settings, own = await asyncio.gather(
            self._partitions(names, moves),
            self._settings(live),
            self._own_settings(live),
        )
        return ClusterView(
            cluster_id=described.cluster_id or "",
            controller_id=described.controller_id if is_led else None,
            brokers={
                node_id: _with_settings(broker, own.get(node_id, {}))
                for node_id, broker in brokers.items()
            },
            partitions=partitions,
            settings=settings,
            members=members,
        )

    async def move(self, moves: Mapping[TopicPartition, Sequence[int]]) -> Mapping[str, Exception]:
        """Begin to move partitions to these brokers; the errors by partition."""
        errors = (await self._admin.partitions.reassign(dict(moves))).errors
        return {
            f"{topic_partition.topic}-{topic_partition.partition}": error
            for topic_partition, error in errors.items()
        }

    async def change_settings(self, assigned: Mapping[str, str], removed: Sequence[str]) -> None:
        """Set and remove settings of all brokers, all or none. Raises: BarnabasError."""
        changes = [
            *(ConfigChange.set(key, value) for key, value in assigned.items()),
            *(ConfigChange.delete(key) for key in removed),
        ]
        (await self._admin.configs.alter({ConfigResource.broker(): changes})).unwrap()

    async def set_leaving(self, node_id: int, *, is_leaving: bool) -> None:
        """Have a broker leave the members of the metadata log, or let it be one again.

        Raises: BarnabasError.
        """
        change = ConfigChange.set(_LEAVING, "true") if is_leaving else ConfigChange.delete(_LEAVING)
        (await self._admin.configs.alter({ConfigResource.broker(node_id): [change]})).unwrap()

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
            partitions += partition_views(outcome.unwrap(), in_sync_min, moves)
        return tuple(partitions)

    async def _members(self) -> MetadataMembers | None:
        """Who has the metadata log; None for brokers that have none, empty where nobody tells."""
        try:
            quorum = await self._admin.quorum.describe(timeout_ms=_MEMBERS_TIMEOUT_MS)
        except UnsupportedError:
            return None
        except BarnabasError:
            return MetadataMembers()
        # What is wanted is the leader's own setting: during a roll others may have another one. The
        # leader at Apache Kafka need not be a broker, and has no such setting.
        leader = ConfigResource.broker(quorum.leader_id)
        settings = await self._admin.configs.describe(
            {leader: [_MEMBERS]}, timeout_ms=_MEMBERS_TIMEOUT_MS
        )
        found = settings[leader]
        entry = None if found.error is not None else found.unwrap().get(_MEMBERS)
        return metadata_members(
            quorum, int(entry.value) if entry is not None and entry.value else 0
        )

    async def _own_settings(self, live: Sequence[int]) -> dict[int, dict[str, str]]:
        """What brokers say of their own settings; who does not answer is absent."""
        asked = {node_id: ConfigResource.broker(node_id) for node_id in live}
        if not asked:
            return {}
        keys = [_LEAVING, *SIZE_FACTORS]
        found = await self._admin.configs.describe(
            dict.fromkeys(asked.values(), keys), timeout_ms=_MEMBERS_TIMEOUT_MS
        )
        return {
            node_id: {key: entry.value or "" for key, entry in found[resource].unwrap().items()}
            for node_id, resource in asked.items()
            if found[resource].error is None
        }

    async def _settings(self, live: Sequence[int]) -> BrokerSettings | None:
        """As one of the brokers knows them, and what is changed for all."""
        if not live:
            return None
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


def _with_settings(broker: RegisteredBroker, own: Mapping[str, str]) -> RegisteredBroker:
    return replace(
        broker,
        is_leaving=own[_LEAVING] == "true" if _LEAVING in own else None,
        factors={key: own[key] for key in SIZE_FACTORS if key in own},
    )
