"""The change between two images that no records tell."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.metadata.acl_table import id_of
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_difference import difference
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
    RemoveAclRecord,
    RemoveBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas_broker.metadata.scram_records import (
    DecoySecretRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
)
from barnabas_broker.security.acl.acl import Acl

Step = tuple[int, int, int]


def record_of(image: MetadataImage, step: Step, offset: int) -> MetadataRecord | None:
    """A record that fits the image; None if there is none of this kind now."""
    kind, which, value = step
    topic_id = bytes([which]) * 16
    name = f"topic-{which % 3}"
    match kind:
        case 0 if name not in image.topics.by_name and topic_id not in image.topics.by_id:
            return TopicRecord(name, topic_id)
        case 1 if topic_id in image.topics.by_id:
            count = len(image.topics.by_id[topic_id].partitions)
            return PartitionRecord(
                topic_id, min(value % 3, count), (value, 9), (value,), value, value, value
            )
        case 2 if topic_id in image.topics.by_id:
            return RemoveTopicRecord(topic_id)
        case 3:
            text = None if value == 0 else str(value)
            resource = (2, name) if which % 2 and name in image.topics.by_name else (4, "")
            return ConfigRecord(*resource, f"key-{which % 2}", text)
        case 4:
            return BrokerRecord(
                node_id=which,
                broker_epoch=offset,
                incarnation_id=bytes(16),
                listeners=(),
                rack=None,
                directories=(),
                is_fenced=bool(value % 2),
            )
        case 5 if which in image.brokers:
            epoch = image.brokers[which].epoch
            return BrokerStateRecord(which, epoch, bool(value % 2), bool(value // 2 % 2))
        case 6 if which in image.brokers:
            return RemoveBrokerRecord(which, image.brokers[which].epoch)
        case 7:
            return FeatureRecord(f"feature-{which % 2}", value)
        case 8:
            return EpochRecord(image.epoch + 1, which, "cluster")
        case 9:
            return ProducerIdsRecord(0, 0, image.next_producer_id + 1000)
        case 10:
            entity = (("client-id", f"c{which}" if which else None),)
            limit = float(value) if value % 3 else None
            return ClientQuotaRecord(entity, f"key-{value % 2}", limit)
        case 11:
            acl = Acl(2, f"t{which}", 3, f"User:u{value}", "*", 3, 2 + value % 2)
            return AclRecord(id_of(acl), acl)
        case 12 if len(image.acls) > which:
            return RemoveAclRecord(tuple(acl_id for acl_id, _ in image.acls.items())[: which + 1])
        case 13:
            if value == 0:
                return RemoveScramCredentialRecord(f"user-{which}", 1)
            data = bytes([value])
            return ScramCredentialRecord(f"user-{which}", 1, 4096, data, data, data)
        case 14:
            return DecoySecretRecord(bytes([value]))
    return None


def grown(image: MetadataImage, steps: list[Step]) -> MetadataImage:
    for step in steps:
        record = record_of(image, step, image.offset + 1)
        if record is not None:
            delta = MetadataDelta(image)
            delta.apply(record)
            image = delta.build()
    return image


steps = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 5), st.integers(0, 3)), max_size=40)


@given(before=steps, after=steps)
def test_the_difference_leads_from_one_image_to_the_other(
    before: list[Step], after: list[Step]
) -> None:
    """CTL-12: whoever hears only of changes ends with the image of the snapshot."""
    old = grown(MetadataImage.empty(), before)
    new = grown(old, after)
    delta = difference(old, new)
    assert delta.image == old
    assert delta.build() == new
    for name in delta.deleted:
        assert old.topics.by_name[name].topic_id not in new.topics.by_id
    for name in delta.created:
        assert new.topics.by_name[name].topic_id not in old.topics.by_id
