"""The change between two images that no records tell: what a snapshot from the leader skips.

Subscribers hear of changes only, so they get one that leads from the image that they have to the
one of the snapshot. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import RESOURCE_TOPIC, MetadataImage, TopicImage
from barnabas_broker.metadata.records import (
    AclRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EpochRecord,
    FeatureRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveAclRecord,
    RemoveBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas_broker.metadata.scram_records import (
    DecoySecretRecord,
    RemoveScramCredentialRecord,
)
from barnabas_broker.metadata.snapshot import broker_records, partition_record


def difference(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """A delta over the old image; what it builds is equal to the new one."""
    delta = MetadataDelta(old)
    for record in _records(old, new):
        delta.apply(record)
    delta.skip_to(new.offset, new.epoch)
    return delta


def _records(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    yield EpochRecord(new.epoch, new.controller_id, new.cluster_id)
    for broker in new.brokers.values():
        if old.brokers.get(broker.node_id) != broker:
            yield from broker_records(broker)
    for node_id, gone in old.brokers.items():
        if node_id not in new.brokers:
            yield RemoveBrokerRecord(node_id, gone.epoch)
    for topic_id in old.topics.by_id:
        if topic_id not in new.topics.by_id:
            yield RemoveTopicRecord(topic_id)
    for topic_id, topic in new.topics.by_id.items():
        yield from _topic(old.topics.by_id.get(topic_id), topic)
    removed = {topic.name for key, topic in old.topics.by_id.items() if key not in new.topics.by_id}
    for resource in {**old.configs, **new.configs}:
        # The overrides of a topic that is gone went with it.
        is_gone = resource[0] == RESOURCE_TOPIC and resource[1] in removed
        before = {} if is_gone else old.configs.get(resource, {})
        yield from _overrides(resource, before, new.configs.get(resource, {}))
    for name in {**old.features, **new.features}:
        if old.features.get(name, 0) != new.features.get(name, 0):
            yield FeatureRecord(name, new.features.get(name, 0))
    yield from _quotas(old, new)
    yield from _acls(old, new)
    yield from _credentials(old, new)
    yield ProducerIdsRecord(0, 0, new.next_producer_id)


def _quotas(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    for entity in {**old.client_quotas, **new.client_quotas}:
        before = old.client_quotas.get(entity, {})
        quotas = new.client_quotas.get(entity, {})
        for key in {**before, **quotas}:
            if before.get(key) != quotas.get(key):
                yield ClientQuotaRecord(entity, key, quotas.get(key))


def _acls(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    changes = old.acls.changes_to(new.acls)
    removed = tuple(acl_id for acl_id, acl in changes.items() if acl is None)
    if removed:
        yield RemoveAclRecord(removed)
    for acl_id, acl in changes.items():
        if acl is not None:
            yield AclRecord(acl_id, acl)


def _credentials(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    if old.decoy_secret != new.decoy_secret:
        yield DecoySecretRecord(new.decoy_secret)
    for key, credential in new.scram_credentials.items():
        if old.scram_credentials.get(key) != credential:
            yield credential
    for user, mechanism in old.scram_credentials:
        if (user, mechanism) not in new.scram_credentials:
            yield RemoveScramCredentialRecord(user, mechanism)


def _topic(old: TopicImage | None, new: TopicImage) -> Iterator[MetadataRecord]:
    if old is None:
        yield TopicRecord(new.name, new.topic_id)
    known = () if old is None else old.partitions
    for index, partition in enumerate(new.partitions):
        if index < len(known) and known[index] == partition:
            continue
        yield partition_record(new.topic_id, index, partition)


def _overrides(
    resource: tuple[int, str], old: Mapping[str, str], new: Mapping[str, str]
) -> Iterator[MetadataRecord]:
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            yield ConfigRecord(resource[0], resource[1], key, new.get(key))
