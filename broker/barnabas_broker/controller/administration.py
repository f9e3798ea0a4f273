"""What users ask of the active controller: topics, partitions, settings, leaders, replicas.

Each method puts a pure command in the controller's queue. Not here: what the commands decide
(`topics`, `partitions`, `configs`, `leader_balance`, `reassignment`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller import (
    acls,
    client_quotas,
    configs,
    features,
    leader_balance,
    partitions,
    reassignment,
    scram_credentials,
    topics,
)
from barnabas_broker.controller.acls import Deletion
from barnabas_broker.controller.broker_sessions import BrokerSessions
from barnabas_broker.controller.client_quotas import QuotaChange
from barnabas_broker.controller.configs import (
    ConfigRefusal,
    ResourceChange,
    ResourceResult,
    refuse_none,
)
from barnabas_broker.controller.elections import TopicConfigs
from barnabas_broker.controller.event_queue import Command, Reply
from barnabas_broker.controller.features import FeatureChange
from barnabas_broker.controller.leader_balance import ElectedResult, ElectionType
from barnabas_broker.controller.mutation_quota import MutationQuota
from barnabas_broker.controller.partitions import NewPartitions, NewPartitionsResult
from barnabas_broker.controller.reassignment import Ongoing, Reassigned, ReassignedResult
from barnabas_broker.controller.scram_credentials import (
    CredentialDeletion,
    CredentialRules,
    CredentialUpsertion,
    Outcomes,
)
from barnabas_broker.controller.topics import (
    DeletedTopicResult,
    MayDoToTopic,
    NewTopic,
    NewTopicResult,
    TopicDefaults,
    may_all,
)
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random, secret_bytes
from barnabas_broker.metadata.acl_table import AclTable
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import ConfigRecord, MetadataRecord
from barnabas_broker.security.acl.acl import Acl
from barnabas_protocol.errors import ErrorCode, KafkaError

PlanDeletion = Callable[[AclTable], Awaitable[Deletion]]
"""What a deletion would remove from some ACLs."""
DELETION_ATTEMPTS: Final = 10
"""So often a deletion is planned anew because ACLs have changed meanwhile."""


class Administration:
    """Commands on topics and settings, for whoever has a queue to put them in."""

    _config: BrokerConfig
    _dynamic_config: DynamicConfig
    _clock: Clock
    _random: Random
    _replicas_max: int
    _configs: TopicConfigs
    _sessions: BrokerSessions

    @property
    def _min_in_sync(self) -> str:
        """This broker's own `min.insync.replicas`, for a cluster that has none."""
        raise NotImplementedError

    async def submit(self, command: Command[Reply]) -> Reply:
        """Run a command in its turn."""
        raise NotImplementedError

    @property
    def active_image(self) -> MetadataImage:
        """What this node decides on as the active controller; empty if it is not."""
        raise NotImplementedError

    async def _best_logs(
        self, asked: Sequence[tuple[str, int]] | None
    ) -> dict[tuple[bytes, int], list[int]]:
        """For partitions without a leader, of all if None, the nodes that answer, the best first.

        By topic id and partition.
        """
        raise NotImplementedError

    def _found_credentials(
        self, image: MetadataImage, records: Sequence[MetadataRecord]
    ) -> list[MetadataRecord]:
        """The records of the first users, behind others that are to be written now."""
        raise NotImplementedError

    def _elect_offline(self) -> None:
        """Look for partitions without a leader, once what is being decided is committed."""
        raise NotImplementedError

    async def create_topics(
        self,
        new_topics: Sequence[NewTopic],
        validate_only: bool = False,
        quota: MutationQuota | None = None,
    ) -> list[NewTopicResult]:
        """Make topics; a result for each, in the order of the request."""
        return await self.submit(
            lambda image: topics.create_topics(
                image,
                new_topics,
                defaults=TopicDefaults(
                    partition_count=self._config.num_partitions,
                    replication_factor=self._config.default_replication_factor,
                    broker_values=self._dynamic_config.values,
                ),
                random=self._random,
                validate_only=validate_only,
                cordoned=self._sessions.cordoned_brokers(image),
                replicas_max=self._replicas_max,
                quota=quota,
            )
        )

    async def delete_topics(
        self,
        asked: Sequence[str | bytes],
        quota: MutationQuota | None = None,
        may: MayDoToTopic = may_all,
    ) -> list[DeletedTopicResult]:
        """Remove topics, each given by its name (str) or its id (bytes); a result for each."""
        return await self.submit(
            lambda image: topics.delete_topics(
                image, asked, is_enabled=self._config.delete_topic_enable, quota=quota, may=may
            )
        )

    async def create_partitions(
        self,
        asked: Sequence[NewPartitions],
        validate_only: bool = False,
        quota: MutationQuota | None = None,
    ) -> list[NewPartitionsResult]:
        """Let topics grow; a result for each."""
        return await self.submit(
            lambda image: partitions.create_partitions(
                image,
                asked,
                random=self._random,
                validate_only=validate_only,
                cordoned=self._sessions.cordoned_brokers(image),
                replicas_max=self._replicas_max,
                quota=quota,
            )
        )

    async def alter_configs(
        self,
        resources: Sequence[ResourceChange],
        validate_only: bool = False,
        refusal: ConfigRefusal = refuse_none,
    ) -> list[ResourceResult]:
        """Replace the whole sets of overrides; a result for each resource."""
        return await self._alter_configs(resources, False, validate_only, refusal)

    async def incremental_alter_configs(
        self,
        resources: Sequence[ResourceChange],
        validate_only: bool = False,
        refusal: ConfigRefusal = refuse_none,
    ) -> list[ResourceResult]:
        """Set, delete, append to and subtract from overrides; a result for each resource."""
        return await self._alter_configs(resources, True, validate_only, refusal)

    async def _alter_configs(
        self,
        resources: Sequence[ResourceChange],
        is_incremental: bool,
        validate_only: bool,
        refusal: ConfigRefusal,
    ) -> list[ResourceResult]:
        def command(image: MetadataImage) -> tuple[Sequence[MetadataRecord], list[ResourceResult]]:
            records, results = configs.alter_configs(
                image,
                resources,
                broker_values=self._dynamic_config.values,
                is_incremental=is_incremental,
                validate_only=validate_only,
                refusal=refusal,
            )
            if any(_allows_elections(record) for record in records):
                self._elect_offline()
            return records, results

        return await self.submit(command)

    async def alter_client_quotas(
        self, changes: Sequence[QuotaChange], validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Set and remove quotas of clients; why it was refused for each entity, or None."""
        return await self.submit(
            lambda image: client_quotas.alter(image, changes, validate_only=validate_only)
        )

    async def create_acls(self, wanted: Sequence[Acl]) -> list[KafkaError | None]:
        """Make ACLs; why each was refused, or None. Raises: KafkaError."""
        errors: list[KafkaError | None] = [None] * len(wanted)
        for places in acls.creation_order(wanted):
            chosen = [wanted[at] for at in places]
            made = await self.submit(partial(_create_acls, chosen))
            for at, error in zip(places, made, strict=True):
                errors[at] = error
        return errors

    async def delete_acls(self, plan: PlanDeletion) -> list[list[Acl] | KafkaError]:
        """Remove ACLs, all that filters select or none; for each filter which, or a refusal.

        What is selected is found beside the queue, and again where ACLs have changed meanwhile.
        Raises: KafkaError.
        """
        for _ in range(DELETION_ATTEMPTS):
            deletion = await plan(self.active_image.acls)
            done = await self.submit(partial(_delete_acls, deletion))
            if done is not None:
                return done.selected
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The ACLs change all the time.")

    async def alter_scram_credentials(
        self,
        deletions: Sequence[CredentialDeletion],
        upsertions: Sequence[CredentialUpsertion],
        may_change: Callable[[str], bool] = lambda user: True,
    ) -> Outcomes:
        """Store and remove credentials; for each user why it was refused, or None."""
        rules = CredentialRules(
            may_change=may_change,
            overlap_ms=self._config.barnabas_scram_previous_credential_ms,
            now_ms=self._clock.wall_ms(),
            new_secret=secret_bytes,
        )
        return await self.submit(
            lambda image: scram_credentials.alter(image, deletions, upsertions, rules)
        )

    async def elect_leaders(
        self, election_type: int, asked: Sequence[tuple[str, int]] | None
    ) -> list[ElectedResult]:
        """Elect leaders of partitions, of all if None; a result for each. Raises: KafkaError."""
        best_logs: dict[tuple[bytes, int], list[int]] = {}
        if election_type == ElectionType.UNCLEAN:
            best_logs = await self._best_logs(asked)
        return await self.submit(
            lambda image: leader_balance.elect_leaders(
                image, election_type, asked, best_logs, self._sessions.cordoned_directories()
            )
        )

    async def alter_reassignments(
        self, asked: Sequence[Reassigned], *, may_change_factor: bool = True
    ) -> list[ReassignedResult]:
        """Give partitions other replicas, or cancel that; a result for each. Raises: KafkaError."""
        return await self.submit(
            lambda image: reassignment.alter(
                image,
                asked,
                self._configs,
                may_change_factor=may_change_factor,
                cordoned=self._sessions.cordoned_directories(),
            )
        )

    async def list_reassignments(
        self, asked: Sequence[tuple[str, Sequence[int]]] | None = None
    ) -> list[Ongoing]:
        """The partitions that are being reassigned, of all topics or of those asked for."""
        return await self.submit(lambda image: ((), reassignment.list_ongoing(image, asked)))

    async def update_features(
        self, changes: Sequence[FeatureChange], validate_only: bool = False
    ) -> None:
        """Change the levels of features, of all or of none. Raises: KafkaError 95."""

        def command(image: MetadataImage) -> tuple[Sequence[MetadataRecord], None]:
            records, reply = features.update(
                image, changes, min_in_sync=self._min_in_sync, validate_only=validate_only
            )
            return [*records, *self._found_credentials(image, records)], reply

        await self.submit(command)


def _create_acls(
    wanted: Sequence[Acl], image: MetadataImage
) -> tuple[Sequence[MetadataRecord], list[KafkaError | None]]:
    return acls.create(image, wanted)


def _delete_acls(
    deletion: Deletion, image: MetadataImage
) -> tuple[Sequence[MetadataRecord], Deletion | None]:
    return acls.delete(image, deletion)


def _allows_elections(record: MetadataRecord) -> bool:
    return isinstance(record, ConfigRecord) and record.key == "unclean.leader.election.enable"
