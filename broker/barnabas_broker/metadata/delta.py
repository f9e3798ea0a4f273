"""The change from one metadata image to the next: records applied, and what they touched.

A delta copies a map of the image only when a record changes it. Topics that are deleted and made
again in one delta are in both `deleted` and `created`: their ids differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from barnabas_broker.metadata.image import (
    RESOURCE_TOPIC,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from barnabas_broker.metadata.quota_table import QuotaTable
from barnabas_broker.metadata.records import (
    AclRecord,
    BrokerRecord,
    BrokerStateRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EpochRecord,
    FeatureRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RemoveAclRecord,
    RemoveBrokerRecord,
    RemoveTopicRecord,
    SnapshotRecord,
    TopicRecord,
)
from barnabas_broker.metadata.scram_records import (
    CredentialKey,
    DecoySecretRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
)
from barnabas_broker.security.acl.acl import Acl


class InconsistentRecordError(Exception):
    """A record speaks of a topic, partition or broker that the records before it do not know."""


def applied(record: PartitionRecord) -> PartitionImage:
    """The partition as a record says it is."""
    return PartitionImage(
        record.replicas,
        record.isr,
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        record.directories,
        record.adding_replicas,
        record.removing_replicas,
        record.eligible_leader_replicas,
        record.last_known_elr,
    )


class MetadataDelta:
    """Collects records on top of an image.

    `changed_topics` holds the names whose topic or partitions are new or different, `created` and
    `deleted` names with the ids concerned, `changed_configs` pairs of resource type and name,
    `changed_quotas` what entities have from now on, `changed_credentials` those of users,
    `changed_acls` what ids of ACLs stand for.
    """

    __slots__ = (
        "_brokers",
        "_by_id",
        "_by_name",
        "_cluster_id",
        "_configs",
        "_controller_id",
        "_credentials",
        "_decoy_secret",
        "_epoch",
        "_features",
        "_next_producer_id",
        "_offset",
        "_partitions",
        "changed_acls",
        "changed_brokers",
        "changed_configs",
        "changed_credentials",
        "changed_quotas",
        "changed_topics",
        "created",
        "deleted",
        "has_unknown",
        "image",
    )

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.changed_topics: dict[str, None] = {}  # ordered, unlike a set
        self.created: dict[str, bytes] = {}
        self.deleted: dict[str, bytes] = {}
        self.changed_configs: dict[tuple[int, str], None] = {}
        self.changed_brokers: dict[int, None] = {}
        self.changed_quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self.changed_acls: dict[bytes, Acl | None] = {}
        # None where one is gone.
        self.changed_credentials: dict[CredentialKey, ScramCredentialRecord | None] = {}
        self._by_name: dict[str, TopicImage] | None = None
        self._by_id: dict[bytes, TopicImage] | None = None
        # Partitions of the topics that records touch, until `build` makes images of them.
        self._partitions: dict[bytes, list[PartitionImage]] = {}
        self._configs: dict[tuple[int, str], Mapping[str, str]] | None = None
        self._brokers: dict[int, BrokerImage] | None = None
        self._features: dict[str, int] | None = None
        self._credentials: dict[CredentialKey, ScramCredentialRecord] | None = None
        self._decoy_secret = image.decoy_secret
        self._cluster_id = image.cluster_id
        self._controller_id = image.controller_id
        self._next_producer_id = image.next_producer_id
        self._offset = image.offset
        self.has_unknown = image.has_unknown
        self._epoch = image.epoch

    def apply(self, record: MetadataRecord | None) -> None:
        """Take the record at the next offset into account; None is one of an unknown type.

        Raises: InconsistentRecordError.
        """
        self._offset += 1
        match record:
            case None | SnapshotRecord():
                pass
            case EpochRecord():
                self._epoch = record.controller_epoch
                self._controller_id = record.leader
                self._cluster_id = record.cluster_id
            case TopicRecord():
                self._apply_topic(record)
            case PartitionRecord():
                self._apply_partition(record)
            case RemoveTopicRecord():
                self._remove_topic(record)
            case ConfigRecord():
                self._apply_config(record)
            case BrokerRecord() | BrokerStateRecord() | RemoveBrokerRecord():
                self._apply_to_brokers(record)
            case FeatureRecord():
                self._apply_feature(record)
            case ClientQuotaRecord():
                self._apply_client_quota(record)
            case AclRecord() | RemoveAclRecord():
                self._apply_to_acls(record)
            case ScramCredentialRecord() | RemoveScramCredentialRecord() | DecoySecretRecord():
                self._apply_credential(record)
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case _:
                raise InconsistentRecordError(f"no rule applies {record}")

    def skip_to(self, offset: int, epoch: int) -> None:
        """Stand for all records up to and with an offset: the end of a snapshot."""
        self._offset, self._epoch = offset, epoch

    def build(self) -> MetadataImage:
        """The image after all records applied so far."""
        self._seal_partitions()
        image = self.image
        topics = image.topics
        if self._by_name is not None and self._by_id is not None:
            topics = TopicsImage(self._by_name, self._by_id)
        return MetadataImage(
            topics=topics,
            configs=image.configs if self._configs is None else self._configs,
            brokers=image.brokers if self._brokers is None else self._brokers,
            cluster_id=self._cluster_id,
            controller_id=self._controller_id,
            next_producer_id=self._next_producer_id,
            offset=self._offset,
            epoch=self._epoch,
            features=image.features if self._features is None else self._features,
            has_unknown=self.has_unknown,
            client_quotas=QuotaTable.of(image.client_quotas).updated(self.changed_quotas.items())
            if self.changed_quotas
            else image.client_quotas,
            acls=image.acls.updated(self.changed_acls) if self.changed_acls else image.acls,
            scram_credentials=image.scram_credentials
            if self._credentials is None
            else self._credentials,
            decoy_secret=self._decoy_secret,
        )

    def acl_changes(self) -> dict[Acl, bool]:
        """ACLs that are there from now on (True), and those that are there no longer."""
        changes: dict[Acl, bool] = {}
        for acl_id, acl in self.changed_acls.items():
            known = self.image.acls.get(acl_id) if acl is None else acl
            if known is not None:
                changes[known] = acl is not None
        return changes

    # ---- topics ------------------------------------------------------------------------------

    def _topics(self) -> tuple[dict[str, TopicImage], dict[bytes, TopicImage]]:
        if self._by_name is None or self._by_id is None:
            self._by_name = dict(self.image.topics.by_name)
            self._by_id = dict(self.image.topics.by_id)
        return self._by_name, self._by_id

    def _apply_topic(self, record: TopicRecord) -> None:
        by_name, by_id = self._topics()
        if record.name in by_name:
            raise InconsistentRecordError(f"the topic {record.name} exists already")
        topic = TopicImage(record.name, record.topic_id, ())
        by_name[record.name] = by_id[record.topic_id] = topic
        self._partitions[record.topic_id] = []
        self.created[record.name] = record.topic_id
        self.changed_topics[record.name] = None

    def _apply_partition(self, record: PartitionRecord) -> None:
        _, by_id = self._topics()
        topic = by_id.get(record.topic_id)
        if topic is None:
            raise InconsistentRecordError(f"a partition of an unknown topic: {record}")
        partitions = self._partitions.get(record.topic_id)
        if partitions is None:
            partitions = self._partitions[record.topic_id] = list(topic.partitions)
        image = applied(record)
        if record.partition == len(partitions):
            partitions.append(image)
        elif record.partition < len(partitions):
            partitions[record.partition] = image
        else:
            raise InconsistentRecordError(f"a partition is missing before {record}")
        self.changed_topics[topic.name] = None

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        by_name, by_id = self._topics()
        topic = by_id.pop(record.topic_id, None)
        if topic is None:
            raise InconsistentRecordError(f"an unknown topic is removed: {record}")
        del by_name[topic.name]
        self._partitions.pop(record.topic_id, None)
        self.changed_topics.pop(topic.name, None)
        if self.created.get(topic.name) == record.topic_id:
            del self.created[topic.name]
        else:
            self.deleted[topic.name] = record.topic_id
        if self._config_map().pop((RESOURCE_TOPIC, topic.name), None) is not None:
            self.changed_configs[RESOURCE_TOPIC, topic.name] = None

    def _seal_partitions(self) -> None:
        if not self._partitions:
            return
        by_name, by_id = self._topics()
        for topic_id, partitions in self._partitions.items():
            topic = replace(by_id[topic_id], partitions=tuple(partitions))
            by_name[topic.name] = by_id[topic_id] = topic

    # ---- configs and brokers -------------------------------------------------------------------

    def _config_map(self) -> dict[tuple[int, str], Mapping[str, str]]:
        if self._configs is None:
            self._configs = dict(self.image.configs)
        return self._configs

    def _apply_config(self, record: ConfigRecord) -> None:
        configs = self._config_map()
        resource = (record.resource_type, record.resource_name)
        overrides = dict(configs.get(resource, ()))
        if record.value is None:
            overrides.pop(record.key, None)
        else:
            overrides[record.key] = record.value
        if overrides:
            configs[resource] = overrides
        else:
            configs.pop(resource, None)
        self.changed_configs[resource] = None

    def _broker_map(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self.image.brokers)
        return self._brokers

    def _apply_to_brokers(
        self, record: BrokerRecord | BrokerStateRecord | RemoveBrokerRecord
    ) -> None:
        match record:
            case BrokerRecord():
                self._apply_broker(record)
            case BrokerStateRecord():
                self._apply_broker_state(record)
            case RemoveBrokerRecord():
                self._remove_broker(record)

    def _apply_broker(self, record: BrokerRecord) -> None:
        self._broker_map()[record.node_id] = BrokerImage(
            node_id=record.node_id,
            epoch=record.broker_epoch,
            incarnation=record.incarnation_id,
            listeners={listener.name: listener for listener in record.listeners},
            rack=record.rack,
            directories=record.directories,
            fenced=record.is_fenced,
            features=record.features,
        )
        self.changed_brokers[record.node_id] = None

    def _apply_broker_state(self, record: BrokerStateRecord) -> None:
        brokers = self._broker_map()
        broker = brokers.get(record.node_id)
        if broker is None:
            raise InconsistentRecordError(f"the state of an unknown broker: {record}")
        brokers[record.node_id] = replace(
            broker, fenced=record.is_fenced, is_shutting_down=record.is_shutting_down
        )
        self.changed_brokers[record.node_id] = None

    def _remove_broker(self, record: RemoveBrokerRecord) -> None:
        if self._broker_map().pop(record.node_id, None) is None:
            raise InconsistentRecordError(f"an unknown broker is removed: {record}")
        self.changed_brokers[record.node_id] = None

    def _apply_feature(self, record: FeatureRecord) -> None:
        if self._features is None:
            self._features = dict(self.image.features)
        if record.level > 0:
            self._features[record.name] = record.level
        else:
            self._features.pop(record.name, None)

    def _apply_credential(
        self, record: ScramCredentialRecord | RemoveScramCredentialRecord | DecoySecretRecord
    ) -> None:
        if isinstance(record, DecoySecretRecord):
            self._decoy_secret = record.secret
            return
        credentials = self._credentials
        if credentials is None:
            credentials = self._credentials = dict(self.image.scram_credentials)
        if isinstance(record, ScramCredentialRecord):
            credentials[record.key] = self.changed_credentials[record.key] = record
        else:
            credentials.pop(record.key, None)
            self.changed_credentials[record.key] = None

    def _apply_client_quota(self, record: ClientQuotaRecord) -> None:
        known = self.changed_quotas.get(record.entity)
        if known is None:
            known = self.image.client_quotas.get(record.entity, {})
        quotas = dict(known)
        if record.value is None:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        self.changed_quotas[record.entity] = quotas

    def _apply_to_acls(self, record: AclRecord | RemoveAclRecord) -> None:
        changed, known = self.changed_acls, self.image.acls
        if isinstance(record, AclRecord):
            changed[record.acl_id] = record.acl
            return
        for acl_id in record.acl_ids:
            # An ALLOW that stays because its removal is not understood would be a hole.
            if (changed[acl_id] if acl_id in changed else known.get(acl_id)) is None:
                raise InconsistentRecordError(f"an unknown ACL is removed: {acl_id.hex()}")
            changed[acl_id] = None
