"""Registration of brokers, and whether they are fenced: pure commands.

A registration is accepted under a new, higher broker epoch, the offset of its record (REG-4), and
requests that carry an older one are refused. Not here: heartbeats (`heartbeats`), what becomes of
partitions (`elections`), who was heard when (`broker_sessions`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas_broker.controller import elections, eligible_replicas, features
from barnabas_broker.controller.elections import TopicConfigs
from barnabas_broker.controller.features import FeatureRange
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import RESOURCE_BROKER, BrokerImage, MetadataImage
from barnabas_broker.metadata.quorum.members_plan import MEMBER_LEAVING
from barnabas_broker.metadata.records import (
    BrokerRecord,
    BrokerStateRecord,
    ConfigRecord,
    ListenerAddress,
    MetadataRecord,
    PartitionRecord,
    RemoveBrokerRecord,
    SupportedFeature,
)
from barnabas_protocol.errors import ErrorCode, KafkaError

NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker tells of itself (REG-1)."""

    node_id: int
    incarnation_id: bytes
    cluster_id: str
    listeners: tuple[ListenerAddress, ...]
    rack: str | None = None
    directories: tuple[bytes, ...] = ()
    # What levels of which features it can work with.
    features: Mapping[str, FeatureRange] = field(default_factory=lambda: features.SUPPORTED)
    # The epoch of the last run if nothing of its logs is lost; any other means an unclean stop.
    previous_broker_epoch: int = NO_EPOCH
    # A broker that has still to catch up with the metadata registers fenced and is unfenced later.
    is_fenced: bool = False


def check_broker_epoch(image: MetadataImage, node_id: int, broker_epoch: int) -> BrokerImage:
    """The registered broker. Raises: KafkaError 102 if there is none, 77 if the epoch is old."""
    broker = image.brokers.get(node_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {node_id} is not registered")
    if broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch} but got broker epoch {broker_epoch}",
        )
    return broker


def register(
    image: MetadataImage, registration: Registration, configs: TopicConfigs, *, is_alive: bool
) -> tuple[list[MetadataRecord], int]:
    """The records of a registration, and the broker's epoch.

    `is_alive` says whether the process that registered the id last is known to live: then only
    that one may register again (NODE-7). Doing so it stays unfenced (REG-3).
    Raises: KafkaError 101 for a second broker of the id, 104 for another cluster, 119 for
    directories that cannot be, 35 for a broker that does not know a feature in use.
    """
    known = image.brokers.get(registration.node_id)
    is_same = known is not None and known.incarnation == registration.incarnation_id
    _check(image, registration)
    # One that shuts down is leaving: the next one may come while the last words are said.
    if known is not None and is_alive and not is_same and not known.is_shutting_down:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id: {registration.node_id}",
        )
    is_fenced = registration.is_fenced and (known is None or known.fenced or not is_same)
    broker_epoch = image.offset + 1
    records: list[MetadataRecord] = [
        BrokerRecord(
            node_id=registration.node_id,
            broker_epoch=broker_epoch,
            incarnation_id=registration.incarnation_id,
            listeners=registration.listeners,
            rack=registration.rack,
            directories=registration.directories,
            is_fenced=is_fenced,
            features=tuple(
                SupportedFeature(name, able.minimum, able.maximum)
                for name, able in sorted(registration.features.items())
            ),
        )
    ]
    if known is not None and is_same and known.is_shutting_down:
        records.append(BrokerStateRecord(registration.node_id, broker_epoch, is_fenced, True))
    image = after(image, records)  # elections go by the log directories that there are now
    if known is not None and not is_same:
        # Unless it has lost nothing since that epoch, the ends of its logs may be lost (REG-8).
        if known.epoch != registration.previous_broker_epoch:
            changes = elections.unclean_restart(
                image, registration.node_id, configs, is_fenced=is_fenced
            )
            records += changes
            if eligible_replicas.is_on(image):
                image = after(image, changes)
        elif is_fenced:
            records += elections.broker_fenced(image, registration.node_id, configs)
    if known is not None:
        records += _without_gone(image, records, known, registration, configs)
    if not is_fenced:
        records += elections.broker_unfenced(image, registration.node_id, configs)
    return records, broker_epoch


def _without_gone(
    image: MetadataImage,
    decided: Sequence[MetadataRecord],
    known: BrokerImage,
    registration: Registration,
    configs: TopicConfigs,
) -> Sequence[MetadataRecord]:
    """What becomes of replicas in directories that a broker had before, and does not register.

    Such a one failed before a heartbeat told of it, or was taken away; no heartbeat will tell.
    """
    gone = [item for item in known.directories if item not in registration.directories]
    if not gone:
        return ()
    image = after(image, decided)
    return elections.directory_offline(image, registration.node_id, gone, configs)


def _check(image: MetadataImage, registration: Registration) -> None:
    if registration.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {registration.cluster_id}",
        )
    features.check_broker(image, registration.node_id, registration.features)
    _check_directories(image, registration.node_id, registration.directories)


