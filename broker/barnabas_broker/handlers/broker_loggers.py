"""The levels of this process's loggers, as settings that last until it ends (KIP-412).

Loggers are Python's, their levels have Kafka's names. Who sets the level of a package sets that of
all in it that has none of its own; without one, a logger has its parent's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from barnabas_broker.config.dynamic import ConfigSource, DescribedConfig
from barnabas_broker.controller.configs import (
    ConfigChange,
    ConfigRefusal,
    Operation,
    ResourceChange,
    ResourceResult,
    change_each,
)
from barnabas_broker.security.audit.audit_log import AUDIT_LOGGER
from barnabas_protocol.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final[Mapping[str, int]] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_TOLD_MAX: Final = 10
_NAMES: Final = {level: name for name, level in LEVELS.items()}

logger = logging.getLogger(__name__)


def describe_levels(keys: Sequence[str] | None) -> list[DescribedConfig]:
    """The level in force of each logger, or of those that are named."""
    return [
        DescribedConfig(
            name,
            _level_name(name),
            ConfigSource.DYNAMIC_BROKER_LOGGER,
            is_default=False,
            is_read_only=name == AUDIT_LOGGER,
            is_sensitive=False,
            synonyms=(),
            type=0,
            documentation="",
        )
        for name in _logger_names()
        if keys is None or name in keys
    ]


def change_levels(
    resources: Sequence[ResourceChange],
    node_id: int,
    refusal: ConfigRefusal,
    *,
    validate_only: bool,
) -> list[ResourceResult]:
    """Set and unset levels, all of a resource or none; a result for each."""
    return change_each(resources, refusal, partial(_change, node_id, validate_only))


def _change(node_id: int, validate_only: bool, resource: ResourceChange) -> None:
    _check_node(resource.resource_name, node_id)
    known = frozenset(_logger_names())
    for change in resource.changes:
        _check(change, known)
    if validate_only:
        return
    for change in resource.changes:
        is_unset = change.operation == Operation.DELETE
        level = logging.NOTSET if is_unset else LEVELS[change.value or ""]
        changed = logging.getLogger(None if change.key == ROOT else change.key)
        if changed.level != level:  # to set it takes as long as there are loggers
            changed.setLevel(level)
    levels = [f"{one.key} {_level_name(one.key)}" for one in resource.changes[:_TOLD_MAX]]
    more = " and others" if len(resource.changes) > _TOLD_MAX else ""
    logger.warning("levels of loggers were changed: %s%s", ", ".join(levels), more)


def _logger_names() -> list[str]:
    """Packages that log by their modules only are among them."""
    return [ROOT, *logging.root.manager.loggerDict]


def _level_name(name: str) -> str:
    known = logging.root.manager.loggerDict.get(name)
    while not isinstance(known, logging.Logger) and "." in name:
        name = name.rpartition(".")[0]
        known = logging.root.manager.loggerDict.get(name)
    found = known if isinstance(known, logging.Logger) else logging.root
    level = found.getEffectiveLevel()
    return _NAMES.get(level) or logging.getLevelName(level)


def _check_node(name: str, node_id: int) -> None:
    """A node has one name: each resource of a request changes all levels in a turn of the loop."""
    try:
        int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
        ) from None
    if name != str(node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected node id. Expected {node_id}, but received {name}",
        )


def _check(change: ConfigChange, known: frozenset[str]) -> None:
    match change.operation:
        case Operation.SET | Operation.DELETE:
            pass
        case Operation.APPEND | Operation.SUBTRACT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{Operation(change.operation).name} operation is not allowed for the"
                " BROKER_LOGGER resource",
            )
        case _:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown operation type {change.operation} is not allowed for the BROKER_LOGGER"
                " resource",
            )
    if change.key not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.key} does not exist!")
    if change.key == AUDIT_LOGGER:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"What {AUDIT_LOGGER} writes does not depend on its level"
        )
    if change.operation == Operation.SET and change.value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.key} to {change.value} as it is not a supported"
            f" log level. Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    if change.operation == Operation.DELETE and change.key == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )
