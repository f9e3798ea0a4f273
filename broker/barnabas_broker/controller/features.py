"""Features and their levels: what this broker can work with, and what the cluster has agreed on.

Source: KIP-584, KIP-1022; texts of refusals are Kafka's. A feature that is not in the image is at
the level of its first release (`INITIAL_LEVELS`). A new cluster is at the highest levels that its
first broker and controller can work with. Level 0 is off.

| `barnabas.version` | since then |
|---|---|
| 1 | the first release |
| 2 | eligible leader replicas (`eligible_replicas`): partition records of version 2, empty ISRs |
| 3 | records of ACLs and of SCRAM credentials: no older broker may skip a DENY (SEC-44) |

| `transaction.version` (Kafka's) | since then |
|---|---|
| 0 | transactions as in KIP-98; records of `__transaction_state` of version 0 |
| 1 | records of version 1, whose new fields are tagged |
| 2 | clients that can raise their epoch with each transaction (KIP-890) |

| `group.version` (Kafka's) | since then |
|---|---|
| 0 | classic groups |
| 1 | consumer groups (KIP-848), and their records in `__consumer_offsets` |

| `share.version` (Kafka's) | since then |
|---|---|
| 0 | no share groups |
| 1 | share groups (KIP-932), their records in `__consumer_offsets`, `__share_group_state` |
| 2 | dead letters of share groups (KIP-1191), and state 3 in `__share_group_state` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from barnabas_broker.controller import eligible_replicas
from barnabas_broker.controller.eligible_replicas import BARNABAS_VERSION
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_broker.metadata.records import FeatureRecord, MetadataRecord
from barnabas_broker.metadata.scram_records import DecoySecretRecord
from barnabas_protocol.errors import ErrorCode, KafkaError

TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
SECURITY_LEVEL: Final = 3
"""The level of `barnabas.version` from which ACLs and credentials may be written."""


class FeatureRange(NamedTuple):
    """The levels that a broker can work with, inclusive."""

    minimum: int
    maximum: int


SUPPORTED: Final[Mapping[str, FeatureRange]] = MappingProxyType(
    {
        BARNABAS_VERSION: FeatureRange(1, SECURITY_LEVEL),
        TRANSACTION_VERSION: FeatureRange(0, 2),
        GROUP_VERSION: FeatureRange(0, 1),
        SHARE_VERSION: FeatureRange(0, 2),
    }
)
# What holds before anybody has said anything else; the others are off.
INITIAL_LEVELS: Final[Mapping[str, int]] = MappingProxyType({BARNABAS_VERSION: 1})


class UpgradeType(IntEnum):
    """How far a feature may be changed, by the number on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureChange:
    """A level that a feature shall have."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def finalized(image: MetadataImage) -> dict[str, int]:
    """The level of each feature that is on."""
    return {**INITIAL_LEVELS, **image.features}


def require_security_records(image: MetadataImage) -> None:
    """Refuse a change of ACLs or credentials below their level. Raises: KafkaError 35."""
    level = finalized(image)[BARNABAS_VERSION]
    if level < SECURITY_LEVEL:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The cluster is at {BARNABAS_VERSION} {level}, and ACLs and SCRAM credentials need"
            f" {SECURITY_LEVEL}: `barnabas cluster features`, or kafka-features, raises it once all"
            " brokers are of this release.",
        )


class UnsupportedLevelError(MetadataLogError):
    """The metadata is of a level that this release must not touch."""


def check_levels(image: MetadataImage) -> None:
    """Refuse metadata that a newer release has begun to write. Raises: UnsupportedLevelError."""
    for name, level in finalized(image).items():
        able = SUPPORTED.get(name)
        if able is None or not able.minimum <= level <= able.maximum:
            known = (
                "does not know it" if able is None else f"knows {able.minimum} to {able.maximum}"
            )
            raise UnsupportedLevelError(
                f"the cluster is at {name} {level}, and this release {known}: nothing was changed."
                " Start the release that ran here last, or a newer one"
            )


def check_broker(image: MetadataImage, node_id: int, supported: Mapping[str, FeatureRange]) -> None:
    """Refuse a broker that cannot work with a feature as it is. Raises: KafkaError 35."""
    for name, level in finalized(image).items():
        able = supported.get(name, FeatureRange(0, 0))
        if not able.minimum <= level <= able.maximum:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker {node_id} does not support finalized "
                f"version {level} of {name}. The broker wants a version between {able.minimum} "
                f"and {able.maximum}, inclusive.",
            )


def update(
    image: MetadataImage,
    changes: Sequence[FeatureChange],
    supported: Mapping[str, FeatureRange] = SUPPORTED,
    *,
    min_in_sync: str = "1",
    validate_only: bool = False,
) -> tuple[list[MetadataRecord], None]:
    """The records of new levels: of all features, or of none; first what they rest on.

    `min_in_sync` becomes the cluster's `min.insync.replicas` where none is set and a level needs
    one. Raises: KafkaError 95 that names the first feature that cannot be changed, and why.
    """
    levels = finalized(image)
    records: list[MetadataRecord] = []
    for change in changes:
        complaint = _complaint(image, change, levels.get(change.name, 0), supported)
        if complaint is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {change.level} for feature {change.name}. {complaint}",
            )
        if levels.get(change.name, 0) != change.level:
            levels[change.name] = change.level
            if change.name == BARNABAS_VERSION:
                records += eligible_replicas.level_records(image, change.level, min_in_sync)
                if change.level < SECURITY_LEVEL and image.decoy_secret:
                    records.append(DecoySecretRecord(b""))
            records.append(FeatureRecord(change.name, change.level))
    return ([] if validate_only else records), None


def founding(
    image: MetadataImage, able: Mapping[str, FeatureRange], min_in_sync: str
) -> list[MetadataRecord]:
    """The records of the levels of a new cluster, none for one that is not new.

    New is one without topics to which a broker comes as the first; `able` is what that one can.
    """
    if image.brokers or image.topics.by_id or image.features:
        return []
    records: list[MetadataRecord] = []
    for name, ours in SUPPORTED.items():
        level = min(ours.maximum, able.get(name, FeatureRange(0, 0)).maximum)
        if level > INITIAL_LEVELS.get(name, 0):
            if name == BARNABAS_VERSION:
                records += eligible_replicas.level_records(image, level, min_in_sync)
            records.append(FeatureRecord(name, level))
    return records


def _complaint(
    image: MetadataImage,
    change: FeatureChange,
    current: int,
    supported: Mapping[str, FeatureRange],
) -> str | None:
    if change.upgrade_type not in tuple(UpgradeType):
        return "The controller does not support the given upgrade type."
    if change.level < 0:
        return "A feature version cannot be less than 0."
    unsupported = _unsupported(image, change, supported)
    if unsupported is not None:
        return unsupported
    if change.name == BARNABAS_VERSION and change.level < eligible_replicas.ELR_LEVEL:
        leaderless = eligible_replicas.first_without_isr(image)
        if leaderless is not None:
            return f"The partition {leaderless} has no replica in sync: older brokers need one."
    if change.name == BARNABAS_VERSION and change.level < SECURITY_LEVEL and image.acls:
        return f"There are {len(image.acls)} ACLs: older brokers would not heed them."
    if (
        change.name == BARNABAS_VERSION
        and change.level < SECURITY_LEVEL
        and image.scram_credentials
    ):
        return "There are SCRAM credentials, which older brokers do not know: remove them first."
    if change.level < current and change.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if change.level > current and change.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _unsupported(
    image: MetadataImage, change: FeatureChange, supported: Mapping[str, FeatureRange]
) -> str | None:
    """Who cannot work with a level: this broker, as the others may be newer, or one of those."""
    able: dict[str, FeatureRange | None] = {
        f"Local controller {image.controller_id}": supported.get(change.name)
    }
    for broker in image.brokers.values():
        ranges = {one.name: FeatureRange(one.minimum, one.maximum) for one in broker.features}
        if not ranges:  # registered by a release that knew the first levels and told of none
            ranges = {name: FeatureRange(level, level) for name, level in INITIAL_LEVELS.items()}
        able[f"Broker {broker.node_id}"] = ranges.get(change.name)
    for who, levels in able.items():
        if levels is None:
            return f"{who} does not support this feature."
        if not levels.minimum <= change.level <= levels.maximum:
            return f"{who} only supports versions {levels.minimum}-{levels.maximum}"
    return None