def _check_directories(image: MetadataImage, node_id: int, directories: Sequence[bytes]) -> None:
    """A log directory is one broker's, once: a disk belongs to a voter."""
    wanted = set(directories)
    if len(wanted) != len(directories):
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, f"Broker {node_id} registers a directory twice"
        )
    for broker in image.brokers.values():
        if broker.node_id != node_id and not wanted.isdisjoint(broker.directories):
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION,
                f"Broker {node_id} wants to register a directory that is already used by broker "
                f"{broker.node_id}",
            )


def after(image: MetadataImage, records: Sequence[MetadataRecord]) -> MetadataImage:
    """The image with records that are being decided."""
    delta = MetadataDelta(image)
    for record in records:
        delta.apply(record)
    return delta.build()


def fence(
    image: MetadataImage,
    node_id: int,
    configs: TopicConfigs,
    cordoned: Collection[bytes] = (),
) -> list[MetadataRecord]:
    """The records that fence a registered broker; none if it is fenced (REG-5)."""
    broker = image.brokers[node_id]
    if broker.fenced:
        return []
    return [
        BrokerStateRecord(node_id, broker.epoch, True, broker.is_shutting_down),
        *elections.broker_fenced(image, node_id, configs, cordoned),
    ]


def fence_as_lost(
    image: MetadataImage, node_id: int, configs: TopicConfigs
) -> list[MetadataRecord]:
    """The records that fence a broker whose disks are taken for lost: nobody waits for it.

    Before level 2 of `barnabas.version` that is the same as fencing it.
    """
    if not eligible_replicas.is_on(image):
        return fence(image, node_id, configs)
    broker = image.brokers[node_id]
    records: list[MetadataRecord] = []
    if not broker.fenced:
        records.append(BrokerStateRecord(node_id, broker.epoch, True, broker.is_shutting_down))
    return [*records, *elections.unclean_restart(image, node_id, configs)]


def unfence(image: MetadataImage, node_id: int, configs: TopicConfigs) -> list[MetadataRecord]:
    """The records that let a registered broker lead and serve; none if it may (REG-7)."""
    broker = image.brokers[node_id]
    if not broker.fenced:
        return []
    return [
        BrokerStateRecord(node_id, broker.epoch, False, False),
        *elections.broker_unfenced(image, node_id, configs),
    ]


def begin_shutdown(
    image: MetadataImage,
    node_id: int,
    configs: TopicConfigs,
    cordoned: Collection[bytes] = (),
) -> list[MetadataRecord]:
    """The records that take a broker's leaderships away, before it stops (STOP-3)."""
    broker = image.brokers[node_id]
    return [
        BrokerStateRecord(node_id, broker.epoch, False, True),
        *elections.broker_shutting_down(image, node_id, configs, cordoned),
    ]


def unregister(
    image: MetadataImage, node_id: int, configs: TopicConfigs
) -> tuple[list[MetadataRecord], None]:
    """The records that take a broker out of the cluster for good, alive or not.

    As Kafka does, whatever replicas it has: they stay assigned to an id that is nobody's, for a
    broker of that id may come again, and is to stay then. Raises: KafkaError 102.
    """
    broker = image.brokers.get(node_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node_id} is not currently registered"
        )
    # How its next life begins cannot be told without its epoch: it counts as stopped uncleanly.
    leave: Callable[[MetadataImage, int, TopicConfigs], list[PartitionRecord]]
    leave = elections.broker_fenced
    if eligible_replicas.is_on(image):
        leave = elections.unclean_restart
    records: list[MetadataRecord] = [*leave(image, node_id, configs)]
    if MEMBER_LEAVING in image.config_overrides(RESOURCE_BROKER, str(node_id)):
        records.append(ConfigRecord(RESOURCE_BROKER, str(node_id), MEMBER_LEAVING, None))
    return [*records, RemoveBrokerRecord(node_id, broker.epoch)], None


def without_directories(
    image: MetadataImage,
    node_id: int,
    offline: Sequence[bytes],
    configs: TopicConfigs,
    cordoned: Collection[bytes] = (),
) -> list[MetadataRecord]:
    """The records of log directories that have failed; none if all of them are known (KIP-858)."""
    broker = image.brokers[node_id]
    failed = [directory for directory in broker.directories if directory in offline]
    if not failed:
        return []
    records: list[MetadataRecord] = [
        BrokerRecord(
            node_id=node_id,
            broker_epoch=broker.epoch,
            incarnation_id=broker.incarnation,
            listeners=tuple(broker.listeners.values()),
            rack=broker.rack,
            directories=tuple(item for item in broker.directories if item not in failed),
            is_fenced=broker.fenced,
            features=broker.features,
        )
    ]
    if broker.is_shutting_down:
        records.append(BrokerStateRecord(node_id, broker.epoch, broker.fenced, True))
    records += elections.directory_offline(image, node_id, failed, configs, cordoned)
    return records
