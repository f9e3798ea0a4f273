"""Changes of topic and broker settings: pure commands (CFG-2, CFG-5, CFG-7, CFG-8).

Each resource of a request succeeds or fails alone; the whole set of a resource, as it would be
afterwards, is checked before anything is recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from barnabas_broker.config import client_metrics_settings, group_settings, parse, topic_settings
from barnabas_broker.config.client_metrics_settings import InvalidSubscriptionError
from barnabas_broker.config.definitions import LIST, BrokerSetting, ConfigError
from barnabas_broker.config.dynamic import validate_broker_config
from barnabas_broker.config.topic import validate_topic_config
from barnabas_broker.controller import brokers, elections, eligible_replicas
from barnabas_broker.controller.eligible_replicas import MIN_IN_SYNC
from barnabas_broker.controller.topics import check_value_length, validate_topic_name
from barnabas_broker.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    MetadataImage,
)
from barnabas_broker.metadata.records import ConfigRecord, MetadataRecord
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.settings.kinds import split_list

_SETTINGS = {
    RESOURCE_TOPIC: topic_settings.BY_KEY,
    RESOURCE_BROKER: parse.BY_KEY,
    RESOURCE_GROUP: group_settings.BY_KEY,
    RESOURCE_CLIENT_METRICS: {},  # as in Kafka, nothing is appended to its lists
}

NODE_ID_DIGITS_MAX = 10
SUBSCRIPTIONS_MAX = 100
"""Subscriptions to metrics of clients: every client is matched against each (TEL-1)."""
GROUPS_MAX = 10_000
"""Groups with settings of their own: they need not exist, and every broker keeps them for good."""
GROUP_NAME_LENGTH_MAX = 1024
COUNTED = {
    RESOURCE_CLIENT_METRICS: (SUBSCRIPTIONS_MAX, "client metrics subscriptions"),
    RESOURCE_GROUP: (GROUPS_MAX, "groups with settings"),
}


class Operation(IntEnum):
    """What IncrementalAlterConfigs does with one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One key of one resource; `operation` is checked, for it comes from the wire."""

    key: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    """The changes of one resource; for a replacement of the whole set all operations are SET."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceResult:
    """What became of one resource's change."""

    resource_type: int
    resource_name: str
    error: KafkaError | None = None


ConfigRefusal = Callable[[int, str], KafkaError | None]
"""Why who requests may not see or change the settings of a resource, by type and name."""


def refuse_none(_: int, __: str) -> None:
    """Whoever it is may change all settings: there is no authorizer."""


def alter_configs(
    image: MetadataImage,
    resources: Sequence[ResourceChange],
    *,
    broker_values: Mapping[str, str],
    is_incremental: bool,
    validate_only: bool = False,
    refusal: ConfigRefusal = refuse_none,
) -> tuple[list[MetadataRecord], list[ResourceResult]]:
    """The records of the changes, and a result for each resource.

    Incremental: the operations on top of what is overridden. Otherwise the given values are the
    whole set, and what is not named goes. Nothing is looked up of a resource that is refused.
    """
    records: list[MetadataRecord] = []
    known = _counted_names(image, resources)

    def change(resource: ResourceChange) -> None:
        changed = _alter(image, resource, broker_values, is_incremental)
        if resource.resource_type in known:
            _count(known[resource.resource_type], resource, changed)
        records.extend(changed)

    results = change_each(resources, refusal, change)
    if validate_only or not records:
        return [], results
    # Who is eligible no more must be known before the leader may raise its high watermark.
    return [*elections.min_in_sync_changed(image, brokers.after(image, records)), *records], results


def change_each(
    resources: Sequence[ResourceChange],
    refusal: ConfigRefusal,
    change: Callable[[ResourceChange], None],
) -> list[ResourceResult]:
    """Change resources one by one, each once, unless they are refused; a result for each.

    What `change` refuses by a KafkaError is the result of that resource alone.
    """
    named = [(resource.resource_type, resource.resource_name) for resource in resources]
    counts = Counter(named)
    results: list[ResourceResult] = []
    for resource, name in zip(resources, named, strict=True):
        error: KafkaError | None = None
        try:
            if counts[name] > 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            _check_changes(resource)
            if (refused := refusal(*name)) is not None:
                raise refused
            change(resource)
        except KafkaError as raised:
            error = raised
        results.append(
            ResourceResult(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error=error,
            )
        )
    return results


def _alter(
    image: MetadataImage,
    resource: ResourceChange,
    broker_values: Mapping[str, str],
    is_incremental: bool,
) -> list[ConfigRecord]:
    if resource.resource_type not in _SETTINGS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}"
        )
    old = image.config_overrides(resource.resource_type, resource.resource_name)
    new = dict(old) if is_incremental else {}
    for change in resource.changes:
        value = _changed(change, old, resource.resource_type, broker_values)
        if value is None:
            new.pop(change.key, None)
        else:
            new[change.key] = value
    if resource.resource_type == RESOURCE_TOPIC:
        _check_topic(image, resource.resource_name, new, broker_values)
    elif resource.resource_type == RESOURCE_GROUP:
        _check_group(resource.resource_name, new, broker_values)
    elif resource.resource_type == RESOURCE_CLIENT_METRICS:
        _check_subscription(resource.resource_name, new)
    else:
        _check_broker(image, resource.resource_name, old, new, broker_values)
    keys = [*old, *(key for key in new if key not in old)]
    return [
        ConfigRecord(resource.resource_type, resource.resource_name, key, new.get(key))
        for key in keys
        if old.get(key) != new.get(key)
    ]


def _check_changes(resource: ResourceChange) -> None:
    keys = [change.key for change in resource.changes]
    if len(set(keys)) != len(keys):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        change.key
        for change in resource.changes
        if change.value is None and change.operation != Operation.DELETE
    ]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        )
    for change in resource.changes:
        check_value_length(change.value)


def _changed(
    change: ConfigChange,
    old: Mapping[str, str],
    resource_type: int,
    broker_values: Mapping[str, str],
) -> str | None:
    """The new override of a key, None for none."""
    match change.operation:
        case Operation.SET:
            return change.value
        case Operation.DELETE:
            return None
        case Operation.APPEND | Operation.SUBTRACT:
            pass
        case _:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operation}"
            )
    setting = _SETTINGS[resource_type].get(change.key)
    if setting is None or setting.kind is not LIST:
        operation = Operation(change.operation).name
        complaint = f"Can't {operation} to key {change.key} because its type is not LIST."
        if resource_type == RESOURCE_BROKER:
            complaint = (
                f"Config value {operation.lower()} is not allowed for config key: {change.key}"
            )
        raise KafkaError(ErrorCode.INVALID_CONFIG, complaint)
    text = old.get(change.key)
    items = split_list(_inherited(setting, broker_values) if text is None else text)
    combined = ",".join(combined_list(change.operation, items, change.value or ""))
    check_value_length(combined)
    return combined


def combined_list(operation: int, items: Sequence[str], given: str) -> list[str]:
    """The items of a list when those that are given are appended or subtracted.

    None is appended that is there; of one that is there twice, the first is subtracted. In time
    that grows with the items: both lists are a client's.
    """
    changes = split_list(given)
    if operation == Operation.APPEND:
        known = set(items)
        return [*items, *(item for item in dict.fromkeys(changes) if item not in known)]
    left = Counter(changes)
    kept = []
    for item in items:
        if left[item] > 0:
            left[item] -= 1
        else:
            kept.append(item)
    return kept


def _inherited(setting: BrokerSetting, broker_values: Mapping[str, str]) -> str:
    for key in (setting.name, *(key for key, _ in setting.broker_keys)):
        text = broker_values.get(key)
        if text is not None:
            return text
    return setting.default or ""


def _check_topic(
    image: MetadataImage, name: str, new: Mapping[str, str], broker_values: Mapping[str, str]
) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    try:
        validate_topic_config(new, broker_values)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if name not in image.topics.by_name:
        validate_topic_name(name)
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        )


def _check_group(name: str, new: Mapping[str, str], broker_values: Mapping[str, str]) -> None:
    """A group need not exist: it may be joined later."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if len(name) > GROUP_NAME_LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The group name has {len(name)} characters, {GROUP_NAME_LENGTH_MAX} at most.",
        )
    try:
        group_settings.validate_group_config(new, broker_values)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_subscription(name: str, new: Mapping[str, str]) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    try:
        client_metrics_settings.parse_subscription(new)
    except InvalidSubscriptionError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _counted_names(
    image: MetadataImage, resources: Sequence[ResourceChange]
) -> dict[int, set[str]]:
    """What has settings already, by type: of the types of which there may be so many."""
    known: dict[int, set[str]] = {
        resource.resource_type: set() for resource in resources if resource.resource_type in COUNTED
    }
    if known:
        for kind, name in image.configs:
            if kind in known:
                known[kind].add(name)
    return known


def _count(known: set[str], resource: ResourceChange, changed: Sequence[ConfigRecord]) -> None:
    """Count one more, where a change makes it; those of the same request are counted, too."""
    name = resource.resource_name
    if name in known or not any(record.value is not None for record in changed):
        return
    most, what = COUNTED[resource.resource_type]
    if len(known) >= most:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"There are {len(known)} {what}, {most} at most"
        )
    known.add(name)


def _check_broker(
    image: MetadataImage,
    name: str,
    old: Mapping[str, str],
    new: Mapping[str, str],
    broker_values: Mapping[str, str],
) -> None:
    """An empty name is the default of all brokers."""
    if name:
        digits = name.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
            )
        if len(digits) > NODE_ID_DIGITS_MAX or int(name) not in image.brokers:
            known = ", ".join(map(str, sorted(image.brokers)))
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {known}, but received {name}",
            )
    # What is set already stays valid, also where a change of the file has made it odd meanwhile.
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    try:
        validate_broker_config(changed, per_broker=bool(name), values=broker_values)
        merged = {**broker_values, **new}
        validate_topic_config({}, merged)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    if eligible_replicas.is_on(image):
        _check_min_in_sync(name, old, new)


def _check_min_in_sync(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Refuse what would let brokers disagree on `min.insync.replicas` (`eligible_replicas`)."""
    if name and new.get(MIN_IN_SYNC) != old.get(MIN_IN_SYNC):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_IN_SYNC} cannot be altered while ELR is enabled.",
        )
    if not name and MIN_IN_SYNC in old and MIN_IN_SYNC not in new:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_IN_SYNC} cannot be removed while ELR is enabled.",
        )
